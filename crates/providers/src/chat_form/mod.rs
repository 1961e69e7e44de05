//! The chat-completions form, which is the canonical one, as typed parts: the adapters of other formats
//! read prompts and write answers with them.

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

use serde_json::Value;

pub(crate) use answer::{
    Answer, IMAGES, arguments_piece, call_begins, image_piece, reasoning_piece, refusal_piece,
    state, state_piece, stop_sequence_piece, stopped_piece,
};
pub(crate) use cache::Keep;
pub(crate) use conversation::{Conversation, Image, Part, Speaker, ToolResult, Turn};
pub(crate) use params::{Format, Params};
pub(crate) use tools::{Choice, Naming, Tool, Tools};

/// Returns the text of a member; empty if it is missing or of another kind.
pub(crate) fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

pub(crate) use domain::conversation::{PROVIDER_STATE as STATE, STOP_DETAILS, STOP_SEQUENCE};
