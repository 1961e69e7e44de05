//! Every string of an answer in the chat-completions format that a caller receives, and its path.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use domain::conversation::{STOP_DETAILS, STOP_SEQUENCE};
use serde_json::{Map, Number, Value, json};

use crate::safety::prompt_strings::is_text;
use domain::conversation::Reply;

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
/// A call of a tool, in the form from before there could be several. Adapters write it once more
/// among the others.
const LEGACY: &str = "function_call";
/// A refusal has its reason in a field of its own.
const REFUSAL: &str = "refusal";
/// The longest `type` that distinguishes items.
const LONGEST_KIND: usize = 64;
/// Repeats the text, token by token.
const LOGPROBS: &str = "logprobs";

/// The path of a string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct JsonPath {
    choice: Option<u64>,
    /// The fields and items of the path, within its choice if it has one.
    way: Vec<Segment>,
}

#[derive(Clone, Debug)]
enum Segment {
    Field(String),
    /// An item of a list. Only a number is an index, and a long `type` is no kind.
    Item {
        index: Option<Number>,
        kind: Option<String>,
        position: usize,
    },
}

impl PartialEq for Segment {
    /// Pieces of one item share an index if they have one; only the first has to hold more.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Field(name), Self::Field(other)) => name == other,
            (Self::Item { index: Some(index), .. }, Self::Item { index: Some(other), .. }) => {
                index == other
            }
            (
                Self::Item { index: None, kind, position },
                Self::Item { index: None, kind: other_kind, position: other_position },
            ) => kind == other_kind && position == other_position,
            _ => false,
        }
    }
}

impl Eq for Segment {}

impl Hash for Segment {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Field(name) => name.hash(state),
            Self::Item { index: Some(index), .. } => index.hash(state),
            Self::Item { index: None, kind, position } => (kind, position).hash(state),
        }
    }
}

impl JsonPath {
    /// The choice it belongs to.
    pub(crate) fn choice(&self) -> Option<u64> {
        self.choice
    }

    /// About the bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.way.iter().map(|step| size_of::<Segment>() + step.text().len()).sum()
    }

    /// Whether it is JSON inside a string: the arguments of a tool.
    pub(crate) fn is_json(&self) -> bool {
        self.way.last().is_some_and(|step| step.is("arguments"))
    }

    /// Whether it is a piece of a string that further chunks continue.
    pub(crate) fn is_fragment(&self) -> bool {
        self.way.first().is_some_and(|step| step.is("delta"))
    }

    /// Whether it is a note to the text, or the type of the text: it comes whole, beside strings
    /// that come in pieces.
    pub(crate) fn is_note(&self) -> bool {
        const NOTES: [&str; 4] = ["annotations", "citations", STOP_DETAILS, STOP_SEQUENCE];
        const LABELS: [&str; 5] = ["channel", "format", "phase", "recipient", "status"];
        let is_in = |step: Option<&Segment>, names: &[&str]| {
            step.is_some_and(|step| names.iter().any(|name| step.is(name)))
        };
        is_in(self.way.get(1), &NOTES) || is_in(self.way.last(), &LABELS)
    }

    /// Whether it is the text of choice 0, which the canonical form holds as well.
    pub(crate) fn is_text(&self) -> bool {
        self.choice == Some(0)
            && self.is_words()
            && self.way.get(1).is_some_and(|of| of.is("content"))
    }

    /// Whether it is the refusal of choice 0.
    pub(crate) fn is_refusal(&self) -> bool {
        match self.way.as_slice() {
            [message, refusal] => {
                self.choice == Some(0) && message.is_message() && refusal.is(REFUSAL)
            }
            _ => false,
        }
    }

    /// Whether a picture, a sound or a film may stand here. Any other string is words, whatever it
    /// looks like: a model could disguise forbidden text as a picture.
    fn is_media(&self) -> bool {
        const MEDIA: [&str; 7] =
            ["audio", "b64_json", "image", "image_url", "images", "inline_data", "video"];
        let is_one = |step: &Segment| MEDIA.iter().any(|name| step.is(name));
        let is_transcript = self.way.last().is_some_and(|step| step.is("transcript"));
        self.way.iter().any(is_one) && !is_transcript && !self.is_tool_call() && !self.is_legacy()
    }

    /// Whether it is a string of a message itself, or of one of the parts of its text.
    fn is_words(&self) -> bool {
        match self.way.as_slice() {
            [message, Segment::Field(_)] => message.is_message(),
            [message, content, Segment::Item { .. }, text] => {
                message.is_message() && content.is("content") && text.is("text")
            }
            _ => false,
        }
    }

    /// Whether it repeats a call of a tool in the older form, for a single call: an answer in that
    /// form has each call twice.
    pub(crate) fn is_legacy(&self) -> bool {
        self.way.get(1).is_some_and(|step| step.is(LEGACY))
    }

    /// Whether it belongs to a tool call. Calls run beside each other, in no order.
    pub(crate) fn is_tool_call(&self) -> bool {
        self.way.get(1).is_some_and(|step| step.is("tool_calls"))
    }

    /// The index of the tool call of choice 0, if the string is its name or its arguments.
    pub(crate) fn tool_call(&self) -> Option<u64> {
        match self.way.as_slice() {
            [_, _, Segment::Item { index, .. }, function, _]
                if self.choice == Some(0) && self.is_tool_call() && function.is("function") =>
            {
                Some(index.as_ref().and_then(Number::as_u64).unwrap_or(0))
            }
            _ => None,
        }
    }

    /// A chunk that holds a piece of this string and nothing else.
    pub(crate) fn chunk(&self, piece: String) -> Map<String, Value> {
        let choice = self.way.iter().rev().fold(Value::from(piece), |inner, step| match step {
            Segment::Field(name) => json!({ name: inner }),
            Segment::Item { index, kind, .. } => {
                let mut item = inner;
                let index = index.clone().map(Value::Number);
                let kind = kind.clone().map(Value::String);
                for (name, value) in [("index", index), ("type", kind)] {
                    if let (Some(value), Some(item)) = (value, item.as_object_mut()) {
                        item.insert(name.to_owned(), value);
                    }
                }
                json!([item])
            }
        });
        let mut choice = match choice {
            Value::Object(choice) => choice,
            _ => Map::new(),
        };
        choice.insert("index".to_owned(), self.choice.unwrap_or(0).into());
        choice.insert("finish_reason".to_owned(), Value::Null);
        let mut chunk = Map::new();
        chunk.insert("choices".to_owned(), json!([choice]));
        chunk
    }
}

impl Segment {
    /// The item of a list at a position.
    fn item(item: &Value, position: usize) -> Self {
        let kind =
            item.get("type").and_then(Value::as_str).filter(|kind| kind.len() <= LONGEST_KIND);
        let index = match item.get("index") {
            Some(Value::Number(index)) => Some(index.clone()),
            _ => None,
        };
        Self::Item { index, kind: kind.map(str::to_owned), position }
    }

    fn text(&self) -> &str {
        match self {
            Self::Field(name) => name,
            Self::Item { kind, .. } => kind.as_deref().unwrap_or_default(),
        }
    }

    fn is(&self, name: &str) -> bool {
        matches!(self, Self::Field(field) if field == name)
    }

    fn is_message(&self) -> bool {
        self.is("message") || self.is("delta")
    }
}

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
