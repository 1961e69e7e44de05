use domain::conversation::{Prompt, StreamEvent};
use domain::fees::{Factor, Surcharge};
use domain::model::Provider;
use domain::original::{MOST_PIECES, Original, SourceEvent, USAGE_ALONE, WireFormat};
use domain::secret::Secret;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::adapter::Decoder;
use crate::credentials::stream::StreamFilter;
use crate::error::Error;
use crate::testing::{CANARY, attempt, model};
use crate::vendors::adapter;
use crate::vendors::openai::pass::PassThrough;

/// A prompt as the gateway makes it of a body.
fn prompt(body: &str) -> Prompt {
    let value: Value = serde_json::from_str(body).unwrap();
    let members = value.as_object().unwrap();
    let mut params = members.clone();
    for name in ["model", "trace_id", "messages", "stream", "stream_options"] {
        params.shift_remove(name);
    }
    let bound = ["max_completion_tokens", "max_tokens"]
        .iter()
        .find_map(|name| params.shift_remove(*name)?.as_u64());
    let messages = value["messages"].as_array().cloned().unwrap_or_default();
    Prompt {
        messages: messages
            .into_iter()
            .map(|message| domain::conversation::Message::read(message).unwrap())
            .collect(),
        max_output_tokens: bound,
        params,
        original: Some(Box::new(Original::new(WireFormat::ChatCompletions, body.to_owned()))),
        ..Prompt::default()
    }
}

fn passed_to(
    provider: Provider,
    name: &str,
    body: &str,
    bound: Option<u64>,
    stream: bool,
) -> Result<Option<String>, Error> {
    let mut model = model(provider, Some("https://server.example"));
    model.config.upstream_model = Some(name.to_owned());
    let prompt = prompt(body);
    let attempt = crate::Attempt { max_output_tokens: bound, stream, ..attempt(&model, &prompt) };
    let original = prompt.original.as_ref().unwrap();
    let body = adapter(provider).pass(&attempt, original)?;
    Ok(body.map(|body| String::from_utf8(body).unwrap()))
}

fn passed(body: &str, bound: Option<u64>, stream: bool) -> Option<String> {
    passed_to(Provider::Openai, "gpt-4o", body, bound, stream).unwrap()
}

#[test]
fn only_what_governance_names_is_changed() {
    let body =
        r#"{ "x": {"y": 1.50}, "model":"mine", "trace_id": "t", "messages": [ ], "n": 1e0 }"#;
    let expected = body.replace("mine", "gpt-4o").replace(r#" "trace_id": "t","#, "");
    for provider in [Provider::Openai, Provider::Internal] {
        let passed = passed_to(provider, "gpt-4o", body, None, false).unwrap();
        assert_eq!(passed, Some(expected.clone()));
    }
    let bounded = expected.replace(" }", r#","max_tokens":9 }"#);
    assert_eq!(passed(body, Some(9), false), Some(bounded.clone()), "added at the end");
    assert_eq!(passed(&bounded, Some(9), false), Some(bounded.clone()));
    assert_eq!(passed(&bounded, Some(5), false), Some(bounded.replace('9', "5")));
    let newer = bounded.replace("max_tokens", "max_completion_tokens");
    assert_eq!(passed(&newer, Some(9), false), Some(newer.clone()));
    let named = passed_to(Provider::Openai, "gpt-5", &bounded, Some(9), false).unwrap();
    assert_eq!(named, Some(newer.replace("gpt-4o", "gpt-5")), "as the model takes it");
}

#[test]
fn the_usage_of_a_stream_is_asked_for() {
    let with = |options: &str| {
        format!(r#"{{"stream": true, "messages": [],{options} "model": "gpt-4o"}}"#)
    };
    let asked = with(r#" "stream_options": {"include_usage": true , "x": 1.0},"#);
    assert_eq!(passed(&asked, None, true), Some(asked.clone()));
    let other = asked.replace("true ,", "false ,");
    assert_eq!(passed(&other, None, true), Some(asked.clone()));
    let usage = r#"{"include_usage":true}"#;
    let null = with(r#" "stream_options": null,"#);
    assert_eq!(passed(&null, None, true), Some(null.replace("null", usage)));
    let none = with("");
    let added = none.replace(r#""gpt-4o"}"#, &format!(r#""gpt-4o","stream_options":{usage}}}"#));
    assert_eq!(passed(&none, None, true), Some(added));
    assert_eq!(passed(&none, None, false), Some(none.clone()));
    // An older version of Azure's API has no such options.
    let mut azure = model(Provider::Azure, Some("https://server.example"));
    azure.config.all.insert("api_version".to_owned(), "2024-06-01".into());
    let prompt = prompt(&none);
    let attempt = crate::Attempt { stream: true, ..attempt(&azure, &prompt) };
    let body = adapter(Provider::Azure).pass(&attempt, prompt.original.as_ref().unwrap());
    assert!(!String::from_utf8(body.unwrap().unwrap()).unwrap().contains("stream_options"));
}

#[test]
fn the_faster_tier_passes_where_it_has_a_price() {
    let prompt = prompt(r#"{"messages": [], "service_tier": "priority"}"#);
    let passes = |factor| {
        let mut model = model(Provider::Openai, Some("https://server.example"));
        model.config.fees.factors[Surcharge::Priority] = Factor(factor);
        let passed = adapter(Provider::Openai)
            .pass(&attempt(&model, &prompt), prompt.original.as_ref().unwrap());
        passed.is_ok_and(|body| body.is_some())
    };
    assert!(passes(250));
    assert!(!passes(100));
}

#[test]
fn what_has_no_price_is_refused() {
    for more in [
        r#""service_tier": "priority""#,
        r#""service_tier": 1"#,
        r#""modalities": ["text", "audio"]"#,
        r#""audio": {"voice": "a"}"#,
    ] {
        let body = format!(r#"{{"messages": [], {more}}}"#);
        let refused = passed_to(Provider::Azure, "gpt-4o", &body, None, false).unwrap_err();
        assert!(refused.is_unpriced(), "{more}");
    }
    for more in [
        r#""service_tier": "flex""#,
        r#""service_tier": null"#,
        r#""modalities": ["text"]"#,
        r#""n": 3"#,
    ] {
        let body = format!(r#"{{"messages": [], {more}}}"#);
        assert!(passed(&body, None, false).is_some(), "{more}");
    }
}

#[test]
fn what_servers_refuse_is_translated() {
    for (more, passes) in [
        (json!({"tools": []}), false),
        (json!({"tool_choice": "auto"}), false),
        (json!({"parallel_tool_calls": true}), false),
        (json!({"tool_choice": null}), true),
        (json!({"tools": [{"type": "function", "name": "f"}]}), false),
        (json!({"tools": [{"type": "custom", "custom": {"name": "f"}}]}), true),
        (json!({"messages": [{"role": "assistant", "provider_state": {}}]}), false),
        (json!({"messages": [{"role": "assistant", "tool_calls": []}]}), false),
        (
            json!({"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "index": 0}]}]}),
            false,
        ),
        (json!({"messages": [{"role": "assistant", "refusal": null, "annotations": []}]}), true),
        (
            json!({"messages": [{"role": "tool", "tool_call_id": "a", "name": "f", "content": ""}]}),
            true,
        ),
    ] {
        let body = more.to_string();
        let mut prompt = prompt(&body);
        // As the gateway leaves them out.
        for name in ["tools", "tool_choice", "parallel_tool_calls"] {
            let is_empty = prompt
                .params
                .get(name)
                .is_some_and(|value| value.is_null() || value.as_array().is_none_or(Vec::is_empty));
            if is_empty {
                prompt.params.shift_remove(name);
            }
        }
        let model = model(Provider::Openai, None);
        let attempt = attempt(&model, &prompt);
        let body = adapter(Provider::Openai).pass(&attempt, prompt.original.as_ref().unwrap());
        assert_eq!(body.unwrap().is_some(), passes, "{more}");
    }
}

/// The server's own chunks of a stream that comes in pieces.
fn sources(bytes: &[u8], cuts: &[usize], key: &str) -> Vec<SourceEvent> {
    let mut model = model(Provider::Openai, None);
    model.identifier = "mine".to_owned();
    let mut decoder = adapter(Provider::Openai).passing_decoder(&model);
    let key = Secret::new(key.to_owned());
    let mut filter = StreamFilter::new(Some(&key));
    filter.clean_sources(Some(&key));
    let mut events = Vec::new();
    let mut feed = |decoder: &mut dyn Decoder, piece: &[u8]| {
        let known = events.len();
        decoder.feed(piece, &mut events).unwrap();
        filter.pass(&mut events, known).unwrap();
    };
    let mut begun = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % bytes.len()).collect();
    cuts.sort_unstable();
    for cut in cuts {
        feed(&mut *decoder, &bytes[begun..cut]);
        begun = cut;
    }
    feed(&mut *decoder, &bytes[begun..]);
    assert!(decoder.is_done());
    filter.end(&mut events);
    let own = events.into_iter().filter_map(|event| match event {
        StreamEvent::Source(event) => Some(event),
        _ => None,
    });
    own.collect()
}

fn written(chunks: &[String]) -> Vec<u8> {
    let text =
        chunks.iter().fold(String::new(), |text, chunk| text + &format!("data: {chunk}\n\n"));
    (text + "data: [DONE]\n\n").into_bytes()
}

fn chunk(choices: &Value, more: &Value) -> String {
    json!({"id": "c", "new": more, "object": "chat.completion.chunk", "model": "real",
        "choices": choices, "usage": null, "obfuscation": "x"})
    .to_string()
}

/// Chunks as the vendor sends them, with members that nobody knows, and two calls in turn.
fn stream(texts: &[String], more: &Value) -> Vec<String> {
    let says = |delta: Value| {
        chunk(
            &json!([{"delta": delta, "index": 0, "new": more,
        "finish_reason": null, "logprobs": {"content": [{"token": "t", "bytes": [1]}]}}]),
            more,
        )
    };
    let mut all = vec![says(json!({"role": "assistant", "content": "", "new": more}))];
    all.extend(texts.iter().map(|text| says(json!({"content": text, "new": more}))));
    all.extend(texts.iter().map(|text| says(json!({"reasoning_content": text}))));
    let calls = ["a", "b"].iter().enumerate().map(|(index, id)| {
        json!({"index": index, "id": id, "type": "function",
            "function": {"name": "f", "arguments": ""}})
    });
    all.push(says(json!({"tool_calls": calls.collect::<Vec<_>>()})));
    for text in texts {
        let more = [1, 0].map(|index| json!({"index": index, "function": {"arguments": text}}));
        all.push(says(json!({"tool_calls": more})));
    }
    all.push(chunk(&json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]), more));
    all.push(
        json!({"model": "real", "choices": [], "usage": {"prompt_tokens": 5,
        "completion_tokens": 9, "new": more}})
        .to_string(),
    );
    all
}

/// The strings of an answer, put together by choice, member and call.
fn said(events: &[SourceEvent]) -> std::collections::BTreeMap<String, String> {
    let mut all = std::collections::BTreeMap::<String, String>::new();
    for event in events {
        let chunk: Value = serde_json::from_str(&event.clone().json()).unwrap();
        for choice in chunk["choices"].as_array().unwrap() {
            let at = &choice["index"];
            for name in ["content", "reasoning_content"] {
                let text = choice["delta"][name].as_str().unwrap_or_default();
                *all.entry(format!("{at} {name}")).or_default() += text;
            }
            for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
                let text = call["function"]["arguments"].as_str().unwrap_or_default();
                *all.entry(format!("{at} {}", call["index"])).or_default() += text;
            }
        }
    }
    all
}

/// The error of a stream with this chunk.
fn fault_of(chunk: &str) -> Option<Error> {
    let mut decoder = adapter(Provider::Openai).passing_decoder(&model(Provider::Openai, None));
    decoder.feed(format!("data: {chunk}\n\n").as_bytes(), &mut Vec::new()).err()
}

#[test]
fn only_so_many_strings_go_on_in_one_chunk() {
    let of = |count: usize| {
        let choice = |index| json!({"index": index, "delta": {"content": "A"}});
        chunk(&(0..count).map(choice).collect(), &json!(1))
    };
    assert!(fault_of(&of(MOST_PIECES)).is_none());
    assert!(fault_of(&of(MOST_PIECES + 1)).is_some());
}

/// Mistral's thoughts are parts of the content.
#[test]
fn a_text_ends_the_thoughts_among_the_parts_before_it() {
    let mut passing = PassThrough::new("mine".to_owned());
    let mut event = |delta: Value| {
        let chunk = json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
        passing.event(chunk.as_bytes(), false).unwrap()
    };
    let thought = event(json!({"content": [{"type": "thinking", "thinking": [{"text": "Hm."}]}]}));
    let text = event(json!({"content": "Hi."}));
    assert_eq!(text.ends, [thought.pieces[0].block]);
}

#[test]
fn the_strings_of_a_repeated_choice_are_no_pieces() {
    let texts = |choices: Value| {
        let mut passing = PassThrough::new("mine".to_owned());
        let event = passing.event(json!({"choices": choices}).to_string().as_bytes(), false);
        event.unwrap().pieces.into_iter().map(|piece| piece.text).collect::<Vec<_>>()
    };
    let delta = |text: &str| json!({"content": text});
    let same = json!([{"index": 0, "delta": delta("a")}, {"index": 0, "delta": delta("b")}]);
    assert_eq!(texts(same), ["a"]);
    assert_eq!(texts(json!([{"delta": delta("a")}, {"delta": delta("b")}])), ["a"]);
    let further = json!([{"index": 1, "delta": delta("a")}, {"delta": delta("b")},
        {"index": 2, "delta": delta("c")}]);
    assert_eq!(texts(further), ["a", "b", "c"]);
}

#[test]
fn choices_that_are_no_list_have_no_strings_that_go_on() {
    let mut passing = PassThrough::new("mine".to_owned());
    let data =
        r#"{"choices": {"x": {"delta": {"content": "a"}}, "y": {"delta": {"refusal": "b"}}}}"#;
    let event = passing.event(data.as_bytes(), false).unwrap();
    assert_eq!(event.pieces, []);
    assert_eq!(event.json(), data);
}

proptest! {
    #[test]
    fn chunks_come_as_they_were_sent(
        texts in prop::collection::vec("[a-zé🙂\"\\\\ ]{0,6}", 0..5),
        more in prop_oneof![Just(json!(1.5)), Just(json!({"a": ["b", null]})), Just(json!("é"))],
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let sent = stream(&texts, &more);
        // No text begins as this key does, so nothing is withheld.
        let told = sources(&written(&sent), &cuts, "4711-key-of-nobody");
        let ends = told.iter().position(|event| event.is_end);
        prop_assert_eq!(ends, Some(sent.len() - 2));
        prop_assert_eq!(&told[sent.len() - 1].name, USAGE_ALONE);
        let told: Vec<String> = told.into_iter().map(SourceEvent::json).collect();
        let expected: Vec<String> =
            sent.iter().map(|chunk| chunk.replace(r#""model":"real""#, r#""model":"mine""#)).collect();
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn a_credential_is_cut_out_wherever_it_is_cut(
        cut in 1..CANARY.len(),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (head, tail) = CANARY.split_at(cut);
        let texts = [format!("It is {head}"), tail.to_owned(), format!(" indeed {}", &CANARY[..3])];
        let sent = stream(&texts, &json!({"echo": CANARY}));
        let told = sources(&written(&sent), &cuts, CANARY);
        for event in &told {
            let json = event.clone().json();
            prop_assert!(!json.contains(CANARY), "{json}");
        }
        let expected = format!("It is *** indeed {}", &CANARY[..3]);
        for (place, text) in said(&told) {
            prop_assert_eq!(&text, &expected, "{}", place);
        }
        let ends = told.iter().position(|event| event.is_end).unwrap();
        prop_assert!(told[..ends].iter().all(|event| !event.is_end));
        prop_assert_eq!(told.len() - ends, 2, "all text has left before the end");
    }
}

/// The strings of the deltas of the only choice, in the order in which they leave.
fn in_order(deltas: &[Value], key: &str) -> Vec<String> {
    let mut chunks: Vec<String> = deltas
        .iter()
        .map(|delta| {
            chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}]), &json!(1))
        })
        .collect();
    chunks.push(chunk(&json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), &json!(1)));
    let events = sources(&written(&chunks), &[], key);
    let mut all = Vec::new();
    for event in events {
        let chunk: Value = serde_json::from_str(&event.json()).unwrap();
        for (name, said) in chunk["choices"][0]["delta"].as_object().unwrap() {
            let call = said.pointer("/0/function/arguments").and_then(Value::as_str);
            let text = said.as_str().or(call).unwrap_or_default();
            let is_said = !text.is_empty() && name != "role";
            all.extend(is_said.then(|| format!("{name} {text}")));
        }
    }
    all
}

#[test]
fn a_text_leaves_before_another_string_of_its_choice_goes_on() {
    let call = |name: &str, arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"name": name, "arguments": arguments}}]});
    let deltas = [
        json!({"role": "assistant", "content": ""}),
        json!({"reasoning_content": "Long ago: se", "content": ""}),
        json!({"reasoning_content": "", "content": ""}),
        json!({"reasoning_content": "cre", "content": ""}),
        json!({"content": "Done: s"}),
        call("f", ""),
        call("", "{}"),
        json!({"content": "ecret"}),
    ];
    let expected = [
        "reasoning_content Long ago: ",
        "reasoning_content secre",
        "content Done: ",
        "content s",
        "tool_calls {}",
        "content ecret",
    ];
    assert_eq!(in_order(&deltas, "secret-4711-of-nobody"), expected);
}

#[test]
fn a_credential_is_cut_out_of_a_text_that_was_interrupted() {
    let (head, tail) = CANARY.split_at(CANARY.len() / 3);
    let thought = json!({"reasoning_content": "Hm."});
    let deltas = [json!({"content": head}), thought, json!({"content": format!("{tail}!")})];
    let left = in_order(&deltas, CANARY);
    assert_eq!(
        left,
        [format!("content {head}"), "reasoning_content Hm.".to_owned(), "content ***!".to_owned()]
    );
}

/// The tokens of a text are in its log probabilities as well.
#[test]
fn a_credential_does_not_leave_as_log_probabilities() {
    let token = |text: &str| {
        chunk(
            &json!([{"index": 0, "delta": {"content": text},
        "logprobs": {"content": [{"token": text}]}, "finish_reason": null}]),
            &json!(1),
        )
    };
    let (head, tail) = CANARY.split_at(CANARY.len() / 2);
    let end = chunk(&json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]), &json!(1));
    let told = sources(&written(&[token("Fine "), token(head), token(tail), end]), &[], CANARY);
    let told: Vec<String> = told.into_iter().map(SourceEvent::json).collect();
    assert!(told[0].contains(r#""token":"Fine ""#), "{told:?}");
    for part in [head, tail] {
        assert!(!told.concat().contains(part), "{told:?}");
    }
}
