//! Calls of tools in the form of before a model could make several at a time: `function_call` of an
//! assistant's message, and messages of the role `function` that answer it by its name.

use std::collections::HashMap;

use domain::conversation::{Message, Role};
use serde_json::{Value, json};

const CALL: &str = "function_call";
const CALLS: &str = "tool_calls";
const ANSWERS: &str = "tool_call_id";

/// Brings them into the form of today, which every provider's adapter knows: each call has an id, and
/// its result says which.
pub(crate) fn modernise(messages: &mut [Message]) {
    let mut last = HashMap::new();
    for (index, message) in messages.iter_mut().enumerate() {
        match message.role {
            Role::Assistant => {
                if let Some(function) = message.extra.remove(CALL)
                    && !message.extra.contains_key(CALLS)
                {
                    let call = json!({"id": format!("call_{index}"), "type": "function",
                        "function": function});
                    message.extra.insert(CALLS.to_owned(), json!([call]));
                }
                let calls = message.extra.get(CALLS).and_then(Value::as_array);
                last.extend(calls.into_iter().flatten().filter_map(name_and_id));
            }
            Role::Tool if !message.extra.contains_key(ANSWERS) => {
                let name = message.extra.get("name").and_then(Value::as_str);
                if let Some(id) = name.and_then(|name| last.get(name)) {
                    message.extra.insert(ANSWERS.to_owned(), Value::clone(id));
                }
            }
            _ => {}
        }
    }
}

fn name_and_id(call: &Value) -> Option<(String, Value)> {
    let name = call.get("function")?.get("name")?.as_str()?;
    Some((name.to_owned(), call.get("id")?.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modern(messages: Value) -> Value {
        let messages = messages.as_array().unwrap().iter().cloned();
        let mut messages: Vec<Message> =
            messages.map(|message| Message::read(message).unwrap()).collect();
        modernise(&mut messages);
        json!(messages)
    }

    #[test]
    fn a_call_and_its_result_belong_together() {
        let function = json!({"name": "f", "arguments": "{\"x\": 1}"});
        let asked = json!({"role": "user", "content": "?"});
        let history = |call: Value, id: Option<&str>| {
            let mut result = json!({"role": "function", "content": "7", "name": "f"});
            if let Some(id) = id {
                result["role"] = json!("tool");
                result["tool_call_id"] = json!(id);
            }
            json!([asked, call, result])
        };
        let call = |id: &str| {
            json!({"role": "assistant", "content": null,
                "tool_calls": [{"id": id, "type": "function", "function": function}]})
        };
        let legacy = json!({"role": "assistant", "content": null, "function_call": function});
        assert_eq!(modern(history(legacy, None)), history(call("call_1"), Some("call_1")));
        // As an answer of ours has it: in both forms.
        let mut both = call("a");
        both["function_call"] = function.clone();
        assert_eq!(modern(history(both, None)), history(call("a"), Some("a")));
    }

    #[test]
    fn the_form_of_today_stays_as_it_is() {
        let messages = json!([
            {"role": "assistant", "content": "Hm.", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "content": "1", "tool_call_id": "a", "name": "f"},
            {"role": "tool", "content": "2", "tool_call_id": "b"},
            {"role": "tool", "content": "3", "name": "g"},
        ]);
        assert_eq!(modern(messages.clone()), messages);
    }
}
