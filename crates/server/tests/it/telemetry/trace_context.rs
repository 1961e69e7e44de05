//! W3C Trace Context: a call is found again in the caller's own tracing system, and in the
//! provider's.

use serde_json::{Value, json};

use crate::harness::{Answer, Asked, Backend, Mock, Setup, until};

crate::on_every_backend!(a_trace_goes_through, what_is_not_valid_is_not_there);

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const STATE: &str = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE";

/// Answers in the form of whatever endpoint was called.
fn answer(body: &Value) -> Answer {
    if body.get("input").is_some() {
        let data = json!([{"index": 0, "embedding": [1.0, 0.5]}]);
        let usage = json!({"prompt_tokens": 2});
        return Answer::json(200, &json!({"object": "list", "data": data, "usage": usage}));
    }
    if body.get("prompt").is_some() {
        let url = "https://images.example/1.png";
        return Answer::json(200, &json!({"created": 1, "data": [{"url": url}]}));
    }
    Answer::text("Fine.")
}

async fn a_trace_goes_through(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_LOG", "info").start().await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(std::time::Duration::ZERO, Some((10, 5)), answer).await;
    mock.register(&owner, "m").await;
    let traceparent = format!("00-{TRACE}-{SPAN}-01");
    let asking = key.with("traceparent", &traceparent).with("tracestate", STATE);
    let messages = json!([{"role": "user", "content": "Hello."}]);
    for (path, body) in [
        ("chat/completions", json!({"model": "m", "messages": messages})),
        ("chat/completions", json!({"model": "m", "messages": messages, "stream": true})),
        ("messages", json!({"model": "m", "messages": messages, "max_tokens": 9})),
        ("responses", json!({"model": "m", "input": "Hello."})),
        ("assistants", json!({"model": "m", "messages": messages})),
        ("runs", json!({"model": "m", "input": "Hello."})),
        ("embeddings", json!({"model": "m", "input": "Hello."})),
        ("images/generations", json!({"model": "m", "prompt": "A boat."})),
        ("checks", json!({"input": "Hello."})),
        ("logs", json!({"output": {"note": "Hello."}})),
    ] {
        let trace = key.trace().await;
        let path = format!("/api/v1/{path}");
        // Formats of vendors name the trace in a header.
        let asking = asking.with("x-trace-id", &trace);
        let mut whole = body;
        if path != "/api/v1/messages" && path != "/api/v1/responses" {
            whole["trace_id"] = trace.as_str().into();
        }
        let reply = asking.post(&path, &whole).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        let steps = key.detail(&trace).await["steps"].clone();
        let steps = steps.as_array().unwrap();
        assert_eq!(steps.len(), 1, "{path}: {steps:?}");
        let told = &steps[0]["trace_context"];
        assert_eq!(
            (&told["trace_id"], &told["parent_id"]),
            (&json!(TRACE), &json!(SPAN)),
            "{path}"
        );
        match mock.take().as_slice() {
            [] => assert!(told["span_id"].is_null() && steps[0]["model"].is_null(), "{path}"),
            [sent] => {
                let span = told["span_id"].as_str().unwrap();
                assert!(span.len() == 16 && span != SPAN, "{path}: {span}");
                assert_eq!(sent.headers["traceparent"], format!("00-{TRACE}-{span}-01"), "{path}");
                assert_eq!(sent.headers["tracestate"], STATE, "{path}");
            }
            several => panic!("{path}: {several:?}"),
        }
        until("its line is written", async || {
            let lines = server.log();
            let mut lines =
                lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.find(|line| {
                line["message"] == "request"
                    && line["route"] == path.as_str()
                    && line["traceparent"] == traceparent.as_str()
            })
        })
        .await;
    }
}

async fn what_is_not_valid_is_not_there(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_LOG", "info").start().await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::start(std::time::Duration::ZERO, Some((10, 5)), answer).await;
    mock.register(&owner, "m").await;
    let good = format!("00-{TRACE}-{SPAN}-00");
    let has = |sent: &Asked, name: &str| sent.headers.contains_key(name);
    for (parent, state, goes_on) in [
        (None, Some(STATE), (false, false)),
        (Some(format!("{good}-more")), Some(STATE), (false, false)),
        (Some(good.to_uppercase()), None, (false, false)),
        (Some(format!("00-{}-{SPAN}-00", "0".repeat(32))), None, (false, false)),
        (Some(good.clone()), Some("no state"), (true, false)),
        (Some(good.clone()), None, (true, false)),
        (Some(good), Some(STATE), (true, true)),
    ] {
        let trace = key.trace().await;
        let mut asking = key.clone();
        for (name, value) in [("traceparent", parent.as_deref()), ("tracestate", state)] {
            if let Some(value) = value {
                asking = asking.with(name, value);
            }
        }
        let body = json!({"trace_id": trace, "model": "m", "input": "Hello."});
        asking.post("/api/v1/runs", &body).await.ok(200);
        let sent = mock.take().remove(0);
        assert_eq!((has(&sent, "traceparent"), has(&sent, "tracestate")), goes_on, "{parent:?}");
        let detail = key.detail(&trace).await;
        assert_eq!(detail["steps"][0]["trace_context"].is_object(), goes_on.0, "{parent:?}");
    }
}
