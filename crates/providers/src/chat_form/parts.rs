//! The typed parts of a conversation.

use serde_json::Value;

use crate::chat_form::cache::Keep;

/// The parts of one speaker before the other follows.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) speaker: Speaker,
    /// At least one, and never a breakpoint first. Results of tools come before the user's texts.
    pub(crate) parts: Vec<Part<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Model,
}

impl Speaker {
    /// Returns the role in the words of most formats.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Model => "assistant",
        }
    }
}

/// A piece of a turn.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    /// Text that is not blank.
    Text(&'a str),
    Image(Image<'a>),
    Document(Document<'a>),
    Audio(Audio<'a>),
    Call(ToolCall<'a>),
    Result(ToolResult<'a>),
    /// A block of the model's in the provider's own form, to be sent as it came, and the number of
    /// calls before it in its message.
    ProviderBlock(&'a Value, usize),
    /// A breakpoint: the provider may keep everything before it.
    Breakpoint(Keep),
}

/// An image in a content part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image<'a> {
    /// A `data:` URL, taken apart.
    Data { mime: &'a str, base64: &'a str },
    /// An address that the provider is to fetch.
    Url(&'a str),
}

/// A file in a content part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Document<'a> {
    pub(crate) mime: &'a str,
    pub(crate) base64: &'a str,
    /// The caller's name of it; may be empty.
    pub(crate) name: &'a str,
}

/// A recording in a content part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Audio<'a> {
    /// In lower-case letters, digits and hyphens, as chat completions name it: `wav`, `mp3`.
    pub(crate) format: &'a str,
    pub(crate) base64: &'a str,
}

/// A call of a tool that the model has asked for.
#[derive(Debug)]
pub(crate) struct ToolCall<'a> {
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    /// Always an object; empty arguments are an empty one.
    pub(crate) arguments: Value,
}

/// The result of a tool.
#[derive(Debug)]
pub(crate) struct ToolResult<'a> {
    pub(crate) id: &'a str,
    /// The name of the tool, from the call that it answers.
    pub(crate) name: &'a str,
    /// Texts that are not blank, in order.
    pub(crate) texts: Vec<&'a str>,
    /// Whether the tool failed.
    pub(crate) is_error: bool,
}
