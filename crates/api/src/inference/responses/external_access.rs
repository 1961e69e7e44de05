//! The addresses and the tools in a request that OpenAI would call for a caller, and the files that it stores
//! for the operator's account.

use domain::original::ExternalAccess;
use serde_json::Value;

use crate::inference::canonical::external_access::{address_of, is_address, tool as access};
use crate::inference::canonical::members::{MCP_TOOLS, SEARCHING_TOOLS};

/// The vendor's tools whose fees are not known here; they call nothing that the caller names.
const UNPRICED_TOOLS: [&str; 1] = ["image_generation"];

/// The tools that the caller describes, and runs by itself.
const OWN_TOOLS: [&str; 2] = ["function", "custom"];

/// The types under which a project allows what a request names.
const IMAGE: &str = "image";
const DOCUMENT: &str = "document";
const KEPT_FILE: &str = "file";
const CONTAINER: &str = "container";
const SKILL: &str = "skill";
const KEPT_STORE: &str = "file_search";

/// The members that name what the vendor keeps for the operator's account: its owner is unknown.
const KEPT: [(&str, &str); 7] = [
    ("file_id", KEPT_FILE),
    ("file_ids", KEPT_FILE),
    ("container", CONTAINER),
    ("container_id", CONTAINER),
    ("skill_id", SKILL),
    ("vector_store_id", KEPT_STORE),
    ("vector_store_ids", KEPT_STORE),
];
/// The members of a tool that hold words, or other tools.
const NOT_SEARCHED: [&str; 4] = ["description", "parameters", "server_url", "tools"];
/// The beginning of the types of parts that the caller sends, and the members that hold their words.
const SENT_PART: &str = "input_";
const WORDS: [&str; 2] = ["text", "filename"];
/// The end of the names of members that hold addresses.
const ADDRESS: &str = "_url";

/// Everything that a provider would call or read for the caller, by the input, the tools and the choice of
/// one.
pub(super) fn of(
    input: &Value,
    tools: Option<&[Value]>,
    choice: Option<&Value>,
) -> Vec<ExternalAccess> {
    let mut all = Vec::new();
    for (index, tool) in tools.unwrap_or_default().iter().enumerate() {
        in_tool(&format!("tools[{index}]"), tool, Some(index), choice, &mut all);
    }
    for (index, item) in input.as_array().into_iter().flatten().enumerate() {
        in_input(&format!("input[{index}]"), item, &mut all);
    }
    all
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
    all: &mut Vec<ExternalAccess>,
) {
    let kind = kind_of(tool);
    if OWN_TOOLS.contains(&kind) {
        return;
    }
    if MCP_TOOLS.contains(&kind) {
        let address = tool.get("server_url").and_then(Value::as_str);
        all.extend(address.map(|address| address_of(at, kind, address)));
        // A connector is the vendor's, and has the operator's rights.
        let has_connector = tool.get("connector_id").is_some_and(is_given);
        if has_connector || address.is_none() {
            all.push(access(at, kind));
        }
    } else if SEARCHING_TOOLS.contains(&kind) {
        all.push(access(at, kind));
    } else if UNPRICED_TOOLS.contains(&kind) {
        let removable_tool = index.filter(|_| !is_chosen(kind, choice));
        all.push(ExternalAccess { removable_tool, ..access(at, kind) });
    }
    let is_searched = |name: &str| !NOT_SEARCHED.contains(&name);
    for (name, value) in tool.as_object().into_iter().flatten() {
        if is_searched(name) {
            in_member(at, kind, name, value, all);
        }
    }
    let nested = tool.get("tools").and_then(Value::as_array).into_iter().flatten();
    for (index, tool) in nested.enumerate() {
        in_tool(&format!("{at}.tools[{index}]"), tool, None, choice, all);
    }
}

/// A member of a tool of the vendor's, or anything in it. Its depth is that of the parser.
fn in_member(at: &str, kind: &str, name: &str, value: &Value, all: &mut Vec<ExternalAccess>) {
    all.extend(kept(at, name, value).filter(|access| access.kind != kind));
    match value {
        Value::String(text) if is_address(text) => all.push(address_of(at, kind, text)),
        Value::Array(items) => items.iter().for_each(|item| in_member(at, kind, "", item, all)),
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| in_member(at, kind, name, value, all));
        }
        _ => {}
    }
}

/// The use of a file or container that the vendor stores, by the id in a member. A container that is described
/// is a new one.
fn kept(at: &str, name: &str, value: &Value) -> Option<ExternalAccess> {
    let (name, kind) = KEPT.into_iter().find(|(known, _)| *known == name)?;
    let is_new = name == CONTAINER && value.is_object();
    (is_given(value) && !is_new).then(|| access(at, kind))
}

/// Whether the choice of a tool names this type: a request that demands it makes no sense without it.
fn is_chosen(kind: &str, choice: Option<&Value>) -> bool {
    let Some(choice) = choice else { return false };
    let allowed = choice.get("tools").and_then(Value::as_array).into_iter().flatten();
    choice == "required"
        || std::iter::once(choice).chain(allowed).any(|choice| kind_of(choice) == kind)
}

/// An item, or anything in it. Its depth is that of the parser.
fn in_input(at: &str, value: &Value, all: &mut Vec<ExternalAccess>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                in_input(&format!("{at}[{index}]"), item, all);
            }
        }
        Value::Object(members) => {
            let is_sent = kind_of(value).starts_with(SENT_PART);
            for (name, value) in members {
                all.extend(kept(at, name, value));
                match value {
                    Value::Array(_) | Value::Object(_) => {
                        all.extend(inner_address(at, name, value));
                        in_input(&format!("{at}.{name}"), value, all);
                    }
                    Value::String(text) => all.extend(address(at, is_sent, name, text)),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// The address in the form of chat completions, which some servers take: `{"image_url": {"url"}}`.
fn inner_address(at: &str, name: &str, value: &Value) -> Option<ExternalAccess> {
    let address = value.get("url").and_then(Value::as_str)?;
    named(at, name, address)
}

/// The address that a member holds.
fn address(at: &str, is_sent: bool, name: &str, text: &str) -> Option<ExternalAccess> {
    let is_other = || is_sent && !WORDS.contains(&name) && is_address(text);
    named(at, name, text).or_else(|| is_other().then(|| address_of(at, DOCUMENT, text)))
}

/// The address in a member with the name of one. The provider fetches a picture, and nothing else.
fn named(at: &str, name: &str, text: &str) -> Option<ExternalAccess> {
    if !name.ends_with(ADDRESS) || text.starts_with("data:") {
        return None;
    }
    Some(match name {
        "image_url" => ExternalAccess { is_public_allowed: true, ..address_of(at, IMAGE, text) },
        _ => address_of(at, DOCUMENT, text),
    })
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
        let found = all.into_iter().map(|access| {
            let ExternalAccess { at, kind, address, is_public_allowed, removable_tool } = access;
            (at, kind, address.unwrap_or_default(), is_public_allowed, removable_tool)
        });
        found.collect()
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
                {"type": "function", "name": "web_search", "description": "https://t.example/",
                    "parameters": {"file_id": {"type": "string"}}},
                {"type": "custom", "name": "apply_patch"},
                {"type": "local_shell"},
                {"type": "image_generation", "input_image_mask": {"image_url": "https://m.example/"}},
                {"type": "code_interpreter", "container": "cntr_1"},
                {"type": "shell", "environment": {"type": "container_reference",
                    "container_id": "cntr_2", "skills": [{"skill_id": "s"}]}},
                {"type": "of_tomorrow", "where": [{"x": "gs://bucket/a"}], "vector_store_ids": ["v"]},
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
                {"role": "user", "content": [{"type": "input_of_tomorrow", "x": "gs://bucket/a"},
                    {"type": "input_file", "filename": "a://b", "file_data": "data:text/plain,a"},
                    {"type": "video", "video_url": "https://v.example/"}]},
                {"type": "code_interpreter_call", "container_id": "cntr_3", "code": "https://t.example/"},
                {"role": "assistant", "content": [{"type": "output_text", "text": "https://t.example/",
                    "annotations": [{"type": "url_citation", "url": "https://t.example/"}]}]},
                {"type": "function_call_output", "output": "https://t.example/"},
            ],
        });
        let expected = [
            ("tools[0]", "mcp", "https://m.example/", false, None),
            ("tools[1]", "mcp", "", false, None),
            ("tools[2]", "file_search", "", false, None),
            ("tools[4]", "file", "", false, None),
            ("tools[5].tools[0]", "image_generation", "", false, None),
            ("tools[9]", "image_generation", "", false, Some(9)),
            ("tools[9]", "image_generation", "https://m.example/", false, None),
            ("tools[10]", "container", "", false, None),
            ("tools[11]", "container", "", false, None),
            ("tools[11]", "skill", "", false, None),
            ("tools[12]", "of_tomorrow", "gs://bucket/a", false, None),
            ("tools[12]", "file_search", "", false, None),
            ("input[0].content[0]", "image", "https://i.example/", true, None),
            ("input[0].content[2]", "document", "https://f.example/", false, None),
            ("input[0].content[3]", "file", "", false, None),
            ("input[1].output[0]", "image", "http://10.0.0.1/", true, None),
            ("input[2].content[0]", "document", "gs://bucket/a", false, None),
            ("input[2].content[2]", "document", "https://v.example/", false, None),
            ("input[3]", "container", "", false, None),
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
            let tools = json!([{"type": "image_generation"}, {"type": "function", "name": "f"}]);
            found(&json!({"tools": tools, "tool_choice": choice}))[0].4
        };
        for choice in [json!(null), json!("auto"), json!({"type": "function", "name": "f"})] {
            assert_eq!(left_out(choice), Some(0));
        }
        for choice in [
            json!("required"),
            json!({"type": "image_generation"}),
            json!({"type": "allowed_tools", "tools": [{"type": "image_generation"}]}),
        ] {
            assert_eq!(left_out(choice.clone()), None, "{choice}");
        }
    }
}
