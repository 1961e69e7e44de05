//! The sources of attributes, and the values that are kept of them.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, settings};

crate::on_every_backend!(
    the_first_place_that_names_one_counts,
    clients_name_their_users_in_every_format,
    what_is_beyond_the_limits_is_dropped_and_named,
    metadata_beyond_the_limits_opens_no_trace,
    a_hash_is_stored_where_the_project_asks_for_it,
);

/// Opens a trace with metadata.
async fn open(key: &Caller, metadata: &Value) -> String {
    let opened = key.post("/api/v1/traces", &json!({"metadata": metadata})).await.ok(201);
    opened["id"].as_str().unwrap().to_owned()
}

/// The attributes of the last step of a trace: user, session and tags.
async fn of_last_step(key: &Caller, trace: &str) -> Value {
    let detail = key.detail(trace).await;
    let step = detail["steps"].as_array().unwrap().last().unwrap().clone();
    json!([step["user"], step["session"], step["tags"]])
}

async fn the_first_place_that_names_one_counts(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let metadata = json!({"user": "jane", "session": "s-1", "tags": {"team": "red", "n": 7},
        "other": true});
    let trace = open(&key, &metadata).await;
    key.execute(&trace, "Hello.").await.ok(200);
    let of_trace = json!(["jane", "s-1", {"team": "red"}]);
    assert_eq!(of_last_step(&key, &trace).await, of_trace, "an execution has those of its trace");
    let chat = json!({"trace_id": trace, "model": "sandbox", "user": "joe",
        "metadata": {"team": "blue", "stage": "test"},
        "messages": [{"role": "user", "content": "Hello."}]});
    key.post("/api/v1/chat/completions", &chat).await.ok(200);
    let of_body = json!(["joe", "s-1", {"team": "blue", "stage": "test"}]);
    assert_eq!(of_last_step(&key, &trace).await, of_body, "its own body goes before");
    let named = key
        .with("x-sluice-user", "jürgen")
        .with("x-sluice-session", "s-2")
        .with("x-sluice-tags", "team=green, cost = 7");
    let reply = named.post("/api/v1/chat/completions", &chat).await;
    reply.ok(200);
    assert_eq!(reply.header("x-sluice-dropped-attributes"), "");
    let of_headers = json!(["jürgen", "s-2", {"team": "green", "cost": "7", "stage": "test"}]);
    assert_eq!(of_last_step(&key, &trace).await, of_headers, "headers go before all else");
    // Steps without a call are for somebody too.
    named.post("/api/v1/checks", &json!({"trace_id": trace, "input": "Hello."})).await.ok(200);
    let of_check = json!(["jürgen", "s-2", {"team": "green", "cost": "7"}]);
    assert_eq!(of_last_step(&key, &trace).await, of_check);
    named
        .post("/api/v1/logs", &json!({"trace_id": trace, "output": {"note": "Fine."}}))
        .await
        .ok(200);
    assert_eq!(of_last_step(&key, &trace).await, of_check);
    let plain = key.trace().await;
    key.execute(&plain, "Hello.").await.ok(200);
    assert_eq!(of_last_step(&key, &plain).await, json!([null, null, null]));
}

async fn clients_name_their_users_in_every_format(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let picture = json!({"created": 1, "data": [{"url": "https://example.org/house.png"}]});
    Mock::always(Answer::json(200, &picture)).await.register(&owner, "painter").await;
    let question = json!([{"role": "user", "content": "Hello."}]);
    let claude = "user_ab12_account__session_s-9";
    for (path, body, expected) in [
        (
            "/openai/v1/chat/completions",
            json!({"messages": question, "safety_identifier": "u-1", "metadata": {"team": "red"}}),
            json!(["u-1", null, {"team": "red"}]),
        ),
        (
            "/openai/v1/responses",
            json!({"input": "Hello.", "user": "u-2", "metadata": {"team": "red"}}),
            json!(["u-2", null, {"team": "red"}]),
        ),
        (
            "/openai/v1/embeddings",
            json!({"input": "Hello.", "user": "u-3"}),
            json!(["u-3", null, null]),
        ),
        (
            "/openai/v1/images/generations",
            json!({"prompt": "A house.", "user": "u-4"}),
            json!(["u-4", null, null]),
        ),
        (
            "/anthropic/v1/messages",
            json!({"messages": question, "max_tokens": 9, "metadata": {"user_id": "u-5"}}),
            json!(["u-5", null, null]),
        ),
        (
            "/anthropic/v1/messages",
            json!({"messages": question, "max_tokens": 9, "metadata": {"user_id": claude}}),
            json!(["user_ab12", "s-9", null]),
        ),
        (
            "/api/v1/messages",
            json!({"messages": question, "max_tokens": 9, "metadata": {"user_id": "u-6"}}),
            json!(["u-6", null, null]),
        ),
    ] {
        // Each has a trace of its own.
        let trace = key.trace().await;
        let mut body = body;
        body["model"] = if path.contains("images") { "painter" } else { "sandbox" }.into();
        let reply = key.with("x-trace-id", &trace).post(path, &body).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        assert_eq!(of_last_step(&key, &trace).await, expected, "{path} {body}");
    }
}

async fn what_is_beyond_the_limits_is_dropped_and_named(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let trace = open(&key, &json!({"user": "jane"})).await;
    let tags: Vec<String> = (0..9).map(|n| format!("t{n}=v")).collect();
    let long = "x".repeat(129);
    let named = key
        .with("x-sluice-user", &long)
        .with("x-sluice-session", &"s".repeat(128))
        .with("x-sluice-tags", &format!("{},nothing", tags.join(",")));
    let reply = named.execute(&trace, "Hello.").await;
    reply.ok(200);
    assert_eq!(reply.header("x-sluice-dropped-attributes"), "user, tag:t8, tag:nothing");
    let tags: Value = (0..8).map(|n| (format!("t{n}"), json!("v"))).collect();
    let expected = json!(["jane", "s".repeat(128), tags]);
    assert_eq!(of_last_step(&key, &trace).await, expected, "the trace names a user that fits");
    // On a stream and on a refusal the header is there as well.
    let body = json!({"trace_id": trace, "model": "sandbox", "user": long, "stream": true,
        "messages": [{"role": "user", "content": "Hello."}]});
    let reply = key.post("/api/v1/chat/completions", &body).await;
    assert_eq!((reply.status, reply.header("x-sluice-dropped-attributes")), (200, "user"));
    let body = json!({"trace_id": trace, "model": "nobody", "input": "Hello."});
    let reply = named.post("/api/v1/runs", &body).await;
    assert_eq!(reply.status, 422, "{}", reply.text);
    assert!(reply.header("x-sluice-dropped-attributes").starts_with("user, "));
}

async fn metadata_beyond_the_limits_opens_no_trace(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let (fits, long) = ("é".repeat(128), "é".repeat(129));
    let tags =
        |count: usize| -> Value { (0..count).map(|n| (format!("t{n}"), json!("v"))).collect() };
    let value = "must have at most 128 characters, and no control characters";
    for (metadata, error) in [
        (json!({"user": long}), format!("metadata: user {value}")),
        (json!({"session": long}), format!("metadata: session {value}")),
        (json!({"tags": {"team": long}}), format!("metadata: tag:team {value}")),
        (json!({"tags": {"team": "a\u{0}b"}}), format!("metadata: tag:team {value}")),
        (json!({"tags": tags(9)}), "metadata: tag:t8 is one of more than 8 tags".to_owned()),
    ] {
        key.post("/api/v1/traces", &json!({"metadata": metadata})).await.invalid(&error);
    }
    let name = json!({"tags": {"n".repeat(129): "v"}});
    key.post("/api/v1/traces", &json!({"metadata": name})).await.says(422, "metadata: tag:nnn");
    // Members of other types, and others, are the application's own.
    for metadata in [
        json!({"user": fits, "session": fits, "tags": tags(8)}),
        json!({"user": {"id": 5, "name": long}, "session": 7, "tags": ["a"], "text": long}),
    ] {
        let opened = key.post("/api/v1/traces", &json!({"metadata": metadata})).await.ok(201);
        assert_eq!(opened["metadata"], metadata);
    }
}

async fn a_hash_is_stored_where_the_project_asks_for_it(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let before = open(&key, &json!({"user": "canary-4711"})).await;
    settings(&owner, 1, json!({"attributes": {"hash": ["user", "tag:mail"]}})).await;
    let metadata = json!({"user": "jane-4712", "tags": {"mail": "mail-4713", "team": "red"}});
    let trace = open(&key, &metadata).await;
    key.execute(&trace, "Hello.").await.ok(200);
    let of_trace = of_last_step(&key, &trace).await;
    let hash = of_trace[0].as_str().unwrap().to_owned();
    assert!(hash.starts_with("h:") && hash.len() == 34, "{hash}");
    assert_eq!(of_trace[2]["team"], "red");
    assert!(of_trace[2]["mail"].as_str().unwrap().starts_with("h:"));
    key.with("x-sluice-user", "jane-4712").execute(&before, "Hello.").await.ok(200);
    assert_eq!(
        of_last_step(&key, &before).await[0],
        hash.as_str(),
        "the same value, the same hash"
    );
    key.execute(&before, "Hello.").await.ok(200);
    let of_before = of_last_step(&key, &before).await;
    assert!(of_before[0].as_str().unwrap().starts_with("h:"), "though its trace has it in clear");
    let named = json!({"user": {"mail": "mail-4714"}});
    let opened = key.post("/api/v1/traces", &json!({"metadata": named})).await.ok(201);
    assert!(opened["metadata"]["user"].as_str().unwrap().starts_with("h:"), "{opened}");
    let nobody = key.post("/api/v1/traces", &json!({"metadata": {"user": ""}})).await.ok(201);
    assert_eq!(nobody["metadata"]["user"], "", "no value, no hash");
    drop(key);
    let stored = server.stored();
    let holds = |text: &str| stored.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(holds("canary-4711"), "the search would find it");
    for text in ["jane-4712", "mail-4713", "mail-4714"] {
        assert!(!holds(text), "{text}");
    }
}
