//! Answers of more than one text: several choices, tool calls, refusals, reasoning.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Reply, Server, settings};

crate::on_every_backend!(
    every_string_of_an_answer_is_judged,
    every_string_of_a_stream_is_judged,
    what_is_left_of_a_broken_answer_is_judged,
    a_stream_of_too_many_strings_ends,
    what_came_with_a_finding_is_counted,
    placeholders_are_put_back_everywhere,
    placeholders_are_put_back_everywhere_in_a_stream,
);

const LEAK: &str = "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5";
const MAIL: &str = "\"Jane\" <jane.doe@acme.org>";

async fn started(backend: &Backend, mock: &Mock) -> (Server, Caller, Caller, String) {
    let server = Server::unlimited(backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    (server, key, owner, trace)
}

async fn ask(key: &Caller, trace: &str, text: &str, streams: bool) -> Reply {
    let body = json!({"trace_id": trace, "model": "mock", "stream": streams, "n": 2,
        "messages": [{"role": "user", "content": text}]});
    key.post("/api/v1/chat/completions", &body).await
}

fn call(arguments: &str) -> Value {
    json!([{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "push", "arguments": arguments}}])
}

fn choice(index: u64, message: Value, finish: &str) -> Value {
    let token = json!({"content": [{"token": "a token", "logprob": -0.5}]});
    json!({"index": index, "message": message, "logprobs": token, "finish_reason": finish})
}

fn completion(choices: &[Value]) -> Answer {
    Answer::json(
        200,
        &json!({
            "id": "x", "object": "chat.completion", "created": 1, "model": "x", "choices": choices,
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }),
    )
}

/// A stream of these choices, one a chunk.
fn stream(choices: &[Value]) -> Answer {
    let chunk = |choice: &Value| {
        let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1,
            "model": "x", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let body: String = choices.iter().map(chunk).collect();
    Answer::Body(200, "text/event-stream", format!("{body}data: [DONE]\n\n"))
}

/// Returns the whole text of each string of a stream, and the ends of each choice.
fn heard(chunks: &[Value]) -> (BTreeMap<String, String>, BTreeMap<u64, Vec<String>>) {
    let (mut said, mut ends) = (BTreeMap::<String, String>::new(), BTreeMap::new());
    let choices = chunks.iter().flat_map(|chunk| chunk["choices"].as_array().unwrap());
    for choice in choices {
        let index = choice["index"].as_u64().unwrap();
        let ends: &mut Vec<String> = ends.entry(index).or_default();
        for (name, value) in choice["delta"].as_object().unwrap() {
            let arguments = &value[0]["function"]["arguments"];
            if let Some(text) = value.as_str().or(arguments.as_str()) {
                assert!(text.is_empty() || ends.is_empty(), "choice {index} has ended: {choice}");
                said.entry(format!("{index} {name}")).or_default().push_str(text);
            }
        }
        ends.extend(choice["finish_reason"].as_str().map(str::to_owned));
    }
    (said, ends)
}

async fn every_string_of_an_answer_is_judged(backend: Backend) {
    let places = [
        json!({"role": "assistant", "content": "", "reasoning_content": format!("It is {LEAK}.")}),
        json!({"role": "assistant", "content": null, "refusal": format!("No {LEAK}.")}),
        json!({"role": "assistant", "content": null,
            "tool_calls": call(&format!("{{\"n\": 1.50, \"token\": \"\\u0067{}\"}}", &LEAK[1..]))}),
        json!({"role": "assistant", "content": format!("Here: {LEAK}")}),
    ];
    let clean = json!({"role": "assistant", "content": "Clean."});
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), move |body| {
        let text = body["messages"][0]["content"].as_str().unwrap();
        let leak = places[text.parse::<usize>().unwrap()].clone();
        let finish = if leak.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
        completion(&[choice(0, clean.clone(), "stop"), choice(1, leak, finish)])
    })
    .await;
    let (_server, key, owner, _) = started(&backend, &mock).await;
    for action in ["flag", "redact", "block"] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        for place in 0..4 {
            let trace = key.trace().await;
            let reply = ask(&key, &trace, &place.to_string(), false).await;
            let answer = reply.ok(200);
            let detail = key.get(&format!("/api/v1/traces/{trace}")).await;
            let security = &detail.json()["steps"][0]["security"];
            assert_eq!(security["secret_leaked"], true, "{action} {place}: {security}");
            let leaks = reply.text.contains("x7Kd92") || detail.text.contains("x7Kd92");
            assert_eq!(leaks, action == "flag", "{action} {place}: {}", reply.text);
            match action {
                "block" => {
                    assert_eq!(answer["choices"][0]["finish_reason"], "content_filter");
                    assert_eq!(answer["choices"].as_array().unwrap().len(), 1);
                }
                "redact" => {
                    assert_eq!(answer["choices"][0]["message"]["content"], "Clean.");
                    assert_eq!(answer["choices"][0]["logprobs"]["content"][0]["token"], "a token");
                    assert!(answer["choices"][1]["logprobs"].is_null(), "{answer}");
                }
                _ => assert!(answer["choices"][1]["logprobs"].is_object()),
            }
            if action == "redact" && place == 2 {
                let second = &answer["choices"][1];
                assert_eq!(second["finish_reason"], "tool_calls");
                let function = &second["message"]["tool_calls"][0]["function"];
                assert_eq!(function["name"], "push");
                let arguments = function["arguments"].as_str().unwrap();
                assert!(arguments.starts_with("{\"n\": 1.50, \"token\": \"["), "{arguments}");
                serde_json::from_str::<Value>(arguments).unwrap();
            }
        }
    }
}

async fn every_string_of_a_stream_is_judged(backend: Backend) {
    let (half, other) = LEAK.split_at(9);
    let delta = |index: u64, delta: Value| {
        let token = json!({"content": [{"token": "t", "logprob": -0.5}]});
        json!({"index": index, "delta": delta, "logprobs": token, "finish_reason": null})
    };
    let arguments = |index: u64, text: &str| {
        let call = json!([{"index": 0, "function": {"arguments": text}}]);
        delta(index, json!({"tool_calls": call}))
    };
    let end =
        |index: u64, reason: &str| json!({"index": index, "delta": {}, "finish_reason": reason});
    let mock = Mock::always(stream(&[
        delta(0, json!({"role": "assistant", "content": "Clean"})),
        delta(1, json!({"reasoning": format!("I know {half}")})),
        delta(1, json!({"reasoning": format!("{other} well")})),
        arguments(0, &format!("{{\"token\": \"{half}")),
        arguments(0, &format!("{other}\", \"n\": 1.50}}")),
        end(1, "stop"),
        end(0, "tool_calls"),
    ]))
    .await;
    let (_server, key, owner, _) = started(&backend, &mock).await;
    for action in ["flag", "redact", "block"] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let trace = key.trace().await;
        let reply = ask(&key, &trace, "Hello.", true).await;
        let (said, ends) = heard(&reply.chunks());
        let detail = key.detail(&trace).await;
        assert_eq!(detail["steps"][0]["security"]["secret_leaked"], true, "{detail}");
        if action == "block" {
            let left = |(name, text): (&String, &String)| {
                name == "0 role" || text.is_empty() || name == "1 reasoning" && text == "I know "
            };
            assert!(said.iter().all(left), "{said:?}");
            assert_eq!(ends[&0], ["content_filter"]);
            continue;
        }
        assert_eq!(
            (&*ends[&0], &*ends[&1]),
            (&["tool_calls".to_owned()][..], &["stop".to_owned()][..])
        );
        assert_eq!(said["0 content"], "Clean");
        let redacts = action == "redact";
        assert_eq!(said.values().any(|text| text.contains(LEAK)), !redacts, "{said:?}");
        if redacts {
            assert!(!reply.text.contains(half) && !reply.text.contains("\"token\":\"t\""));
            let arguments = &said["0 tool_calls"];
            assert!(arguments.ends_with("]\", \"n\": 1.50}"), "{arguments}");
            serde_json::from_str::<Value>(arguments).unwrap();
            assert!(said["1 reasoning"].ends_with("] well"), "{said:?}");
            let asked = &detail["steps"][1];
            assert_eq!(asked["type"], "tool_call", "{detail}");
            let token = &asked["output"]["tool_calls"][0]["arguments"]["token"];
            assert!(arguments.contains(token.as_str().unwrap()), "{asked}");
        }
    }
}

async fn what_is_left_of_a_broken_answer_is_judged(backend: Backend) {
    let (half, other) = LEAK.split_at(9);
    let pieces = ["Here: ", half, other].map(str::to_owned);
    let mock = Mock::always(Answer::Broken(pieces.to_vec())).await;
    let (_server, key, owner, _) = started(&backend, &mock).await;
    for action in ["flag", "redact", "block"] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let trace = key.trace().await;
        let reply = ask(&key, &trace, "Hello.", true).await;
        assert!(!reply.text.contains("[DONE]"), "{}", reply.text);
        let detail = key.detail(&trace).await;
        let step = &detail["steps"][0];
        assert_eq!(
            (&step["status"], &step["security"]["secret_leaked"]),
            (&json!("failed"), &json!(true))
        );
        // Held-back text did not leave, and is not stored.
        let left = if action == "flag" { format!("Here: {LEAK}") } else { "Here: ".to_owned() };
        let mut chunks: Vec<Value> =
            reply.events().iter().map(|event| serde_json::from_str(event).unwrap()).collect();
        assert_eq!(chunks.pop().unwrap()["code"], "provider_unreachable");
        assert_eq!(heard(&chunks).0["0 content"], left);
        assert_eq!(step["output"], left);
    }
}

async fn a_stream_of_too_many_strings_ends(backend: Backend) {
    let said = |from: u64| {
        let choices = (from..from + 1_024).map(
            |index| json!({"index": index, "delta": {"content": "Hm"}, "finish_reason": "stop"}),
        );
        json!({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "x",
            "choices": choices.collect::<Value>()})
    };
    let mock = Mock::start(Duration::ZERO, None, move |body| {
        let chunks = if body.to_string().contains("too many") { 17 } else { 16 };
        let chunks = (0..chunks).map(|chunk| format!("data: {}\n\n", said(1 + chunk * 1_024)));
        let chunks: String = chunks.collect();
        Answer::Body(200, "text/event-stream", chunks + "data: [DONE]\n\n")
    })
    .await;
    let (_server, key, owner, _) = started(&backend, &mock).await;
    for action in ["flag", "redact"] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        for (text, ends) in [("As many as may be.", true), ("That are too many.", false)] {
            let trace = key.trace().await;
            let reply = ask(&key, &trace, text, true).await;
            assert_eq!(reply.text.ends_with("data: [DONE]\n\n"), ends);
            assert_eq!(reply.text.contains("provider_unreachable"), !ends);
            let step = key.detail(&trace).await["steps"][0].clone();
            assert_eq!(step["status"], if ends { "completed" } else { "failed" });
            assert_eq!(step["error"].as_str().is_some_and(|what| what.contains("16384")), !ends);
            assert_eq!(step["cost_estimated"], true, "what was said is paid for: {step}");
        }
    }
}

async fn what_came_with_a_finding_is_counted(backend: Backend) {
    let mock = Mock::start(Duration::ZERO, None, |_| {
        let said = json!({"content": format!("It is {LEAK} as you know.")});
        let event = |choices: Value, usage: Value| {
            let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1,
                "model": "x", "choices": choices, "usage": usage});
            format!("data: {chunk}\n\n")
        };
        let words = json!([{"index": 0, "delta": said, "finish_reason": null}]);
        let end = json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]);
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 77, "total_tokens": 87});
        let events = [(words, Value::Null), (end, Value::Null), (json!([]), usage)];
        let body: String =
            events.into_iter().map(|(choices, usage)| event(choices, usage)).collect();
        Answer::Body(200, "text/event-stream", format!("{body}data: [DONE]\n\n"))
    })
    .await;
    let (_server, key, owner, trace) = started(&backend, &mock).await;
    let output = json!({"safety": {"output": {"secrets": {"action": "block"}}}});
    settings(&owner, 1, output).await;
    let reply = ask(&key, &trace, "What is it?", true).await;
    assert!(
        reply.text.contains("content_filter") && !reply.text.contains("ghp_"),
        "{}",
        reply.text
    );
    let step = key.detail(&trace).await["steps"][0].clone();
    assert_eq!(step["completion_tokens"], 77, "{step}");
    assert!(step["cost_estimated"].is_null(), "{step}");
}

/// The request to the provider, as a JSON string would spell it.
fn spelled(body: &Value) -> String {
    let text = body["messages"][0]["content"].as_str().unwrap();
    assert!(!text.contains("jane"), "{text}");
    let quoted = json!(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

async fn placeholders_are_put_back_everywhere(backend: Backend) {
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), |body| {
        let said = body["messages"][0]["content"].clone();
        let arguments = format!("{{\"to\": \"{}\", \"n\": 1.50}}", spelled(body));
        let first = json!({"role": "assistant", "content": said, "reasoning": said,
            "provider_state": {"thinking": said}});
        let second = json!({"role": "assistant", "content": null, "tool_calls": call(&arguments)});
        completion(&[choice(0, first, "stop"), choice(1, second, "tool_calls")])
    })
    .await;
    let (_server, key, _, trace) = started(&backend, &mock).await;
    let answer = ask(&key, &trace, MAIL, false).await.ok(200);
    let first = &answer["choices"][0];
    assert_eq!(
        (&first["message"]["content"], &first["message"]["reasoning"]),
        (&json!(MAIL), &json!(MAIL))
    );
    assert!(first["logprobs"].is_null(), "they would tell of placeholders: {first}");
    let arguments = &answer["choices"][1]["message"]["tool_calls"][0]["function"]["arguments"];
    let spelled = json!(MAIL).to_string();
    assert_eq!(*arguments, format!("{{\"to\": {spelled}, \"n\": 1.50}}"));
    assert_eq!(answer["choices"][1]["finish_reason"], "tool_calls");
    // Content signed by the provider stays as it was.
    let state = &first["message"]["provider_state"]["thinking"];
    let thought = mock.last()["messages"][0]["content"].clone();
    assert_eq!(*state, thought);
    assert_ne!(*state, MAIL);
}

async fn placeholders_are_put_back_everywhere_in_a_stream(backend: Backend) {
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), |body| {
        let said = body["messages"][0]["content"].as_str().unwrap();
        let arguments = format!("{{\"to\": \"{}\", \"n\": 1.50}}", spelled(body));
        let cut = |text: &str| -> Vec<String> {
            let all: Vec<char> = text.chars().collect();
            all.chunks(3).map(|piece| piece.iter().collect()).collect()
        };
        let delta = |index: u64, delta: Value, end: Value| {
            json!({"index": index, "delta": delta, "finish_reason": end})
        };
        let mut chunks = Vec::new();
        for piece in cut(said) {
            chunks.push(delta(0, json!({"content": piece}), Value::Null));
            chunks.push(delta(1, json!({"content": piece}), Value::Null));
        }
        for piece in cut(&arguments) {
            let call = json!([{"index": 0, "function": {"arguments": piece}}]);
            chunks.push(delta(0, json!({"tool_calls": call}), Value::Null));
        }
        chunks.push(delta(0, json!({}), json!("tool_calls")));
        chunks.push(delta(1, json!({}), json!("stop")));
        stream(&chunks)
    })
    .await;
    let (_server, key, owner, trace) = started(&backend, &mock).await;
    for held in [false, true] {
        let action = if held { "redact" } else { "flag" };
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let reply = ask(&key, &trace, MAIL, true).await;
        let (said, ends) = heard(&reply.chunks());
        assert_eq!((&*said["0 content"], &*said["1 content"]), (MAIL, MAIL));
        let spelled = json!(MAIL).to_string();
        assert_eq!(said["0 tool_calls"], format!("{{\"to\": {spelled}, \"n\": 1.50}}"));
        assert_eq!(
            (ends[&0].as_slice(), ends[&1].as_slice()),
            (&["tool_calls".to_owned()][..], &["stop".to_owned()][..])
        );
    }
}
