//! The one visitor of the strings of an answer in the chat-completions format, whole or in chunks.
//!
//! Code that judges, restores, counts or keeps strings of an answer gets them from here, with their
//! paths ([`JsonPath`]), in the order in which the answer holds them:
//!
//! ```text
//! visit ---------- strings that a caller receives; they may be replaced
//!   visit_others   the same, without the text of choice 0, which the canonical form holds as well
//! visit_state ---- strings of the providers' state: judged, and never changed
//! ```
//!
//! Lists in [`answer_fields`](crate::safety::answer_fields) decide which fields count.

use std::collections::BTreeSet;

use domain::conversation::Reply;
use serde_json::{Map, Value};

use crate::safety::answer_fields::{
    DELTA, LOGPROBS, MESSAGE, REFUSAL, STATE, TOOL_CALLS, is_visited,
};
use crate::safety::json_path::JsonPath;
use crate::safety::prompt_strings::is_text;

/// Calls `see` with every string of an answer or a chunk that a caller receives. Empty ones, words
/// of the format, bytes of media and log probabilities are passed over.
pub(crate) fn visit(answer: &mut Map<String, Value>, mut see: impl FnMut(&JsonPath, &mut String)) {
    let mut path = JsonPath::default();
    for (name, value) in answer {
        if name != "choices" {
            visit_field(name, value, &mut path, &mut see);
            continue;
        }
        for choice in value.as_array_mut().into_iter().flatten() {
            path.enter_choice(Some(index(choice)));
            for (name, value) in choice.as_object_mut().into_iter().flatten() {
                visit_field(name, value, &mut path, &mut see);
            }
        }
        path.enter_choice(None);
    }
}

/// Calls `see` with the strings of [`visit`] other than the text of choice 0.
pub(crate) fn visit_others(
    answer: &mut Map<String, Value>,
    mut see: impl FnMut(&JsonPath, &mut String),
) {
    visit(answer, |path, text| {
        if !path.is_text() {
            see(path, text);
        }
    });
}

/// Calls `see` with every string of the providers' states of all choices.
pub(crate) fn visit_state<'a>(answer: &'a Map<String, Value>, mut see: impl FnMut(&'a str)) {
    let choices = answer.get("choices").and_then(Value::as_array);
    for choice in choices.into_iter().flatten() {
        if let Some(state) = in_message(choice, STATE) {
            visit_all(state, &mut see);
        }
    }
}

fn visit_field(
    name: &str,
    value: &mut Value,
    path: &mut JsonPath,
    see: &mut impl FnMut(&JsonPath, &mut String),
) {
    if is_visited(name, || path.is_audio()) {
        path.enter_field(name);
        visit_value(value, path, see);
        path.leave();
    }
}

fn visit_value(
    value: &mut Value,
    path: &mut JsonPath,
    see: &mut impl FnMut(&JsonPath, &mut String),
) {
    match value {
        Value::String(text) if !text.is_empty() && (!path.is_media() || is_text(text)) => {
            see(path, text);
        }
        Value::Array(items) => {
            for (position, item) in items.iter_mut().enumerate() {
                path.enter_item(item, position);
                visit_value(item, path, see);
                path.leave();
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                visit_field(name, value, path, see);
            }
        }
        _ => {}
    }
}

fn visit_all<'a>(value: &'a Value, see: &mut impl FnMut(&'a str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|item| visit_all(item, see)),
        Value::Object(map) => map.values().for_each(|value| visit_all(value, see)),
        _ => {}
    }
}

/// The bytes of a whole answer beside the text of choice 0.
pub(crate) fn beside_text(answer: &mut Map<String, Value>) -> usize {
    let mut bytes = 0;
    visit(answer, |path, text| {
        if path.counts_beside_text() {
            bytes += text.len();
        }
    });
    bytes
}

/// The refusal of choice 0 of an answer or a chunk.
pub(crate) fn refusal(answer: &Map<String, Value>) -> Option<&str> {
    let choices = answer.get("choices")?.as_array()?;
    let first = choices.iter().find(|choice| index(choice) == 0)?;
    [MESSAGE, DELTA].iter().find_map(|message| first.get(*message)?.get(REFUSAL)?.as_str())
}

/// Sets the text of choice 0 of a whole answer: all of it in the first part, if it has parts.
pub(crate) fn set_text(answer: &mut Map<String, Value>, text: &str) {
    let mut new = text.to_owned();
    visit(answer, |path, text| {
        if path.is_text() {
            *text = std::mem::take(&mut new);
        }
    });
}

/// The whole message of an answer that asks for tools.
pub(crate) fn tool_message(reply: &Reply) -> Option<&Value> {
    let message = reply.native.as_ref()?.get("choices")?.get(0)?.get(MESSAGE)?;
    let calls = message.get(TOOL_CALLS).and_then(Value::as_array);
    calls.is_some_and(|calls| !calls.is_empty()).then_some(message)
}

/// Takes out the provider's state: it repeats words that did not leave.
pub(crate) fn drop_state(answer: &mut Map<String, Value>) {
    for choice in choices(answer) {
        for message in [MESSAGE, DELTA] {
            if let Some(message) = choice.get_mut(message).and_then(Value::as_object_mut) {
                message.shift_remove(STATE);
            }
        }
    }
}

/// Takes the log probabilities from choices whose text has changed: they would reveal the old one.
pub(crate) fn drop_logprobs(answer: &mut Map<String, Value>, changed: &BTreeSet<Option<u64>>) {
    for choice in choices(answer) {
        if changed.contains(&Some(index(choice)))
            && let Some(logprobs) = choice.get_mut(LOGPROBS)
        {
            *logprobs = Value::Null;
        }
    }
}

pub(super) fn choices(answer: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    answer.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten()
}

/// A choice without an index is the first.
pub(super) fn index(choice: &Value) -> u64 {
    choice.get("index").and_then(Value::as_u64).unwrap_or(0)
}

/// A field of the message of a choice, whole or of a chunk.
fn in_message<'a>(choice: &'a Value, field: &str) -> Option<&'a Value> {
    [MESSAGE, DELTA].iter().find_map(|message| choice.get(*message)?.get(field))
}

#[cfg(test)]
#[path = "answer_strings_tests.rs"]
mod tests;
