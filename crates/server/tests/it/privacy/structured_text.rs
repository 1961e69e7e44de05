//! Personal data that is no plain text: numbers, and JSON inside strings.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, settings};

crate::on_every_backend!(
    numbers_are_read_as_a_person_would,
    arguments_are_read_as_json,
    a_number_can_block,
);

const SSN: u64 = 536_228_741;
const CARD: u64 = 4_111_111_111_111_111;

/// A server with a model that answers, its caller, and a trace.
async fn answering(backend: &Backend) -> (Server, Caller, Mock, String) {
    let server = Server::unlimited(backend).await;
    let (key, mock) = (server.key(), Mock::always(Answer::text("Done.")).await);
    mock.register(&server.owner().await, "mock").await;
    let trace = key.trace().await;
    (server, key, mock, trace)
}

async fn chat(key: &Caller, trace: &str, more: Value) -> Value {
    let mut body = json!({"trace_id": trace, "model": "mock",
        "messages": [{"role": "user", "content": "Look it up."}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    key.post("/api/v1/chat/completions", &body).await.ok(200)
}

/// Asserts that a value is a placeholder.
#[track_caller]
fn is_hidden(value: &Value, kind: &str) {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no text"));
    assert!(text.starts_with(&format!("[{kind}_")) && text.ends_with(']'), "{text}");
}

async fn numbers_are_read_as_a_person_would(backend: Backend) {
    let (_server, key, mock, trace) = answering(&backend).await;
    let customer = json!({
        "customerSsn": SSN, "cards": [CARD, 7], "card": 4_111_111_111_111_111.0,
        "createdAt": 1_718_000_004, "max": u64::MAX, "least": i64::MIN, "share": 0.25, "n": -3,
    });
    chat(&key, &trace, json!({"seed": 123_456_789, "metadata": {"customer": customer}})).await;
    let sent = mock.last();
    let customer_sent = &sent["metadata"]["customer"];
    is_hidden(&customer_sent["customerSsn"], "US_SSN");
    is_hidden(&customer_sent["cards"][0], "PAYMENT_CARD");
    is_hidden(&customer_sent["card"], "PAYMENT_CARD");
    assert_eq!(customer_sent["cards"][1], 7);
    for name in ["createdAt", "max", "least", "share", "n"] {
        assert_eq!(customer_sent[name], customer[name], "{name}");
    }
    assert_eq!(sent["seed"], 123_456_789);
    let detail = key.detail(&trace).await;
    assert_eq!(detail["steps"][0]["security"]["pii_detected"], true);
}

async fn arguments_are_read_as_json(backend: Backend) {
    let (_server, key, mock, trace) = answering(&backend).await;
    let arguments = r#"{"ssn":536228741, "to":"jane.doe\u0040acme.org", "n":1.50, "s":"a\/b"}"#;
    let call = json!({"id": "a", "type": "function",
        "function": {"name": "mail", "arguments": arguments}});
    let messages = json!([
        {"role": "user", "content": "Write to her."},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "Sent."},
    ]);
    chat(&key, &trace, json!({"messages": messages})).await;
    let sent = &mock.last()["messages"][1]["tool_calls"][0]["function"]["arguments"];
    let sent = sent.as_str().unwrap();
    let read: Value = serde_json::from_str(sent).unwrap();
    is_hidden(&read["ssn"], "US_SSN");
    is_hidden(&read["to"], "EMAIL");
    assert!(sent.ends_with(r#", "n":1.50, "s":"a\/b"}"#), "the rest is as it was: {sent}");
}

async fn a_number_can_block(backend: Backend) {
    let (server, key, mock, trace) = answering(&backend).await;
    settings(&server.owner().await, 1, json!({"safety": {"pii": {"action": "block"}}})).await;
    let answer = chat(&key, &trace, json!({"metadata": {"card": CARD}})).await;
    assert_eq!(answer["choices"][0]["finish_reason"], "content_filter", "{answer}");
    assert_eq!(mock.begun(), 0);
}
