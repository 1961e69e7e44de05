//! The parts of an answer, kept for the next turn: a model of the third generation requires its
//! signatures back with the very parts they came with.

use domain::json_weight::tree_bytes;
use domain::model::Provider;
use serde_json::Value;

use crate::chat_form::answer;
use crate::error::Error;
use crate::vendors::gemini::wire::Part;

/// Most bytes of one answer that are kept, approximately; a whole answer may be as long.
const MOST_STATE_BYTES: usize = 32 * 1024 * 1024;
/// Approximate bytes of a part besides its members: an object with a few names.
const PART_BYTES: usize = 1024;
const SIGNATURE: &str = "thoughtSignature";

#[derive(Default)]
pub(super) struct StateBuilder {
    parts: Vec<Value>,
    bytes: usize,
    /// Whether something is lost when only text, names and arguments are kept.
    matters: bool,
}

impl StateBuilder {
    pub(super) fn add(&mut self, part: Part) -> Result<(), Error> {
        let id = part.get("functionCall").and_then(|call| call.get("id"));
        self.matters |= id.is_some() || part.contains_key(SIGNATURE);
        let text = plain_text(&part);
        if text == Some("") || part.is_empty() {
            return Ok(());
        }
        self.bytes += match text {
            Some(text) => text.len(),
            None => PART_BYTES + part.values().map(tree_bytes).sum::<usize>(),
        };
        if self.bytes > MOST_STATE_BYTES {
            return Err(Error::malformed("it is longer than 32 MiB"));
        }
        // A stream cuts one text into many parts.
        match (text, self.parts.last_mut().and_then(more_of)) {
            (Some(text), Some(earlier)) => earlier.push_str(text),
            _ => self.parts.push(Value::Object(part)),
        }
        Ok(())
    }

    /// Returns the state that is to come back with the next turn, if it matters.
    pub(super) fn state(&mut self, model: &str) -> Option<Value> {
        let parts = std::mem::take(&mut self.parts);
        self.matters.then(|| answer::state(Provider::Gemini, model, Value::Array(parts)))
    }
}

/// Returns the text of a part that is nothing but text.
fn plain_text(part: &Part) -> Option<&str> {
    part.get("text").and_then(Value::as_str).filter(|_| part.len() == 1)
}

fn more_of(part: &mut Value) -> Option<&mut String> {
    let part = part.as_object_mut().filter(|part| part.len() == 1)?;
    match part.get_mut("text") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}
