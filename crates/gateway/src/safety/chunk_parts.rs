//! Parts of the chunks of a stream that do not leave as they come: refusals, log probabilities, parts
//! that are of use only as a whole, and ends.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::safety::answer_fields::{DELTA, INDIVISIBLE, LOGPROBS, REFUSAL, STATE, TOOL_CALLS};
use crate::safety::answer_strings::{choices, index, refusal};

/// The beginning or a piece of a tool call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPiece<'a> {
    /// The index of the call.
    pub(crate) index: u64,
    /// The id; only the first piece of a call has to have it.
    pub(crate) id: &'a str,
}

/// The pieces of tool calls of choice 0 in a chunk.
pub(crate) fn call_pieces(chunk: &Map<String, Value>) -> impl Iterator<Item = CallPiece<'_>> {
    let calls = first_deltas(chunk).filter_map(|delta| delta.get(TOOL_CALLS)?.as_array()).flatten();
    calls.map(|call| CallPiece {
        index: call.get("index").and_then(Value::as_u64).unwrap_or(0),
        id: call.get("id").and_then(Value::as_str).unwrap_or_default(),
    })
}

/// The provider's state that a chunk has for choice 0.
pub(crate) fn state(chunk: &Map<String, Value>) -> Option<&Value> {
    first_deltas(chunk).find_map(|delta| delta.get(STATE))
}

fn first_deltas(chunk: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let choices = chunk.get("choices").and_then(Value::as_array).into_iter().flatten();
    choices.filter(|choice| index(choice) == 0).filter_map(|choice| choice.get(DELTA))
}

/// Takes the refusal of choice 0 out of a chunk, if it is not empty.
pub(crate) fn take_refusal(chunk: &mut Map<String, Value>) -> Option<String> {
    let refusal = refusal(chunk).filter(|refusal| !refusal.is_empty())?.to_owned();
    for choice in choices(chunk).filter(|choice| index(choice) == 0) {
        if let Some(delta) = choice.get_mut(DELTA).and_then(Value::as_object_mut) {
            delta.shift_remove(REFUSAL);
        }
    }
    Some(refusal)
}

/// Takes all log probabilities out of a chunk.
pub(crate) fn clear_logprobs(chunk: &mut Map<String, Value>) {
    for choice in choices(chunk).filter_map(Value::as_object_mut) {
        choice.shift_remove(LOGPROBS);
    }
}

/// Takes out of a chunk the parts that are of use only as a whole: calls of tools, the provider's
/// state, and the ends of further choices that have such. `split_choices` are the choices that a
/// part was taken from. `None` when there is nothing of the kind.
pub(crate) fn split_indivisible(
    chunk: &mut Map<String, Value>,
    split_choices: &mut BTreeSet<u64>,
) -> Option<Map<String, Value>> {
    let mut taken = Vec::new();
    for choice in choices(chunk) {
        let index = index(choice);
        let mut delta = Map::new();
        if let Some(message) = choice.get_mut(DELTA).and_then(Value::as_object_mut) {
            for name in INDIVISIBLE {
                delta.extend(message.shift_remove(name).map(|value| (name.to_owned(), value)));
            }
        }
        if !delta.is_empty() {
            split_choices.insert(index);
        }
        let ends = index != 0 && split_choices.contains(&index);
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
    let mut is_left = false;
    for choice in choices(chunk) {
        if index(choice) == 0
            && let Some(reason) = choice.get_mut("finish_reason")
        {
            *reason = Value::Null;
        }
        let delta = choice.get(DELTA).and_then(Value::as_object);
        is_left |= delta.is_some_and(|delta| !delta.is_empty())
            || !is_null(choice.get("finish_reason"))
            || !is_null(choice.get(LOGPROBS));
    }
    is_left
}

fn is_null(value: Option<&Value>) -> bool {
    value.is_none_or(Value::is_null)
}
