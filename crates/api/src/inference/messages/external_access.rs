//! The addresses and the tools in a request that Anthropic would call for a caller.

use domain::original::ExternalAccess;
use serde_json::{Map, Value};

use crate::inference::canonical::external_access::{KEPT_FILE, MCP, address_of, tool};
use crate::inference::canonical::members::{MCP_SERVERS, MCP_TOOLS, SEARCHING_TOOLS};

/// The tools whose addresses stand in [`MCP_SERVERS`].
const MCP_TOOLSET: &str = "mcp_toolset";

/// Everything that a provider would call for the caller, by the contents of the messages, the tools and the
/// other parameters.
pub(super) fn of<'a>(
    contents: impl Iterator<Item = &'a Value>,
    tools: Option<&[Value]>,
    others: &Map<String, Value>,
) -> Vec<ExternalAccess> {
    let mut all = Vec::new();
    let servers = others.get(MCP_SERVERS).filter(|servers| !servers.is_null());
    if let Some(servers) = servers {
        for (index, server) in servers.as_array().into_iter().flatten().enumerate() {
            // One without an address is none that a list could allow.
            let address = server.get("url").and_then(Value::as_str).unwrap_or_default();
            all.push(address_of(&format!("{MCP_SERVERS}[{index}]"), MCP, address));
        }
        if !servers.is_array() {
            all.push(tool(MCP_SERVERS, MCP));
        }
    }
    for (index, offered) in tools.unwrap_or_default().iter().enumerate() {
        let kind = offered.get("type").and_then(Value::as_str).unwrap_or_default();
        let is_listed = kind == MCP_TOOLSET && servers.is_some();
        let is_mcp = MCP_TOOLS.contains(&kind) && !is_listed;
        if is_mcp || SEARCHING_TOOLS.contains(&kind) {
            all.push(tool(&format!("tools[{index}]"), kind));
        }
    }
    for (index, content) in contents.enumerate() {
        in_content(&format!("messages[{index}].content"), content, &mut all);
    }
    all
}

fn in_content(at: &str, content: &Value, all: &mut Vec<ExternalAccess>) {
    for (index, block) in content.as_array().into_iter().flatten().enumerate() {
        let at = format!("{at}[{index}]");
        let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind {
            // The arguments are the application's own, and go nowhere.
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {}
            "tool_result" => {
                if let Some(content) = block.get("content") {
                    in_content(&format!("{at}.content"), content, all);
                }
            }
            _ => sources(&at, kind, block, all),
        }
    }
}

/// The sources with an address, in blocks of any kind. Their depth is that of the parser.
fn sources(at: &str, kind: &str, value: &Value, all: &mut Vec<ExternalAccess>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| sources(at, kind, item, all)),
        Value::Object(members) => {
            if members.get("type").is_some_and(|kind| kind == "url")
                && let Some(Value::String(address)) = members.get("url")
            {
                let is_public_allowed = kind == "image";
                all.push(ExternalAccess { is_public_allowed, ..address_of(at, kind, address) });
            }
            // Its owner is unknown: the vendor keeps it for the operator's account.
            if members.contains_key("file_id") {
                all.push(tool(at, KEPT_FILE));
            }
            members.values().for_each(|value| sources(at, kind, value, all));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::inference::messages::body::MessagesBody;

    #[test]
    fn every_address_is_found() {
        let image =
            json!({"type": "image", "source": {"type": "url", "url": "https://i.example/"}});
        let body = json!({"max_tokens": 1,
        "mcp_servers": [{"type": "url", "url": "https://m.example/"}, {"name": "no url"}],
        "tools": [{"type": "web_search_20250305", "name": "web_search"}, {"type": "file_search"},
            {"type": "mcp_toolset", "mcp_server_name": "m"}],
        "messages": [
            {"role": "user", "content": [image, {"type": "tool_result", "tool_use_id": "t",
                "content": [image]}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n",
                "input": {"type": "url", "url": "http://localhost/"}}]},
            {"role": "user", "content": [{"type": "document", "source":
                {"type": "url", "url": "https://d.example/"}}]},
            {"role": "user", "content": [{"type": "of_tomorrow", "parts": [{"source":
                {"type": "url", "url": "https://t.example/"}}]}]},
            {"role": "user", "content": "https://text.example/"},
            {"role": "user", "content": [{"type": "document", "source":
                {"type": "file", "file_id": "file_1"}}, {"type": "container_upload", "file_id": "f"}]},
        ]});
        let body: MessagesBody = serde_json::from_value(body).unwrap();
        let found = body.external_access().into_iter().map(|access| {
            let ExternalAccess { at, kind, address, is_public_allowed, .. } = access;
            (at, kind, address.unwrap_or_default(), is_public_allowed)
        });
        let expected = [
            ("mcp_servers[0]", "mcp", "https://m.example/", false),
            ("mcp_servers[1]", "mcp", "", false),
            ("tools[1]", "file_search", "", false),
            ("messages[0].content[0]", "image", "https://i.example/", true),
            ("messages[0].content[1].content[0]", "image", "https://i.example/", true),
            ("messages[2].content[0]", "document", "https://d.example/", false),
            ("messages[3].content[0]", "of_tomorrow", "https://t.example/", false),
            ("messages[5].content[0]", "file", "", false),
            ("messages[5].content[1]", "file", "", false),
        ];
        let expected = expected.map(|(at, kind, address, is_public)| {
            (at.to_owned(), kind.to_owned(), address.to_owned(), is_public)
        });
        assert_eq!(found.collect::<Vec<_>>(), expected);
        let body = json!({"max_tokens": 1, "messages": [], "tools": [{"type": "mcp_toolset"}]});
        let body: MessagesBody = serde_json::from_value(body).unwrap();
        assert_eq!(
            body.external_access(),
            [tool("tools[0]", "mcp_toolset")],
            "its server is not named"
        );
    }
}
