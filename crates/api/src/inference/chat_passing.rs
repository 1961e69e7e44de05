//! Pass-through of a chat completion: the bounds that keep it from that, and the addresses and tools in it
//! that a provider would call for a caller.

use domain::original::{ExternalAccess, Original};
use serde_json::Value;

use crate::inference::canonical::external_access::{KEPT_FILE, address_of, is_address, tool};
use crate::inference::canonical::members::{MCP_TOOLS, SEARCHING_TOOLS};
use crate::inference::chat_body::{ChatBody, ContentBody};

/// The parameter by which a model searches the web, at a fee for each search.
const WEB_SEARCH: &str = "web_search_options";
/// The member of an answer that names the sound of an earlier one, which the vendor keeps.
const AUDIO: &str = "audio";
/// The parts whose address may be any public one: a provider fetches a picture, and nothing else.
const PICTURE: &str = "image_url";
/// The members that hold texts; a part may be a text itself.
const TEXTS: [&str; 5] = ["", "text", "refusal", "reasoning", "thinking"];

/// The original of a request, with what a provider would call. One that bounds its answer twice does
/// not pass: servers differ in which of the bounds counts.
pub(super) fn original(body: &ChatBody, mut original: Original) -> Original {
    if body.max_tokens.is_some() && body.max_completion_tokens.is_some() {
        original.body = None;
    }
    original.external_access = external_access(body);
    original
}

fn external_access(body: &ChatBody) -> Vec<ExternalAccess> {
    let mut all = Vec::new();
    if body.params.get(WEB_SEARCH).is_some_and(|options| !options.is_null()) {
        all.push(tool(WEB_SEARCH, WEB_SEARCH));
    }
    let tools = body.params.get("tools").and_then(Value::as_array);
    for (index, offered) in tools.into_iter().flatten().enumerate() {
        of_tool(&format!("tools[{index}]"), offered, &mut all);
    }
    for (index, message) in body.messages.iter().enumerate() {
        let at = format!("messages[{index}]");
        if let Some(ContentBody::Parts(parts)) = &message.content {
            for (index, part) in parts.iter().enumerate() {
                let kind = kind_of(part);
                addresses(&format!("{at}.content[{index}]"), kind, "", part, &mut all);
            }
        }
        if message.extra.get(AUDIO).is_some_and(|audio| audio.get("id").is_some()) {
            all.push(tool(&format!("{at}.{AUDIO}"), AUDIO));
        }
    }
    all
}

/// A server that the vendor would call, or what it would search of its own. Tools may hold others.
fn of_tool(at: &str, offered: &Value, all: &mut Vec<ExternalAccess>) {
    let kind = kind_of(offered);
    if MCP_TOOLS.contains(&kind) || SEARCHING_TOOLS.contains(&kind) {
        let address = offered.get("server_url").or_else(|| offered.get("url"));
        let address = address.and_then(Value::as_str).map(str::to_owned);
        all.push(ExternalAccess { address, ..tool(at, kind) });
    }
    let inner = offered.get("tools").and_then(Value::as_array);
    for (index, offered) in inner.into_iter().flatten().enumerate() {
        of_tool(&format!("{at}.tools[{index}]"), offered, all);
    }
}

/// The addresses in a content part, and the files that the vendor keeps. Texts go nowhere. The depth is
/// that of the parser.
fn addresses(at: &str, kind: &str, name: &str, value: &Value, all: &mut Vec<ExternalAccess>) {
    match value {
        Value::String(text) if !TEXTS.contains(&name) && is_address(text) => {
            let is_public_allowed = kind == PICTURE;
            all.push(ExternalAccess { is_public_allowed, ..address_of(at, kind, text) });
        }
        Value::Array(items) => items.iter().for_each(|item| addresses(at, kind, name, item, all)),
        Value::Object(members) => {
            // Its owner is unknown: the vendor keeps it for the operator's account.
            if members.get("file_id").is_some_and(|id| !id.is_null()) {
                all.push(tool(at, KEPT_FILE));
            }
            for (name, value) in members {
                addresses(at, kind, name, value, all);
            }
        }
        _ => {}
    }
}

fn kind_of(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use domain::original::WireFormat;
    use serde_json::json;

    use super::*;

    fn read(body: &Value) -> Original {
        let text = body.to_string();
        let body: ChatBody = serde_json::from_str(&text).unwrap();
        original(&body, Original::new(WireFormat::ChatCompletions, text))
    }

    #[test]
    fn every_address_is_found() {
        let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let body = json!({
            "web_search_options": {},
            "tools": [
                {"type": "function", "function": {"name": "f"}},
                {"type": "mcp", "server_url": "https://m.example/"},
                {"type": "mcp", "connector_id": "c"},
                {"type": "namespace", "tools": [{"type": "custom"}, {"type": "file_search"}]},
            ],
            "messages": [
                {"role": "user", "content": "https://text.example/"},
                {"role": "user", "content": [
                    image("https://i.example/"), image("data:image/png;base64,AAAA"),
                    {"type": "image_url", "image_url": "HTTP://10.0.0.1/"},
                    {"type": "text", "text": "https://text.example/"},
                    "https://text.example/",
                    {"type": "file", "file": {"file_id": "file_1"}},
                    {"type": "file", "file": {"file_data": "https://f.example/", "filename": "a: b"}},
                    {"type": "input_audio", "input_audio": {"data": "file:///etc/passwd"}},
                    {"type": "of_tomorrow", "parts": [{"x": "gs://bucket/a"}]},
                ]},
                {"role": "assistant", "content": null, "audio": {"id": "audio_1"}},
            ],
        });
        let found = read(&body).external_access.into_iter().map(|access| {
            let ExternalAccess { at, kind, address, is_public_allowed, .. } = access;
            (at, kind, address.unwrap_or_default(), is_public_allowed)
        });
        let expected = [
            ("web_search_options", "web_search_options", "", false),
            ("tools[1]", "mcp", "https://m.example/", false),
            ("tools[2]", "mcp", "", false),
            ("tools[3].tools[1]", "file_search", "", false),
            ("messages[1].content[0]", "image_url", "https://i.example/", true),
            ("messages[1].content[2]", "image_url", "HTTP://10.0.0.1/", true),
            ("messages[1].content[5]", "file", "", false),
            ("messages[1].content[6]", "file", "https://f.example/", false),
            ("messages[1].content[7]", "input_audio", "file:///etc/passwd", false),
            ("messages[1].content[8]", "of_tomorrow", "gs://bucket/a", false),
            ("messages[2].audio", "audio", "", false),
        ];
        let expected = expected.map(|(at, kind, address, is_public)| {
            (at.to_owned(), kind.to_owned(), address.to_owned(), is_public)
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn one_bound_passes_and_two_do_not() {
        let messages = json!([{"role": "user", "content": "Hello."}]);
        let one = json!({"messages": messages, "max_tokens": null, "max_completion_tokens": 5});
        assert!(read(&one).body.is_some());
        let two = json!({"messages": messages, "max_tokens": 5, "max_completion_tokens": 5});
        assert!(read(&two).body.is_none());
    }
}
