//! `Idempotency-Key`: a request is carried out once, however often it comes.

mod answers;
mod calls;
mod keys;
mod nodes;

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Caller, Mock, Reply, Server};

const HEADER: &str = "idempotency-key";
const CHAT: &str = "/openai/v1/chat/completions";
const GEMINI: &str = "/gemini/v1beta/models/mock:generateContent";
/// How long a request waits for another with its key: half a minute by the documents. Looks at the claim of another
/// node are some time apart, and a slow machine takes longer.
const WAIT: RangeInclusive<Duration> = Duration::from_secs(25)..=Duration::from_mins(1);

/// A server with a model that costs, and its provider.
async fn priced(server: &Server, answer: Answer) -> (Caller, Mock) {
    let mock = Mock::always(answer).await;
    mock.register(&server.owner().await, "mock").await;
    (server.key(), mock)
}

/// Every endpoint that calls a model in a conversation, with a request for it.
async fn calls(key: &Caller, streams: bool) -> Vec<(&'static str, Value)> {
    let trace = key.trace().await;
    let chat = json!({"model": "mock", "max_tokens": 50, "stream": streams,
        "messages": [{"role": "user", "content": "Hello."}]});
    let with_trace = |body: &Value| {
        let mut body = body.clone();
        body["trace_id"] = json!(trace);
        body
    };
    let response = json!({"model": "mock", "input": "Hello.", "stream": streams});
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]});
    let mut all = vec![
        ("/api/v1/chat/completions", with_trace(&chat)),
        ("/api/v1/messages", with_trace(&chat)),
        ("/api/v1/responses", with_trace(&response)),
        ("/openai/v1/chat/completions", chat.clone()),
        ("/openai/v1/responses", response),
        ("/anthropic/v1/messages", chat.clone()),
    ];
    let run = json!({"trace_id": trace, "model": "mock", "input": "Hello."});
    if streams {
        all.push(("/gemini/v1beta/models/mock:streamGenerateContent?alt=sse", contents));
    } else {
        let messages = &chat["messages"];
        let turn = json!({"trace_id": trace, "model": "mock", "messages": messages});
        all.push(("/api/v1/runs", run));
        all.push(("/api/v1/assistants", turn));
        all.push((GEMINI, contents));
    }
    for (path, body) in &mut all {
        // They take the trace in a header.
        if matches!(*path, "/api/v1/messages" | "/api/v1/responses") {
            body.as_object_mut().unwrap().remove("trace_id");
        }
    }
    all
}

/// The part of an answer that depends on the call alone.
fn told(reply: &Reply) -> (u16, String, [String; 7]) {
    let names = [
        "content-type",
        "x-trace-id",
        "x-sluice-step-id",
        "x-sluice-cost",
        "x-sluice-mode",
        "cache-control",
        "x-sluice-dropped-attributes",
    ];
    (reply.status, reply.text.clone(), names.map(|name| reply.header(name).to_owned()))
}

/// Asserts that an answer is one that was given before.
#[track_caller]
fn is_again(again: &Reply, first: &Reply) {
    assert_eq!(told(again), told(first));
    assert_eq!(
        (first.header("idempotency-replayed"), again.header("idempotency-replayed")),
        ("", "true")
    );
    assert_ne!(first.header("x-request-id"), again.header("x-request-id"));
}

/// Asserts that a request was refused for its key, in the form of its endpoint. Returns the message.
#[track_caller]
fn is_refused(reply: &Reply, path: &str, status: u16, code: &str) -> String {
    let body = reply.ok(status);
    assert_eq!(reply.header("idempotency-replayed"), "");
    let message = if path.starts_with("/gemini") {
        assert_eq!(body["error"]["code"], status);
        let kind = if status == 409 { "ABORTED" } else { "INVALID_ARGUMENT" };
        assert_eq!(body["error"]["status"], kind);
        &body["error"]["message"]
    } else if path.starts_with("/anthropic") || path == "/api/v1/messages" {
        assert_eq!(
            (&body["type"], &body["error"]["type"]),
            (&json!("error"), &json!("invalid_request_error"))
        );
        &body["error"]["message"]
    } else if path.starts_with("/openai") || path == "/api/v1/responses" {
        assert_eq!(body["error"]["type"], "invalid_request_error");
        assert_eq!(body["error"]["code"].as_str().unwrap_or_default(), code);
        &body["error"]["message"]
    } else {
        assert_eq!(body["code"].as_str().unwrap_or_default(), code);
        &body["error"]
    };
    message.as_str().unwrap().to_owned()
}
