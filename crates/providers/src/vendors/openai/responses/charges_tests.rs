use domain::original::Original;

use super::*;

fn prompt(body: &Value) -> Prompt {
    let original = Original::new(WireFormat::Responses, body.to_string());
    Prompt { original: Some(Box::new(original)), ..Prompt::default() }
}

fn charges(body: &Value) -> Vec<(Option<VendorTool>, UseBound, Option<u64>)> {
    let charges = of(&prompt(body)).tools.into_iter();
    charges.map(|charge| (charge.tool, charge.uses, charge.tokens)).collect()
}

#[test]
fn tools_that_the_caller_runs_cost_nothing() {
    let tools = json!([
        {"type": "function", "name": "web_search"}, {"type": "custom", "name": "apply_patch"},
        {"type": "tool_search"}, {"type": "local_shell"}, {"type": "apply_patch"},
        {"type": "shell", "environment": {"type": "local"}}, {"type": "shell"},
        {"type": "computer"}, {"type": "computer_use_preview"},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
    ]);
    assert_eq!(charges(&json!({"tools": tools, "max_tool_calls": 3})), []);
    assert_eq!(charges(&json!({"tools": null})), []);
    assert_eq!(charges(&json!({"input": "Hi."})), []);
    assert_eq!(bounded(&prompt(&json!({"tools": tools})), "{}", 1), None);
}

#[test]
fn each_tool_of_the_vendor_is_charged_for() {
    let one = |tool: Value| charges(&json!({"tools": [tool]}));
    let search = (Some(VendorTool::WebSearch), UseBound::Of(5), Some(20_000));
    for kind in ["web_search", "web_search_preview", "web_search_2025_08_26"] {
        assert_eq!(one(json!({"type": kind})), [search], "{kind}");
        let nested = json!({"type": "namespace", "tools": [{"type": kind}]});
        assert_eq!(one(nested), [search], "{kind} in a namespace");
    }
    let files = (Some(VendorTool::FileSearch), UseBound::Of(5), Some(2 * 4096));
    assert_eq!(one(json!({"type": "file_search", "max_num_results": 2})), [files]);
    let container = (Some(VendorTool::CodeExecution), UseBound::Missing, None);
    assert_eq!(one(json!({"type": "code_interpreter"})), [container]);
    let shell = json!({"type": "shell", "environment": {"type": "container_auto"}});
    assert_eq!(one(shell), [container]);
    assert_eq!(one(json!({"type": "mcp"})), [(None, UseBound::Missing, None)]);
    assert_eq!(one(json!({"type": "of_tomorrow"})), [(None, UseBound::Missing, None)]);
    assert_eq!(one(json!("x")), [(None, UseBound::Missing, None)]);
    assert_eq!(charges(&json!({"tools": {}})), [(None, UseBound::Missing, None)]);
    assert_eq!(one(json!({"type": "image_generation"})), [(None, UseBound::Unpriced, None)]);
}

#[test]
fn one_bound_holds_for_all_tools() {
    let body = |bound: Value| json!({"max_tool_calls": bound, "tools": [{"type": "web_search"}]});
    for (bound, uses, most, sent) in [
        (json!(null), 5, u64::MAX, Some("5")),
        (json!(3), 3, u64::MAX, None),
        (json!(3), 3, 2, Some("2")),
        (json!(50), 50, u64::MAX, None),
        (json!("3"), 5, 4, Some("4")),
    ] {
        let body = body(bound);
        let prompt = prompt(&body);
        assert_eq!(of(&prompt).rounds, Some(uses), "{body}");
        assert_eq!(of(&prompt).tools[0].uses, UseBound::Of(uses), "{body}");
        assert_eq!(bounded(&prompt, &body.to_string(), most).as_deref(), sent, "{body}");
    }
}

#[test]
fn a_larger_container_has_no_price() {
    for (tool, is_priced) in [
        (json!({"type": "code_interpreter", "container": {"type": "auto"}}), true),
        (json!({"type": "code_interpreter", "container": {"memory_limit": "1g"}}), true),
        (json!({"type": "code_interpreter", "container": {"memory_limit": "64g"}}), false),
        (json!({"type": "shell", "environment": {"memory_limit": "4g"}}), false),
        (json!({"type": "namespace", "tools": [{"container": {"memory_limit": "4g"}}]}), false),
    ] {
        let checked = check(&prompt(&json!({"tools": [tool.clone()]})));
        assert_eq!(checked.is_ok(), is_priced, "{tool}");
        assert!(checked.is_ok() || checked.unwrap_err().is_unpriced());
    }
}

#[test]
fn uses_are_counted_as_they_are_seen() {
    let mut extras = Extras::default();
    for item in [
        json!({"type": "web_search_call", "action": {"type": "search"}}),
        json!({"type": "web_search_call"}),
        json!({"type": "web_search_call", "action": {"type": "open_page"}}),
        json!({"type": "file_search_call"}),
        json!({"type": "code_interpreter_call"}),
        json!({"type": "code_interpreter_call"}),
        json!({"type": "shell_call", "environment": {"type": "container_reference"}}),
        json!({"type": "shell_call", "environment": {"type": "local"}}),
        json!({"type": "function_call"}),
    ] {
        see(&item, &mut extras);
    }
    assert_eq!(extras.uses[VendorTool::WebSearch], 2);
    assert_eq!(extras.uses[VendorTool::FileSearch], 1);
    assert_eq!(extras.uses[VendorTool::CodeExecution], 1, "one container");
}

#[test]
fn tools_that_items_add_are_charged() {
    let mut prompt = prompt(&json!({}));
    let added = json!({"type": "web_search"});
    prompt.original.as_mut().unwrap().added_tools = vec![("input[0].tools[0]".to_owned(), added)];
    let charges = of(&prompt);
    assert_eq!(charges.tools[0].at, "input[0].tools[0] ('web_search')");
    assert_eq!(charges.rounds, Some(USUAL_USES));
    assert_eq!(bounded(&prompt, "{}", 2).as_deref(), Some("2"));
    let search = ("previous_response_id".to_owned(), json!({"type": "web_search_preview"}));
    prompt.original.as_mut().unwrap().added_tools.push(search);
    assert_eq!(of(&prompt).tools, charges.tools, "a search is a search");
    let large = json!({"type": "code_interpreter", "container": {"memory_limit": "64g"}});
    prompt.original.as_mut().unwrap().added_tools[0].1 = large;
    assert!(check(&prompt).unwrap_err().is_unpriced());
}

#[test]
fn agents_of_the_vendor_have_no_price() {
    for (agents, is_priced) in [
        (json!({"enabled": true, "max_concurrent_subagents": 10}), false),
        (json!({}), false),
        (json!(true), false),
        (json!({"enabled": false}), true),
        (json!(null), true),
    ] {
        let charges = of(&prompt(&json!({"multi_agent": agents})));
        let unpriced = charges.tools.iter().filter(|tool| tool.uses == UseBound::Unpriced).count();
        assert_eq!(unpriced, usize::from(!is_priced), "{agents}");
    }
}

#[test]
fn tools_that_last_are_reduced_to_what_they_cost() {
    let own = json!({"type": "function", "name": "web_search"});
    let search = json!({"type": "web_search_preview", "user_location": {"city": "Ulm"}});
    let files = json!({"type": "file_search", "max_num_results": 3, "vector_store_ids": ["vs_1"]});
    let shell = json!({"type": "shell", "environment": {"type": "container_auto"}});
    let server = json!({"type": "mcp", "server_url": "https://a.example", "authorization": "key"});
    let namespace = json!({"type": "namespace", "tools": [files, shell]});
    let all = json!([own, search, namespace, server, search, {"type": "image_generation"}]);
    let lasting = lasting_tools([&all, &json!("x")]);
    let expected = json!([
        {"type": "web_search_preview"},
        {"type": "file_search", "max_num_results": 3},
        {"type": "code_interpreter"},
        {"type": "mcp"},
        {"type": "image_generation"},
        {"type": ""},
    ]);
    assert_eq!(json!(lasting), expected);
    let charged = charges(&json!({"tools": all}));
    let again = charges(&json!({"tools": lasting}));
    for charge in &charged {
        assert!(again.contains(charge), "{charge:?}");
    }
    assert_eq!(lasting_tools(&lasting), lasting);
}

#[test]
fn tools_beyond_those_that_are_remembered_are_bounded_by_nothing() {
    let many: Vec<Value> = (0..100).map(|n| json!({"type": format!("tool_{n}")})).collect();
    let lasting = lasting_tools(&many);
    assert_eq!(lasting.len(), MOST_LASTING);
    assert_eq!(lasting.last(), Some(&json!({"type": "unknown"})));
    let priceless = json!({"type": "image_generation_2"});
    let beyond = lasting_tools(many.iter().chain([&priceless, &priceless]));
    assert_eq!(beyond.len(), MOST_LASTING + 1);
    assert_eq!(beyond.last(), Some(&json!({"type": "image_generation"})));
    let nested = |depth| {
        (0..depth).fold(
            json!({"type": "image_generation"}),
            |tool, _| json!({"type": "namespace", "tools": [tool]}),
        )
    };
    assert_eq!(lasting_tools([&nested(MOST_DEPTH)]), [json!({"type": "image_generation"})]);
    let unread = lasting_tools([&nested(MOST_DEPTH + 1)]);
    assert_eq!(charges(&json!({"tools": unread})), [(None, UseBound::Missing, None)]);
}
