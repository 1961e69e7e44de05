//! The request for an answer, as its address and its body give it.

use serde_json::{Map, Value};

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    Whole,
    /// Server-sent events.
    Events,
    /// One JSON array of chunks.
    Array,
}

impl AnswerForm {
    pub(super) fn streams(self) -> bool {
        self != Self::Whole
    }
}

/// The part of a request that shapes its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerOptions {
    pub(super) form: AnswerForm,
    pub(super) with_thoughts: bool,
}

/// A conversation to be answered. The model and the form of the answer are in its address.
pub(crate) struct Generate {
    pub(crate) model: String,
    pub(crate) body: Map<String, Value>,
    pub(crate) form: AnswerForm,
}
