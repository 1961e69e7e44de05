//! Settings of a request in Anthropic's format.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::http::error::Result;
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
    let mut spec = json!({"name": "answer", "schema": schema});
    // Strict models behind this format accept only schemas without optional members.
    if is_closed(&spec["schema"]) {
        spec["strict"] = true.into();
    }
    Ok(json!({"type": "json_schema", "json_schema": spec}))
}

/// Whether every object in a schema names all of its members, and needs all of them.
fn is_closed(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            let named = members.get("properties").and_then(Value::as_object);
            let is_object = named.is_some()
                || match members.get("type") {
                    Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
                    kind => kind.is_some_and(|kind| kind == "object"),
                };
            let required = members.get("required").and_then(Value::as_array);
            let required: HashSet<&str> =
                required.into_iter().flatten().filter_map(Value::as_str).collect();
            let needs = |name: &String| required.contains(name.as_str());
            let is_closed_here = !is_object
                || (members.get("additionalProperties") == Some(&Value::Bool(false))
                    && named.is_some_and(|named| named.keys().all(needs)));
            is_closed_here && members.values().all(is_closed)
        }
        Value::Array(values) => values.iter().all(is_closed),
        _ => true,
    }
}
