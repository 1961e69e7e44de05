//! Pass-through of a request: everything it needs for that beside its canonical form.

use domain::original::Original;
use domain::stored_responses::{StoredKind, StoredReference};
use serde_json::Value;

use crate::http::error::Result;
use crate::inference::canonical::read::{invalid, malformed};
use crate::inference::canonical::translation_gaps::TranslationGaps;
use crate::inference::responses::body::ResponsesBody;
use crate::inference::responses::external_access;
use crate::inference::responses::references::{
    PREVIOUS, REFERENCE, check_count, reference, referred,
};

/// The parameters that refer to what the vendor stores without a record of whose it is.
pub(super) const CONVERSATION: &str = "conversation";
const TEMPLATE: &str = "prompt";

/// The parts of an input that its messages do not hold.
#[derive(Debug, Default)]
pub(super) struct InputNotes {
    /// The items that it refers to instead of sending them.
    pub(super) references: Vec<StoredReference>,
    /// Whether the messages lack parts of it, which translations leave out.
    pub(super) is_partial: bool,
    /// Whether it has reasoning that was written by this gateway, not by the vendor: no vendor can read it.
    pub(super) has_gateway_reasoning: bool,
}

/// Records what the vendor would call, store and continue. Parameters that must not be passed on are refused.
pub(super) fn record_vendor_state(
    body: &mut ResponsesBody,
    original: &mut Original,
    gaps: &mut TranslationGaps,
) -> Result<()> {
    if let Value::Array(items) = &mut body.input {
        items.iter_mut().filter(|item| referred(item).is_some()).for_each(|item| {
            item["type"] = REFERENCE.into();
        });
    }
    original.added_tools = external_access::added_tools(&body.input);
    original.external_access = external_access::of(
        &body.input,
        &original.added_tools,
        body.tools.as_deref(),
        body.tool_choice.as_ref(),
    );
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
            gaps.allow::<()>(Err(invalid(refused)))?;
            body.previous =
                body.others.remove(PREVIOUS).and_then(|id| id.as_str().map(str::to_owned));
        }
        Some(_) => return Err(malformed(format!("{PREVIOUS} must be a string"))),
    }
    Ok(())
}

/// Completes the original when its input was read. `is_resolved`: whether items of the gateway's own were put
/// into the request, so that it cannot pass through.
pub(super) fn finish_original(
    mut original: Original,
    mut gaps: TranslationGaps,
    input: InputNotes,
    is_resolved: bool,
) -> Result<Original> {
    original.continuation.references.extend(input.references);
    check_count(original.continuation.references.len())?;
    if input.is_partial {
        gaps.record_omission();
    }
    gaps.note_in(&mut original);
    if input.has_gateway_reasoning || is_resolved {
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
