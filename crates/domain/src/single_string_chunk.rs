//! A copy of a chunk reduced to one string: the carrier of text that was held back.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::json_text::{Place, Token, value_behind, visit};
use crate::original::{Carrier, SourceEvent};

const KIND: &str = "type";
const CALLS: &str = "tool_calls";
const NONE: &str = "null";

/// The members of a chunk that matter when it is reduced to one string.
#[derive(Clone, Copy)]
struct ReducedChunk {
    /// The members around the string that stay: clients put chunks together by them.
    identifying: &'static [&'static str],
    /// The members of the whole chunk that are removed: they were sent with the chunk itself.
    already_sent: &'static [&'static str],
}

const CHAT_CHUNK: ReducedChunk =
    ReducedChunk { identifying: &["index", KIND], already_sent: &["usage"] };
const CONTENT_CHUNK: ReducedChunk = ReducedChunk {
    identifying: &["index", "role", "thought"],
    already_sent: &["usageMetadata", "promptFeedback"],
};

/// One segment of the path to a string.
#[derive(Debug, PartialEq, Eq)]
enum PathSegment {
    Member(String),
    Item(usize),
}

/// Returns a copy of a chunk with this text as its only string of the answer: it replaces the string whose
/// token begins at the byte `at`. Also returns the bytes of the new string, quotes included. `None` if no
/// string begins there.
pub fn single_string_chunk(
    chunk: &str,
    at: usize,
    text: &str,
    carrier: Carrier,
) -> Option<(String, Range<usize>)> {
    let members = if carrier == Carrier::Content { CONTENT_CHUNK } else { CHAT_CHUNK };
    let mut path = None;
    let seen = visit(chunk, |place, token| {
        if place.range.start == at && matches!(token, Token::Text(_)) {
            path = Some(path_of(place));
        }
    });
    seen.ok()?;
    let mut chunk: Map<String, Value> = serde_json::from_str(chunk).ok()?;
    let path = path?;
    let (PathSegment::Member(first), rest) = path.split_first()? else { return None };
    chunk.retain(|name, _| !members.already_sent.contains(&name.as_str()));
    prune(chunk.get_mut(first)?, rest, text, members);
    let chunk = serde_json::to_string(&chunk).ok()?;
    // Each item on the path is the only one of its list now.
    let only = |segment: PathSegment| match segment {
        PathSegment::Item(_) => PathSegment::Item(0),
        member @ PathSegment::Member(_) => member,
    };
    let (path, mut range) = (path.into_iter().map(only).collect::<Vec<_>>(), None);
    visit(&chunk, |place, token| {
        if matches!(token, Token::Text(_)) && path_of(place) == path {
            range = Some(place.range.clone());
        }
    })
    .ok()?;
    Some((chunk, range?))
}

fn path_of(place: &Place<'_, '_>) -> Vec<PathSegment> {
    let segment = |depth| {
        let member = place.member(depth).map(|name| PathSegment::Member(name.to_owned()));
        member.or_else(|| place.index(depth).map(PathSegment::Item))
    };
    (0..place.depth()).filter_map(segment).collect()
}

/// Takes the log probabilities out of a chunk: they repeat its text, token by token.
pub(crate) fn clear_log_probabilities(event: &mut SourceEvent) {
    let mut values = Vec::new();
    let seen = visit(&event.data, |place, token| {
        let is_there = match token {
            Token::Name("logprobs") => place.member(0) == Some("choices"),
            Token::Name("logprobsResult") => place.member(0) == Some("candidates"),
            _ => false,
        };
        if is_there && place.depth() == 3 {
            values.extend(value_behind(&event.data, place.range.end));
        }
    });
    // A fault cannot occur: the event was parsed when it was read.
    let _ = seen;
    if values.is_empty() {
        return;
    }
    let (mut out, mut copied) = (String::with_capacity(event.data.len()), 0);
    let mut pieces = event.pieces.iter_mut().peekable();
    // The pieces before a value that is taken out stay as far from the end of the text so far.
    let mut shift = |copied: usize, out: usize, until: usize| {
        while let Some(piece) = pieces.next_if(|piece| piece.range.start < until) {
            let there = |at: usize| at - copied + out;
            piece.range = there(piece.range.start)..there(piece.range.end);
        }
    };
    for value in values {
        shift(copied, out.len(), value.start);
        out.push_str(&event.data[copied..value.start]);
        out.push_str(NONE);
        copied = value.end;
    }
    shift(copied, out.len(), usize::MAX);
    out.push_str(&event.data[copied..]);
    event.data = out;
}

fn prune(value: &mut Value, path: &[PathSegment], text: &str, reduced: ReducedChunk) {
    match (value, path) {
        (Value::Object(members), [PathSegment::Member(name), rest @ ..]) => {
            members.retain(|member, _| {
                member == name || reduced.identifying.contains(&member.as_str())
            });
            if let Some(value) = members.get_mut(name) {
                if name == "delta" {
                    prune_choice(members, rest, text, reduced);
                } else {
                    prune(value, rest, text, reduced);
                }
            }
        }
        (Value::Array(items), [PathSegment::Item(index), rest @ ..]) if *index < items.len() => {
            let mut item = items.swap_remove(*index);
            prune(&mut item, rest, text, reduced);
            *items = vec![item];
        }
        (value, _) => *value = text.into(),
    }
}

/// Reduces a choice to one string of its delta. A choice that continues has `finish_reason: null`.
fn prune_choice(
    members: &mut Map<String, Value>,
    rest: &[PathSegment],
    text: &str,
    reduced: ReducedChunk,
) {
    if let Some(delta) = members.get_mut("delta") {
        prune(delta, rest, text, reduced);
        // The type of a call stands in its first piece alone.
        for call in delta.get_mut(CALLS).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(call) = call.as_object_mut() {
                call.shift_remove(KIND);
            }
        }
    }
    members.insert("finish_reason".to_owned(), Value::Null);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::original::{PieceKind, SourcePiece};

    fn only(chunk: &Value, string: &str) -> Value {
        let chunk = chunk.to_string();
        let at = chunk.find(&format!("\"{string}\"")).unwrap();
        let (alone, range) = single_string_chunk(&chunk, at, "rest", Carrier::Chunk).unwrap();
        assert_eq!(&alone[range], r#""rest""#);
        serde_json::from_str(&alone).unwrap()
    }

    #[test]
    fn log_probabilities_are_taken_out_around_the_text() {
        let before = r#"{"choices": [{"logprobs": {"content": [{"token": "a\"}", "n": [1]}]}, "#;
        let after = r#"}, {"logprobs" :[-1.5e3 ], "logprobs_of_tomorrow": 1}], "logprobs": [1]}"#;
        let data = format!(r#"{before}"delta": {{"content": "said"}}{after}"#);
        let begins = data.find("\"said\"").unwrap();
        let piece = SourcePiece::new(0, PieceKind::Text, begins..begins + 6, "other".to_owned());
        let piece = SourcePiece { is_changed: true, ..piece };
        let mut event = SourceEvent {
            name: String::new(),
            data,
            pieces: vec![piece],
            ends: Vec::new(),
            beside: None,
            begins_call: false,
            is_end: false,
            carrier: Carrier::Chunk,
        };
        clear_log_probabilities(&mut event);
        let expected = concat!(
            r#"{"choices": [{"logprobs": null, "delta": {"content": "other"}}, "#,
            r#"{"logprobs" :null, "logprobs_of_tomorrow": 1}], "logprobs": [1]}"#
        );
        assert_eq!(event.json(), expected);
    }

    #[test]
    fn nothing_else_of_a_content_is_sent_again() {
        let text = |text: &str| json!({"text": text, "thought": true});
        let chunk = json!({
            "candidates": [{"content": {"parts": [
                {"functionCall": {"name": "f"}},
                {"text": "said", "thought": true, "thoughtSignature": "c2ln"},
            ], "role": "model"}, "index": 1, "finishReason": "STOP", "groundingMetadata": {}}],
            "usageMetadata": {"promptTokenCount": 1}, "modelVersion": "m", "responseId": "r",
        });
        let content = json!({"parts": [text("rest")], "role": "model"});
        let expected = json!({"candidates": [{"content": content, "index": 1}],
            "modelVersion": "m", "responseId": "r"});
        let chunk = chunk.to_string();
        let at = chunk.find("\"said\"").unwrap();
        let (alone, range) = single_string_chunk(&chunk, at, "rest", Carrier::Content).unwrap();
        assert_eq!(&alone[range], r#""rest""#);
        assert_eq!(serde_json::from_str::<Value>(&alone).unwrap(), expected);
    }

    #[test]
    fn nothing_else_of_the_answer_is_sent_again() {
        let chunk = json!({
            "id": "c", "model": "m", "usage": {"prompt_tokens": 1},
            "choices": [
                {"index": 1, "delta": {"content": "other"}, "finish_reason": null},
                {"index": 0, "finish_reason": "stop", "logprobs": {"content": []}, "delta": {
                    "role": "assistant", "content": "said", "reasoning": "thought", "tool_calls": [
                        {"index": 0, "id": "a", "type": "function", "function": {"arguments": "x"}},
                        {"index": 3, "id": "b", "type": "function",
                            "function": {"name": "f", "arguments": "{\"}"}},
                    ],
                }},
            ],
        });
        let of = |delta: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
            json!({"id": "c", "model": "m", "choices": [choice]})
        };
        assert_eq!(only(&chunk, "said"), of(json!({"content": "rest"})));
        assert_eq!(only(&chunk, "thought"), of(json!({"reasoning": "rest"})));
        let call = json!({"index": 3, "function": {"arguments": "rest"}});
        assert_eq!(only(&chunk, r#"{\"}"#), of(json!({"tool_calls": [call]})));
        let parts = json!({"choices": [{"index": 0, "delta": {"content": [
            {"type": "text", "text": "said"}]}}]});
        let expected = json!({"choices": [{"index": 0, "finish_reason": null, "delta": {"content": [
            {"type": "text", "text": "rest"}]}}]});
        assert_eq!(only(&parts, "said"), expected);
        assert_eq!(single_string_chunk(r#"{"id": "c"}"#, 1, "rest", Carrier::Chunk), None);
    }
}
