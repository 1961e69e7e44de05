//! Every string of an answer in the chat-completions format that a caller receives.

use std::collections::BTreeSet;

use domain::conversation::Reply;
use serde_json::{Map, Value, json};

use crate::safety::json_path::{JsonPath, LEGACY, REFUSAL, Segment};
use crate::safety::prompt_strings::is_text;

/// Words of the format itself, and what the gateway or the provider sets: no model writes them.
const NOT_SAID: [&str; 13] = [
    "id",
    "object",
    "created",
    "model",
    "type",
    "role",
    "index",
    "finish_reason",
    "system_fingerprint",
    "service_tier",
    "usage",
    "obfuscation",
    // Returned to the provider as it came, or its signatures do not fit any more.
    STATE,
];
pub(crate) use domain::conversation::PROVIDER_STATE as STATE;
/// Repeats the text, token by token.
const LOGPROBS: &str = "logprobs";

/// Calls `see` with every string of an answer or a chunk, in a fixed order. Empty ones, words of
/// the format, bytes of media and log probabilities are passed over.
pub(crate) fn each(answer: &mut Map<String, Value>, mut see: impl FnMut(&JsonPath, &mut String)) {
    let mut place = JsonPath::default();
    for (name, value) in answer {
        if name != "choices" {
            field(name, value, &mut place, &mut see);
            continue;
        }
        for choice in value.as_array_mut().into_iter().flatten() {
            place.choice = Some(index(choice));
            for (name, value) in choice.as_object_mut().into_iter().flatten() {
                field(name, value, &mut place, &mut see);
            }
        }
        place.choice = None;
    }
}

fn field(
    name: &str,
    value: &mut Value,
    place: &mut JsonPath,
    see: &mut impl FnMut(&JsonPath, &mut String),
) {
    let is_sound = || name == "data" && place.way.last().is_some_and(|step| step.is("audio"));
    if !NOT_SAID.contains(&name) && name != LOGPROBS && !is_sound() {
        place.way.push(Segment::Field(name.to_owned()));
        inside(value, place, see);
        place.way.pop();
    }
}

fn inside(value: &mut Value, place: &mut JsonPath, see: &mut impl FnMut(&JsonPath, &mut String)) {
    match value {
        Value::String(text) if !text.is_empty() && (!place.is_media() || is_text(text)) => {
            see(place, text);
        }
        Value::Array(items) => {
            for (position, item) in items.iter_mut().enumerate() {
                place.way.push(Segment::item(item, position));
                inside(item, place, see);
                place.way.pop();
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                field(name, value, place, see);
            }
        }
        _ => {}
    }
}

/// The bytes of a whole answer beside the text of choice 0: each call of a tool counts once.
pub(crate) fn beside_text(answer: &mut Map<String, Value>) -> usize {
    let mut bytes = 0;
    each(answer, |place, text| {
        if !place.is_text() && !place.is_legacy() {
            bytes += text.len();
        }
    });
    bytes
}

/// The refusal of choice 0 of an answer or a chunk.
pub(crate) fn refusal(answer: &Map<String, Value>) -> Option<&str> {
    let choices = answer.get("choices")?.as_array()?;
    let first = choices.iter().find(|choice| index(choice) == 0)?;
    ["message", "delta"].iter().find_map(|said| first.get(*said)?.get(REFUSAL)?.as_str())
}

/// Takes the refusal of choice 0 out of a chunk, if it is not empty.
pub(crate) fn take_refusal(chunk: &mut Map<String, Value>) -> Option<String> {
    let said = refusal(chunk).filter(|said| !said.is_empty())?.to_owned();
    for choice in choices(chunk).filter(|choice| index(choice) == 0) {
        if let Some(delta) = choice.get_mut("delta").and_then(Value::as_object_mut) {
            delta.shift_remove(REFUSAL);
        }
    }
    Some(said)
}

/// Sets the text of choice 0 of a whole answer: all of it in the first part, if it has parts.
pub(crate) fn set_text(answer: &mut Map<String, Value>, text: &str) {
    let mut text = text.to_owned();
    each(answer, |place, said| {
        if place.is_text() {
            *said = std::mem::take(&mut text);
        }
    });
}

/// The strings of a provider's state: they are judged, and never changed.
pub(crate) fn of_state<'a>(state: &'a Value, see: &mut impl FnMut(&'a str)) {
    match state {
        Value::String(text) => see(text),
        Value::Array(items) => items.iter().for_each(|item| of_state(item, see)),
        Value::Object(map) => map.values().for_each(|value| of_state(value, see)),
        _ => {}
    }
}

/// The provider's state of each choice.
pub(crate) fn states(answer: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let choices = answer.get("choices").and_then(Value::as_array);
    choices.into_iter().flatten().filter_map(|choice| {
        ["message", "delta"].iter().find_map(|said| choice.get(*said)?.get(STATE))
    })
}

/// The whole message of an answer that asks for tools.
pub(crate) fn tool_message(reply: &Reply) -> Option<&Value> {
    let message = reply.native.as_ref()?.get("choices")?.get(0)?.get("message")?;
    let calls = message.get("tool_calls").and_then(Value::as_array);
    calls.is_some_and(|calls| !calls.is_empty()).then_some(message)
}

/// Takes out the provider's state: it repeats words that did not leave.
pub(crate) fn drop_state(answer: &mut Map<String, Value>) {
    for choice in choices(answer) {
        for said in ["message", "delta"] {
            if let Some(said) = choice.get_mut(said).and_then(Value::as_object_mut) {
                said.shift_remove(STATE);
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

/// Takes all log probabilities out of a chunk.
pub(crate) fn clear_logprobs(chunk: &mut Map<String, Value>) {
    for choice in choices(chunk).filter_map(Value::as_object_mut) {
        choice.shift_remove(LOGPROBS);
    }
}

/// Takes out of a chunk the parts that are of use only as a whole: calls of tools, the provider's
/// state, and the ends of further choices that have such. `parted` are the choices that a part was
/// taken from. `None` when there is nothing of the kind.
pub(crate) fn part_whole(
    chunk: &mut Map<String, Value>,
    parted: &mut BTreeSet<u64>,
) -> Option<Map<String, Value>> {
    let mut taken = Vec::new();
    for choice in choices(chunk) {
        let index = index(choice);
        let mut delta = Map::new();
        if let Some(said) = choice.get_mut("delta").and_then(Value::as_object_mut) {
            for name in ["tool_calls", LEGACY, STATE] {
                delta.extend(said.shift_remove(name).map(|value| (name.to_owned(), value)));
            }
        }
        if !delta.is_empty() {
            parted.insert(index);
        }
        let ends = index != 0 && parted.contains(&index);
        let end = choice.get_mut("finish_reason").filter(|end| ends && !end.is_null());
        let end = end.map(Value::take);
        if !delta.is_empty() || end.is_some() {
            taken.push(json!({"index": index, "delta": delta, "finish_reason": end}));
        }
    }
    (!taken.is_empty()).then(|| Map::from_iter([("choices".to_owned(), Value::Array(taken))]))
}

/// The choices that a chunk ends.
pub(crate) fn ended(chunk: &mut Map<String, Value>) -> impl Iterator<Item = u64> {
    let ended = choices(chunk).filter(|choice| !is_null(choice.get("finish_reason")));
    ended.map(|choice| index(choice))
}

/// Takes the end of choice 0 out of a chunk: it is sent once, when the call is recorded. Returns
/// whether anything is left in the chunk.
pub(crate) fn hold_end(chunk: &mut Map<String, Value>) -> bool {
    let mut says = false;
    for choice in choices(chunk) {
        if index(choice) == 0
            && let Some(reason) = choice.get_mut("finish_reason")
        {
            *reason = Value::Null;
        }
        let delta = choice.get("delta").and_then(Value::as_object);
        says |= delta.is_some_and(|delta| !delta.is_empty())
            || !is_null(choice.get("finish_reason"))
            || !is_null(choice.get(LOGPROBS));
    }
    says
}

fn choices(answer: &mut Map<String, Value>) -> impl Iterator<Item = &mut Value> {
    answer.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten()
}

/// A choice without an index is the first.
fn index(choice: &Value) -> u64 {
    choice.get("index").and_then(Value::as_u64).unwrap_or(0)
}

fn is_null(value: Option<&Value>) -> bool {
    value.is_none_or(Value::is_null)
}

#[cfg(test)]
#[path = "answer_strings_tests.rs"]
mod tests;
