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
        // A number or an object names a user as well as a text does.
        let text = match &*value {
            // An empty text names nobody.
            Value::String(text) if text.is_empty() => return,
            Value::String(text) => Cow::Borrowed(text.as_str()),
            Value::Null => return,
            other => Cow::Owned(other.to_string()),
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
