//! The tokens of a call that are reported and paid for, however it ends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, Server, until};
use crate::providers::failures::routed_to;

crate::on_every_backend!(
    a_prompt_that_was_counted_is_paid_for_as_told,
    every_kind_of_token_is_told,
    an_answer_of_no_use_is_paid_for,
    usage_that_is_not_reported_is_estimated,
    usage_that_makes_no_sense_is_estimated,
    a_count_is_of_the_words_before_it,
    an_hour_in_the_cache_is_paid_for,
    a_caller_that_hangs_up_still_pays,
    hanging_up_before_a_whole_answer_is_not_free,
);

async fn a_prompt_that_was_counted_is_paid_for_as_told(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let events = [
        json!({"type": "message_start", "message": {"id": "m", "type": "message",
            "role": "assistant", "model": "c", "content": [], "stop_reason": null,
            "stop_sequence": null, "usage": {"input_tokens": 100, "output_tokens": 1,
                "cache_read_input_tokens": 900, "cache_creation_input_tokens": 0}}}),
        json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "Once upon a time"}}),
    ];
    let body = events.map(|event| format!("data: {event}\n\n")).concat();
    let mock = Mock::always(Answer::Body(200, "text/event-stream", body)).await;
    let config = json!({"is_public": false, "provider": "anthropic"});
    mock.register_with(&owner, "claude", config).await;
    let trace = key.trace().await;
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let ask = json!({"trace_id": trace, "model": "claude", "messages": messages, "stream": true});
    key.post("/api/v1/chat/completions", &ask).await;
    let step = key.detail(&trace).await["steps"][0].clone();
    assert_eq!(step["status"], "failed");
    assert_eq!((&step["prompt_tokens"], &step["cached_tokens"]), (&json!(1000), &json!(900)));
    let completion = step["completion_tokens"].as_u64().unwrap();
    assert!((2..10).contains(&completion), "what was said is counted here: {step}");
    assert_eq!((step.get("cache_write_tokens"), step.get("reasoning_tokens")), (None, None));
}

async fn every_kind_of_token_is_told(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let answer = json!({"id": "m", "type": "message", "role": "assistant", "model": "c",
        "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": {"input_tokens": 10, "cache_read_input_tokens": 200,
            "cache_creation_input_tokens": 3000, "output_tokens": 50,
            "output_tokens_details": {"thinking_tokens": 40}}});
    let mock = Mock::always(Answer::json(200, &answer)).await;
    let config = json!({"is_public": false, "provider": "anthropic"});
    mock.register_with(&owner, "claude", config).await;
    let trace = key.trace().await;
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let ask = json!({"trace_id": trace, "model": "claude", "messages": messages});
    let answer = key.post("/api/v1/chat/completions", &ask).await.ok(200);
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 3210, "completion_tokens": 50, "total_tokens": 3260,
            "prompt_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 3000},
            "completion_tokens_details": {"reasoning_tokens": 40}})
    );
    let step = key.detail(&trace).await["steps"][0].clone();
    for (kind, count) in [
        ("prompt", 3210),
        ("cached", 200),
        ("cache_write", 3000),
        ("completion", 50),
        ("reasoning", 40),
    ] {
        assert_eq!(step[format!("{kind}_tokens")], count, "{kind}: {step}");
    }
}

async fn an_answer_of_no_use_is_paid_for(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let answer = json!({
        "candidates": [{"index": 0, "finishReason": "MALFORMED_FUNCTION_CALL"}],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 30,
            "thoughtsTokenCount": 20},
    });
    for (name, streams, kind, body) in [
        ("whole", false, "application/json", answer.to_string()),
        ("streamed", true, "text/event-stream", format!("data: {answer}\n\n")),
    ] {
        let mock = Mock::always(Answer::Body(200, kind, body)).await;
        let config = json!({"is_public": false, "provider": "gemini"});
        mock.register_with(&owner, name, config).await;
        let trace = key.trace().await;
        let messages = json!([{"role": "user", "content": "Hello."}]);
        let ask =
            json!({"trace_id": trace, "model": name, "messages": messages, "stream": streams});
        let reply = key.post("/api/v1/chat/completions", &ask).await.ok(502);
        assert_eq!(reply["code"], "provider_unreachable");
        assert_eq!(mock.begun(), 1, "it would be paid for again");
        let step = key.detail(&trace).await["steps"][0].clone();
        assert_eq!((&step["status"], step.get("cost_estimated")), (&json!("failed"), None));
        for (kind, count) in [("prompt", 1000), ("completion", 50), ("reasoning", 20)] {
            assert_eq!(step[format!("{kind}_tokens")], count, "{kind}: {step}");
        }
        assert_eq!(step["cost"], 0.18, "{step}");
    }
}

async fn usage_that_is_not_reported_is_estimated(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(Duration::ZERO, None, |_| Answer::text("Four words are here.")).await;
    routed_to(&owner, &mock).await;
    let trace = key.trace().await;
    key.execute(&trace, "Hello.").await.ok(200);
    key.get(&format!("/api/v1/executions/stream?trace_id={trace}&input=Hello")).await.chunks();
    // Formats that report usage report what was counted.
    let mut told = vec![None, None];
    let ask = json!({"trace_id": trace, "model": "mock", "max_tokens": 100,
        "messages": [{"role": "user", "content": "Hello."}]});
    let whole = key.post("/api/v1/chat/completions", &ask).await.ok(200);
    told.push(Some(whole["usage"]["completion_tokens"].as_u64().unwrap()));
    let whole = key.post("/api/v1/messages", &ask).await.ok(200);
    told.push(Some(whole["usage"]["output_tokens"].as_u64().unwrap()));
    let mut streamed = ask.clone();
    streamed["stream"] = true.into();
    streamed["stream_options"] = json!({"include_usage": true});
    let chunks = key.post("/api/v1/chat/completions", &streamed).await.chunks();
    told.push(Some(chunks.last().unwrap()["usage"]["completion_tokens"].as_u64().unwrap()));
    let detail = key.detail(&trace).await;
    let steps = detail["steps"].as_array().unwrap();
    assert_eq!(steps.len(), told.len());
    for (step, told) in steps.iter().zip(told) {
        assert_eq!(step["status"], "completed");
        assert_eq!(step["cost_estimated"], true);
        let counted = step["completion_tokens"].as_u64().unwrap();
        assert!(counted >= 4, "{step}");
        assert_eq!(told.unwrap_or(counted), counted);
        assert!(step["cost"].as_f64().unwrap() > 0.0);
    }
    // The tokens are no less counted here where they cost nothing.
    for (name, price) in [("free", json!(0)), ("unpriced", json!(null))] {
        let prices =
            json!({"is_public": false, "input_cost_per_1k": price, "output_cost_per_1k": price});
        mock.register_with(&owner, name, prices).await;
        let trace = key.trace().await;
        let body = json!({"trace_id": trace, "model": name, "input": "Hello."});
        key.post("/api/v1/runs", &body).await.ok(200);
        let step = key.detail(&trace).await["steps"][0].clone();
        assert_eq!((&step["cost"], &step["cost_estimated"]), (&json!(0.0), &json!(true)), "{name}");
    }
}

async fn usage_that_makes_no_sense_is_estimated(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let openai = |usage: &Value, streams: bool| {
        if !streams {
            return Answer::json(
                200,
                &json!({"id": "x", "object": "chat.completion", "model": "m",
                "choices": [{"index": 0, "finish_reason": "stop",
                    "message": {"role": "assistant", "content": SAID}}], "usage": usage}),
            );
        }
        let chunk =
            |choices: Value, usage: &Value| json!({"id": "x", "choices": choices, "usage": usage});
        stream(&[
            chunk(
                json!([{"index": 0, "delta": {"content": SAID}, "finish_reason": "stop"}]),
                &Value::Null,
            ),
            chunk(json!([]), usage),
        ])
    };
    let anthropic = |usage: &Value, streams: bool| {
        let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "c",
            "content": [{"type": "text", "text": SAID}], "stop_reason": "end_turn", "usage": usage});
        if !streams {
            return Answer::json(200, &message);
        }
        let start = json!({"id": "m", "type": "message", "role": "assistant", "model": "c",
            "content": [], "usage": {"input_tokens": usage["input_tokens"], "output_tokens": 1}});
        stream(&[
            json!({"type": "message_start", "message": start}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": SAID}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
            json!({"type": "message_stop"}),
        ])
    };
    let gemini = |usage: &Value, streams: bool| {
        let answer = json!({"candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"parts": [{"text": SAID}]}}], "usageMetadata": usage});
        if streams { stream(&[answer]) } else { Answer::json(200, &answer) }
    };
    let formats: [(&str, &str, &str, Made<'_>); 3] = [
        ("openai", "prompt_tokens", "completion_tokens", &openai),
        ("anthropic", "input_tokens", "output_tokens", &anthropic),
        ("gemini", "promptTokenCount", "candidatesTokenCount", &gemini),
    ];
    let mut number = 0;
    for (provider, prompt, completion, made) in formats {
        for (told, known) in [
            (json!({prompt: -5, completion: -5}), (None, None)),
            (json!({prompt: [1], completion: {"n": 1}}), (None, None)),
            (json!({prompt: "12", completion: "3"}), (None, None)),
            (json!({prompt: 1.5, completion: 2.5}), (None, None)),
            (json!({prompt: 0, completion: 0}), (None, None)),
            (json!([1]), (None, None)),
            (json!("12"), (None, None)),
            (json!({prompt: 1000, completion: "3"}), (Some(1000), None)),
            (json!({prompt: 1000, completion: 0}), (Some(1000), None)),
            (json!({prompt: -1, completion: 500}), (None, Some(500))),
        ] {
            for streams in [false, true] {
                number += 1;
                let name = format!("m{number}");
                let mock = Mock::always(made(&told, streams)).await;
                let config = json!({"is_public": false, "provider": provider});
                mock.register_with(&owner, &name, config).await;
                let trace = key.trace().await;
                let mut ask = json!({"trace_id": trace, "model": name, "max_tokens": 100,
                    "messages": [{"role": "user", "content": "Hello to all of you."}]});
                let answer = if streams {
                    ask["stream"] = true.into();
                    ask["stream_options"] = json!({"include_usage": true});
                    let chunks = key.post("/api/v1/chat/completions", &ask).await.chunks();
                    chunks.last().unwrap().clone()
                } else {
                    key.post("/api/v1/chat/completions", &ask).await.ok(200)
                };
                let step = key.detail(&trace).await["steps"][0].clone();
                let what = format!("{provider} {told} {streams}: {step}");
                assert_eq!(
                    (&step["status"], &step["cost_estimated"]),
                    (&json!("completed"), &json!(true)),
                    "{what}"
                );
                for (field, known) in [("prompt_tokens", known.0), ("completion_tokens", known.1)] {
                    let counted = step[field].as_u64().unwrap();
                    assert!(known.map_or(counted > 3, |known| known == counted), "{field}: {what}");
                    assert_eq!(answer["usage"][field], counted, "{what}");
                }
                assert!(step["cost"].as_f64().unwrap() > 0.0, "{what}");
            }
        }
    }
}

/// Makes an answer with a usage, streamed or not.
type Made<'a> = &'a dyn Fn(&Value, bool) -> Answer;

/// The answer of the models in tests on usage.
const SAID: &str = "Here are some words that take a few tokens.";

fn stream(events: &[Value]) -> Answer {
    let lines: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let body = lines.concat();
    let is_of_openai = body.contains("\"choices\"");
    let done = if is_of_openai { "data: [DONE]\n\n" } else { "" };
    Answer::Body(200, "text/event-stream", body + done)
}

async fn a_count_is_of_the_words_before_it(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let delta = |delta: Value| json!({"choices": [{"index": 0, "delta": delta}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let used = |completion: u64| json!({"prompt_tokens": 10, "completion_tokens": completion});
    let early = |piece: &dyn Fn(usize) -> Value| {
        let first = json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}],
            "usage": used(1)});
        let pieces = (0..200).map(|number| delta(piece(number)));
        stream(&std::iter::once(first).chain(pieces).chain([end.clone()]).collect::<Vec<_>>())
    };
    let call = |number| {
        let function = match number {
            0 => json!({"name": "f", "arguments": "{\"a\": \""}),
            199 => json!({"arguments": "\"}"}),
            _ => json!({"arguments": "some words "}),
        };
        json!({"tool_calls": [{"index": 0, "id": "c", "function": function}]})
    };
    let of_gemini = |text: &str, more: Value| {
        let mut event =
            json!({"candidates": [{"index": 0, "content": {"parts": [{"text": text}]}}]});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let gemini = || {
        let mut last = of_gemini(
            "This is",
            json!({"usageMetadata":
            {"promptTokenCount": 10, "candidatesTokenCount": 7}}),
        );
        last["candidates"][0]["finishReason"] = "STOP".into();
        stream(&[of_gemini("Well. ", json!({})), last])
    };
    let mut with_text = delta(json!({"content": "It is"}));
    with_text["usage"] = used(7);
    for (name, provider, answer, sound) in [
        ("reasoning", "openai", early(&|_| json!({"reasoning_content": "some words "})), None),
        ("calls", "openai", early(&call), None),
        ("other", "openai", early(&|_| json!({"refusal": "some words "})), None),
        ("labels", "openai", early(&|_| json!({"channel": "final"})), Some(1)),
        ("last", "openai", stream(&[with_text, end.clone()]), Some(7)),
        ("gemini", "gemini", gemini(), Some(7)),
    ] {
        let mock = Mock::always(answer).await;
        // The answers end in its first byte.
        let config = json!({"is_public": false, "provider": provider, "api_key": "sk-0123456789"});
        mock.register_with(&owner, name, config).await;
        let trace = key.trace().await;
        let ask = json!({"trace_id": trace, "model": name, "stream": true,
            "messages": [{"role": "user", "content": "Hello."}]});
        key.post("/api/v1/chat/completions", &ask).await;
        let step = key.detail(&trace).await["steps"][0].clone();
        assert_eq!(step["status"], "completed", "{name}: {step}");
        let counted = step["completion_tokens"].as_u64().unwrap();
        assert_eq!(step.get("cost_estimated").is_none(), sound.is_some(), "{name}: {step}");
        assert!(sound.map_or(counted > 200, |sound| counted == sound), "{name}: {step}");
    }
}

async fn an_hour_in_the_cache_is_paid_for(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let answer = |split: Value| {
        let mut usage = json!({"input_tokens": 0, "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 1000, "output_tokens": 10});
        if !split.is_null() {
            usage["cache_creation"] = split;
        }
        json!({"id": "m", "type": "message", "role": "assistant", "model": "c",
            "content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn", "usage": usage})
    };
    let split = |minutes: u64, hour: u64| json!({"ephemeral_5m_input_tokens": minutes, "ephemeral_1h_input_tokens": hour});
    let prices = |write: Value, hour: Value| {
        json!({"is_public": false, "provider": "anthropic", "input_cost_per_1k": 1.0,
            "output_cost_per_1k": 0.0, "additional_config": {
                "cache_write_cost_per_1k": write, "cache_write_1h_cost_per_1k": hour}})
    };
    let none = Value::Null;
    for (number, (prices, told, ttl, for_an_hour, cost)) in [
        (prices(json!(1.25), none.clone()), split(600, 400), "1h", 400, 1.55),
        (prices(json!(1.25), json!(3.0)), split(600, 400), "1h", 400, 1.95),
        (prices(none.clone(), none.clone()), split(0, 1000), "1h", 1000, 2.0),
        (prices(json!(1.25), none.clone()), none.clone(), "1h", 1000, 2.0),
        (prices(json!(1.25), none.clone()), none.clone(), "5m", 0, 1.25),
        (prices(json!(1.25), none.clone()), split(300, 300), "1h", 700, 1.775),
        (prices(json!(1.25), none.clone()), split(300, 300), "5m", 300, 1.475),
        (prices(json!(1.25), none.clone()), split(900, 900), "5m", 900, 1.925),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("claude{number}");
        let mock = Mock::always(Answer::json(200, &answer(told))).await;
        mock.register_with(&owner, &name, prices).await;
        let trace = key.trace().await;
        let control = json!({"type": "ephemeral", "ttl": ttl});
        let text = json!({"type": "text", "text": "Hello.", "cache_control": control});
        let ask = json!({"trace_id": trace, "model": name, "max_tokens": 100,
            "messages": [{"role": "user", "content": [text]}]});
        let answer = key.post("/api/v1/messages", &ask).await.ok(200);
        assert_eq!(answer["usage"]["cache_creation_input_tokens"], 1000);
        assert_eq!(answer["usage"]["cache_creation"], split(1000 - for_an_hour, for_an_hour));
        let step = key.detail(&trace).await["steps"][0].clone();
        assert_eq!(
            (&step["cost"], &step["cache_write_tokens"]),
            (&json!(cost), &json!(1000)),
            "{name}"
        );
        let shown = step.get("cache_write_1h_tokens").map_or(0, |tokens| tokens.as_u64().unwrap());
        assert_eq!(shown, for_an_hour, "{name}: {step}");
    }
}

async fn a_caller_that_hangs_up_still_pays(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let pieces: Vec<String> = (0..2_000).map(|piece| format!("piece {piece} ")).collect();
    let mock = Mock::always(Answer::Pieces(pieces)).await;
    routed_to(&owner, &mock).await;
    let trace = key.trace().await;
    let path = format!("/api/v1/executions/stream?trace_id={trace}&input=Hello");
    let mut response = key.request("GET", &path).send().await.unwrap();
    response.chunk().await.unwrap().unwrap();
    drop(response);
    let step =
        until("the call is recorded", async || key.detail(&trace).await["steps"].get(0).cloned())
            .await;
    assert_eq!(step["type"], "run");
    assert!(step["output"].as_str().unwrap().starts_with("piece 0 "), "{step}");
    assert!(step["cost"].as_f64().unwrap() > 0.0);
    assert!(mock.served() == 0, "the provider is not listened to for nothing");
}

async fn hanging_up_before_a_whole_answer_is_not_free(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(Duration::from_mins(10), None, |_| Answer::text("Late.")).await;
    mock.register(&owner, "slow").await;
    let path = "/api/v1/chat/completions";
    for (most, n, streams) in [(1, 1, false), (1, 3, false), (4096, 1, false), (4096, 1, true)] {
        let trace = key.trace().await;
        let ask = json!({"trace_id": trace, "model": "slow", "max_tokens": most, "stream": streams,
            "n": n, "messages": [{"role": "user", "content": "Hello."}]});
        let calls = mock.begun();
        let waiting = {
            let key = key.clone();
            tokio::spawn(async move { key.post(path, &ask).await })
        };
        until("the provider is asked", async || (mock.begun() > calls).then_some(())).await;
        waiting.abort();
        let step = async || key.detail(&trace).await["steps"].get(0).cloned();
        let step = until("the call is recorded", step).await;
        assert_eq!((&step["status"], &step["cost_estimated"]), (&json!("cancelled"), &json!(true)));
        let (prompt, written) = (&step["prompt_tokens"], &step["completion_tokens"]);
        assert!(prompt.as_u64().unwrap() > 0, "{step}");
        // All of a stream would have been seen.
        let expected = if streams { 0..=0 } else { n..=n * most };
        assert!(expected.contains(&written.as_u64().unwrap()), "{step}");
        until("the provider is left", async || (mock.gone() == mock.begun()).then_some(())).await;
    }
}
