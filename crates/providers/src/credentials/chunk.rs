//! Chunks of a stream: the paths to their strings, and what has to be cleaned in them.

use domain::conversation::StreamEvent;
use serde_json::{Map, Value, json};

use crate::credentials::Credentials;
use crate::credentials::chunk_position::Position;

/// A segment of the path to a string that continues. The first names the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Segment {
    Choice(u64),
    Member(&'static str),
    /// An item of a list, by its own index if it has one.
    Item(u64),
}

impl Segment {
    /// Returns the segment of an item at an index of its list.
    pub(super) fn item(index: usize, item: &Value) -> Self {
        Self::Item(item.get("index").and_then(Value::as_u64).unwrap_or(index as u64))
    }
}

/// The path of the text of choice 0.
pub(super) const TEXT: [Segment; 2] = [Segment::Choice(0), Segment::Member("content")];

/// Whether nothing in a part of a chunk has to be cleaned or withheld.
pub(super) fn is_plain(
    credentials: &Credentials,
    position: Position,
    name: &str,
    value: &Value,
) -> bool {
    !credentials.are_in(name)
        && value_is_plain(
            credentials,
            position.into(name).map_or(Position::Whole, |(_, position)| position),
            value,
        )
}

fn value_is_plain(credentials: &Credentials, position: Position, value: &Value) -> bool {
    match value {
        Value::String(text) if position.continues() => {
            !credentials.are_in(text) && credentials.begun_at_end(text) == 0
        }
        Value::String(text) => credentials.is_clean(text),
        Value::Array(items) => items.iter().all(|item| value_is_plain(credentials, position, item)),
        Value::Object(members) => {
            members.iter().all(|(name, value)| is_plain(credentials, position, name, value))
        }
        _ => true,
    }
}

/// Whether a part of a chunk contains a call, or text whose tokens were counted.
pub(super) fn has_generated_text(position: Position, value: &Value) -> bool {
    match value {
        Value::String(text) => {
            !text.is_empty() && (position.continues() || position == Position::Calls)
        }
        Value::Array(items) => items.iter().any(|item| has_generated_text(position, item)),
        Value::Object(members) => members.iter().any(|(name, value)| {
            // The model writes all of a call.
            let beside = if position == Position::Calls { position } else { Position::Whole };
            has_generated_text(position.into(name).map_or(beside, |(_, position)| position), value)
        }),
        _ => false,
    }
}

/// Returns the path of the string that a path belongs to: the parts of a content are one text.
pub(super) fn string_path(position: Position, path: &[Segment]) -> &[Segment] {
    if position == Position::Content { &path[..2] } else { path }
}

/// Returns the text of a delta's content.
pub(super) fn content_of(delta: &Value) -> String {
    match delta.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

/// Creates a chunk with nothing but the end of one string.
pub(super) fn rest_chunk(place: &[Segment], text: &str) -> StreamEvent {
    let (mut value, mut choice) = (Value::from(text), 0);
    for segment in place.iter().rev() {
        value = match *segment {
            Segment::Choice(index) => {
                choice = index;
                break;
            }
            Segment::Member(name) => Value::Object(Map::from_iter([(name.to_owned(), value)])),
            Segment::Item(index) => {
                if let Value::Object(item) = &mut value {
                    item.insert("index".to_owned(), index.into());
                }
                Value::Array(vec![value])
            }
        };
    }
    let choices = json!([{"index": choice, "delta": value, "finish_reason": null}]);
    let chunk = Map::from_iter([("choices".to_owned(), choices)]);
    StreamEvent::Native { text: String::new(), chunk }
}
