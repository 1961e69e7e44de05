//! The answer to a key: kept, and given again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::{CHAT, HEADER, calls, is_again, is_refused, priced};
use crate::harness::{Answer, Backend, Mock, Server, settings, until};

crate::on_every_backend!(
    the_same_request_gets_the_same_answer,
    a_stream_comes_again_as_it_was,
    embeddings_images_and_replays_come_again,
    an_error_that_cost_nothing_is_not_kept,
    an_error_that_was_paid_for_is_kept,
    a_call_that_may_have_been_charged_is_not_made_again,
    a_project_without_contents_keeps_no_answer,
    an_answer_that_is_too_large_is_not_kept,
    a_restart_forgets_no_answer,
    an_answer_is_sealed_and_kept_for_a_day,
);

async fn the_same_request_gets_the_same_answer(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text("Once.")).await;
    for (path, body) in calls(&key, false).await {
        let key = key.with("x-trace-id", &key.trace().await).with(HEADER, "one");
        let before = mock.begun();
        let first = key.post(path, &body).await;
        assert_eq!(first.status, 200, "{path}: {}", first.text);
        is_again(&key.post(path, &body).await, &first);
        assert_eq!(mock.begun(), before + 1, "{path}");
        let mut other = body.clone();
        other["temperature"] = json!(0.5);
        let refused = key.post(path, &other).await;
        let said = is_refused(&refused, path, 422, "idempotency_key_reused");
        assert!(said.contains("another body"), "{said}");
        assert_eq!(refused.header("x-should-retry"), "false");
        // Not the same bytes, though the same JSON.
        let spaced = format!("{body} ").into_bytes();
        is_refused(
            &key.send("POST", path, Some(spaced)).await,
            path,
            422,
            "idempotency_key_reused",
        );
        assert_eq!(mock.begun(), before + 1, "{path}");
    }
    // Without the header, and on a path of its own, it is another request.
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]});
    let before = mock.begun();
    for _ in 0..2 {
        key.post(CHAT, &body).await.ok(200);
    }
    assert_eq!(mock.begun(), before + 2);
}

async fn a_stream_comes_again_as_it_was(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let pieces = ["One ", "after ", "the other."].map(str::to_owned).to_vec();
    let (key, mock) = priced(&server, Answer::Pieces(pieces)).await;
    for (path, body) in calls(&key, true).await {
        let key = key.with("x-trace-id", &key.trace().await).with(HEADER, "one");
        let before = mock.begun();
        let first = key.post(path, &body).await;
        assert!(first.text.contains("the other."), "{path}: {}", first.text);
        assert!(first.header("content-type").starts_with("text/event-stream"), "{path}");
        is_again(&key.post(path, &body).await, &first);
        assert_eq!(mock.begun(), before + 1, "{path}");
    }
    let trace = key.trace().await;
    let key = key.with(HEADER, "two");
    let body = json!({"trace_id": trace, "input": "Summarise: all is well."});
    let first = key.post("/api/v1/executions/stream", &body).await;
    first.chunks();
    is_again(&key.post("/api/v1/executions/stream", &body).await, &first);
    assert_eq!(key.detail(&trace).await["steps"].as_array().unwrap().len(), 1);
}

async fn embeddings_images_and_replays_come_again(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key().with(HEADER, "one"), server.owner().await);
    let vectors = json!({"object": "list", "data": [{"index": 0, "embedding": [0.5, -2.5]}],
        "model": "up", "usage": {"prompt_tokens": 20}});
    let pictures = json!({"created": 1, "data": [{"b64_json": "iVBORw0KGgo="}]});
    let embeds = Mock::always(Answer::json(200, &vectors)).await;
    embeds.register(&owner, "e").await;
    let paints = Mock::always(Answer::json(200, &pictures)).await;
    let price = json!({"is_public": false, "additional_config": {"cost_per_image": 0.04}});
    paints.register_with(&owner, "i", price).await;
    let trace = key.trace().await;
    let content = json!({"parts": [{"text": "one"}]});
    for (path, mock, body) in [
        ("/api/v1/embeddings", &embeds, json!({"trace_id": trace, "model": "e", "input": "one"})),
        ("/openai/v1/embeddings", &embeds, json!({"model": "e", "input": "one"})),
        ("/gemini/v1beta/models/e:embedContent", &embeds, json!({"content": content})),
        (
            "/gemini/v1beta/models/e:batchEmbedContents",
            &embeds,
            json!({"requests": [{"model": "models/e", "content": content}]}),
        ),
        (
            "/api/v1/images/generations",
            &paints,
            json!({"trace_id": trace, "model": "i", "prompt": "A boat"}),
        ),
        ("/openai/v1/images/generations", &paints, json!({"model": "i", "prompt": "A boat"})),
    ] {
        let before = mock.begun();
        let first = key.post(path, &body).await;
        assert_eq!(first.status, 200, "{path}: {}", first.text);
        is_again(&key.post(path, &body).await, &first);
        let mut other = body.clone();
        other["more"] = json!(1);
        is_refused(&key.post(path, &other).await, path, 422, "idempotency_key_reused");
        assert_eq!(mock.begun(), before + 1, "{path}");
    }
    key.execute(&trace, "Summarise: all is well.").await.ok(200);
    key.send("PATCH", &format!("/api/v1/traces/{trace}/complete"), None).await.ok(200);
    let body = json!({"trace_id": trace});
    let first = key.post("/api/v1/replay", &body).await;
    assert!(first.status == 202 || first.status == 200, "{}", first.text);
    is_again(&key.post("/api/v1/replay", &body).await, &first);
}

async fn an_error_that_cost_nothing_is_not_kept(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let asked = AtomicUsize::new(0);
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), move |_| {
        match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Answer::Body(400, "application/json", r#"{"error":{"message":"No."}}"#.to_owned()),
            _ => Answer::text("Now."),
        }
    })
    .await;
    mock.register(&owner, "mock").await;
    let key = server.key().with(HEADER, "one");
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]});
    key.post(CHAT, &body).await.tells(400, "No.");
    let answered = key.post(CHAT, &body).await;
    answered.ok(200);
    assert_eq!(answered.header("idempotency-replayed"), "");
    is_again(&key.post(CHAT, &body).await, &answered);
    assert_eq!(mock.begun(), 2);
    // A request that was refused may be put right under its key.
    let key = key.with(HEADER, "two");
    let wrong = json!({"model": "nobody", "messages": [{"role": "user", "content": "Hello."}]});
    key.post(CHAT, &wrong).await.ok(404);
    key.post(CHAT, &body).await.ok(200);
}

async fn an_error_that_was_paid_for_is_kept(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let empty = json!({"id": "x", "object": "chat.completion", "created": 1, "model": "x",
        "choices": [], "usage": usage});
    let (key, mock) = priced(&server, Answer::json(200, &empty)).await;
    let key = key.with(HEADER, "one");
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]});
    let first = key.post(CHAT, &body).await;
    assert_eq!(first.status, 502, "{}", first.text);
    let step = &key.detail(first.header("x-trace-id")).await["steps"][0];
    assert!(step["cost"].as_f64().unwrap() > 0.0, "{step}");
    let begun = mock.begun();
    let again = key.post(CHAT, &body).await;
    is_again(&again, &first);
    // Clients that try again by themselves need not.
    assert_eq!(again.header("x-should-retry"), "false");
    assert_eq!(mock.begun(), begun);
}

async fn a_call_that_may_have_been_charged_is_not_made_again(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    for (name, answer, streams) in [
        ("cut off", Answer::Truncated, false),
        ("broken", Answer::Broken(vec!["Half a ".to_owned()]), true),
    ] {
        let mock = Mock::always(answer).await;
        mock.register(&server.owner().await, name).await;
        let key = key.with(HEADER, name);
        let body = json!({"model": name, "stream": streams,
            "messages": [{"role": "user", "content": "Hello."}]});
        let first = key.post(CHAT, &body).await;
        assert_eq!(first.status, if streams { 200 } else { 502 }, "{name}: {}", first.text);
        let begun = mock.begun();
        is_again(&key.post(CHAT, &body).await, &first);
        assert_eq!(mock.begun(), begun, "{name}");
    }
}

async fn a_project_without_contents_keeps_no_answer(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text("Once.")).await;
    settings(&server.owner().await, 1, json!({"store_content": false})).await;
    let key = key.with(HEADER, "one");
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]});
    key.post(CHAT, &body).await.ok(200);
    let refused = key.post(CHAT, &body).await;
    let said = is_refused(&refused, CHAT, 409, "idempotency_answer_not_kept");
    assert!(said.contains("stores no contents"), "{said}");
    assert_eq!(mock.begun(), 1);
}

async fn an_answer_that_is_too_large_is_not_kept(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text(&"All is well. ".repeat(700_000))).await;
    let key = key.with(HEADER, "one");
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]});
    let first = key.post(CHAT, &body).await;
    assert!(first.status == 200 && first.text.len() > 8 << 20, "{}", first.text.len());
    let refused = key.post(CHAT, &body).await;
    let said = is_refused(&refused, CHAT, 409, "idempotency_answer_not_kept");
    assert!(said.contains("too large"), "{said}");
    assert_eq!(refused.header("x-should-retry"), "false");
    assert_eq!(mock.begun(), 1);
}

async fn a_restart_forgets_no_answer(backend: Backend) {
    let mut server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text("Once.")).await;
    let key = key.with(HEADER, "one").with("x-sluice-user", &"x".repeat(129));
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]});
    let first = key.post(CHAT, &body).await;
    first.ok(200);
    assert_eq!(first.header("x-sluice-dropped-attributes"), "user");
    server.restart().await;
    is_again(&key.post(CHAT, &body).await, &first);
    assert_eq!(mock.begun(), 1);
}

async fn an_answer_is_sealed_and_kept_for_a_day(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, mock) = priced(&server, Answer::text("A phrase like no other.")).await;
    let key = key.with(HEADER, "a-key-like-no-other");
    let body = json!({"model": "mock", "messages": [{"role": "user", "content": "Hello."}]});
    let first = key.post(CHAT, &body).await;
    first.ok(200);
    is_again(&key.post(CHAT, &body).await, &first);
    let stored = server.stored();
    for hidden in ["A phrase like no other.", "a-key-like-no-other"] {
        let is_there = stored.windows(hidden.len()).any(|bytes| bytes == hidden.as_bytes());
        assert!(!is_there, "{hidden}");
    }
    if server.on_sqlite() {
        return;
    }
    // A day later.
    let ages = "UPDATE idempotency_claims SET created_at = created_at - 86400000000";
    until("the answer is kept", async || {
        let kept = server.sql("SELECT state FROM idempotency_claims");
        (kept == "answered").then_some(())
    })
    .await;
    server.sql(ages);
    let later = key.post(CHAT, &body).await;
    later.ok(200);
    assert_eq!((later.header("idempotency-replayed"), mock.begun()), ("", 2));
    is_again(&key.post(CHAT, &body).await, &later);
}
