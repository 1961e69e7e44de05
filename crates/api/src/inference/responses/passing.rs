//! What a request needs to go on as it came, beside its canonical form.

use domain::original::Original;
use domain::stored_responses::{StoredKind, StoredReference};
use serde_json::Value;

use crate::http::error::Result;
use crate::inference::canonical::read::{invalid, malformed};
use crate::inference::canonical::translation_gaps::Tolerance;
use crate::inference::responses::body::ResponsesBody;
use crate::inference::responses::external_access;
use crate::inference::responses::references::{
    PREVIOUS, REFERENCE, check_count, reference, referred,
};

/// The parameters that refer to what the vendor stores without a record of whose it is.
pub(super) const CONVERSATION: &str = "conversation";
const TEMPLATE: &str = "prompt";

/// What the input of a request shows beside its messages.
#[derive(Debug, Default)]
pub(super) struct InputNotes {
    /// The items that it refers to instead of sending them.
    pub(super) references: Vec<StoredReference>,
    /// Whether the messages lack parts of it that translations leave out.
    pub(super) loses_parts: bool,
    /// Whether it has reasoning that was answered here: no vendor can read it.
    pub(super) has_own_reasoning: bool,
}

/// Notes what the vendor would reach, keep and continue. What nobody may pass on is refused.
pub(super) fn note(
    body: &mut ResponsesBody,
    original: &mut Original,
    tolerance: &mut Tolerance,
) -> Result<()> {
    if let Value::Array(items) = &mut body.input {
        items.iter_mut().filter(|item| referred(item).is_some()).for_each(|item| {
            item["type"] = REFERENCE.into();
        });
    }
    original.reaches =
        external_access::of(&body.input, body.tools.as_deref(), body.tool_choice.as_ref());
    original.continuation.asks_to_store = body.store != Some(false);
    if body.others.get("background") == Some(&Value::Bool(true)) {
        // Its status is that of every parameter which the gateway refuses by itself.
        return Err(invalid(
            "background is not supported: the caller waits for each answer here, so that it can be \
             judged, recorded and paid for",
        )
        .reaches_address());
    }
    if body.others.get(TEMPLATE).is_some_and(|template| !template.is_null()) {
        return Err(invalid(
            "prompt is not supported: a prompt that the vendor keeps cannot be judged here; send its \
             text in instructions and input",
        )
        .reaches_address());
    }
    match body.others.get(PREVIOUS) {
        None | Some(Value::Null) => {}
        Some(Value::String(id)) => {
            let id = id.clone();
            original.continuation.references.push(reference(StoredKind::Response, id)?);
            let refused = "previous_response_id is not supported by this model: its provider has no \
                 /responses; send the conversation in input";
            tolerance.allow::<()>(Err(invalid(refused)))?;
            body.previous =
                body.others.remove(PREVIOUS).and_then(|id| id.as_str().map(str::to_owned));
        }
        Some(_) => return Err(malformed(format!("{PREVIOUS} must be a string"))),
    }
    Ok(())
}

/// Adds what the reading has shown. `is_resolved`: whether items of ours were put into the request, so that
/// it cannot pass as it came.
pub(super) fn noted(
    mut original: Original,
    tolerance: Tolerance,
    input: InputNotes,
    is_resolved: bool,
) -> Result<Original> {
    original.continuation.references.extend(input.references);
    check_count(original.continuation.references.len())?;
    tolerance.note_in(&mut original);
    original.is_partial = input.loses_parts;
    if input.has_own_reasoning || is_resolved {
        original.body = None;
    }
    if is_resolved {
        // The optional items are sent to nobody.
        original
            .continuation
            .references
            .retain(|reference| reference.kind != StoredKind::OptionalItem);
        if original.continuation.is_bound() {
            return Err(invalid(
                "The request refers to answers of different kinds: those that a provider keeps, and \
                 those that were translated. Send the items themselves",
            ));
        }
    }
    Ok(original)
}

#[cfg(test)]
#[path = "passing_tests.rs"]
mod tests;
