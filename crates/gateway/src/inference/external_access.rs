//! A provider calls only those addresses and tools for a caller that the project allows.
//! It calls them with the account of the gateway's operator, from a place of its own.

use std::collections::BTreeSet;

use domain::conversation::Prompt;
use domain::json_text::{Edit, edited};
use domain::original::{ExternalAccess, Original};
use domain::settings::Settings;
use domain::stored_responses::{LONGEST_ID, MOST_REFERENCES, StoredKind, StoredReference};
use providers::{is_public_url, share_host};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, Result};

/// The longest part of a caller's text that is quoted, in characters.
const LONGEST_QUOTE: usize = 100;

/// Refuses a request by which a provider would call what the project does not allow. A removable tool is
/// removed from the body instead, as translations leave it out. A resource that the project may have made itself
/// becomes a reference, which has to be known.
pub(super) fn check(prompt: &mut Prompt, settings: &Settings) -> Result<()> {
    let Some(original) = &mut prompt.original else { return Ok(()) };
    refer_to_stored(original, settings)?;
    let passes =
        |access: &ExternalAccess| access.stored_id.is_some() || is_allowed(access, settings);
    let refused = original.external_access.iter().filter(|access| !passes(access));
    let (removable, refused): (Vec<&ExternalAccess>, Vec<&ExternalAccess>) =
        refused.partition(|access| access.removable_tool.is_some());
    if !refused.is_empty() {
        return Err(Error::ExternalAccess(refused.into_iter().map(fault).collect()));
    }
    let indices: Vec<usize> = removable.iter().filter_map(|access| access.removable_tool).collect();
    if !indices.is_empty() {
        let named = |access: &&ExternalAccess| format!("{} ({})", access.at, quoted(&access.kind));
        original.left_out = removable.iter().map(named).collect();
        // The canonical form lacks nothing that is sent to nobody.
        let omitted = std::mem::take(&mut original.omitted).into_iter();
        original.omitted = omitted.filter(|part| !original.left_out.contains(part)).collect();
        original.external_access.retain(passes);
        original.body = original.body.as_deref().and_then(|body| without_tools(body, &indices));
    }
    Ok(())
}

/// Adds a reference for each access to what the vendor stores that is not allowed by itself. Translations
/// leave it out.
fn refer_to_stored(original: &mut Original, settings: &Settings) -> Result<()> {
    if original.body.is_none() {
        return Ok(());
    }
    let accesses = original.external_access.iter().filter(|access| !is_allowed(access, settings));
    let ids: BTreeSet<String> = accesses.filter_map(|access| access.stored_id.clone()).collect();
    let references = &mut original.continuation.references;
    if references.len().saturating_add(ids.len()) > MOST_REFERENCES
        || ids.iter().any(|id| id.len() > LONGEST_ID)
    {
        return Err(Error::invalid(format!(
            "The request refers to more than {MOST_REFERENCES} items and containers by their ids, or \
             by ids of more than {LONGEST_ID} bytes: send the part of the conversation that matters"
        )));
    }
    let reference = |id| StoredReference { kind: StoredKind::Container, id };
    references.extend(ids.into_iter().map(reference));
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

fn is_allowed(access: &ExternalAccess, settings: &Settings) -> bool {
    let is_listed = |address: &String| {
        (access.is_public_allowed && is_public_url(address))
            || settings.mcp_servers.iter().any(|server| share_host(server, address))
    };
    settings.vendor_tools.contains(&access.kind) || access.address.as_ref().is_some_and(is_listed)
}

fn quoted(text: &str) -> String {
    text.chars().take(LONGEST_QUOTE).collect()
}

/// The refusal of an access to a container that no call of the project has made.
pub(super) fn strange_container(original: &Original, id: &str) -> Error {
    let is_it = |access: &&ExternalAccess| access.stored_id.as_deref() == Some(id);
    Error::ExternalAccess(
        original.external_access.iter().find(is_it).map(fault).into_iter().collect(),
    )
}

fn fault(access: &ExternalAccess) -> String {
    let kind = quoted(&access.kind);
    match &access.address {
        Some(address) => format!(
            "{}: {} is no address that a provider may reach for this project: its host has to be in \
             settings.mcp.allowed_servers, or '{kind}' in settings.passthrough.vendor_tools",
            access.at,
            quoted(address)
        ),
        None => format!(
            "{}: a tool of type '{kind}' has to be allowed in settings.passthrough.vendor_tools",
            access.at
        ),
    }
}

#[cfg(test)]
mod tests {
    use domain::original::WireFormat;

    use super::*;

    fn checked(access: ExternalAccess) -> Result<()> {
        let settings = Settings {
            mcp_servers: vec!["https://tools.example/mcp".to_owned()],
            vendor_tools: vec!["file_search".to_owned()],
            ..Settings::default()
        };
        let mut original = Original::new(WireFormat::Messages, String::new());
        original.external_access.push(access);
        let original = Some(Box::new(original));
        check(&mut Prompt { original, ..Prompt::default() }, &settings)
    }

    #[test]
    fn a_removable_tool_is_left_out() {
        let body =
            r#"{"tools": [{"type": "web_search"}, {"a" : 1.50}, {"type":"computer"}], "x": 1}"#;
        let tool = |at: &str, kind: &str, removable_tool| ExternalAccess {
            at: at.to_owned(),
            kind: kind.to_owned(),
            address: None,
            is_public_allowed: false,
            removable_tool: Some(removable_tool),
            stored_id: None,
        };
        let checked = |vendor_tools: &[&str], body: &str| {
            let mut original = Original::new(WireFormat::Responses, body.to_owned());
            original.external_access =
                vec![tool("tools[0]", "web_search", 0), tool("tools[2]", "computer", 2)];
            original.omitted = ["include", "tools[0] (web_search)"].map(str::to_owned).to_vec();
            let mut prompt = Prompt { original: Some(Box::new(original)), ..Prompt::default() };
            let vendor_tools = vendor_tools.iter().map(|tool| (*tool).to_owned()).collect();
            check(&mut prompt, &Settings { vendor_tools, ..Settings::default() }).unwrap();
            let original = prompt.original.unwrap();
            (original.body, original.left_out, original.omitted)
        };
        let (left, named, omitted) = checked(&[], body);
        assert_eq!(left.unwrap(), r#"{"tools": [{"a" : 1.50}], "x": 1}"#);
        assert_eq!(named, ["tools[0] (web_search)", "tools[2] (computer)"]);
        assert_eq!(omitted, ["include"], "the provider does not get the tool either");
        let (left, named, omitted) = checked(&["web_search", "computer"], body);
        assert_eq!((left.as_deref(), named), (Some(body), Vec::new()));
        assert_eq!(omitted, ["include", "tools[0] (web_search)"]);
        let twice = r#"{"tools": [{"type": "web_search"}], "tools": []}"#;
        assert_eq!(checked(&[], twice).0, None, "it does not pass");
    }

    #[test]
    fn only_what_the_project_allows_is_reached() {
        let access = |kind: &str, address: Option<&str>, is_public_allowed| ExternalAccess {
            at: "tools[0]".to_owned(),
            kind: kind.to_owned(),
            address: address.map(str::to_owned),
            is_public_allowed,
            removable_tool: None,
            stored_id: None,
        };
        for allowed in [
            access("file_search", None, false),
            access("mcp", Some("https://tools.example/mcp"), false),
            access("mcp", Some("https://tools.example/other?x=1"), false),
            access("image", Some("https://images.example/a.png?x=1"), true),
            access("image", Some("http://8.8.8.8/a.png"), true),
        ] {
            checked(allowed.clone()).unwrap_or_else(|error| panic!("{allowed:?}: {error}"));
        }
        for refused in [
            access("mcp", None, false),
            access("mcp", Some("https://evil.example/mcp"), false),
            access("mcp", Some("http://tools.example/mcp"), false),
            access("mcp", Some("https://tools.example.evil.test/mcp"), false),
            access("document", Some("https://images.example/a.pdf"), false),
            access("image", Some("http://127.0.0.1/a.png"), true),
            access("image", Some("http://2130706433/a.png"), true),
            access("image", Some("http://[::ffff:10.0.0.1]/a.png"), true),
            access("image", Some("http://169.254.169.254/latest"), true),
            access("image", Some("http://metadata.google.internal/"), true),
            access("image", Some("http://intranet/a.png"), true),
            access("image", Some("http://localhost:8080/a.png"), true),
            access("image", Some("file:///etc/passwd"), true),
            access("image", Some("gs://bucket/a.png"), true),
        ] {
            assert!(
                matches!(checked(refused.clone()), Err(Error::ExternalAccess(_))),
                "{refused:?}"
            );
        }
    }
}
