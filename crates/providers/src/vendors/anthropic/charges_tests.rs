use domain::original::Original;
use serde_json::json;

use super::*;

fn prompt(body: &str) -> Prompt {
    let original = Original::new(WireFormat::Messages, body.to_owned());
    Prompt { original: Some(Box::new(original)), ..Prompt::default() }
}

fn charged(body: &Value) -> Vec<(String, Option<VendorTool>, UseBound, Option<u64>)> {
    let all = of(&prompt(&body.to_string())).tools.into_iter();
    all.map(|charge| (charge.at, charge.tool, charge.uses, charge.tokens)).collect()
}

#[test]
fn the_tools_that_the_vendor_runs_are_charged() {
    let tools = json!([
        {"name": "read", "input_schema": {}},
        {"type": "custom", "name": "write", "input_schema": {}},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        {"type": "web_search_20260209", "name": "web_search"},
        {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 2, "max_content_tokens": 900},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "of_tomorrow"},
        {"type": "web_search_20250305", "max_uses": "3"},
    ]);
    let charge = |at: &str, tool, uses, tokens| (at.to_owned(), tool, uses, tokens);
    let search = Some(VendorTool::WebSearch);
    let expected = [
        charge("tools[3] ('web_search_20250305')", search, UseBound::Of(8), Some(20_000)),
        charge("tools[4] ('web_search_20260209')", search, UseBound::Of(5), Some(20_000)),
        charge("tools[5] ('web_fetch_20250910')", None, UseBound::Of(2), Some(900)),
        charge(
            "tools[6] ('code_execution_20250825')",
            Some(VendorTool::CodeExecution),
            UseBound::Missing,
            None,
        ),
        charge("tools[7] ('of_tomorrow')", None, UseBound::Missing, None),
        charge("tools[8] ('unknown')", None, UseBound::Missing, None),
    ];
    assert_eq!(charged(&json!({"tools": tools})), expected);
    assert_eq!(charged(&json!({"tools": [], "mcp_servers": []})), []);
    let servers = charge("mcp_servers", None, UseBound::Missing, None);
    let server = json!([{"url": "https://a.example"}]);
    assert_eq!(charged(&json!({"mcp_servers": server})), std::slice::from_ref(&servers));
    let beside = json!({"tools": [{"type": "web_search_20250305", "max_uses": 1}],
        "mcp_servers": server});
    let search = charge("tools[0] ('web_search_20250305')", search, UseBound::Of(1), Some(20_000));
    assert_eq!(charged(&beside), [search, servers], "its rounds come on top");
    assert_eq!(of(&Prompt::default()), Charges::default(), "what is translated has none");
}

#[test]
fn surcharges_are_found_however_they_are_spelled() {
    let asks = |body: &str| surcharges(&prompt(body))[Surcharge::Fast];
    assert!(asks(r#"{"speed": "fast"}"#));
    assert!(asks(r#"{"sp\u0065ed": "f\u0061st"}"#));
    assert!(asks(r#"{"speed": "of_tomorrow"}"#));
    assert!(!asks(r#"{"speed": "standard"}"#));
    assert!(!asks(r#"{"speed": null}"#));
    assert!(!asks(r#"{"messages": [{"speed": "fast"}]}"#));
    let mut translated = Prompt::default();
    translated.params.insert("inference_geo".to_owned(), "us".into());
    assert!(surcharges(&translated)[Surcharge::Us]);
}

#[test]
fn bounds_are_added_and_lowered_where_they_have_to_hold() {
    let bounded =
        |tools: &str, most| bounded_tools(&format!("{{\"tools\": {tools}}}"), most).unwrap();
    let search = r#"{ "type": "web_search_20250305", "max_uses": 3 }"#;
    let function = r#"{"name": "f", "input_schema": {"n": 1.50}}"#;
    assert_eq!(bounded(&format!("[{function}, {search}]"), 3), None, "as they came");
    let lowered = search.replace(": 3 ", ": 1 ");
    assert_eq!(
        bounded(&format!("[{function}, {search}]"), 1),
        Some(format!("[{function},{lowered}]"))
    );
    assert_eq!(
        bounded(r#"[{"type":"web_search_20250305"}]"#, u64::MAX).unwrap(),
        r#"[{"type":"web_search_20250305","max_uses":5}]"#
    );
    assert_eq!(
        bounded(r#"[{"type":"web_fetch_20250910","max_uses":9}]"#, 4).unwrap(),
        r#"[{"type":"web_fetch_20250910","max_uses":4,"max_content_tokens":20000}]"#
    );
    assert_eq!(bounded(r#"[{"type":"code_execution_20250825"}]"#, 1), None);
    assert_eq!(bounded_tools("{}", 1).unwrap(), None);
}
