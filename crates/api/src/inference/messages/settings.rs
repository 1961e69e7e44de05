//! Settings of a request in Anthropic's format.

use serde_json::{Map, Value, json};

use crate::http::error::Result;
use crate::inference::canonical::prompt::answer_schema;
use crate::inference::canonical::read::{Node, malformed};

/// The canonical choice, and whether only one call at a time is allowed.
pub(super) fn tool_choice(choice: Map<String, Value>) -> Result<(Value, bool)> {
    let mut choice = Node::of("tool_choice".to_owned(), Value::Object(choice))?;
    let kind = choice.text("type")?;
    let canonical = match kind.as_str() {
        "auto" => "auto".into(),
        "any" => "required".into(),
        "none" => "none".into(),
        "tool" => json!({"type": "function", "function": {"name": choice.text("name")?}}),
        _ => return Err(choice.unsupported("a choice", &kind)),
    };
    let one_at_a_time = choice.flag("disable_parallel_tool_use")?;
    choice.end()?;
    Ok((canonical, one_at_a_time))
}

/// Whether thinking is enabled.
pub(super) fn is_thinking(thinking: &Map<String, Value>) -> bool {
    thinking.get("type").and_then(Value::as_str) != Some("disabled")
}

pub(super) fn response_format(mut format: Node) -> Result<Value> {
    let kind = format.text("type")?;
    if kind != "json_schema" {
        return Err(format.unsupported("a format", &kind));
    }
    let schema = format
        .take("schema")
        .filter(Value::is_object)
        .ok_or_else(|| malformed(format!("{} must be an object", format.path("schema"))))?;
    format.end()?;
    Ok(answer_schema(schema))
}
