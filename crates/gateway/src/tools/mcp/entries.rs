//! The entries of a request's `tools` that name an MCP server.

use std::collections::HashSet;

use providers::McpAddress;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The most servers of one request.
const MOST_SERVERS: usize = 8;
/// The longest label, in bytes.
const LONGEST_LABEL: usize = 64;

/// A server that a request names.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The caller's name for it.
    pub(crate) label: String,
    pub(crate) address: McpAddress,
    /// Whether the gateway runs its tools; else the caller is asked.
    pub(crate) runs: bool,
    /// Whether a model that sees its tools must be a private one.
    pub(crate) vpc_only: bool,
}

/// Whether a declaration of a tool names an MCP server.
pub(crate) fn is_entry(tool: &Value) -> bool {
    tool.get("type").is_some_and(|kind| kind == "mcp")
}

/// Takes the entries out of a list of tools.
pub(crate) fn take_entries(tools: &mut Vec<Value>) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut labels = HashSet::new();
    for (index, tool) in tools.iter().enumerate().filter(|(_, tool)| is_entry(tool)) {
        let fault = |what: String| Error::invalid(format!("tools[{index}]: {what}"));
        let entry = tool.as_object().map_or_else(|| Err(String::new()), read).map_err(fault)?;
        if !labels.insert(entry.label.clone()) {
            return Err(fault(format!("the server_label '{}' is there twice", entry.label)));
        }
        entries.push(entry);
    }
    if entries.len() > MOST_SERVERS {
        return Err(Error::invalid(format!(
            "tools: at most {MOST_SERVERS} MCP servers are allowed"
        )));
    }
    tools.retain(|tool| !is_entry(tool));
    Ok(entries)
}

fn read(entry: &Map<String, Value>) -> std::result::Result<Entry, String> {
    let text = |name: &str| match entry.get(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.as_str()),
        _ => Err(format!("an MCP server needs a {name}")),
    };
    let label = text("server_label")?;
    if label.len() > LONGEST_LABEL || label.chars().any(char::is_control) {
        return Err(format!(
            "a server_label has at most {LONGEST_LABEL} bytes, and no control characters"
        ));
    }
    let address = McpAddress::read(text("server_url")?);
    let address = address.map_err(|fault| format!("server_url {fault}"))?;
    let runs = match entry.get("require_approval") {
        None | Some(Value::Null) => false,
        Some(Value::String(word)) => word == "never",
        Some(_) => return Err("require_approval must be 'never' or 'always'".to_owned()),
    };
    let vpc_only = match entry.get("vpc_only") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(vpc_only)) => *vpc_only,
        Some(_) => return Err("vpc_only must be true or false".to_owned()),
    };
    Ok(Entry { label: label.to_owned(), address, runs, vpc_only })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn taken(tools: Value) -> Result<(Vec<Entry>, Vec<Value>)> {
        let Value::Array(mut tools) = tools else { panic!("tools are a list") };
        let entries = take_entries(&mut tools)?;
        Ok((entries, tools))
    }

    #[test]
    fn entries_are_taken_out_and_functions_stay() {
        let function = json!({"type": "function", "function": {"name": "now"}});
        let (entries, left) = taken(json!([
            {"type": "mcp", "server_label": "a", "server_url": "https://A.example/mcp",
                "require_approval": "never", "vpc_only": true},
            function,
            {"type": "mcp", "server_label": "b", "server_url": "https://b.example/"},
            {"type": "mcp", "server_label": "c", "server_url": "https://c.example/",
                "require_approval": "always", "vpc_only": null},
        ]))
        .unwrap();
        assert_eq!(left, [function]);
        let read: Vec<_> = entries
            .iter()
            .map(|entry| (&*entry.label, entry.address.as_str(), entry.runs, entry.vpc_only))
            .collect();
        let expected = [
            ("a", "https://a.example/mcp", true, true),
            ("b", "https://b.example/", false, false),
            ("c", "https://c.example/", false, false),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let entry = |more: Value| {
            let mut entry =
                json!({"type": "mcp", "server_label": "a", "server_url": "https://a.example/"});
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            entry
        };
        for (tools, fault) in [
            (
                json!([entry(json!({"server_label": " "}))]),
                "tools[0]: an MCP server needs a server_label",
            ),
            (
                json!([entry(json!({"server_url": null}))]),
                "tools[0]: an MCP server needs a server_url",
            ),
            (
                json!([{"name": "f"}, entry(json!({"server_url": "file:///etc/passwd"}))]),
                "tools[1]: server_url must begin with https:// or http://",
            ),
            (
                json!([entry(json!({"require_approval": {"never": {}}}))]),
                "tools[0]: require_approval must be 'never' or 'always'",
            ),
            (
                json!([entry(json!({"vpc_only": "yes"}))]),
                "tools[0]: vpc_only must be true or false",
            ),
            (
                json!([entry(json!({})), entry(json!({}))]),
                "tools[1]: the server_label 'a' is there twice",
            ),
        ] {
            assert_eq!(taken(tools).unwrap_err().to_string(), fault);
        }
        let many = (0..=MOST_SERVERS).map(|n| entry(json!({"server_label": format!("s{n}")})));
        let fault = taken(many.collect()).unwrap_err().to_string();
        assert_eq!(fault, "tools: at most 8 MCP servers are allowed");
    }
}
