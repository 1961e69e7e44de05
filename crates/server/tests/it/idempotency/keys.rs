//! Which keys are good, and whose they are.

use std::collections::BTreeSet;

use serde_json::json;

use super::{CHAT, HEADER, calls, is_again, is_refused, priced};
use crate::harness::{Answer, Backend, Server};

crate::on_every_backend!(
    a_key_that_cannot_be_meant_is_refused,
    a_name_belongs_to_its_key_and_its_path,
    what_does_not_spend_has_no_such_header,
    a_refused_caller_learns_no_answer,
);

async fn a_key_that_cannot_be_meant_is_refused(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text("Once.")).await;
    let long = "x".repeat(256);
    let all = calls(&key, false).await;
    for (path, body) in &all {
        for (bad, fault) in [("", "empty"), (long.as_str(), "255"), ("a\tb", "control")] {
            let reply = key.with(HEADER, bad).post(path, body).await;
            let said = is_refused(&reply, path, 400, "");
            assert!(said.contains("Idempotency-Key") && said.contains(fault), "{path}: {said}");
        }
    }
    assert_eq!(mock.begun(), 0);
    let (path, body) = &all[0];
    let key = key.with(HEADER, &"é".repeat(127));
    let first = key.post(path, body).await;
    first.ok(200);
    is_again(&key.post(path, body).await, &first);
}

async fn a_name_belongs_to_its_key_and_its_path(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text("Once.")).await;
    let owner = server.owner().await;
    let made =
        owner.post("/api/v1/keys", &json!({"name": "Second", "project_id": 1})).await.ok(201);
    let second = server.with_key(made["raw_key"].as_str().unwrap());
    let project = json!({"project": {"name": "Other"}});
    let project = owner.post("/api/v1/projects", &project).await.ok(201)["id"].clone();
    let made = owner.post("/api/v1/keys", &json!({"name": "Third", "project_id": project})).await;
    let third = server.with_key(made.ok(201)["raw_key"].as_str().unwrap());
    let fields = json!({"model_definition": {"name": "mock", "identifier": "mock",
        "provider": "openai", "base_url": mock.url(), "is_public": false}});
    owner.post(&format!("/api/v1/projects/{project}/models"), &fields).await.ok(201);
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]});
    let mut steps = Vec::new();
    for (number, key) in [key.clone(), second, third].into_iter().enumerate() {
        let key = key.with(HEADER, "the same");
        let first = key.post(CHAT, &body).await;
        first.ok(200);
        assert_eq!((first.header("idempotency-replayed"), mock.begun()), ("", number + 1));
        is_again(&key.post(CHAT, &body).await, &first);
        steps.push(first.header("x-sluice-step-id").to_owned());
    }
    let steps: BTreeSet<String> = steps.into_iter().collect();
    assert_eq!(steps.len(), 3);
    let elsewhere = json!({"model": "mock", "max_tokens": 9,
        "messages": [{"role": "user", "content": "Hello."}]});
    key.with(HEADER, "the same").post("/anthropic/v1/messages", &elsewhere).await.ok(200);
    assert_eq!(mock.begun(), 4);
}

async fn what_does_not_spend_has_no_such_header(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key().with(HEADER, "one");
    let traces = [key.trace().await, key.trace().await];
    assert_ne!(traces[0], traces[1]);
    let long = key.with(HEADER, &"x".repeat(300));
    long.get("/api/v1/sdk/config").await.ok(200);
    let stream = format!("/api/v1/executions/stream?trace_id={}&input=Hello.", traces[0]);
    for _ in 0..2 {
        let reply = key.get(&stream).await;
        reply.chunks();
        assert_eq!(reply.header("idempotency-replayed"), "");
    }
}

async fn a_refused_caller_learns_no_answer(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text("Once.")).await;
    let owner = server.owner().await;
    let made =
        owner.post("/api/v1/keys", &json!({"name": "Second", "project_id": 1})).await.ok(201);
    let second = server.with_key(made["raw_key"].as_str().unwrap()).with(HEADER, "one");
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]});
    second.post(CHAT, &body).await.ok(200);
    owner.delete(&format!("/api/v1/keys/{}", made["id"].as_str().unwrap())).await.ok(204);
    second.post(CHAT, &body).await.tells(401, "Unauthorized");
    key.with(HEADER, "one").post(CHAT, &body).await.ok(200);
    assert_eq!(mock.begun(), 2);
}
