//! Whether a model calls the tools that it was given, in the way they were declared.

use domain::json_weight::InnerJson;
use serde_json::Value;

use crate::schema::{self, Budget};

/// The mean over tool calls of 1 (declared, and the arguments fit the declared schema), 0.5
/// (declared, but they do not fit) and 0 (no such tool); `None` without calls.
///
/// Both lists are in the chat-completions form: `tools` and a message's `tool_calls`.
pub fn tool_fidelity(declared: &[Value], calls: &[Value]) -> Option<f64> {
    if calls.is_empty() {
        return None;
    }
    let budget = Budget::of_answer();
    let sum: f64 = calls.iter().map(|call| fidelity(declared, call, &budget)).sum();
    Some(sum / calls.len() as f64)
}

fn fidelity(declared: &[Value], call: &Value, budget: &Budget) -> f64 {
    let Some(name) = call.pointer("/function/name").and_then(Value::as_str) else { return 0.0 };
    let functions = declared.iter().filter_map(|tool| tool.get("function"));
    let named = |function: &&Value| function.get("name").and_then(Value::as_str) == Some(name);
    let Some(function) = functions.into_iter().find(named) else { return 0.0 };
    let schema = function.get("parameters").unwrap_or(&Value::Bool(true));
    let fits = arguments(call).is_some_and(|arguments| schema::fits(schema, &arguments, budget));
    if fits { 1.0 } else { 0.5 }
}

/// Returns the arguments of a call: JSON in a string, as the format has it, or an object as some
/// servers send it. Missing arguments are read as none.
fn arguments(call: &Value) -> Option<Value> {
    match call.pointer("/function/arguments") {
        None | Some(Value::Null) => Some(Value::Object(serde_json::Map::new())),
        Some(Value::String(text)) if text.trim().is_empty() => {
            Some(Value::Object(serde_json::Map::new()))
        }
        Some(Value::String(text)) => InnerJson::default().read(text),
        Some(value) => Some(value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_call_is_worth_one_a_half_or_nothing() {
        let tools = [
            json!({"type": "function", "function": {"name": "weather", "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "unit": {"enum": ["c", "f"]},
                    "spots": {"type": "array", "items": {"type": ["number", "null"]}}
                },
                "required": ["city"],
                "additionalProperties": false
            }}}),
            json!({"type": "function", "function": {"name": "now"}}),
        ];
        let cases = [
            ("weather", json!("{\"city\":\"Bern\",\"days\":2.0,\"spots\":[1.5,null]}"), 1.0),
            ("weather", json!({"city": "Bern", "unit": "c"}), 1.0),
            ("weather", json!("{\"days\":2}"), 0.5),
            ("weather", json!("{\"city\":\"Bern\",\"days\":\"two\"}"), 0.5),
            ("weather", json!("{\"city\":\"Bern\",\"unit\":\"k\"}"), 0.5),
            ("weather", json!("{\"city\":\"Bern\",\"sky\":1}"), 0.5),
            ("weather", json!("{\"city\":\"Bern\",\"spots\":[\"x\"]}"), 0.5),
            ("weather", json!("{\"city\":"), 0.5),
            ("now", json!(""), 1.0),
            ("weather_v2", json!("{}"), 0.0),
        ];
        let mut calls = Vec::new();
        for (name, arguments, expected) in cases {
            let call = json!({"id": "1", "function": {"name": name, "arguments": arguments}});
            assert_eq!(
                tool_fidelity(&tools, std::slice::from_ref(&call)),
                Some(expected),
                "{call}"
            );
            calls.push(call);
        }
        assert_eq!(tool_fidelity(&tools, &calls), Some(0.6));
        assert_eq!(tool_fidelity(&tools, &[]), None);
        assert_eq!(tool_fidelity(&tools, &[json!({})]), Some(0.0));
    }
}
