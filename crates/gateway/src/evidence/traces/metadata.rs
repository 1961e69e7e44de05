//! The attributes in the metadata of a new trace.

use std::borrow::Cow;

use domain::attributes::{AttributeName, Gathering};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::state::caller::Caller;

/// The most characters of a name that a fault shows.
const LONGEST_SHOWN: usize = 80;

/// Metadata of a trace whose attributes are within their limits, and as the project stores them.
pub(super) fn with_attributes(
    caller: &Caller,
    mut metadata: Map<String, Value>,
) -> Result<Map<String, Value>> {
    let mut gathering = Gathering::default();
    gathering.metadata(&metadata);
    let (_, faults) = gathering.finish();
    if !faults.is_empty() {
        let shown = |name: String| name.chars().take(LONGEST_SHOWN).collect::<String>();
        let sentence = |(name, fault)| format!("metadata: {} {fault}", shown(name));
        return Err(Error::Invalid(faults.into_iter().map(sentence).collect()));
    }
    let stored = |name: &AttributeName, value: &mut Value| {
        // A number names a user as well as a text does.
        let text = match &*value {
            Value::String(text) => Cow::Borrowed(text.as_str()),
            Value::Number(_) | Value::Bool(_) => Cow::Owned(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => return,
        };
        if let Cow::Owned(hash) = caller.project.stored_value(name, &text) {
            *value = hash.into();
        }
    };
    for (member, name) in [("user", AttributeName::User), ("session", AttributeName::Session)] {
        if let Some(value) = metadata.get_mut(member) {
            stored(&name, value);
        }
    }
    let tags = metadata.get_mut("tags").and_then(Value::as_object_mut);
    for (name, value) in tags.into_iter().flatten() {
        stored(&AttributeName::Tag(name.clone()), value);
    }
    Ok(metadata)
}
