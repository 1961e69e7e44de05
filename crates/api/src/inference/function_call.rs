//! Tool calls in the form from before a model could make several at a time: `function_call` of an
//! assistant's message, and messages of the role `function` that answer it by its name.

use std::collections::{HashMap, VecDeque};

use domain::conversation::{Message, Role};
use serde_json::{Value, json};

const CALL: &str = "function_call";
const CALLS: &str = "tool_calls";
const ANSWERS: &str = "tool_call_id";

/// Converts messages to the current form, which every provider's adapter reads: each call has an id,
/// which its result names. An unanswered call, as in examples, stays as it is: the current form has
/// no such calls.
pub(crate) fn modernise(messages: &mut [Message]) {
    // The unanswered calls of the latest message with calls, by the name of their tool.
    let mut open: HashMap<String, VecDeque<Value>> = HashMap::new();
    for index in 0..messages.len() {
        let (before, rest) = messages.split_at_mut(index + 1);
        let Some(message) = before.last_mut() else { continue };
        match message.role {
            Role::Assistant => {
                let listed = message.extra.get(CALLS).and_then(Value::as_array);
                if listed.is_some_and(|calls| !calls.is_empty()) {
                    message.extra.remove(CALL);
                } else if is_answered(message.extra.get(CALL), rest)
                    && let Some(function) = message.extra.remove(CALL)
                {
                    let call = json!({"id": format!("function_call_{index}"), "type": "function",
                        "function": function});
                    message.extra.insert(CALLS.to_owned(), json!([call]));
                }
                let calls = message.extra.get(CALLS).and_then(Value::as_array);
                let mut calls = calls.into_iter().flatten().filter_map(name_and_id).peekable();
                if calls.peek().is_some() {
                    open.clear();
                }
                for (name, id) in calls {
                    open.entry(name).or_default().push_back(id);
                }
            }
            Role::Tool => match message.extra.get(ANSWERS) {
                Some(answered) => {
                    for ids in open.values_mut() {
                        ids.retain(|id| id != answered);
                    }
                }
                None => {
                    let id = name_of(message).and_then(|name| open.get_mut(name)?.pop_front());
                    message.extra.extend(id.map(|id| (ANSWERS.to_owned(), id)));
                }
            },
            _ => {}
        }
    }
}

/// Whether a result in the old form follows a call before the next message of the model.
fn is_answered(call: Option<&Value>, rest: &[Message]) -> bool {
    let Some(name) = call.and_then(|call| call.get("name")?.as_str()) else { return false };
    let mut before = rest.iter().take_while(|message| message.role != Role::Assistant);
    before.any(|message| {
        message.role == Role::Tool
            && !message.extra.contains_key(ANSWERS)
            && name_of(message) == Some(name)
    })
}

fn name_of(message: &Message) -> Option<&str> {
    message.extra.get("name").and_then(Value::as_str)
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
        let id = "function_call_1";
        assert_eq!(modern(history(legacy, None)), history(call(id), Some(id)));
        // An answer of ours has both forms.
        let mut both = call("a");
        both["function_call"] = function.clone();
        assert_eq!(modern(history(both, None)), history(call("a"), Some("a")));
    }

    #[test]
    fn several_calls_of_one_tool_are_answered_in_their_order() {
        let called = |id: &str| json!({"id": id, "function": {"name": "f", "arguments": "{}"}});
        let result = |said: &str| json!({"role": "function", "content": said, "name": "f"});
        let messages = modern(json!([
            {"role": "assistant", "content": null,
                "tool_calls": [called("a"), called("b"), called("c")]},
            {"role": "tool", "content": "1", "tool_call_id": "a"},
            result("2"), result("3"), result("4"),
        ]));
        let ids = [1, 2, 3, 4].map(|index| messages[index]["tool_call_id"].clone());
        assert_eq!(ids, [json!("a"), json!("b"), json!("c"), json!(null)]);
    }

    /// Unanswered calls serve as examples that show a model how to answer.
    #[test]
    fn a_call_that_nothing_answers_stays_as_it_is() {
        let call = json!({"role": "assistant", "content": null,
            "function_call": {"name": "f", "arguments": "{}"}});
        let messages = json!([call, {"role": "user", "content": "And?"}, call,
            {"role": "assistant", "content": "So."},
            {"role": "tool", "content": "3", "name": "f"}]);
        assert_eq!(modern(messages.clone()), messages);
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
