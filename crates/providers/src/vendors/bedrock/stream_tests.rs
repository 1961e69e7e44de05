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
    // The usage is missing then, the answer is not.
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

/// Returns a stream of these frames as its caller reads it, and the error that it ends with.
async fn streamed(frames: &[Vec<u8>]) -> (Vec<StreamEvent>, Option<Error>) {
    let body = frames.concat();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\n\
        content-length: {}\r\n\r\n",
        body.len()
    );
    let bytes = [head.as_bytes(), &body].concat();
    let server = testing::Server::new(vec![testing::step(bytes, testing::After::Close)]).await;
    let mut model = testing::model(Provider::Bedrock, Some(&server.url()));
    (model.is_public, model.region) = (false, "eu-central-1".to_owned());
    let prompt = testing::prompt(json!({}));
    match testing::client().stream(testing::attempt(&model, &prompt)).await {
        Ok(stream) => crate::client::event_stream::tests::events(stream).await,
        Err(error) => (Vec::new(), Some(error)),
    }
}

#[tokio::test]
async fn a_key_that_is_echoed_in_pieces_is_masked() {
    let said = format!("You sent {0}. Do not send {0}", testing::CANARY);
    for size in [1, 3, 7, 20, 100] {
        let pieces: Vec<&str> =
            said.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
        let mut frames = Vec::new();
        for piece in &pieces {
            frames.push(delta(0, json!({"reasoningContent": {"text": piece}})));
            frames.push(delta(1, json!({"text": piece})));
        }
        frames.push(call(2, testing::CANARY, "f"));
        frames.extend(pieces.iter().map(|piece| delta(2, json!({"toolUse": {"input": piece}}))));
        frames.extend([stop("max_tokens"), metadata()]);
        let (events, error) = streamed(&frames).await;
        assert!(error.is_none(), "{error:?}");
        let shown = format!("{events:?}");
        assert!(!shown.contains("canary-key") && !shown.contains("do-not-print"), "{shown}");
        let (mut text, mut thoughts, mut arguments) = Default::default();
        for event in events {
            let add = |all: &mut String, piece: Option<&Value>| {
                all.push_str(piece.and_then(Value::as_str).unwrap_or_default());
            };
            match event {
                StreamEvent::Text(piece) => add(&mut text, Some(&piece.into())),
                StreamEvent::Native { chunk, .. } => {
                    let delta = &chunk["choices"][0]["delta"];
                    add(&mut thoughts, delta.get("reasoning_content"));
                    add(&mut arguments, delta.pointer("/tool_calls/0/function/arguments"));
                }
                _ => {}
            }
        }
        for heard in [text, thoughts, arguments] {
            assert_eq!(heard, "You sent ***. Do not send ***", "{size}");
        }
    }
}

#[tokio::test]
async fn a_key_in_an_error_of_a_stream_is_masked() {
    let exception = |name: &str| {
        let headers = [(":exception-type", name), (":message-type", "exception")];
        let said = json!({"message": format!("{} is no key", testing::CANARY)});
        frame(&headers, said.to_string().as_bytes())
    };
    for name in ["validationException", "internalServerException"] {
        for before in [vec![], vec![delta(0, json!({"text": "Hello"}))]] {
            let frames = [before, vec![exception(name)]].concat();
            let (_, error) = streamed(&frames).await;
            let shown = error.unwrap().to_string();
            assert!(shown.contains("is no key") && !shown.contains("canary-key"), "{shown}");
        }
    }
}
