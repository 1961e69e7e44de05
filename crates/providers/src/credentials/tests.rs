use domain::conversation::StreamEvent;
use domain::step::FinishReason;
use domain::usage::Usage;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::credentials::stream::{MOST_WITHHELD_BYTES, MOST_WITHHELD_STRINGS, StreamFilter};
use crate::error::ErrorKind;

const KEY: &str = "sk-test-9fA3/zQ+71bX";

fn key(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn credentials() -> Credentials {
    Credentials::of(Some(&key(KEY))).unwrap()
}

#[test]
fn an_echo_is_found_however_it_is_written() {
    for (text, clean) in [
        ("your key is sk-test-9fA3/zQ+71bX!", "your key is ***!"),
        ("sk-test-9fA3/zQ+71bXsk-test-9fA3/zQ+71bX", "******"),
        (r#"{"key":"sk-test-9fA3\/zQ+71bX"}"#, r#"{"key":"***"}"#),
        ("https://x/?key=sk-test-9fA3%2FzQ%2B71bX&a", "https://x/?key=***&a"),
        ("https://x/?key=sk-test-9fA3%2fzQ%2b71bX&a", "https://x/?key=***&a"),
        ("it ends in sk-test-9fA3/z", "it ends in ***"),
        ("it ends in sk-test-", "it ends in sk-test-"),
        (
            "it goes on after sk-test-9fA3/z, unlike a key",
            "it goes on after sk-test-9fA3/z, unlike a key",
        ),
        ("nothing", "nothing"),
        ("", ""),
    ] {
        let mut cleaned = text.to_owned();
        assert_eq!(credentials().clean(&mut cleaned), cleaned != text);
        assert_eq!(cleaned, clean);
    }
    for short in ["", "  ", "short", "1234567"] {
        assert!(Credentials::of(Some(&key(short))).is_none(), "{short}");
    }
    assert!(Credentials::of(None).is_none());
}

#[test]
fn every_part_of_a_compound_key_counts() {
    let aws = "AKIAABCDEFGHIJKLMNOP:wJalrXUtnFEMI/K7MDENG:IQoJb3JpZ2luX2VjEA==";
    let credentials = Credentials::of(Some(&key(aws))).unwrap();
    for part in parts(aws).skip(1) {
        let mut text = format!("Credential={part}/20261123");
        credentials.clean(&mut text);
        assert_eq!(text, "Credential=***/20261123");
    }
    let basic = STANDARD.encode(aws);
    let mut text = format!("Authorization: Basic {basic}");
    credentials.clean(&mut text);
    assert!(text.starts_with("Authorization: Basic ***"), "{text}");
}

#[test]
fn no_string_of_a_whole_answer_is_left_out() {
    let native = json!({"id": KEY, "model": format!("m-{KEY}"), "system_fingerprint": KEY, KEY: 1,
        "usage": {"note": [KEY]}, "choices": [
        {"index": 0, "finish_reason": KEY, "logprobs": {"content": [{"token": "sk"}]}, "message": {
            "content": [{"type": "text", "text": &KEY[..5]}, {"type": "text", "text": &KEY[5..]}],
            "refusal": KEY, "reasoning_content": KEY, "annotations": [{KEY: {"url": KEY}}],
            "tool_calls": [{"id": KEY, "function": {"name": KEY,
                "arguments": json!({"a": KEY, KEY: 1}).to_string()}}]}}]});
    let Value::Object(native) = native else { unreachable!() };
    let mut reply = Reply {
        text: format!("say {KEY}"),
        upstream_model: Some(KEY.to_owned()),
        native: Some(native),
        ..Reply::default()
    };
    credentials().clean_reply(&mut reply);
    let shown = format!("{reply:?}");
    assert!(!shown.contains("9fA3"), "{shown}");
    assert_eq!((reply.text.as_str(), reply.upstream_model.as_deref()), ("say ***", Some("***")));
    assert!(!shown.contains("logprobs"), "its tokens say it again");
}

#[test]
fn an_ordinary_answer_is_left_as_it_is() {
    let native = json!({"id": "chatcmpl-s", "choices": [{"index": 0, "finish_reason": "stop",
        "logprobs": {"content": [{"token": "s"}]}, "message": {"content": "It is s"}}]});
    let Value::Object(native) = native else { unreachable!() };
    let reply = Reply { text: "It is s".into(), native: Some(native), ..Reply::default() };
    let mut cleaned = reply.clone();
    credentials().clean_reply(&mut cleaned);
    assert_eq!(format!("{cleaned:?}"), format!("{reply:?}"));
}

fn text(text: &str) -> StreamEvent {
    StreamEvent::Text(text.to_owned())
}

fn native(delta: Value) -> StreamEvent {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    let Value::Object(chunk) = chunk else { unreachable!() };
    let text = chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
    StreamEvent::Native { text, chunk }
}

/// The events that the reader of a stream of these events receives, event by event.
fn passed(events: Vec<StreamEvent>) -> Vec<StreamEvent> {
    let key = key(KEY);
    let mut filter = StreamFilter::new(Some(&key));
    let mut all = Vec::new();
    for event in events {
        let known = all.len();
        all.push(event);
        filter.pass(&mut all, known).unwrap();
    }
    filter.end(&mut all);
    all
}

/// The strings at a path of the deltas, one after the other, and the texts.
fn joined(events: &[StreamEvent], place: &str) -> (String, String) {
    let (mut texts, mut strings) = (String::new(), String::new());
    for event in events {
        match event {
            StreamEvent::Text(text) => texts.push_str(text),
            StreamEvent::Native { text, chunk } => {
                texts.push_str(text);
                for choice in chunk["choices"].as_array().unwrap() {
                    strings.push_str(
                        choice["delta"].pointer(place).and_then(Value::as_str).unwrap_or(""),
                    );
                }
            }
            _ => {}
        }
    }
    (texts, strings)
}

#[test]
fn an_ordinary_stream_is_not_held_up() {
    let events = vec![
        text("Hello"),
        native(json!({"reasoning_content": "hm"})),
        native(json!({"tool_calls": [{"index": 0, "id": "calls", "function": {"name": "s"}}]})),
        StreamEvent::Finish(FinishReason::Stop),
    ];
    assert_eq!(passed(events.clone()), events);
    let waits = passed(vec![text("It is"), text(" so."), StreamEvent::Done]);
    assert_eq!(waits, [text("It i"), text("s so."), StreamEvent::Done], "only its end waits");
    let ends = passed(vec![text("It is"), StreamEvent::Finish(FinishReason::Stop)]);
    assert_eq!(ends, [text("It i"), text("s"), StreamEvent::Finish(FinishReason::Stop)]);
}

#[test]
fn a_stream_that_breaks_off_shows_no_more_than_the_beginning_of_a_key() {
    let cut = passed(vec![text("Key: sk-test-9f"), text("A3/zQ+71b")]);
    assert_eq!(joined(&cut, ""), ("Key: ***".to_owned(), String::new()));
}

/// A text cut at these indices, of which some may coincide.
fn cut(text: &str, cuts: &[prop::sample::Index]) -> Vec<String> {
    let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|cut| text[cut[0]..cut[1]].to_owned()).collect()
}

/// The choices of a chunk.
fn chunk(choices: Value) -> StreamEvent {
    let chunk = Map::from_iter([("choices".to_owned(), choices)]);
    StreamEvent::Native { text: String::new(), chunk }
}

#[test]
fn a_key_cut_before_the_chunk_that_ends_is_found() {
    let call =
        |piece: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]});
    let parts = |pieces: &[&str]| {
        let part = |piece| json!({"type": "text", "text": piece});
        json!({"content": pieces.iter().map(part).collect::<Vec<_>>()})
    };
    for (first, last) in [
        (call(&KEY[..9]), call(&KEY[9..])),
        (json!({"reasoning_content": &KEY[..9]}), json!({"reasoning_content": &KEY[9..]})),
        (json!({"refusal": &KEY[..9]}), json!({"refusal": &KEY[9..]})),
        (json!({"content": &KEY[..9]}), json!({"content": &KEY[9..], KEY: 1})),
        (parts(&[&KEY[..3]]), parts(&[&KEY[3..9], &KEY[9..]])),
        (json!({}), parts(&[&KEY[..9], &KEY[9..]])),
    ] {
        for index in [0, 1] {
            let passed = passed(vec![
                chunk(json!([{"index": index, "delta": first, "finish_reason": null}])),
                chunk(json!([{"index": index, "delta": last, "finish_reason": "stop"}])),
                StreamEvent::Done,
            ]);
            let shown = format!("{passed:?}");
            assert!(!shown.contains("9fA3") && !shown.contains("71bX"), "{shown}");
            assert!(shown.contains("***"), "{shown}");
            assert_eq!(passed.len(), 3, "the rest comes with the end: {shown}");
        }
    }
}

#[test]
fn the_end_of_one_choice_is_not_that_of_others() {
    for member in ["content", "refusal"] {
        let piece = |index: u64, piece: &str, reason: Value| {
            chunk(json!([{"index": index, "delta": {member: piece}, "finish_reason": reason}]))
        };
        let passed = passed(vec![
            piece(1, &KEY[..9], json!(null)),
            piece(0, "It is", json!("stop")),
            StreamEvent::Finish(FinishReason::Stop),
            piece(1, &KEY[9..], json!(null)),
            piece(1, " It is", json!("stop")),
            StreamEvent::Done,
        ]);
        let strings = joined(&passed, &format!("/{member}")).1;
        assert_eq!(strings, "It is*** It is");
    }
}

#[test]
fn strings_that_come_whole_do_not_wait() {
    let note = |url: &str| json!([{"type": "url_citation", "url_citation": {"url": url}}]);
    let first = json!({"annotations": note("https://a.example/docs"), "channel": "analysis",
        "status": "in progress", "citations": ["https://b.example/sk"], "STATUS": {"content": "s"},
        "tool_calls": [{"index": 0, "id": "calls", "function": {"name": "guess", "arguments": {"a": "s"}}}],
        "reasoning_details": [{"type": "reasoning.text", "format": "sk", "signature": "c2s"}],
        "audio": {"id": "audios", "data": "c2s"}, "content": [{"type": "texts", "text": "a"}]});
    let second = json!({"annotations": note("https://c.example"), "channel": "final",
        "status": "done", "citations": ["https://d.example"]});
    let events = vec![native(first), native(second), StreamEvent::Done];
    let expected: Vec<_> = events.iter().map(|event| format!("{event:?}")).collect();
    let passed: Vec<_> = passed(events)
        .iter()
        .map(|event| format!("{event:?}").replace("text: \"a\"", "text: \"\""))
        .collect();
    assert_eq!(passed, expected);
    let told = json!({"annotations": note(&format!("https://a.example/?key={KEY}"))});
    let shown = format!("{:?}", super::tests::passed(vec![native(told)]));
    assert!(shown.contains("https://a.example/?key=***"), "{shown}");
}

/// A delta with a piece of a string at a path, in which numbers are items of lists.
fn delta_at(place: &str, piece: &str) -> Value {
    place.rsplit('/').filter(|name| !name.is_empty()).fold(json!(piece), |inner, name| {
        if name == "0" { json!([inner]) } else { json!({name: inner}) }
    })
}

#[test]
fn every_string_that_goes_on_is_put_together() {
    for place in [
        "/content",
        "/content/0/text",
        "/content/0/thinking/0/text",
        "/refusal",
        "/reasoning",
        "/reasoning_content",
        "/reasoning_text",
        "/reasoning/content",
        "/reasoning_details/0/text",
        "/reasoning_details/0/summary",
        "/thinking",
        "/thinking_blocks/0/thinking",
        "/tool_calls/0/function/arguments",
        "/tool_calls/0/custom/input",
        "/function_call/arguments",
        "/audio/transcript",
    ] {
        let pieces = [&KEY[..3], &KEY[3..9], "", &KEY[9..]];
        let mut events: Vec<_> =
            pieces.iter().map(|piece| native(delta_at(place, piece))).collect();
        events.push(native(delta_at(place, " and s")));
        let (texts, strings) = joined(&passed(events), place);
        let said = if place.starts_with("/content") && !place.contains("thinking") {
            texts
        } else {
            strings
        };
        assert_eq!(said, "*** and s", "{place}");
    }
}

#[test]
fn a_name_of_a_model_with_most_of_a_key_is_masked() {
    let model = |name: &str| StreamEvent::Model(name.to_owned());
    for (name, clean) in [
        (KEY, "***"),
        (&KEY[..KEY.len() - 1], "***"),
        (&format!("m-{}", &KEY[..KEY.len() / 2]), "m-***"),
        ("gpt-s", "gpt-s"),
        ("m-sk-test", "m-sk-test"),
    ] {
        assert_eq!(passed(vec![model(name)]), [model(clean)]);
    }
}

#[test]
fn log_probabilities_do_not_repeat_what_was_masked() {
    let told = |place: &str, piece: &str| {
        let delta = delta_at(place, piece);
        let logprobs = json!({"content": [{"token": piece}], "refusal": null});
        chunk(json!([{"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": null}]))
    };
    for place in [
        "/content",
        "/refusal",
        "/reasoning_content",
        "/reasoning_details/0/text",
        "/tool_calls/0/function/arguments",
        "/channel",
    ] {
        let shown = format!("{:?}", passed(vec![told(place, &format!("It is {KEY}"))]));
        assert!(!shown.contains("logprobs"), "{place}: {shown}");
        let shown = format!("{:?}", passed(vec![told(place, "It is"), told(place, " so.")]));
        assert_eq!(shown.matches("logprobs").count(), 2, "{place}: {shown}");
    }
    let shown =
        format!("{:?}", passed(vec![told("/refusal", &KEY[..9]), told("/refusal", &KEY[9..])]));
    assert!(!shown.contains("logprobs"), "{shown}");
}

#[test]
fn a_count_does_not_overtake_the_words_it_is_of() {
    let used = |completion| StreamEvent::Usage(Usage { completion, ..Usage::of_prompt(3) });
    let end = StreamEvent::Finish(FinishReason::Stop);
    let state = native(json!({"provider_state": {"provider": "gemini"}}));
    let thought = |text: &str| native(json!({"reasoning_content": text}));
    for (events, expected) in [
        // Usage as Gemini reports it, and servers that report it with the last text.
        (
            vec![text("It is"), used(4), state.clone(), end.clone()],
            vec![text("It i"), state, text("s"), used(4), end.clone()],
        ),
        (vec![text("It is"), used(4)], vec![text("It i"), text("s"), used(4)]),
        (
            vec![text("It is"), used(4), used(5), end.clone(), StreamEvent::Done],
            vec![text("It i"), text("s"), used(5), end.clone(), StreamEvent::Done],
        ),
        // More text came after the usage.
        (
            vec![text("It is"), used(4), text(" so"), used(5)],
            vec![text("It i"), used(4), text("s so"), used(5)],
        ),
        (
            vec![text("It is"), used(4), thought("hm"), end.clone()],
            vec![text("It i"), used(4), thought("hm"), text("s"), end],
        ),
    ] {
        assert_eq!(passed(events), expected);
    }
    let tail = passed(vec![thought("hms"), used(4), StreamEvent::Done]);
    assert_eq!(tail[2..], [used(4), StreamEvent::Done], "{tail:?}");
}

#[test]
fn only_so_many_bytes_wait() {
    let long = "k".repeat(15) + &"y".repeat(16_000);
    let key = key(&long);
    let mut filter = StreamFilter::new(Some(&key));
    let count = MOST_WITHHELD_BYTES / 15_000;
    let mut events = vec![of_choices(0, count - 10, &long[..15_000], &json!(null))];
    filter.pass(&mut events, 0).unwrap();
    for _ in 0..3 {
        let mut events = vec![
            of_choices(0, count - 10, "", &json!("stop")),
            of_choices(0, count - 10, &long[..15_000], &json!(null)),
        ];
        // Strings that have left do not count.
        filter.pass(&mut events, 0).unwrap();
    }
    let mut events = vec![of_choices(count, 20, &long[..15_000], &json!(null))];
    assert!(filter.pass(&mut events, 0).is_err());
}

/// A chunk with a refusal for each of `count` choices, from index `from` on.
fn of_choices(from: usize, count: usize, refusal: &str, reason: &Value) -> StreamEvent {
    let choice =
        |index| json!({"index": index, "delta": {"refusal": refusal}, "finish_reason": reason});
    chunk((from..from + count).map(choice).collect())
}

#[test]
fn only_so_many_strings_wait() {
    let key = key(KEY);
    let mut filter = StreamFilter::new(Some(&key));
    let mut begin = |from, count| {
        let mut events = vec![of_choices(from, count, &KEY[..9], &json!(null))];
        let passed = filter.pass(&mut events, 0).map_err(|error| error.kind);
        (passed, format!("{events:?}"))
    };
    assert_eq!(begin(0, MOST_WITHHELD_STRINGS).0, Ok(()));
    let (passed, shown) = begin(MOST_WITHHELD_STRINGS, 1);
    assert_eq!(passed, Err(ErrorKind::Unreachable));
    assert!(!shown.contains("sk-"), "{shown}");
    let mut rest = Vec::new();
    filter.end(&mut rest);
    assert_eq!(rest.len(), MOST_WITHHELD_STRINGS);
}

/// The most strings that may be withheld end one after the other, in any order and more than once.
#[test]
fn each_of_many_choices_ends_by_itself() {
    let mut events = vec![of_choices(0, MOST_WITHHELD_STRINGS, &KEY[..9], &json!(null))];
    events.extend(
        (0..MOST_WITHHELD_STRINGS).step_by(2).map(|at| of_choices(at, 1, &KEY[9..], &json!(""))),
    );
    events.extend([
        of_choices(0, MOST_WITHHELD_STRINGS, "", &json!("stop")),
        of_choices(0, MOST_WITHHELD_STRINGS, "", &json!("stop")),
        StreamEvent::Finish(FinishReason::Stop),
    ]);
    let count = events.len();
    let passed = passed(events);
    assert_eq!(passed.len(), count);
    let strings = joined(&passed, "/refusal").1;
    let half = MOST_WITHHELD_STRINGS / 2;
    assert_eq!(strings.matches("***").count(), half);
    assert_eq!(strings.matches(&KEY[..9]).count(), half);
    assert_eq!(strings.len(), half * (MASK.len() + 9));
}

proptest! {
    #[test]
    fn no_cut_of_a_stream_lets_a_key_through(
        before in "[ a-z/+-]{0,12}",
        after in "[ sk-]{0,6}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        others in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        last_ends in any::<bool>(),
    ) {
        let said = format!("{before}{KEY}{after}{KEY}");
        let mut whole = said.clone();
        credentials().clean(&mut whole);
        let (texts, arguments) = (cut(&said, &cuts), cut(&said, &others));
        let longest = texts.len().max(arguments.len());
        for content_is_native in [false, true] {
            for place in ["/tool_calls/0/function/arguments", "/reasoning_content", "/refusal"] {
                let mut events = Vec::new();
                for at in 0..longest {
                    if let Some(piece) = texts.get(at) {
                        events.push(if content_is_native {
                            native(json!({"content": piece}))
                        } else {
                            text(piece)
                        });
                    }
                    if let Some(piece) = arguments.get(at) {
                        let member = place.trim_start_matches('/');
                        events.push(native(if member.starts_with("tool") {
                            json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
                        } else {
                            json!({member: piece})
                        }));
                    }
                }
                let last = events.iter_mut().rev().find_map(|event| match event {
                    StreamEvent::Native { chunk, .. } => Some(chunk),
                    _ => None,
                });
                // Some providers write the last piece and the end into one chunk.
                if last_ends && (content_is_native || texts.len() < arguments.len()) {
                    last.unwrap()["choices"][0]["finish_reason"] = json!("stop");
                }
                events.push(StreamEvent::Finish(FinishReason::Stop));
                let passed = passed(events);
                let (texts, strings) = joined(&passed, place);
                prop_assert_eq!(&texts, &whole);
                prop_assert_eq!(&strings, &whole);
                let is_end = |event: &StreamEvent| matches!(event, StreamEvent::Finish(_));
                prop_assert!(passed.last().is_some_and(is_end));
            }
        }
    }
}
