use domain::usage::Usage;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(data: &[Value]) -> (Vec<StreamEvent>, Result<(), Error>) {
    let mut reader = Reader::default();
    let mut events = Vec::new();
    for data in data {
        let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
        if let Err(error) = reader.feed(format!("data: {text}\n\n").as_bytes(), &mut events) {
            return (events, Err(error));
        }
    }
    let end = reader.end(&mut events);
    (events, end)
}

fn chunk(delta: Value, reason: Value) -> Value {
    json!({
        "id": "x", "object": "chat.completion.chunk", "created": 1, "model": "gpt-real",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}],
        "usage": null, "obfuscation": "abc",
    })
}

#[test]
fn plain_chunks_become_text() {
    let (events, end) = read(&[
        json!({"choices": [], "prompt_filter_results": [{}]}),
        chunk(
            json!({"role": "assistant", "content": "", "refusal": null, "tool_calls": []}),
            json!(null),
        ),
        chunk(json!({"content": "Hel\"lo"}), json!(null)),
        chunk(json!({"content": " é🙂"}), json!(null)),
        chunk(json!({}), json!("stop")),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2,
            "prompt_tokens_details": null}}),
        json!("[DONE]"),
        json!("what follows is not read"),
    ]);
    end.unwrap();
    assert_eq!(
        events,
        [
            StreamEvent::Model("gpt-real".to_owned()),
            StreamEvent::Text("Hel\"lo".to_owned()),
            StreamEvent::Text(" é🙂".to_owned()),
            StreamEvent::Finish(FinishReason::Stop),
            StreamEvent::Usage(Usage { prompt: 3, completion: 2, ..Usage::default() }),
            StreamEvent::Done,
        ],
    );
}

#[test]
fn everything_else_is_passed_on_whole() {
    let tool = json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
        "function": {"name": "f", "arguments": "{"}}]});
    let second =
        json!({"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}]});
    let both = json!({"choices": [
        {"index": 0, "delta": {"content": "a", "reasoning_content": "hm"}},
        {"index": 1, "delta": {"content": "b"}},
    ]});
    let scored = json!({"choices": [{"index": 0, "delta": {"content": "c"},
        "logprobs": {"content": []}, "finish_reason": "stop"}]});
    let parts = chunk(json!({"content": [{"type": "text", "text": "d"}]}), json!(null));
    let all = [chunk(tool, json!(null)), second, both, parts, scored];
    let (events, end) = read(&all);
    end.unwrap();
    let native = |text: &str, chunk: &Value| StreamEvent::Native {
        text: text.to_owned(),
        chunk: chunk.as_object().unwrap().clone(),
    };
    assert_eq!(
        events,
        [
            StreamEvent::Model("gpt-real".to_owned()),
            native("", &all[0]),
            native("", &all[1]),
            native("a", &all[2]),
            native("d", &all[3]),
            native("c", &all[4]),
            StreamEvent::Finish(FinishReason::ToolCalls),
        ],
    );
}

#[test]
fn a_stream_without_an_end_is_truncated() {
    let (events, end) = read(&[chunk(json!({"content": "a"}), json!(null))]);
    assert_eq!(events.len(), 2);
    let error = end.unwrap_err();
    assert!(error.to_string().contains("cut off") && !error.retryable_here());
    assert!(read(&[]).1.is_err());

    let (events, end) = read(&[chunk(json!({"content": "a"}), json!("length"))]);
    assert_eq!(events.last(), Some(&StreamEvent::Finish(FinishReason::Length)));
    end.unwrap();
}

#[test]
fn an_error_in_a_stream_ends_it() {
    for data in [
        json!({"error": {"message": "overloaded", "code": 503}}),
        json!({"error": "overloaded"}),
        json!({"object": "error", "message": "overloaded"}),
    ] {
        let (events, end) = read(&[chunk(json!({"content": "a"}), json!(null)), data]);
        assert_eq!(events.len(), 2);
        let said = end.unwrap_err().to_string();
        assert!(said.contains("overloaded"), "{said}");
    }
    assert!(read(&[json!("{not json")]).1.unwrap_err().to_string().contains("malformed"));
}

#[test]
fn what_is_of_no_use_is_paid_for_as_told() {
    let usage = json!({"prompt_tokens": 3, "completion_tokens": 2});
    let used = StreamEvent::Usage(Usage { prompt: 3, completion: 2, ..Usage::default() });
    for chunks in [
        &[json!({"choices": [], "usage": usage}), json!("[DONE]")][..],
        &[json!({"error": {"message": "overloaded"}, "usage": usage})],
    ] {
        let (events, end) = read(chunks);
        assert_eq!(events, std::slice::from_ref(&used));
        end.unwrap_err();
    }
}

#[test]
fn half_a_character_spoils_no_stream() {
    let half = chunk(json!({"content": "HALF"}), json!(null)).to_string();
    let (events, end) = read(&[
        half.replace("HALF", "a\\ud83d").into(),
        half.replace("HALF", "\\ude42").into(),
        chunk(json!({}), json!("stop")),
    ]);
    end.unwrap();
    let said = events.iter().filter_map(|event| match event {
        StreamEvent::Native { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(said.collect::<Vec<_>>(), ["a\u{fffd}", "\u{fffd}"]);
}

#[test]
fn the_last_event_needs_no_blank_line() {
    let mut reader = Reader::default();
    let mut events = Vec::new();
    let end = format!("data: {}\n\n", chunk(json!({}), json!("stop")));
    reader.feed(end.as_bytes(), &mut events).unwrap();
    events.clear();
    reader.feed(b"data: [DO", &mut events).unwrap();
    reader.feed(b"NE]", &mut events).unwrap();
    reader.end(&mut events).unwrap();
    assert_eq!(events, [StreamEvent::Done]);
    assert!(reader.is_done());
}

#[test]
fn a_choice_that_has_not_ended_is_cut_off_whatever_the_last_words() {
    let of = |index: u64, delta: Value, reason: Value| json!({"choices": [{"index": index, "delta": delta, "finish_reason": reason}]});
    let half = of(0, json!({"content": "Half"}), json!(null));
    let whole = of(0, json!({}), json!("stop"));
    let other = of(1, json!({"content": "Half"}), json!(null));
    // Filters report their findings afterwards.
    let remark = json!({"choices": [{"index": 0, "finish_reason": null, "delta": {},
        "content_filter_results": {}}]});
    for (chunks, ends) in [
        (vec![], false),
        (vec![half.clone()], false),
        (vec![half.clone(), whole.clone()], true),
        (vec![half.clone(), whole.clone(), remark.clone()], true),
        (vec![half.clone(), other.clone(), whole.clone()], false),
        (vec![half, other, whole, of(1, json!({}), json!("length"))], true),
    ] {
        let (_, end) = read(&[&chunks[..], &[json!("[DONE]")]].concat());
        assert_eq!(end.is_ok(), ends, "{chunks:?}");
    }
}

#[test]
fn reasons_of_other_choices_are_told_in_the_words_of_the_format() {
    let end = |reason: &str| {
        json!({"choices": [{"index": 1, "delta": {"content": "b"},
        "finish_reason": reason}]})
    };
    let (events, _) = read(&[end("model_length")]);
    let chunk = end("length").as_object().unwrap().clone();
    assert_eq!(events, [StreamEvent::Native { text: String::new(), chunk }]);
}

#[test]
fn a_refusal_is_none_of_the_models_words() {
    let pieces = [json!({"refusal": "I can"}), json!({"refusal": "not."})];
    let mut chunks: Vec<Value> =
        pieces.into_iter().map(|piece| chunk(piece, json!(null))).collect();
    chunks.push(chunk(json!({}), json!("stop")));
    let (events, end) = read(&chunks);
    end.unwrap();
    assert!(events.contains(&StreamEvent::Finish(FinishReason::Refusal)));
}

#[test]
fn a_call_without_arguments_has_none() {
    let call = |more: Value| json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": more}]});
    for (begin, more) in [
        (json!({"name": "now"}), None),
        (json!({"name": "now", "arguments": ""}), Some(json!({"arguments": ""}))),
        (json!({"name": "now", "arguments": ""}), Some(json!({"arguments": "{}"}))),
    ] {
        let mut chunks = vec![chunk(call(begin.clone()), json!(null))];
        chunks.extend(more.map(|more| chunk(call(more), json!(null))));
        chunks.push(chunk(json!({}), json!("tool_calls")));
        let (events, end) = read(&chunks);
        end.unwrap();
        let arguments: String = events
            .iter()
            .filter_map(|event| match event {
                StreamEvent::Native { chunk, .. } => Some(chunk),
                _ => None,
            })
            .flat_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array().unwrap())
            .map(|call| call["function"]["arguments"].as_str().unwrap())
            .collect();
        assert_eq!(arguments, "{}", "{begin}");
        assert!(events.contains(&StreamEvent::Finish(FinishReason::ToolCalls)));
    }
}

#[test]
fn a_call_that_was_cut_off_is_not_completed() {
    let call = json!({"tool_calls": [{"index": 0, "id": "a", "type": "function",
        "function": {"name": "now", "arguments": ""}}]});
    // Some servers write out every member.
    let nulls = json!({"content": null, "tool_calls": null});
    for (delta, reason, completes) in [
        (nulls.clone(), "tool_calls", true),
        (json!(null), "stop", true),
        (nulls, "length", false),
        (json!({}), "content_filter", false),
    ] {
        let (events, end) = read(&[chunk(call.clone(), json!(null)), chunk(delta, json!(reason))]);
        end.unwrap();
        assert_eq!(format!("{events:?}").contains(r#"String("{}")"#), completes, "{reason}");
    }
}

/// A stream with everything in it.
fn whole() -> Vec<u8> {
    let tool = |index: u64, more: Value| {
        json!({"tool_calls": [{"index": index, "id": "c",
        "type": "function", "function": more}]})
    };
    let data = [
        chunk(json!({"role": "assistant", "content": ""}), json!(null)),
        chunk(json!({"content": "Grüße 🙂\r\n"}), json!(null)),
        chunk(json!({"reasoning_content": "hm"}), json!(null)),
        chunk(tool(0, json!({"name": "f", "arguments": "{\"a\""})), json!(null)),
        chunk(tool(1, json!({"name": "g", "arguments": ":1}"})), json!(null)),
        chunk(json!({}), json!("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}),
    ];
    let mut events: Vec<String> = data.iter().map(Value::to_string).collect();
    events.push("[DONE]\n\n".to_owned());
    format!("data: {}", events.join("\n\ndata: ")).into_bytes()
}

fn fed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<StreamEvent> {
    let mut reader = Reader::default();
    let mut events = Vec::new();
    let fine = pieces.into_iter().try_for_each(|piece| reader.feed(piece, &mut events));
    let _ = fine.and_then(|()| reader.end(&mut events));
    events
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let bytes = whole();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let all = fed([&*bytes]);
        prop_assert_eq!(all.last(), Some(&StreamEvent::Done));
        prop_assert_eq!(&fed(at.windows(2).map(|cut| &bytes[cut[0]..cut[1]])), &all);
        prop_assert_eq!(&fed(bytes.chunks(1)), &all);
    }

    #[test]
    fn nothing_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = whole();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.extend(noise);
        fed([&*bytes]);
    }
}
