use domain::model::Provider;
use domain::step::FinishReason;
use domain::usage::{Open, Usage};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::chat_form::answer::state;
use crate::testing::model;

/// A stream as the documentation shows it: the name of the event, then its data.
fn bytes(events: &[Value]) -> Vec<u8> {
    let text = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"]);
    events.iter().map(text).collect::<String>().into_bytes()
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<StreamEvent>, Result<(), Error>) {
    let mut reader = Reader::new(&model(Provider::Anthropic, None));
    let mut events = Vec::new();
    for piece in pieces {
        if let Err(error) = reader.feed(piece, &mut events) {
            return (events, Err(error));
        }
    }
    let end = reader.end(&mut events);
    assert_eq!(end.is_ok(), reader.is_done());
    (events, end)
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
        "role": "assistant", "model": "claude-real", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": 25, "output_tokens": 1,
            "cache_read_input_tokens": 4, "cache_creation_input_tokens": null}}})
}

fn block(index: usize, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: usize, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "usage": {"output_tokens": 15, "input_tokens": null},
            "delta": {"stop_reason": reason, "stop_sequence": null}}),
        json!({"type": "message_stop"}),
    ]
}

fn text_stream() -> Vec<Value> {
    let mut all = vec![
        start(),
        block(0, json!({"type": "text", "text": ""})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "text_delta", "text": "Hel\"lo"})),
        delta(0, json!({"type": "text_delta", "text": " é🙂"})),
        stop(0),
    ];
    all.extend(end("end_turn"));
    all
}

/// Thinking, then two calls: one without arguments, as an empty piece.
fn tool_stream() -> Vec<Value> {
    let tool =
        |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let json_delta = |index, piece: &str| {
        delta(index, json!({"type": "input_json_delta", "partial_json": piece}))
    };
    let mut all = vec![
        json!({"type": "ping"}),
        start(),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Let me"})),
        delta(0, json!({"type": "thinking_delta", "thinking": " see."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        stop(0),
        block(1, json!({"type": "text", "text": ""})),
        stop(1),
        block(2, tool("toolu_1", "f")),
        json_delta(2, ""),
        json_delta(2, "{\"city\": \"R"),
        json!({"type": "of_tomorrow", "index": 2}),
        json_delta(2, "ome\"}"),
        stop(2),
        block(3, tool("toolu_2", "g")),
        json_delta(3, ""),
        stop(3),
    ];
    all.extend(end("tool_use"));
    all
}

const USAGE: Usage = Usage {
    prompt: 29,
    cached: 4,
    cache_write: 0,
    cache_write_1h: 0,
    completion: 15,
    reasoning: 0,
    extras: domain::fees::Extras::NONE,
    open: Open { prompt: false, completion: false, detail: false, cache_write: 0 },
};

#[test]
fn text_comes_in_pieces() {
    let (events, ended) = read([&*bytes(&text_stream()), &b"what follows is not read"[..]]);
    ended.unwrap();
    assert_eq!(
        events,
        [
            StreamEvent::Prompt(Usage { completion: 1, ..USAGE }),
            StreamEvent::Model("claude-real".to_owned()),
            StreamEvent::Text("Hel\"lo".to_owned()),
            StreamEvent::Text(" é🙂".to_owned()),
            StreamEvent::Finish(FinishReason::Stop),
            StreamEvent::Usage(USAGE),
            StreamEvent::Done,
        ],
    );
}

#[test]
fn half_a_character_spoils_no_stream() {
    let bytes = bytes(&text_stream());
    let spoilt = String::from_utf8(bytes).unwrap().replace("🙂", "\\ud83d");
    let (events, ended) = read([spoilt.as_bytes()]);
    ended.unwrap();
    assert_eq!(events[3], StreamEvent::Text(" é\u{fffd}".to_owned()));
}

#[test]
fn thoughts_and_calls_come_in_pieces() {
    let (events, ended) = read([&*bytes(&tool_stream())]);
    ended.unwrap();
    let content = json!([
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"city": "Rome"}},
        {"type": "tool_use", "id": "toolu_2", "name": "g", "input": {}},
    ]);
    assert_eq!(
        events,
        [
            StreamEvent::Prompt(Usage { completion: 1, ..USAGE }),
            StreamEvent::Model("claude-real".to_owned()),
            reasoning_piece("Let me"),
            reasoning_piece(" see."),
            call_begins(0, "toolu_1", "f"),
            arguments_piece(0, "{\"city\": \"R"),
            arguments_piece(0, "ome\"}"),
            call_begins(1, "toolu_2", "g"),
            arguments_piece(1, "{}"),
            state_piece(state(Provider::Anthropic, "gpt-test", content)),
            StreamEvent::Finish(FinishReason::ToolCalls),
            StreamEvent::Usage(USAGE),
            StreamEvent::Done,
        ],
    );
}

#[test]
fn a_call_that_was_cut_off_is_not_kept() {
    let mut all = tool_stream();
    all.retain(|event| event["delta"]["partial_json"] != "ome\"}");
    let at = all.len() - 2;
    all[at]["delta"]["stop_reason"] = json!("max_tokens");
    let (events, ended) = read([&*bytes(&all)]);
    ended.unwrap();
    assert!(events.contains(&StreamEvent::Finish(FinishReason::Length)));
    assert!(!format!("{events:?}").contains(crate::chat_form::STATE));
}

#[test]
fn a_refusal_ends_a_stream() {
    let mut all = text_stream();
    let at = all.len() - 2;
    all[at]["delta"] = json!({"stop_reason": "refusal", "stop_sequence": null, "stop_details":
        {"type": "refusal", "category": "bio", "explanation": "Not this."}});
    let (events, ended) = read([&*bytes(&all)]);
    ended.unwrap();
    let at = events.len() - 5;
    assert_eq!(
        events[at..at + 3],
        [
            stopped_piece(all[all.len() - 2]["delta"]["stop_details"].clone()),
            refusal_piece("Not this."),
            StreamEvent::Finish(FinishReason::ContentFilter),
        ],
    );
}

#[test]
fn a_stream_without_its_last_event_is_cut_off() {
    let all = text_stream();
    for count in 0..all.len() {
        let (_, ended) = read([&*bytes(&all[..count])]);
        let error = ended.unwrap_err();
        assert!(error.to_string().contains("cut off") && !error.retryable_here(), "{count}");
    }
    let without_reason: Vec<_> =
        all.iter().filter(|event| event["type"] != "message_delta").cloned().collect();
    let (_, ended) = read([&*bytes(&without_reason)]);
    assert!(ended.unwrap_err().to_string().contains("cut off"));
}

#[test]
fn an_error_in_a_stream_ends_it() {
    for (event, says) in [
        (
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            "with an error: Overloaded",
        ),
        (
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "No"}}),
            "answered 400: No",
        ),
        (json!({"type": "error"}), "malformed"),
        (json!({"error": {"message": "Gone"}}), "with an error: Gone"),
        (json!({"nothing": 1}), "malformed"),
        (json!([]), "malformed"),
        (delta(7, json!({"type": "text_delta", "text": "a"})), "has not begun"),
        (block(7, json!({"type": "text", "text": ""})), "not in order"),
        (block(1, json!({"type": "tool_use", "id": "a"})), "no id or no name"),
    ] {
        let mut all = text_stream()[..4].to_vec();
        all.push(event);
        let (events, ended) = read([&*bytes(&all)]);
        assert_eq!(events.len(), 3);
        let said = ended.unwrap_err().to_string();
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn memory_is_bounded() {
    let piece = delta(0, json!({"type": "thinking_delta", "thinking": "x".repeat(100_000)}));
    let mut all = vec![start(), block(0, json!({"type": "thinking", "thinking": ""}))];
    all.extend(vec![piece; 50]);
    assert!(read([&*bytes(&all)]).1.unwrap_err().to_string().contains("longer than 4 MiB"));
    let mut all = vec![start()];
    all.extend((0..=MOST_BLOCKS).map(|index| block(index, json!({"type": "text"}))));
    assert!(read([&*bytes(&all)]).1.unwrap_err().to_string().contains("not in order"));
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        tools in any::<bool>(),
    ) {
        let bytes = bytes(&if tools { tool_stream() } else { text_stream() });
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let whole = read([&*bytes]).0;
        prop_assert_eq!(&read(at.windows(2).map(|cut| &bytes[cut[0]..cut[1]])).0, &whole);
        prop_assert_eq!(&read(bytes.chunks(1)).0, &whole);
    }

    #[test]
    fn nothing_makes_it_panic(
        picks in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..12),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        // Real events in any order, with some bytes changed, then noise.
        let all = tool_stream();
        let mut input = Vec::new();
        for (pick, place, byte) in picks {
            let mut event = bytes(&[pick.get(&all).clone()]);
            if byte > 200 {
                let place = place.index(event.len());
                event[place] = byte;
            }
            input.extend(event);
        }
        input.extend(noise);
        let _ = read([&*input]);
    }
}

#[test]
fn a_message_starts_once() {
    let mut all = vec![start(); 5_000];
    all.extend(text_stream().into_iter().skip(1));
    let (events, end) = read([bytes(&all).as_slice()]);
    end.unwrap();
    let (once, _) = read([bytes(&text_stream()).as_slice()]);
    assert_eq!(events, once);
}

#[test]
fn events_out_of_proportion_are_refused() {
    let dense = |values: usize| Value::Array(vec![json!([]); values]);
    let tool = |value: Value| json!({"type": "tool_use", "id": "a", "name": "b", "input": value});
    let (_, end) = read([bytes(&[start(), block(0, tool(dense(340_000)))]).as_slice()]);
    assert!(end.unwrap_err().to_string().contains("too many values"));
    // Each is small enough, all of them are not.
    let mut all = vec![start()];
    all.extend((0..100).map(|index| block(index, tool(dense(5_000)))));
    let (_, end) = read([bytes(&all).as_slice()]);
    assert!(end.unwrap_err().to_string().contains("too many values"));
    let reserved = json!({"$serde_json::private::RawValue": "[[],[]]"});
    let (_, end) = read([bytes(&[start(), block(0, tool(reserved))]).as_slice()]);
    assert!(end.unwrap_err().to_string().contains("reserved"));
}
