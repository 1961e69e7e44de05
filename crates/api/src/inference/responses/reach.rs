//! The addresses and the tools in a request that OpenAI would reach for a caller.

use domain::original::Reach;
use serde_json::{Map, Value};

use crate::inference::canonical::members::{REACHING_TOOLS, SEARCHING_TOOLS};

/// The vendor's tools that it charges fees for, or runs on machines of its own, without reaching what
/// the caller names. A newer version has a date behind the name.
const CHARGED_TOOLS: [&str; 5] =
    ["web_search", "code_interpreter", "computer_use", "computer", "image_generation"];

/// The types under which a project allows what parts of the input name.
const IMAGE: &str = "image";
const DOCUMENT: &str = "document";
const KEPT_FILE: &str = "file";

/// Everything in a request that a provider would reach, by its input, its tools and its choice of one.
pub(super) fn of(input: &Value, tools: Option<&[Value]>, choice: Option<&Value>) -> Vec<Reach> {
    let mut all = Vec::new();
    for (index, tool) in tools.unwrap_or_default().iter().enumerate() {
        in_tool(&format!("tools[{index}]"), tool, Some(index), choice, &mut all);
    }
    for (index, item) in input.as_array().into_iter().flatten().enumerate() {
        in_input(&format!("input[{index}]"), item, &mut all);
    }
    all
}

fn reach(at: &str, kind: &str) -> Reach {
    let (at, kind) = (at.to_owned(), kind.to_owned());
    Reach { at, kind, address: None, is_public_allowed: false, leaves_out: None }
}

fn address_of(at: &str, kind: &str, address: &str) -> Reach {
    Reach { address: Some(address.to_owned()), ..reach(at, kind) }
}

fn kind_of(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// A tool; of those in the list itself the index is known, of those in a namespace it is not.
fn in_tool(
    at: &str,
    tool: &Value,
    index: Option<usize>,
    choice: Option<&Value>,
    all: &mut Vec<Reach>,
) {
    let kind = kind_of(tool);
    if kind == "mcp" {
        let address = tool.get("server_url").and_then(Value::as_str);
        all.extend(address.map(|address| address_of(at, kind, address)));
        // A connector is the vendor's, and has the operator's rights.
        let has_connector = tool.get("connector_id").is_some_and(|id| !id.is_null());
        if has_connector || address.is_none() {
            all.push(reach(at, kind));
        }
    } else if REACHING_TOOLS.contains(&kind) || SEARCHING_TOOLS.contains(&kind) {
        all.push(reach(at, kind));
    } else if is_charged(kind) {
        let leaves_out = index.filter(|_| !is_chosen(kind, choice));
        all.push(Reach { leaves_out, ..reach(at, kind) });
    }
    kept_files(at, tool, all);
    let nested = tool.get("tools").and_then(Value::as_array).into_iter().flatten();
    for (index, tool) in nested.enumerate() {
        in_tool(&format!("{at}.tools[{index}]"), tool, None, choice, all);
    }
}

/// Whether a type is one of [`CHARGED_TOOLS`], or a version of one.
fn is_charged(kind: &str) -> bool {
    CHARGED_TOOLS.iter().any(|charged| {
        let version = kind.strip_prefix(charged);
        version.is_some_and(|version| version.is_empty() || version.starts_with('_'))
    })
}

/// Whether the choice of a tool names this type: a request that demands it makes no sense without it.
fn is_chosen(kind: &str, choice: Option<&Value>) -> bool {
    let Some(choice) = choice else { return false };
    let allowed = choice.get("tools").and_then(Value::as_array).into_iter().flatten();
    choice == "required"
        || std::iter::once(choice).chain(allowed).any(|choice| kind_of(choice) == kind)
}

/// An item, or anything in it. Its depth is that of the parser.
fn in_input(at: &str, value: &Value, all: &mut Vec<Reach>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                in_input(&format!("{at}[{index}]"), item, all);
            }
        }
        Value::Object(members) => {
            addresses(at, members, all);
            for (name, value) in members {
                if value.is_array() || value.is_object() {
                    in_input(&format!("{at}.{name}"), value, all);
                }
            }
        }
        _ => {}
    }
}

fn addresses(at: &str, members: &Map<String, Value>, all: &mut Vec<Reach>) {
    let text = |name: &str| match members.get(name) {
        Some(Value::String(text)) => Some(text.as_str()),
        // The form of chat completions, which some servers take.
        Some(Value::Object(inner)) => inner.get("url").and_then(Value::as_str),
        _ => None,
    };
    if let Some(address) = text("image_url").filter(|address| !address.starts_with("data:")) {
        all.push(Reach { is_public_allowed: true, ..address_of(at, IMAGE, address) });
    }
    for name in ["file_url", "server_url"] {
        all.extend(text(name).map(|address| address_of(at, DOCUMENT, address)));
    }
    if text("file_id").is_some() {
        all.push(reach(at, KEPT_FILE));
    }
}

/// Files that the vendor keeps for the operator's account: their owner is unknown.
fn kept_files(at: &str, tool: &Value, all: &mut Vec<Reach>) {
    let names = ["file_ids", "file_id"];
    let holds = |value: &Value| names.iter().any(|name| value.get(*name).is_some_and(is_given));
    let members = tool.as_object().into_iter().flat_map(Map::values);
    if std::iter::once(tool).chain(members).any(holds) {
        all.push(reach(at, KEPT_FILE));
    }
}

fn is_given(value: &Value) -> bool {
    !value.is_null() && !value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(body: &Value) -> Vec<(String, String, String, bool, Option<usize>)> {
        let tools = body["tools"].as_array().map(Vec::as_slice);
        let all = of(&body["input"], tools, body.get("tool_choice"));
        let told = all.into_iter().map(|reach| {
            let Reach { at, kind, address, is_public_allowed, leaves_out } = reach;
            (at, kind, address.unwrap_or_default(), is_public_allowed, leaves_out)
        });
        told.collect()
    }

    #[test]
    fn every_address_is_found() {
        let body = json!({
            "tools": [
                {"type": "mcp", "server_url": "https://m.example/"},
                {"type": "mcp", "connector_id": "connector_dropbox"},
                {"type": "file_search", "vector_store_ids": ["vs_1"]},
                {"type": "web_search_preview_2025_03_11"},
                {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}},
                {"type": "namespace", "name": "n", "tools": [{"type": "image_generation"}]},
                {"type": "function", "name": "web_search", "parameters": {}},
                {"type": "custom", "name": "apply_patch"},
                {"type": "local_shell"},
                {"type": "computers"},
            ],
            "input": [
                {"role": "user", "content": [
                    {"type": "input_image", "image_url": "https://i.example/"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AAAA"},
                    {"type": "input_file", "file_url": "https://f.example/"},
                    {"type": "input_file", "file_id": "file-2"},
                    {"type": "input_text", "text": "https://t.example/"},
                ]},
                {"type": "function_call_output", "output": [
                    {"type": "input_image", "image_url": {"url": "http://10.0.0.1/"}}]},
            ],
        });
        let expected = [
            ("tools[0]", "mcp", "https://m.example/", false, None),
            ("tools[1]", "mcp", "", false, None),
            ("tools[2]", "file_search", "", false, None),
            ("tools[3]", "web_search_preview_2025_03_11", "", false, Some(3)),
            ("tools[4]", "code_interpreter", "", false, Some(4)),
            ("tools[4]", "file", "", false, None),
            ("tools[5].tools[0]", "image_generation", "", false, None),
            ("input[0].content[0]", "image", "https://i.example/", true, None),
            ("input[0].content[2]", "document", "https://f.example/", false, None),
            ("input[0].content[3]", "file", "", false, None),
            ("input[1].output[0]", "image", "http://10.0.0.1/", true, None),
        ];
        let expected = expected.map(|(at, kind, address, is_public, out)| {
            (at.to_owned(), kind.to_owned(), address.to_owned(), is_public, out)
        });
        assert_eq!(found(&body), expected);
        assert_eq!(found(&json!({"input": "https://t.example/"})), []);
    }

    #[test]
    fn a_tool_that_is_demanded_is_not_left_out() {
        let left_out = |choice: Value| {
            let tools = json!([{"type": "web_search"}, {"type": "function", "name": "f"}]);
            found(&json!({"tools": tools, "tool_choice": choice}))[0].4
        };
        for choice in [json!(null), json!("auto"), json!({"type": "function", "name": "f"})] {
            assert_eq!(left_out(choice), Some(0));
        }
        for choice in [
            json!("required"),
            json!({"type": "web_search"}),
            json!({"type": "allowed_tools", "tools": [{"type": "web_search"}]}),
        ] {
            assert_eq!(left_out(choice.clone()), None, "{choice}");
        }
    }
}
