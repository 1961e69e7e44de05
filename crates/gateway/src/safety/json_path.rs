//! The path of a string in an answer in the chat-completions format.

use std::hash::{Hash, Hasher};

use domain::conversation::{STOP_DETAILS, STOP_SEQUENCE};
use serde_json::{Map, Number, Value, json};

/// A call of a tool, in the form from before there could be several. Adapters write it once more
/// among the others.
pub(super) const LEGACY: &str = "function_call";
/// A refusal has its reason in a field of its own.
pub(super) const REFUSAL: &str = "refusal";
/// The longest `type` that distinguishes items.
const LONGEST_KIND: usize = 64;

/// The path of a string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct JsonPath {
    pub(super) choice: Option<u64>,
    /// The fields and items of the path, within its choice if it has one.
    pub(super) way: Vec<Segment>,
}

#[derive(Clone, Debug)]
pub(super) enum Segment {
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
    pub(super) fn is_media(&self) -> bool {
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
    pub(super) fn item(item: &Value, position: usize) -> Self {
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

    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Field(field) if field == name)
    }

    fn is_message(&self) -> bool {
        self.is("message") || self.is("delta")
    }
}
