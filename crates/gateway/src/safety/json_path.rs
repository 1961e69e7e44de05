//! The path of a string in an answer in the chat-completions format.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use serde_json::{Map, Number, Value, json};

use crate::safety::answer_fields::{
    ARGUMENTS, AUDIO, CONTENT, DELTA, FUNCTION, LABELS, LEGACY_CALL, MEDIA, MESSAGE, NAME, NOTES,
    REFUSAL, TEXT, TOOL_CALLS, TRANSCRIPT, kept_name,
};

/// The longest `type` that distinguishes items.
const MAX_KIND_BYTES: usize = 64;

/// The path of a string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct JsonPath {
    choice: Option<u64>,
    /// The fields and items of the path, within its choice if it has one.
    segments: Vec<Segment>,
}

#[derive(Clone, Debug)]
enum Segment {
    Field(Cow<'static, str>),
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
    /// Begins the path of the strings of a choice, or of those outside of all choices.
    pub(super) fn enter_choice(&mut self, choice: Option<u64>) {
        self.choice = choice;
    }

    /// Goes into a field of an object.
    pub(super) fn enter_field(&mut self, name: &str) {
        self.segments.push(Segment::Field(kept_name(name)));
    }

    /// Goes into an item of a list.
    pub(super) fn enter_item(&mut self, item: &Value, position: usize) {
        self.segments.push(Segment::item(item, position));
    }

    /// Leaves the field or item that was entered last.
    pub(super) fn leave(&mut self) {
        self.segments.pop();
    }

    /// Whether it is the path of a sound.
    pub(super) fn is_audio(&self) -> bool {
        self.segments.last().is_some_and(|segment| segment.is(AUDIO))
    }

    /// The choice it belongs to.
    pub(crate) fn choice(&self) -> Option<u64> {
        self.choice
    }

    /// About the bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| size_of::<Segment>() + segment.text().len()).sum()
    }

    /// Whether it is JSON inside a string: the arguments of a tool.
    pub(crate) fn is_json(&self) -> bool {
        self.segments.last().is_some_and(|segment| segment.is(ARGUMENTS))
    }

    /// Whether it is a piece of a string that further chunks continue.
    pub(crate) fn is_fragment(&self) -> bool {
        self.segments.first().is_some_and(|segment| segment.is(DELTA))
    }

    /// Whether further chunks continue it. Notes come whole.
    pub(crate) fn continues(&self) -> bool {
        self.is_fragment() && !self.is_note()
    }

    /// Whether it is a note to the text, or the type of the text: it comes whole, beside strings
    /// that come in pieces.
    fn is_note(&self) -> bool {
        let is_in = |segment: Option<&Segment>, names: &[&str]| {
            segment.is_some_and(|segment| names.iter().any(|name| segment.is(name)))
        };
        is_in(self.segments.get(1), &NOTES) || is_in(self.segments.last(), &LABELS)
    }

    /// Whether it is the text of choice 0, which the canonical form holds as well.
    pub(crate) fn is_text(&self) -> bool {
        self.choice == Some(0)
            && self.is_words()
            && self.segments.get(1).is_some_and(|field| field.is(CONTENT))
    }

    /// Whether its bytes count beside the text of choice 0: each call of a tool counts once.
    pub(crate) fn counts_beside_text(&self) -> bool {
        !self.is_text() && !self.is_legacy()
    }

    /// Whether it is the refusal of choice 0.
    pub(crate) fn is_refusal(&self) -> bool {
        match self.segments.as_slice() {
            [message, refusal] => {
                self.choice == Some(0) && message.is_message() && refusal.is(REFUSAL)
            }
            _ => false,
        }
    }

    /// Whether a picture, a sound or a film may stand here.
    pub(super) fn is_media(&self) -> bool {
        let is_one = |segment: &Segment| MEDIA.iter().any(|name| segment.is(name));
        let is_transcript = self.segments.last().is_some_and(|segment| segment.is(TRANSCRIPT));
        self.segments.iter().any(is_one)
            && !is_transcript
            && !self.is_tool_call()
            && !self.is_legacy()
    }

    /// Whether it is a string of a message itself, or of one of the parts of its text.
    fn is_words(&self) -> bool {
        match self.segments.as_slice() {
            [message, Segment::Field(_)] => message.is_message(),
            [message, content, Segment::Item { .. }, text] => {
                message.is_message() && content.is(CONTENT) && text.is(TEXT)
            }
            _ => false,
        }
    }

    /// Whether it repeats a call of a tool in the older form, for a single call: an answer in that
    /// form has each call twice.
    fn is_legacy(&self) -> bool {
        self.segments.get(1).is_some_and(|segment| segment.is(LEGACY_CALL))
    }

    /// Whether it belongs to a tool call. Calls run beside each other, in no order.
    pub(crate) fn is_tool_call(&self) -> bool {
        self.segments.get(1).is_some_and(|segment| segment.is(TOOL_CALLS))
    }

    /// The index of the tool call of choice 0 and the field of its function, if the string is the
    /// name of that or its arguments.
    pub(crate) fn tool_call(&self) -> Option<(u64, &'static str)> {
        match self.segments.as_slice() {
            [_, _, Segment::Item { index, .. }, function, field]
                if self.choice == Some(0) && self.is_tool_call() && function.is(FUNCTION) =>
            {
                let field = [NAME, ARGUMENTS].into_iter().find(|name| field.is(name))?;
                Some((index.as_ref().and_then(Number::as_u64).unwrap_or(0), field))
            }
            _ => None,
        }
    }

    /// A chunk that holds a piece of this string and nothing else.
    pub(crate) fn chunk(&self, piece: String) -> Map<String, Value> {
        let choice =
            self.segments.iter().rev().fold(Value::from(piece), |inner, segment| match segment {
                Segment::Field(name) => json!({ name.as_ref(): inner }),
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
            item.get("type").and_then(Value::as_str).filter(|kind| kind.len() <= MAX_KIND_BYTES);
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
        self.is(MESSAGE) || self.is(DELTA)
    }
}
