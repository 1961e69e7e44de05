//! The chat-completions form, which is the canonical one, as typed parts: what the adapters of
//! other formats read a prompt with and write an answer in.

mod answer;
pub(crate) mod cache;
mod conversation;
pub(crate) mod ids;
mod own;
mod params;
#[cfg(test)]
mod result_tests;
pub(crate) mod rounds;
mod tools;

use std::borrow::Cow;

use serde_json::Value;

pub(crate) use answer::{
    Answer, arguments_piece, call_begins, image_piece, reasoning_piece, refusal_piece, state,
    state_piece, stop_sequence_piece, stopped_piece,
};
pub(crate) use cache::Keep;
pub(crate) use conversation::{Conversation, Image, Part, Speaker, ToolResult, Turn};
pub(crate) use params::{Format, Params};
pub(crate) use tools::{Choice, Naming, Tool, Tools};

/// The items of a list.
pub(crate) fn list(value: Cow<'_, Value>) -> Option<Vec<Cow<'_, Value>>> {
    Some(match value {
        Cow::Borrowed(value) => value.as_array()?.iter().map(Cow::Borrowed).collect(),
        Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
        Cow::Owned(_) => return None,
    })
}

/// The text of a member; empty where it is missing or of another kind.
pub(crate) fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

pub(crate) use domain::conversation::{PROVIDER_STATE as STATE, STOP_DETAILS, STOP_SEQUENCE};
