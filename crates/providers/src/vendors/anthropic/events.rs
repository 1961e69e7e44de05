//! The events of a stream, as far as they are read.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

/// An event. Its type is in the data; the name before the data repeats it.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(default)]
    pub(super) index: usize,
    #[serde(default, borrow)]
    pub(super) delta: Delta<'a>,
    pub(super) content_block: Option<Value>,
    pub(super) message: Option<Start>,
    pub(super) usage: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) text: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) thinking: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) signature: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) partial_json: Cow<'a, str>,
    pub(super) stop_reason: Option<String>,
    pub(super) stop_details: Option<Value>,
    pub(super) stop_sequence: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Start {
    #[serde(default)]
    pub(super) model: String,
    pub(super) usage: Option<Value>,
}
