use domain::model::Provider;
use domain::usage::Usage;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing;

fn reader() -> Reader {
    let model = testing::model(Provider::Gemini, None);
    Reader::new(&Model { identifier: "gemini-3.1-pro".to_owned(), ..model })
}

/// Writes a stream as Google does: CRLF, and no mark for the end.
fn written(data: &[Value]) -> Vec<u8> {
    data.iter().flat_map(|data| format!("data: {data}\r\n\r\n").into_bytes()).collect()
}

fn read(pieces: &[&[u8]]) -> (Vec<StreamEvent>, Result<(), Error>) {
    let (mut reader, mut events) = (reader(), Vec::new());
    for piece in pieces {
        if let Err(error) = reader.feed(piece, &mut events) {
            return (events, Err(error));
        }
    }
    assert!(!reader.is_done());
    let end = reader.end(&mut events);
    (events, end)
}

fn event(parts: Value, reason: Option<&str>, usage: Value) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}, "index": 0});
    if let Some(reason) = reason {
        candidate["finishReason"] = reason.into();
    }
    json!({"candidates": [candidate], "usageMetadata": usage,
        "modelVersion": "gemini-real", "responseId": "r1"})
}

fn answer() -> Vec<Value> {
    let early = json!({"promptTokenCount": 3, "totalTokenCount": 3});
    let last = json!({"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 4});
    vec![
        event(json!([{"text": "Hm", "thought": true}]), None, early.clone()),
        event(json!([{"text": "Hé"}]), None, early.clone()),
        event(json!([{"text": "🙂"}]), None, early.clone()),
        event(
            json!([
                {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
                {"functionCall": {"name": "g", "args": {}, "id": "own"}},
            ]),
            None,
            early,
        ),
        event(json!([{"text": ""}]), Some("STOP"), last),
    ]
}

fn answer_events() -> Vec<StreamEvent> {
    let state = json!({"provider": "gemini", "model": "gemini-3.1-pro", "content": [
        {"text": "Hm", "thought": true},
        {"text": "Hé🙂"},
        {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "g", "args": {}, "id": "own"}},
    ]});
    vec![
        StreamEvent::Model("gemini-real".to_owned()),
        reasoning_piece("Hm"),
        StreamEvent::Prompt(Usage { prompt: 3, ..Usage::default() }),
        StreamEvent::Text("Hé".to_owned()),
        StreamEvent::Text("🙂".to_owned()),
        call_begins(0, "call_0_r1", "f"),
        arguments_piece(0, r#"{"a":1}"#),
        call_begins(1, "own", "g"),
        arguments_piece(1, "{}"),
        StreamEvent::Usage(Usage { prompt: 3, completion: 6, reasoning: 4, ..Usage::default() }),
        state_piece(state),
        StreamEvent::Finish(FinishReason::ToolCalls),
    ]
}

#[test]
fn a_stream_becomes_events() {
    let (events, end) = read(&[&written(&answer())]);
    end.unwrap();
    assert_eq!(events, answer_events());
}

#[test]
fn usage_may_come_after_the_reason() {
    let done = event(json!([{"text": "a"}]), Some("MAX_TOKENS"), json!({"promptTokenCount": 1}));
    let more = json!({"usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 9}});
    let (events, end) = read(&[&written(&[done, more])]);
    end.unwrap();
    let usage = Usage { prompt: 1, completion: 9, ..Usage::default() };
    assert_eq!(
        events[1..],
        [
            StreamEvent::Text("a".to_owned()),
            StreamEvent::Prompt(Usage { completion: 0, ..usage }),
            StreamEvent::Usage(usage),
            StreamEvent::Finish(FinishReason::Length),
        ],
    );
}

#[test]
fn what_was_told_is_paid_where_the_end_is_spoilt() {
    let done = event(
        json!([{"text": "a"}]),
        Some("STOP"),
        json!({"promptTokenCount": 1, "candidatesTokenCount": 9}),
    );
    let (events, end) = read(&[&written(&[done]), b"data: {\r\n\r\n"]);
    assert!(end.is_err());
    let usage = Usage { prompt: 1, completion: 9, ..Usage::default() };
    assert!(events.contains(&StreamEvent::Usage(usage)), "{events:?}");
}

/// An image of a usual size is larger than any other event.
#[test]
fn a_large_picture_is_no_fault() {
    let data = "A".repeat(3 * 1024 * 1024);
    let parts = json!([{"inlineData": {"mimeType": "image/png", "data": data}}]);
    let done = event(parts, Some("STOP"), json!({"promptTokenCount": 1}));
    for (name, takes) in [("gemini-2.5-flash-image", true), ("gemini-2.5-flash", false)] {
        let mut model = crate::testing::model(domain::model::Provider::Gemini, None);
        model.config.upstream_model = Some(name.to_owned());
        let (mut reader, mut events) = (Reader::new(&model), Vec::new());
        assert_eq!(reader.feed(&written(std::slice::from_ref(&done)), &mut events).is_ok(), takes);
    }
}

/// Some models send their reason with every event.
#[test]
fn what_comes_after_a_reason_is_said_as_well() {
    let usage = json!({"promptTokenCount": 1, "candidatesTokenCount": 2});
    let call = json!([{"functionCall": {"name": "f", "args": {}}}]);
    let all = [json!([{"text": "one "}]), json!([{"text": "two"}]), call]
        .map(|parts| event(parts, Some("STOP"), usage.clone()));
    let (events, end) = read(&[&written(&all)]);
    end.unwrap();
    let said = events.iter().filter(|event| matches!(event, StreamEvent::Text(_)));
    let words = ["one ", "two"].map(|text| StreamEvent::Text(text.to_owned()));
    assert!(said.eq(&words), "{events:?}");
    assert_eq!(events.last(), Some(&StreamEvent::Finish(FinishReason::ToolCalls)));
    let ends = events.iter().filter(|event| matches!(event, StreamEvent::Finish(_)));
    assert_eq!(ends.count(), 1);
}

#[test]
fn pictures_are_passed_on() {
    let parts =
        json!([{"text": "See: "}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]);
    let done = event(parts, Some("STOP"), json!({"promptTokenCount": 1}));
    let (events, end) = read(&[&written(&[done])]);
    end.unwrap();
    assert!(events.contains(&image_piece(0, "data:image/png;base64,AAAA")), "{events:?}");
}

#[test]
fn a_blocked_prompt_is_a_refusal() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"},
        "usageMetadata": {"promptTokenCount": 2}});
    let (events, end) = read(&[&written(&[blocked])]);
    end.unwrap();
    assert_eq!(
        events,
        [
            refusal_piece("The provider blocked the prompt: SAFETY: no"),
            StreamEvent::Usage(Usage { prompt: 2, ..Usage::default() }),
            StreamEvent::Finish(FinishReason::ContentFilter),
        ],
    );
}

#[test]
fn a_stream_without_an_end_is_truncated() {
    let whole = written(&answer()[..3]);
    for bytes in [&whole[..], &whole[..whole.len() - 9], b""] {
        let error = read(&[bytes]).1.unwrap_err();
        assert!(!error.retryable_here(), "{error}");
    }
    assert!(read(&[&whole]).1.unwrap_err().to_string().contains("cut off"));
    // The connection may end before the blank line comes.
    let whole = written(&answer());
    assert_eq!(read(&[&whole[..whole.len() - 4]]).0, answer_events());
}

#[test]
fn an_error_in_a_stream_ends_it() {
    for (data, says) in [
        (json!({"error": {"code": 503, "message": "overloaded"}}), "overloaded"),
        (event(json!([]), Some("MALFORMED_FUNCTION_CALL"), json!({})), "MALFORMED_FUNCTION_CALL"),
        (json!("text"), "malformed"),
    ] {
        let mut all = answer();
        all.truncate(2);
        all.push(data);
        let (events, end) = read(&[&written(&all)]);
        assert_eq!(events.len(), 4);
        let said = end.unwrap_err().to_string();
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn what_is_of_no_use_is_paid_for_as_told() {
    let used = json!({"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 4});
    let mut all = answer();
    all.truncate(2);
    all.push(event(json!([]), Some("MALFORMED_FUNCTION_CALL"), used));
    let whole = written(&all);
    // The connection may end before the blank line comes.
    for bytes in [&whole[..], &whole[..whole.len() - 4]] {
        let (events, end) = read(&[bytes]);
        let usage = Usage { prompt: 3, completion: 6, reasoning: 4, ..Usage::default() };
        assert_eq!(events.last(), Some(&StreamEvent::Usage(usage)));
        let error = end.unwrap_err();
        assert!(error.to_string().contains("MALFORMED_FUNCTION_CALL"), "{error}");
        assert!(!error.is_endpoint_fault() && error.fallback_helps());
    }
}

#[test]
fn memory_is_bounded() {
    let (mut reader, mut events) = (reader(), Vec::new());
    let call = json!({"functionCall": {"name": "f", "args": {"a": "x".repeat(900_000)}}});
    let bytes = written(&[event(json!([call]), None, json!({}))]);
    let failed = (0..60).find_map(|_| {
        events.clear();
        reader.feed(&bytes, &mut events).err()
    });
    assert!(failed.unwrap().to_string().contains("32 MiB"));
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let bytes = written(&answer());
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<_> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        let (events, end) = read(&pieces);
        prop_assert!(end.is_ok());
        prop_assert_eq!(events, answer_events());
    }

    #[test]
    fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), place in any::<prop::sample::Index>()) {
        let _ = read(&[&bytes]);
        let mut spoilt = written(&answer());
        let place = place.index(spoilt.len());
        spoilt.splice(place..place, bytes);
        let _ = read(&[&spoilt]);
    }
}
