//! The chat-completions form, which is the canonical one, as typed parts: the adapters of other formats
//! read prompts and write answers with them.

pub(crate) mod answer;
#[cfg(test)]
pub(crate) mod arbitrary_conversation;
#[cfg(test)]
mod audio_tests;
pub(crate) mod cache;
pub(crate) mod conversation;
pub(crate) mod effort;
pub(crate) mod ids;
pub(crate) mod params;
pub(crate) mod parts;
mod provider_state;
#[cfg(test)]
mod result_tests;
pub(crate) mod rounds;
pub(crate) mod tools;

pub(crate) use domain::conversation::{PROVIDER_STATE as STATE, STOP_DETAILS, STOP_SEQUENCE};
use serde_json::Value;

/// Returns the text of a member; empty if it is missing or of another kind.
pub(crate) fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}
