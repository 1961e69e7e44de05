use domain::model::Provider;
use domain::usage::Usage;
use proptest::prelude::*;

use super::super::frames::tests::frame;
use super::*;
use crate::error::ErrorKind;
use crate::testing;

fn event(name: &str, payload: Value) -> Vec<u8> {
    let headers =
        [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    // Real payloads carry padding.
    let mut padded = payload;
    padded["p"] = "abcdefgh".into();
    frame(&headers, padded.to_string().as_bytes())
}

fn delta(index: u64, delta: Value) -> Vec<u8> {
    event("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta}))
}

fn call(index: u64, id: &str, name: &str) -> Vec<u8> {
    let start = json!({"toolUse": {"toolUseId": id, "name": name}});
    event("contentBlockStart", json!({"contentBlockIndex": index, "start": start}))
}

fn block_stop(index: u64) -> Vec<u8> {
    event("contentBlockStop", json!({"contentBlockIndex": index}))
}

fn stop(reason: &str) -> Vec<u8> {
    event("messageStop", json!({"stopReason": reason}))
}

fn metadata() -> Vec<u8> {
    let usage =
        json!({"inputTokens": 9, "outputTokens": 4, "totalTokens": 15, "cacheReadInputTokens": 2});
    event("metadata", json!({"usage": usage, "metrics": {"latencyMs": 1}}))
}

fn used() -> StreamEvent {
    StreamEvent::Usage(Usage { prompt: 11, cached: 2, completion: 4, ..Usage::default() })
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<StreamEvent>, Result<bool, Error>) {
    let mut reader = Reader::new(&testing::model(Provider::Bedrock, None));
    let mut events = Vec::new();
    for piece in pieces {
        if let Err(error) = reader.feed(piece, &mut events) {
            return (events, Err(error));
        }
    }
    let end = reader.end(&mut events);
    (events, end.map(|()| reader.is_done()))
}

fn read_frames(frames: &[Vec<u8>]) -> (Vec<StreamEvent>, Result<bool, Error>) {
    read(frames.iter().map(Vec::as_slice))
}

fn text(text: &str) -> StreamEvent {
    StreamEvent::Text(text.to_owned())
}

#[test]
fn text_becomes_text() {
    let frames = [
        event("messageStart", json!({"role": "assistant"})),
        delta(0, json!({"text": "Hel"})),
        delta(0, json!({"text": "lo é🙂"})),
        delta(0, json!({"text": ""})),
        block_stop(0),
        event("somethingNew", json!({"x": 1})),
        delta(1, json!({"citation": {"title": "t"}})),
        stop("end_turn"),
        metadata(),
    ];
    let (events, end) = read_frames(&frames);
    assert!(end.unwrap());
    let whole = [
        text("Hel"),
        text("lo é🙂"),
        StreamEvent::Finish(FinishReason::Stop),
        used(),
        StreamEvent::Done,
    ];
    assert_eq!(events, whole);
}

#[test]
fn calls_and_thoughts_come_in_pieces_and_as_a_whole_before_the_end() {
    let frames = [
        event("messageStart", json!({"role": "assistant"})),
        delta(0, json!({"reasoningContent": {"text": "h"}})),
        delta(0, json!({"reasoningContent": {"text": "m"}})),
        delta(0, json!({"reasoningContent": {"signature": "si"}})),
        delta(0, json!({"reasoningContent": {"signature": "g"}})),
        block_stop(0),
        delta(1, json!({"reasoningContent": {"redactedContent": "AAEC"}})),
        delta(2, json!({"text": "Wait."})),
        call(3, "t1", "weather"),
        delta(3, json!({"toolUse": {"input": "{\"ci"}})),
        delta(3, json!({"toolUse": {"input": "ty\":1}"}})),
        call(4, "t2", "time"),
        delta(4, json!({"toolUse": {"input": ""}})),
        stop("tool_use"),
        metadata(),
    ];
    let (events, end) = read_frames(&frames);
    assert!(end.unwrap());
    let content = json!([
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "AAEC"}},
        {"text": "Wait."},
        {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": 1}}},
        {"toolUse": {"toolUseId": "t2", "name": "time", "input": {}}},
    ]);
    let expected = [
        reasoning_piece("h"),
        reasoning_piece("m"),
        text("Wait."),
        call_begins(0, "t1", "weather"),
        arguments_piece(0, "{\"ci"),
        arguments_piece(0, "ty\":1}"),
        call_begins(1, "t2", "time"),
        arguments_piece(1, "{}"),
        state_piece(json!({"provider": "bedrock", "model": "gpt-test", "content": content})),
        StreamEvent::Finish(FinishReason::ToolCalls),
        used(),
        StreamEvent::Done,
    ];
    assert_eq!(events, expected);
}

#[test]
fn half_a_call_is_not_sent_back() {
    let thought = delta(0, json!({"reasoningContent": {"text": "hm", "signature": "s"}}));
    let half = delta(1, json!({"toolUse": {"input": "{\"ci"}}));
    let frames = [thought, call(1, "t1", "f"), half, stop("max_tokens"), metadata()];
    let (events, _) = read_frames(&frames);
    assert_eq!(events[3], StreamEvent::Finish(FinishReason::Length));
}

#[test]
fn a_stream_without_an_end_is_cut_off() {
    for frames in [&[][..], &[delta(0, json!({"text": "a"}))], &[metadata()]] {
        let error = read_frames(frames).1.unwrap_err();
        assert!(error.to_string().contains("cut off") && !error.retryable_here());
    }
    let whole = delta(0, json!({"text": "a"}));
    let error = read([&whole[..], &whole[..20]]).1.unwrap_err();
    assert!(error.to_string().contains("cut off"));
    // What was used is missing then, the answer is not.
    let (events, end) = read_frames(&[delta(0, json!({"text": "a"})), stop("max_tokens")]);
    assert!(!end.unwrap());
    assert_eq!(events, [text("a"), StreamEvent::Finish(FinishReason::Length)]);
}

#[test]
fn errors_in_a_stream_end_it() {
    let exception = [(":exception-type", "throttlingException"), (":message-type", "exception")];
    let error = [
        (":error-code", "InternalError"),
        (":error-message", "an inner error"),
        (":message-type", "error"),
    ];
    for (last, says) in [
        (frame(&exception, br#"{"message":"too many"}"#), "throttlingException: too many"),
        (frame(&exception, b"no json"), "throttlingException"),
        (frame(&error, b""), "InternalError: an inner error"),
        (event("contentBlockDelta", json!({"delta": 1})), "contentBlockDelta event is unreadable"),
        (call(1, "", "f"), "no id"),
        (b"HTTP/1.1 200 OK".to_vec(), "checksum"),
    ] {
        let (events, end) = read_frames(&[delta(0, json!({"text": "a"})), last]);
        assert_eq!(events, [text("a")]);
        let error = end.unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.is_endpoint_fault());
    }
}

#[test]
fn a_request_that_cannot_be_is_refused() {
    let exception = [(":exception-type", "validationException"), (":message-type", "exception")];
    let (_, end) = read_frames(&[frame(&exception, br#"{"message":"too long"}"#)]);
    let error = end.unwrap_err();
    let message = "validationException: too long".to_owned();
    assert_eq!(error.kind, ErrorKind::Rejected { status: 400, message });
    assert!(!error.fallback_helps() && error.provider_status() == Some(400));
}

#[test]
fn what_is_of_no_use_is_paid_for_as_told() {
    for word in ["malformed_tool_use", "malformed_model_output"] {
        for (frames, told) in [
            (vec![stop(word)], None),
            (vec![stop(word), metadata()], Some(used())),
            (vec![metadata(), stop(word)], Some(used())),
        ] {
            let (events, end) =
                read_frames(&[vec![delta(0, json!({"text": "a"}))], frames].concat());
            assert_eq!(events, [text("a")].into_iter().chain(told).collect::<Vec<_>>());
            let error = end.unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
            assert!(!error.is_endpoint_fault() && error.fallback_helps());
        }
    }
}

#[test]
fn memory_is_bounded() {
    let many = (0..).map(|index| delta(index, json!({"text": "a"}))).take(MOST_BLOCKS + 1);
    let error = read_frames(&many.collect::<Vec<_>>()).1.unwrap_err();
    assert!(error.to_string().contains("too many blocks"));
    let long = delta(0, json!({"text": "a".repeat(1_000_000)}));
    let error = read(std::iter::repeat_n(&long[..], 9)).1.unwrap_err();
    assert!(error.to_string().contains("longer than 8 MiB"));
}

proptest! {
    #[test]
    fn bytes_may_be_split_anywhere(cuts in prop::collection::vec(1_usize..200, 0..40)) {
        let frames = [
            delta(0, json!({"reasoningContent": {"text": "hm"}})),
            delta(1, json!({"text": "é🙂"})),
            call(2, "t1", "f"),
            delta(2, json!({"toolUse": {"input": "{}"}})),
            stop("tool_use"),
            metadata(),
        ];
        let bytes = frames.concat();
        let mut rest = &bytes[..];
        let mut pieces = Vec::new();
        for cut in cuts {
            let (piece, more) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        pieces.push(rest);
        let (events, end) = read(pieces);
        prop_assert!(end.unwrap());
        prop_assert_eq!(events, read_frames(&frames).0);
    }

    #[test]
    fn random_payloads_never_panic(
        name in prop::sample::select(vec!["contentBlockStart", "contentBlockDelta", "messageStop", "metadata"]),
        payload in any::<Vec<u8>>(),
    ) {
        let headers = [(":event-type", name), (":message-type", "event")];
        let _ = read_frames(&[frame(&headers, &payload)]);
    }
}
