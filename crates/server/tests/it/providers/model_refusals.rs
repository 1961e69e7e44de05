//! Refusals of models: the reason reaches callers who read text alone, and is kept at every
//! endpoint.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, settings};
use crate::providers::failures::routed_to;

crate::on_every_backend!(a_refusal_is_kept_at_every_door, what_is_kept_of_a_refusal_is_what_left);

const LEAK: &str = "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5";

/// A model that refuses in these pieces.
async fn refuses(pieces: [&'static str; 2]) -> Mock {
    let plan = move |asked: &Value| {
        if asked["stream"] != true {
            let said = json!({"role": "assistant", "content": null, "refusal": pieces.concat()});
            return Answer::completion(&said, "stop");
        }
        let event = |delta: Value, end: Value| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": end});
            let chunk = json!({"id": "x", "object": "chat.completion.chunk", "created": 1,
                "model": "x", "choices": [choice]});
            format!("data: {chunk}\n\n")
        };
        let begin = json!({"role": "assistant", "content": "", "refusal": null});
        let mut body = event(begin, Value::Null);
        body.extend(pieces.map(|piece| event(json!({"refusal": piece}), Value::Null)));
        body.push_str(&event(json!({}), json!("stop")));
        Answer::Body(200, "text/event-stream", format!("{body}data: [DONE]\n\n"))
    };
    Mock::start(Duration::ZERO, None, plan).await
}

/// The whole text of a field of choice 0.
fn said(chunks: &[Value], field: &str) -> String {
    let piece =
        |chunk: &Value| chunk["choices"][0]["delta"][field].as_str().unwrap_or_default().to_owned();
    chunks.iter().map(piece).collect()
}

async fn executed(key: &Caller, trace: &str) -> Vec<Value> {
    key.get(&format!("/api/v1/executions/stream?trace_id={trace}&input=Hello")).await.chunks()
}

fn chat(trace: &str, streams: bool) -> Value {
    json!({"trace_id": trace, "model": "mock", "max_tokens": 100, "stream": streams,
        "messages": [{"role": "user", "content": "Hello."}]})
}

async fn a_refusal_is_kept_at_every_door(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    routed_to(&owner, &refuses(["I will ", "not."]).await).await;
    let trace = key.trace().await;
    assert_eq!(key.execute(&trace, "Hello.").await.ok(200)["output"], "I will not.");
    let chunks = executed(&key, &trace).await;
    assert_eq!(
        (said(&chunks, "content"), said(&chunks, "refusal")),
        ("I will not.".to_owned(), String::new())
    );
    let path = "/api/v1/chat/completions";
    let whole = key.post(path, &chat(&trace, false)).await.ok(200);
    assert_eq!(whole["choices"][0]["message"]["refusal"], "I will not.");
    let chunks = key.post(path, &chat(&trace, true)).await.chunks();
    assert_eq!(
        (said(&chunks, "content"), said(&chunks, "refusal")),
        (String::new(), "I will not.".to_owned())
    );
    for streams in [false, true] {
        let reply = key.post("/api/v1/messages", &chat(&trace, streams)).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    let detail = key.detail(&trace).await;
    let steps = detail["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 6);
    for step in steps {
        assert_eq!(
            (&step["status"], &step["output"]),
            (&json!("completed"), &json!("I will not."))
        );
    }
}

async fn what_is_kept_of_a_refusal_is_what_left(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let (half, rest) = LEAK.split_at(9);
    let pieces: [&'static str; 2] = [format!("Not with {half}").leak(), format!("{rest}.").leak()];
    routed_to(&owner, &refuses(pieces).await).await;
    for action in ["redact", "block"] {
        let output = json!({"safety": {"output": {"secrets": {"action": action}}}});
        settings(&owner, 1, output).await;
        let trace = key.trace().await;
        let mut left = vec![said(&executed(&key, &trace).await, "content")];
        let path = "/api/v1/chat/completions";
        left.push(said(&key.post(path, &chat(&trace, true)).await.chunks(), "refusal"));
        let whole = key.post(path, &chat(&trace, false)).await.ok(200);
        left.push(match action {
            "redact" => whole["choices"][0]["message"]["refusal"].as_str().unwrap().to_owned(),
            // The refusal of a whole answer that is blocked is the gateway's own.
            _ => String::new(),
        });
        let detail = key.detail(&trace).await;
        let steps = detail["steps"].as_array().unwrap();
        assert_eq!(steps.len(), left.len());
        for (step, left) in steps.iter().zip(left) {
            assert_eq!(step["output"], left, "{action}: {step}");
            assert!(action == "block" || left.starts_with("Not with ["), "{left}");
            assert!(!left.contains(half), "{left}");
            assert_eq!(step["security"]["secret_leaked"], true, "{action}: {step}");
        }
    }
}
