//! The addresses and the tools in a request that OpenAI would call for a caller, and the files that it stores
//! for the operator's account.

use domain::original::ExternalAccess;
use domain::stored_responses;
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
/// The member that lists tools: of a request, of an item, and of a tool that holds others.
const TOOLS: &str = "tools";
/// The members by which a tool of an MCP server names one that the operator's account can call.
const OPERATORS_SERVERS: [&str; 2] = ["connector_id", "tunnel_id"];
/// The member that opens the network to a container, and its hosts.
const NETWORK: &str = "network_policy";
const HOSTS: &str = "allowed_domains";
/// The members of a tool that hold words, or other tools.
const NOT_SEARCHED: [&str; 4] = ["description", "parameters", "server_url", TOOLS];
/// The members of an answer that name the files which it quotes, with the types of the objects around
/// them. Sent back, they are history: the vendor reads no file for them.
const QUOTES: [(&str, &str); 2] = [("output_text", "annotations"), ("file_search_call", "results")];
/// The beginning of the types of parts that the caller sends, and the members that hold their words.
const SENT_PART: &str = "input_";
const WORDS: [&str; 2] = ["text", "filename"];
/// The end of the names of members that hold addresses.
const ADDRESS: &str = "_url";

/// The tools that items of an input add to those of the request, each with its place.
pub(super) fn added_tools(input: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for (index, item) in input.as_array().into_iter().flatten().enumerate() {
        let at = format!("input[{index}].{TOOLS}");
        match stored_responses::added_tools(item) {
            None => {}
            Some(Value::Array(tools)) => {
                let tools = tools.iter().enumerate();
                all.extend(tools.map(|(index, tool)| (format!("{at}[{index}]"), tool.clone())));
            }
            Some(unknown) => all.push((at, unknown.clone())),
        }
    }
    all
}

/// Everything that a provider would call or read for the caller, by the input, the tools that it adds, the
/// tools of the request and the choice of one.
pub(super) fn of(
    input: &Value,
    added: &[(String, Value)],
    tools: Option<&[Value]>,
    choice: Option<&Value>,
) -> Vec<ExternalAccess> {
    let mut all = Vec::new();
    for (index, tool) in tools.unwrap_or_default().iter().enumerate() {
        in_tool(&format!("{TOOLS}[{index}]"), tool, Some(index), choice, &mut all);
    }
    for (at, tool) in added {
        in_tool(at, tool, None, choice, &mut all);
    }
    for (index, item) in input.as_array().into_iter().flatten().enumerate() {
        let at = format!("input[{index}]");
        match item.as_object().filter(|_| stored_responses::added_tools(item).is_some()) {
            Some(members) => {
                let others = members.iter().filter(|(name, _)| *name != TOOLS);
                others.for_each(|(_, value)| in_input(&at, value, false, &mut all));
            }
            None => in_input(&at, item, false, &mut all),
        }
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
        // It has the operator's rights, whatever address stands beside it.
        let is_operators =
            OPERATORS_SERVERS.iter().any(|name| tool.get(name).is_some_and(is_given));
        if is_operators || address.is_none() {
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
    let nested = tool.get(TOOLS).and_then(Value::as_array).into_iter().flatten();
    for (index, tool) in nested.enumerate() {
        in_tool(&format!("{at}.{TOOLS}[{index}]"), tool, None, choice, all);
    }
}

/// A member of a tool of the vendor's, or anything in it. Its depth is that of the parser.
fn in_member(at: &str, kind: &str, name: &str, value: &Value, all: &mut Vec<ExternalAccess>) {
    all.extend(kept(at, name, value).filter(|access| access.kind != kind));
    if name == NETWORK {
        let hosts = value.get(HOSTS).and_then(Value::as_array).into_iter().flatten();
        let hosts = hosts.filter_map(Value::as_str);
        all.extend(hosts.map(|host| address_of(at, kind, &format!("https://{host}/"))));
    }
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
    let stored_id = value.as_str().filter(|_| kind == CONTAINER).map(str::to_owned);
    (is_given(value) && !is_new).then(|| ExternalAccess { stored_id, ..access(at, kind) })
}

/// Whether the choice of a tool names this type: a request that demands it makes no sense without it.
fn is_chosen(kind: &str, choice: Option<&Value>) -> bool {
    let Some(choice) = choice else { return false };
    let allowed = choice.get(TOOLS).and_then(Value::as_array).into_iter().flatten();
    choice == "required"
        || std::iter::once(choice).chain(allowed).any(|choice| kind_of(choice) == kind)
}

/// An item, or anything in it. Its depth is that of the parser. `is_quoted`: whether it stands in a
/// quotation of an answer.
fn in_input(at: &str, value: &Value, is_quoted: bool, all: &mut Vec<ExternalAccess>) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                in_input(&format!("{at}[{index}]"), item, is_quoted, all);
            }
        }
        Value::Object(members) => {
            let kind = kind_of(value);
            let is_sent = kind.starts_with(SENT_PART);
            for (name, value) in members {
                let stored = kept(at, name, value);
                all.extend(stored.filter(|access| !is_quoted || access.kind != KEPT_FILE));
                match value {
                    Value::Array(_) | Value::Object(_) => {
                        all.extend(inner_address(at, name, value));
                        let is_quoted = is_quoted || QUOTES.contains(&(kind, name));
                        in_input(&format!("{at}.{name}"), value, is_quoted, all);
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
        let added = added_tools(&body["input"]);
        let all = of(&body["input"], &added, tools, body.get("tool_choice"));
        let found = all.into_iter().map(|access| {
            let ExternalAccess { at, kind, address, is_public_allowed, removable_tool, .. } =
                access;
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
    fn tools_that_items_add_are_tools() {
        let tools = json!([
            {"type": "image_generation"},
            {"type": "mcp", "server_url": "https://m.example/", "connector_id": "connector_gmail"},
            {"type": "mcp", "server_url": "https://m.example/", "tunnel_id": "tunnel_1"},
            {"type": "namespace", "tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]},
        ]);
        for kind in ["additional_tools", "tool_search_output"] {
            let found = found(&json!({"input": [{"type": kind, "tools": tools}]}));
            let found: Vec<_> =
                found.iter().map(|access| (&*access.0, &*access.1, &*access.2)).collect();
            let expected = [
                ("input[0].tools[0]", "image_generation", ""),
                ("input[0].tools[1]", "mcp", "https://m.example/"),
                ("input[0].tools[1]", "mcp", ""),
                ("input[0].tools[2]", "mcp", "https://m.example/"),
                ("input[0].tools[2]", "mcp", ""),
                ("input[0].tools[3].tools[0]", "file_search", ""),
            ];
            assert_eq!(found, expected, "{kind}");
        }
        let unknown = json!([{"type": "additional_tools", "tools": {"type": "mcp"}}]);
        assert_eq!(added_tools(&unknown), [("input[0].tools".to_owned(), json!({"type": "mcp"}))]);
        assert_eq!(added_tools(&json!([{"type": "message", "tools": tools}])), []);
    }

    #[test]
    fn hosts_of_a_container_are_addresses() {
        let policy = json!({"type": "allowlist", "allowed_domains": ["evil.example"]});
        let found = found(&json!({"tools": [
            {"type": "code_interpreter", "container": {"type": "auto", "network_policy": policy}},
            {"type": "shell", "environment": {"type": "container_auto", "network_policy": policy}},
        ]}));
        let addresses: Vec<&str> = found.iter().map(|access| &*access.2).collect();
        assert_eq!(addresses, ["https://evil.example/"; 2]);
    }

    #[test]
    fn quotations_of_an_answer_read_no_file() {
        let input = json!([
            {"role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": [
                {"type": "file_citation", "file_id": "file-1"},
                {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1"}]}]},
            {"type": "file_search_call", "results": [{"file_id": "file-1", "text": "x"}]},
            {"type": "of_tomorrow", "annotations": [{"file_id": "file-1"}]},
        ]);
        let all = of(&input, &[], None, None);
        let all: Vec<_> = all.iter().map(|one| (&*one.kind, one.stored_id.as_deref())).collect();
        assert_eq!(all, [("container", Some("cntr_1")), ("file", None)]);
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
