//! Sessions: calls that name no trace share that of their session.

use serde_json::{Value, json};

use super::{CHAT, DOORS, ask};
use crate::harness::{Answer, Backend, Caller, Mock, Reply, Server, settings};

crate::on_every_backend!(
    calls_of_a_conversation_share_a_trace,
    a_named_session_is_one_on_every_root,
    calls_that_come_at_once_share_a_trace,
    a_session_survives_a_restart_and_opens_a_new_trace_when_its_own_is_over,
    how_long_a_session_may_be_idle,
);

fn trace_of(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.header("x-trace-id").to_owned()
}

async fn turn(key: &Caller, door: &str, text: &str) -> String {
    trace_of(&key.post(door, &ask(door, "m", text, json!({}))).await)
}

async fn model(owner: &Caller) {
    Mock::always(Answer::text("Hello.")).await.register(owner, "m").await;
}

async fn calls_of_a_conversation_share_a_trace(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    model(&owner).await;
    let system = json!({"role": "system", "content": "Be brief."});
    let first = json!({"role": "user", "content": "Say hello."});
    let answer = json!({"role": "assistant", "content": "Hello."});
    let next = json!({"role": "user", "content": "Again."});
    let asks = async |messages: Value, stream: bool| {
        let body = json!({"model": "m", "messages": messages, "stream": stream});
        trace_of(&key.post(CHAT, &body).await)
    };
    let trace = asks(json!([system, first]), false).await;
    assert_eq!(asks(json!([system, first, answer, next]), true).await, trace);
    assert_ne!(asks(json!([system, next]), false).await, trace, "another conversation");
    assert_ne!(asks(json!([first]), false).await, trace, "another application");
    let detail = key.detail(&trace).await;
    assert_eq!(detail["status"], "pending");
    assert_eq!(detail["steps"].as_array().unwrap().len(), 2);
    assert_eq!(detail["metadata"], Value::Null, "nobody has named it");

    // The caller's own trace counts, wherever it is named.
    let own = key.trace().await;
    let body = json!({"model": "m", "messages": [system, first], "trace_id": own});
    assert_eq!(trace_of(&key.post(CHAT, &body).await), own);
}

async fn a_named_session_is_one_on_every_root(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    model(&owner).await;
    let named = key.with("x-sluice-session", "s-1");
    let trace = turn(&named, CHAT, "Hello.").await;
    for door in DOORS {
        assert_eq!(turn(&named, door, &format!("Hello by {door}.")).await, trace, "{door}");
    }
    let vectors = json!({"model": "sandbox", "input": "A red boat."});
    assert_eq!(trace_of(&named.post("/openai/v1/embeddings", &vectors).await), trace);
    let detail = key.detail(&trace).await;
    assert_eq!(detail["metadata"], json!({"session": "s-1"}));
    assert_eq!(detail["steps"].as_array().unwrap().len(), 5);

    let by_body = json!({"prompt_cache_key": "s-1"});
    let reply = key.post(CHAT, &ask(CHAT, "m", "Good morning.", by_body)).await;
    assert_eq!(trace_of(&reply), trace, "clients name it in many places");
    assert_ne!(turn(&key.with("x-sluice-session", "s-2"), CHAT, "Hello.").await, trace);
    let made = owner.post("/api/v1/keys", &json!({"name": "other", "project_id": 1})).await;
    let other = server.with_key(made.ok(201)["raw_key"].as_str().unwrap());
    let of_other = turn(&other.with("x-sluice-session", "s-1"), CHAT, "Hello.").await;
    assert_ne!(of_other, trace, "a session is a key's own");
}

async fn calls_that_come_at_once_share_a_trace(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    model(&owner).await;
    let all = (0..8).map(|_| turn(&key, CHAT, "Hello."));
    let all = futures_util::future::join_all(all).await;
    assert!(all.iter().all(|trace| *trace == all[0]), "{all:?}");
    assert_eq!(key.get("/api/v1/traces").await.ok(200).as_array().unwrap().len(), 1);
}

async fn a_session_survives_a_restart_and_opens_a_new_trace_when_its_own_is_over(backend: Backend) {
    let mut server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    model(&owner).await;
    let first = turn(&key, CHAT, "Hello.").await;
    server.restart().await;
    assert_eq!(turn(&key, CHAT, "Hello.").await, first);
    key.send("PATCH", &format!("/api/v1/traces/{first}/complete"), None).await.ok(200);
    let second = turn(&key, CHAT, "Hello.").await;
    assert_ne!(second, first);
    assert_eq!(turn(&key, CHAT, "Hello.").await, second);
    let detail = key.detail(&first).await;
    assert_eq!(detail["status"], "completed");
    assert_eq!(detail["steps"].as_array().unwrap().len(), 2, "it takes no more steps");
}

async fn how_long_a_session_may_be_idle(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    settings(&owner, 1, json!({"sessions": {"idle_minutes": 1440}})).await;
    for minutes in [json!(0), json!(1441), json!("30")] {
        let body = json!({"project": {"settings": {"sessions": {"idle_minutes": minutes}}}});
        owner
            .patch("/api/v1/projects/1", &body)
            .await
            .invalid("settings.sessions.idle_minutes must be a whole number from 1 to 1440");
    }
}
