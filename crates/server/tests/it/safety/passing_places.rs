//! The places of a request that passes as it came: those of its canonical form, and those beside it.

use serde_json::{Value, json};

use super::coverage::{Place, messages_places, says, with};
use crate::harness::Answer;

/// Places beside the canonical form, in requests that pass as they come.
pub(super) fn passing_places() -> Vec<Place> {
    fn block(role: &str, block: Value) -> Value {
        says(role, json!([{"type": "text", "text": "x"}, block]))
    }
    fn tools(tool: Value) -> Value {
        with(says("user", "x"), json!({"tools": [tool]}))
    }
    let mut places = messages_places();
    let more: Vec<Place> = vec![
        ("unknown field", false, |t| with(says("user", "x"), json!({"of_tomorrow": t}))),
        ("deep in an unknown field", false, |t| {
            with(says("user", "x"), json!({"of_tomorrow": {"list": [{"a": 1}, {"b": [t]}]}}))
        }),
        ("name of a field", false, |t| with(says("user", "x"), json!({(t): 1}))),
        ("name of a deep field", false, |t| {
            with(says("user", "x"), json!({"of_tomorrow": {(t): 1}}))
        }),
        (
            "unknown field of a message",
            false,
            |t| json!({"messages": [{"role": "user", "content": "x", "note": t}]}),
        ),
        ("unknown block", false, |t| block("user", json!({"type": "of_tomorrow", "x": [t]}))),
        ("unknown field of a block", false, |t| {
            block("user", json!({"type": "text", "text": "y", "note": t}))
        }),
        ("unknown block of the model", false, |t| {
            block("assistant", json!({"type": "of_tomorrow", "x": [t]}))
        }),
        ("unknown block of a tool result", false, |t| {
            let content = json!([{"type": "of_tomorrow", "x": t}]);
            block("user", json!({"type": "tool_result", "tool_use_id": "a", "content": content}))
        }),
        ("thinking", false, |t| {
            block("assistant", json!({"type": "thinking", "thinking": t, "signature": "c2ln"}))
        }),
        ("title of a document", false, |t| {
            let source =
                json!({"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"});
            block("user", json!({"type": "document", "title": t, "source": source}))
        }),
        ("description of a vendor's tool", true, |t| {
            tools(json!({"type": "computer_20250124", "name": "computer", "description": t}))
        }),
        ("deep in a vendor's tool", true, |t| {
            let place = json!({"type": "approximate", "city": t});
            tools(
                json!({"type": "web_search_20250305", "name": "web_search", "user_location": place}),
            )
        }),
    ];
    places.extend(more);
    places
}

/// An answer in the vendor's format.
pub(super) fn as_anthropic(streams: bool) -> Answer {
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    let message = |content: Value| {
        json!({"id": "m", "type": "message", "role": "assistant",
        "model": "claude", "content": content, "stop_reason": "end_turn", "usage": usage})
    };
    if !streams {
        return Answer::json(200, &message(json!([{"type": "text", "text": "All right."}])));
    }
    let events = [
        json!({"type": "message_start", "message": message(json!([]))}),
        json!({"type": "content_block_start", "index": 0, "content_block":
            {"type": "text", "text": "All right."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
        json!({"type": "message_stop"}),
    ];
    let events = events.iter().map(|event| format!("data: {event}\n\n"));
    Answer::Body(200, "text/event-stream", events.collect())
}
