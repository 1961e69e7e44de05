//! A provider reaches only those addresses and tools for a caller that the project allows.
//! The provider calls them with the account of the gateway's operator, from a place of its own.

use domain::conversation::Prompt;
use domain::json_text::{Edit, edited};
use domain::original::Reach;
use domain::settings::Settings;
use providers::{is_public_url, share_host};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// The longest part of a caller's text that is quoted, in characters.
const LONGEST_QUOTE: usize = 100;

/// Refuses a request by which a provider would reach what the project does not allow. A tool that
/// can be spared is left out of the request as it came, as translations leave it out.
pub(super) fn check(prompt: &mut Prompt, settings: &Settings) -> Result<()> {
    let Some(original) = &mut prompt.original else { return Ok(()) };
    let refused = original.reaches.iter().filter(|reach| !is_allowed(reach, settings));
    let (spared, refused): (Vec<&Reach>, Vec<&Reach>) =
        refused.partition(|reach| reach.leaves_out.is_some());
    if !refused.is_empty() {
        return Err(Error::Reach(refused.into_iter().map(fault).collect()));
    }
    let indices: Vec<usize> = spared.iter().filter_map(|reach| reach.leaves_out).collect();
    if !indices.is_empty() {
        let named = |reach: &&Reach| format!("{} ({})", reach.at, quoted(&reach.kind));
        original.left_out = spared.iter().map(named).collect();
        original.reaches.retain(|reach| is_allowed(reach, settings));
        original.body = original.body.as_deref().and_then(|body| without_tools(body, &indices));
    }
    Ok(())
}

/// A body without these of its tools; `None` if they cannot be taken out of it.
fn without_tools(body: &str, indices: &[usize]) -> Option<String> {
    #[derive(Deserialize)]
    struct Tools<'a> {
        #[serde(borrow)]
        tools: Vec<&'a RawValue>,
    }
    let Tools { tools } = serde_json::from_str(body).ok()?;
    let left = tools.iter().enumerate().filter(|(index, _)| !indices.contains(index));
    let left: Vec<&str> = left.map(|(_, tool)| tool.get()).collect();
    edited(body, &[("tools", Edit::Set(&format!("[{}]", left.join(","))))]).ok()
}

fn is_allowed(reach: &Reach, settings: &Settings) -> bool {
    let is_listed = |address: &String| {
        (reach.is_public_allowed && is_public_url(address))
            || settings.mcp_servers.iter().any(|server| share_host(server, address))
    };
    settings.vendor_tools.contains(&reach.kind) || reach.address.as_ref().is_some_and(is_listed)
}

fn quoted(text: &str) -> String {
    text.chars().take(LONGEST_QUOTE).collect()
}

fn fault(reach: &Reach) -> String {
    let kind = quoted(&reach.kind);
    match &reach.address {
        Some(address) => format!(
            "{}: {} is no address that a provider may reach for this project: its host has to be in \
             settings.mcp.allowed_servers, or '{kind}' in settings.passthrough.vendor_tools",
            reach.at,
            quoted(address)
        ),
        None => format!(
            "{}: a tool of type '{kind}' has to be allowed in settings.passthrough.vendor_tools",
            reach.at
        ),
    }
}

#[cfg(test)]
mod tests {
    use domain::original::{Original, WireFormat};

    use super::*;

    fn checked(reach: Reach) -> Result<()> {
        let settings = Settings {
            mcp_servers: vec!["https://tools.example/mcp".to_owned()],
            vendor_tools: vec!["file_search".to_owned()],
            ..Settings::default()
        };
        let mut original = Original::new(WireFormat::Messages, String::new());
        original.reaches.push(reach);
        let original = Some(Box::new(original));
        check(&mut Prompt { original, ..Prompt::default() }, &settings)
    }

    #[test]
    fn a_tool_that_can_be_spared_is_left_out() {
        let body =
            r#"{"tools": [{"type": "web_search"}, {"a" : 1.50}, {"type":"computer"}], "x": 1}"#;
        let tool = |at: &str, kind: &str, leaves_out| Reach {
            at: at.to_owned(),
            kind: kind.to_owned(),
            address: None,
            is_public_allowed: false,
            leaves_out: Some(leaves_out),
        };
        let checked = |vendor_tools: &[&str], body: &str| {
            let mut original = Original::new(WireFormat::Responses, body.to_owned());
            original.reaches =
                vec![tool("tools[0]", "web_search", 0), tool("tools[2]", "computer", 2)];
            let mut prompt = Prompt { original: Some(Box::new(original)), ..Prompt::default() };
            let vendor_tools = vendor_tools.iter().map(|tool| (*tool).to_owned()).collect();
            check(&mut prompt, &Settings { vendor_tools, ..Settings::default() }).unwrap();
            let original = prompt.original.unwrap();
            (original.body, original.left_out)
        };
        let (left, named) = checked(&[], body);
        assert_eq!(left.unwrap(), r#"{"tools": [{"a" : 1.50}], "x": 1}"#);
        assert_eq!(named, ["tools[0] (web_search)", "tools[2] (computer)"]);
        assert_eq!(checked(&["web_search", "computer"], body), (Some(body.to_owned()), vec![]));
        let twice = r#"{"tools": [{"type": "web_search"}], "tools": []}"#;
        assert_eq!(checked(&[], twice).0, None, "it does not pass");
    }

    #[test]
    fn only_what_the_project_allows_is_reached() {
        let reach = |kind: &str, address: Option<&str>, is_public_allowed| Reach {
            at: "tools[0]".to_owned(),
            kind: kind.to_owned(),
            address: address.map(str::to_owned),
            is_public_allowed,
            leaves_out: None,
        };
        for allowed in [
            reach("file_search", None, false),
            reach("mcp", Some("https://tools.example/mcp"), false),
            reach("mcp", Some("https://tools.example/other?x=1"), false),
            reach("image", Some("https://images.example/a.png?x=1"), true),
            reach("image", Some("http://8.8.8.8/a.png"), true),
        ] {
            checked(allowed.clone()).unwrap_or_else(|error| panic!("{allowed:?}: {error}"));
        }
        for refused in [
            reach("mcp", None, false),
            reach("mcp", Some("https://evil.example/mcp"), false),
            reach("mcp", Some("http://tools.example/mcp"), false),
            reach("mcp", Some("https://tools.example.evil.test/mcp"), false),
            reach("document", Some("https://images.example/a.pdf"), false),
            reach("image", Some("http://127.0.0.1/a.png"), true),
            reach("image", Some("http://2130706433/a.png"), true),
            reach("image", Some("http://[::ffff:10.0.0.1]/a.png"), true),
            reach("image", Some("http://169.254.169.254/latest"), true),
            reach("image", Some("http://metadata.google.internal/"), true),
            reach("image", Some("http://intranet/a.png"), true),
            reach("image", Some("http://localhost:8080/a.png"), true),
            reach("image", Some("file:///etc/passwd"), true),
            reach("image", Some("gs://bucket/a.png"), true),
        ] {
            assert!(matches!(checked(refused.clone()), Err(Error::Reach(_))), "{refused:?}");
        }
    }
}
