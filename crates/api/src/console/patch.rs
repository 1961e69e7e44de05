//! Patches of settings that people write: they take no tokens of MCP servers, and none is sent back.

use dashboard::Texts;
use gateway::Error;
use serde_json::{Map, Value};

use crate::http::error::Failure;

/// A patch for the page that sends it back, without what may be a token of an MCP server, and whether that took
/// anything away.
pub(super) fn draft(text: String) -> (String, bool) {
    let Ok(Value::Object(sent)) = serde_json::from_str(&text) else {
        return if may_hold_token(&text) { (String::new(), true) } else { (text, false) };
    };
    if !sent.keys().any(|name| may_hold_token(name)) {
        return (text, false);
    }
    let mut patch = sent.clone();
    patch.retain(|name, value| match value {
        Value::Object(mcp) if name == "mcp" => {
            mcp.retain(|name, value| name == "allowed_servers" && is_list_of_texts(value));
            !mcp.is_empty()
        }
        _ => !may_hold_token(name),
    });
    // Not the text: of a key that it has twice the map has one value alone.
    let is_cut = patch != sent;
    let draft =
        if patch.is_empty() { String::new() } else { format!("{:#}", Value::Object(patch)) };
    (draft, is_cut)
}

/// Whether a text names what has tokens, well-formed or not: a patch with a comma too many is no JSON, and a
/// misspelt key is none that is known.
fn may_hold_token(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("mcp") || text.contains("credential")
}

fn is_list_of_texts(value: &Value) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(Value::is_string))
}

/// Whether a patch holds a token of an MCP server, which no page shows.
fn has_token(patch: &Map<String, Value>) -> bool {
    let tokens = patch.get("mcp").and_then(|mcp| mcp.get("credentials"));
    // Whatever else stands there, by mistake, may be one.
    match tokens {
        None | Some(Value::Null) => false,
        Some(Value::Object(tokens)) => {
            tokens.values().any(|token| !token.is_null() && *token != true)
        }
        Some(_) => true,
    }
}

/// Reads a patch, which holds no token.
pub(super) fn read_patch(t: &Texts, text: &str) -> Result<Map<String, Value>, Failure> {
    let read: Result<Value, _> = serde_json::from_str(text);
    match read {
        Ok(Value::Object(patch)) if has_token(&patch) => {
            Err(Error::invalid(t.settings.patch_has_token).into())
        }
        Ok(Value::Object(patch)) => Ok(patch),
        Ok(_) => Err(Error::invalid(t.settings.patch_no_object).into()),
        Err(error) => Err(Error::invalid(t.settings.patch_no_json(error)).into()),
    }
}
