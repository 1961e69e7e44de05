//! Calls of tools as the servers of the format write them, brought into one form: every call has an id
//! that no other call of its message has, a type, and arguments in a string; every piece of a streamed
//! one has the index of its call. All later steps rely on it.

use std::collections::{HashMap, HashSet};

use domain::step::FinishReason;
use serde_json::{Map, Value, json};

use crate::chat_form::answer::MOST_CALLS;
use crate::chat_form::{ids, text};
use crate::error::Error;
use crate::vendors::openai::wire::finish_reason;

const CALLS: &str = "tool_calls";
/// The form before there were several calls. It stays in place for its readers.
const LEGACY: &str = "function_call";

/// Brings the calls of a whole answer into the one form.
pub(super) fn settle(answer: &mut Map<String, Value>) {
    let response = text(answer.get("id")).to_owned();
    for (_, message) in messages_in(answer, "message") {
        let Some(calls) = calls_in(message) else { continue };
        calls.retain(names_a_tool);
        let mut taken = HashSet::new();
        for (place, call) in calls.iter_mut().filter_map(Value::as_object_mut).enumerate() {
            write_arguments(call, Some("{}"));
            let id = begin(call, place, &response, |id| taken.contains(id));
            taken.insert(id);
        }
    }
}

/// The calls of a stream so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    choices: HashMap<u64, Begun>,
    number: usize,
}

/// The calls of one choice.
#[derive(Debug, Default)]
struct Begun {
    calls: Vec<Call>,
    by_index: HashMap<u64, usize>,
    ids: HashSet<String>,
}

#[derive(Debug)]
struct Call {
    /// The server's id; empty if it gave none.
    given: String,
    is_named: bool,
    /// Whether it calls a function, and has no arguments yet.
    lacks_arguments: bool,
}

impl Calls {
    /// Brings the pieces of calls in a chunk into the one form.
    pub(super) fn settle(&mut self, chunk: &mut Map<String, Value>) -> Result<(), Error> {
        let response = text(chunk.get("id")).to_owned();
        for (choice, delta) in messages_in(chunk, "delta") {
            let Some(pieces) = calls_in(delta) else { continue };
            pieces.retain(Value::is_object);
            if pieces.is_empty() {
                continue;
            }
            let begun = self.choices.entry(choice).or_default();
            for piece in pieces.iter_mut().filter_map(Value::as_object_mut) {
                self.number += usize::from(begun.settle(piece, &response));
                if self.number > MOST_CALLS {
                    return Err(Error::malformed("it calls too many tools"));
                }
            }
        }
        self.complete(chunk);
        Ok(())
    }

    /// Whether a call without arguments may have to be completed.
    pub(super) fn lack_arguments(&self) -> bool {
        let mut calls = self.choices.values().flat_map(|begun| &begun.calls);
        calls.any(|call| call.lacks_arguments)
    }

    /// Gives calls without arguments an empty object if their choice ends by itself: readers of
    /// arguments parse JSON. A call that was cut off stays as it is.
    fn complete(&mut self, chunk: &mut Map<String, Value>) {
        let choices = chunk.get_mut("choices").and_then(Value::as_array_mut);
        for choice in choices.into_iter().flatten().filter_map(Value::as_object_mut) {
            let word = text(choice.get("finish_reason"));
            let is_cut_off = finish_reason(word).is_some_and(FinishReason::is_cut_off);
            let index = choice.get("index").and_then(Value::as_u64).unwrap_or(0);
            let Some(begun) = self.choices.get_mut(&index) else { continue };
            if word.is_empty() || is_cut_off {
                continue;
            }
            for (place, call) in begun.calls.iter_mut().enumerate() {
                if std::mem::take(&mut call.lacks_arguments) {
                    let piece = json!({"index": place, "function": {"arguments": "{}"}});
                    pieces_of(choice).push(piece);
                }
            }
        }
    }
}

/// Returns the pieces of calls of a choice; a null counts as none.
fn pieces_of(choice: &mut Map<String, Value>) -> &mut Vec<Value> {
    let delta = choice.entry("delta").or_insert(Value::Null);
    if !delta.is_object() {
        *delta = json!({});
    }
    let calls = &mut delta[CALLS];
    if !calls.is_array() {
        *calls = json!([]);
    }
    match calls {
        Value::Array(calls) => calls,
        _ => unreachable!("it was made an array above"),
    }
}

impl Begun {
    /// Returns whether the piece begins a call.
    fn settle(&mut self, piece: &mut Map<String, Value>, response: &str) -> bool {
        let index = piece.get("index").and_then(Value::as_u64);
        let known = match index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.calls.len().checked_sub(1),
        };
        let known = known.filter(|known| !is_other(piece, index, &self.calls[*known].given));
        let place = known.unwrap_or(self.calls.len());
        let is_named = !name(piece).is_empty();
        if known.is_none() {
            let given = text(piece.get("id")).to_owned();
            write_arguments(piece, Some(""));
            let id = begin(piece, place, response, |id| self.ids.contains(id));
            self.ids.insert(id);
            let lacks_arguments = piece.contains_key("function");
            self.calls.push(Call { given, is_named, lacks_arguments });
            self.by_index.extend(index.map(|index| (index, place)));
        } else {
            self.calls[place].go_on(piece, is_named);
        }
        let arguments = piece.get("function").and_then(|function| function.get("arguments"));
        self.calls[place].lacks_arguments &= text(arguments).is_empty();
        piece.insert("index".to_owned(), place.into());
        known.is_none()
    }
}

impl Call {
    /// Reads a further piece. Clients join pieces: members that an earlier one has had are removed.
    fn go_on(&mut self, piece: &mut Map<String, Value>, is_named: bool) {
        write_arguments(piece, None);
        piece.shift_remove("id");
        if self.is_named
            && let Some(Value::Object(function)) = piece.get_mut("function")
        {
            function.shift_remove("name");
        }
        self.is_named |= is_named;
    }
}

/// Whether a piece belongs to another call than the one that its index, or the order, suggests: some
/// servers give none of their pieces an index, or all of their calls the same one.
fn is_other(piece: &Map<String, Value>, index: Option<u64>, given: &str) -> bool {
    let id = text(piece.get("id"));
    !name(piece).is_empty() && if id.is_empty() { index.is_none() } else { id != given }
}

/// Returns the name of the function that is called.
fn name(call: &Map<String, Value>) -> &str {
    text(call.get("function").and_then(|function| function.get("name")))
}

/// Returns the message or delta of each choice, with its index.
fn messages_in<'a>(
    answer: &'a mut Map<String, Value>,
    member: &'static str,
) -> impl Iterator<Item = (u64, &'a mut Map<String, Value>)> {
    let choices = answer.get_mut("choices").and_then(Value::as_array_mut);
    choices.into_iter().flatten().filter_map(move |choice| {
        let index = choice.get("index").and_then(Value::as_u64).unwrap_or(0);
        Some((index, choice.get_mut(member)?.as_object_mut()?))
    })
}

/// Returns the calls of a message, or of a piece of one.
fn calls_in(said: &mut Map<String, Value>) -> Option<&mut Vec<Value>> {
    let has_calls =
        said.get(CALLS).and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
    if !has_calls && let Some(function @ Value::Object(_)) = said.get(LEGACY) {
        let calls = json!([{"function": function}]);
        said.insert(CALLS.to_owned(), calls);
    }
    said.get_mut(CALLS)?.as_array_mut()
}

/// Whether a call can be run. A call of anything but a function has its name elsewhere.
fn names_a_tool(call: &Value) -> bool {
    match call.get("function") {
        Some(function) => !text(function.get("name")).is_empty(),
        None => !matches!(text(call.get("type")), "" | "function"),
    }
}

/// Gives a call an id if it has none, or one that is taken, and the type if it has none. Returns the
/// id.
fn begin(
    call: &mut Map<String, Value>,
    place: usize,
    response: &str,
    is_taken: impl Fn(&str) -> bool,
) -> String {
    let function = call.get("function");
    let is_function = function.is_some();
    let arguments = text(function.and_then(|function| function.get("arguments")));
    let mut id = text(call.get("id")).to_owned();
    if id.is_empty() || is_taken(&id) {
        id = ids::invent(place, response, name(call), arguments);
        // A server may give its calls such ids itself.
        while is_taken(&id) {
            id.push('_');
        }
    }
    call.insert("id".to_owned(), id.clone().into());
    if is_function {
        call.entry("type").or_insert_with(|| "function".into());
    }
    id
}

/// Writes any arguments as a string; `missing` replaces absent ones.
fn write_arguments(call: &mut Map<String, Value>, missing: Option<&str>) {
    let Some(Value::Object(function)) = call.get_mut("function") else { return };
    match function.get_mut("arguments") {
        // In a whole answer these are all the arguments: no client can read an empty text as JSON.
        Some(Value::String(said)) if said.trim().is_empty() => {
            if let Some(missing) = missing.filter(|missing| !missing.is_empty()) {
                missing.clone_into(said);
            }
        }
        Some(Value::String(_)) => {}
        None | Some(Value::Null) => {
            if let Some(missing) = missing {
                function.insert("arguments".to_owned(), missing.into());
            }
        }
        Some(arguments) => *arguments = arguments.to_string().into(),
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
