//! References in a request to responses and items of before.

use axum::http::StatusCode;
use domain::stored_responses::{LONGEST_ID, MOST_REFERENCES, StoredKind, StoredReference};
use gateway::NOT_STORED;
use serde_json::Value;

use crate::http::error::{Failure, Result};
use crate::inference::canonical::read::invalid;

/// The parameter by which a request continues a response.
pub(super) const PREVIOUS: &str = "previous_response_id";
/// The type of an item that stands for another.
pub(super) const REFERENCE: &str = "item_reference";
/// The id that an item stands for, if it is a reference. The vendor's packages leave its type out.
pub(super) fn referred(item: &Value) -> Option<&str> {
    let item = item.as_object()?;
    let is_reference = match item.get("type").and_then(Value::as_str) {
        Some(kind) => kind == REFERENCE,
        None => item.len() == 1,
    };
    item.get("id").and_then(Value::as_str).filter(|_| is_reference)
}

/// Refuses references that cannot be known, or too many of them.
pub(super) fn reference(kind: StoredKind, id: String) -> Result<StoredReference> {
    if id.is_empty() || id.len() > LONGEST_ID {
        return Err(match kind {
            StoredKind::Response => previous_unknown(&id),
            _ => unknown("Item", &id),
        });
    }
    Ok(StoredReference { kind, id })
}

/// Refuses an item among too many.
pub(super) fn check_count(references: usize) -> Result<()> {
    if references > MOST_REFERENCES {
        return Err(invalid(format!(
            "input refers to more than {MOST_REFERENCES} items by their ids: send them, or continue \
             a response with {PREVIOUS}"
        )));
    }
    Ok(())
}

/// The vendor's sentence and code for a response that it does not have.
pub(super) fn previous_unknown(id: &str) -> Failure {
    let id: String = id.chars().take(64).collect();
    let sentence = format!("Previous response with id '{id}' not found: {NOT_STORED}");
    Failure::new(StatusCode::NOT_FOUND, sentence).code("previous_response_not_found")
}

/// The vendor's sentence for what it does not have, with the reasons that there are here.
pub(super) fn unknown(what: &str, id: &str) -> Failure {
    let id: String = id.chars().take(64).collect();
    Failure::new(StatusCode::NOT_FOUND, format!("{what} with id '{id}' not found: {NOT_STORED}"))
}
