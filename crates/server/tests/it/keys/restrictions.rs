//! The models and endpoints that a key may call, and its secrets.

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, settings};

crate::on_every_backend!(
    a_key_calls_the_models_of_its_list_alone,
    neither_fallbacks_nor_sessions_lead_beyond_a_list,
    a_key_uses_the_endpoints_of_its_list_alone,
    a_secret_is_replaced_with_an_overlap
);

fn no_model() -> Value {
    json!({"error": "Model not allowed for this key", "code": "MODEL_NOT_ALLOWED"})
}

/// A key with these lists, and its path.
async fn key_with(server: &Server, owner: &Caller, lists: Value) -> (Caller, String) {
    let mut new = json!({"name": "k", "project_id": 1});
    new.as_object_mut().unwrap().extend(lists.as_object().unwrap().clone());
    let made = owner.post("/api/v1/keys", &new).await.ok(201);
    for (name, value) in lists.as_object().unwrap() {
        assert_eq!(made[name], *value);
    }
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    (server.with_key(made["raw_key"].as_str().unwrap()), path)
}

async fn a_key_calls_the_models_of_its_list_alone(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let mock = Mock::always(Answer::text("hello")).await;
    let fallback = json!({"additional_config": {"fallback_identifier": "sandbox"}});
    mock.register_with(&owner, "other", fallback).await;
    let (key, path) = key_with(&server, &owner, json!({"allowed_models": ["sandbox"]})).await;
    let trace = key.trace().await;
    let chat = |model: &str| {
        json!({"model": model, "trace_id": trace, "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}]})
    };
    key.post("/api/v1/chat/completions", &chat("sandbox")).await.ok(200);
    key.post("/api/v1/chat/completions", &chat("other")).await.is(403, &no_model());
    let run = json!({"trace_id": trace, "model": "other", "input": "Hi"});
    key.post("/api/v1/runs", &run).await.is(403, &no_model());
    let texts = json!({"trace_id": trace, "model": "other", "input": "Hi"});
    key.post("/api/v1/embeddings", &texts).await.is(403, &no_model());
    let image = json!({"trace_id": trace, "model": "other", "prompt": "Hi"});
    key.post("/api/v1/images/generations", &image).await.is(403, &no_model());
    let again = json!({"trace_id": trace, "force_model": "other"});
    key.post("/api/v1/replay", &again).await.is(403, &no_model());
    // Below the roots of vendors the error has their form.
    for (path, body) in [
        ("/openai/v1/chat/completions", chat("other")),
        ("/openai/v1/responses", json!({"model": "other", "input": "Hi"})),
        ("/anthropic/v1/messages", chat("other")),
    ] {
        let refused = key.post(path, &body).await;
        refused.tells(403, "Model not allowed for this key");
    }
    let listed = key.get("/openai/v1/models").await.ok(200);
    let names: Vec<&str> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["sandbox"]);
    assert_eq!(key.get("/openai/v1/models/other").await.status, 404);
    assert_eq!(mock.begun(), 0, "no model is called");
    let counted = json!({"model": "other", "messages": [{"role": "user", "content": "Hi"}]});
    let refused = key.post("/anthropic/v1/messages/count_tokens", &counted).await;
    refused.tells(403, "Model not allowed for this key");
    // The models of the list count among those of a tier; a change of the list holds at once.
    let tiers = json!({"routing_tiers": {"simple": "other", "complex": "other"}});
    settings(&owner, 1, tiers).await;
    let answered = key.execute(&trace, "Hi").await.ok(200);
    assert_eq!(answered["model"], "sandbox");
    owner.patch(&path, &json!({"allowed_models": ["nothing"]})).await.ok(200);
    key.execute(&trace, "Hi").await.is(403, &no_model());
    let simulation = json!({"project_id": 1, "input": "Hi"});
    key.post("/api/v1/simulate", &simulation).await.is(403, &no_model());
    assert_eq!(mock.begun(), 0, "no model is called");
    owner.patch(&path, &json!({"allowed_models": ["other"]})).await.ok(200);
    key.execute(&trace, "Hi").await.ok(200);
    key.post("/api/v1/chat/completions", &chat("sandbox")).await.is(403, &no_model());
    owner.patch(&path, &json!({"allowed_models": []})).await.ok(200);
    key.post("/api/v1/chat/completions", &chat("other")).await.is(403, &no_model());
    let all = owner.patch(&path, &json!({"allowed_models": null})).await.ok(200);
    assert!(all["allowed_models"].is_null());
    key.post("/api/v1/chat/completions", &chat("sandbox")).await.ok(200);
    let wrong = json!({"allowed_models": [""]});
    let rule = "allowed_models must be null or at most 200 identifiers of models";
    owner.patch(&path, &wrong).await.invalid(rule);
}

async fn neither_fallbacks_nor_sessions_lead_beyond_a_list(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let other = Mock::always(Answer::text("hello")).await;
    other.register(&owner, "other").await;
    let broken = Mock::always(Answer::json(500, &json!({}))).await;
    let fallback = json!({"additional_config": {"fallback_identifier": "other"}});
    broken.register_with(&owner, "broken", fallback).await;
    let (key, path) = key_with(&server, &owner, json!({"allowed_models": ["broken"]})).await;
    let ask = json!({"model": "broken", "trace_id": key.trace().await,
        "messages": [{"role": "user", "content": "Hi"}]});
    let chat = async || key.post("/api/v1/chat/completions", &ask).await.status;
    assert_eq!((chat().await, other.begun()), (502, 0));
    owner.patch(&path, &json!({"allowed_models": ["broken", "other"]})).await.ok(200);
    assert_eq!((chat().await, other.begun()), (200, 1));

    // The large model has a session's conversation in its cache, and leaves the list.
    let large = Mock::always(cached_answer()).await;
    let prices = json!({"is_public": false, "input_cost_per_1k": 0.06, "output_cost_per_1k": 0.1,
        "additional_config": {"cached_input_cost_per_1k": 0.006}});
    large.register_with(&owner, "large", prices.clone()).await;
    let small = Mock::always(cached_answer()).await;
    small.register_with(&owner, "small", prices).await;
    let tiers = json!({"simple": "small", "complex": "large"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let hard = format!("Prove that there are infinitely many primes. {}", "Step. ".repeat(1200));
    let mut ask = json!({"trace_id": key.trace().await,
        "messages": [{"role": "user", "content": hard}]});
    let mut turn = async || {
        let answer = key.post("/api/v1/chat/completions", &ask).await.ok(200);
        let messages = ask["messages"].as_array_mut().unwrap();
        messages.push(answer["choices"][0]["message"].clone());
        messages.push(json!({"role": "user", "content": "Thanks!"}));
        (large.begun(), small.begun())
    };
    owner.patch(&path, &json!({"allowed_models": ["large", "small"]})).await.ok(200);
    assert_eq!(turn().await, (1, 0));
    assert_eq!(turn().await, (2, 0), "the session keeps its model");
    owner.patch(&path, &json!({"allowed_models": ["small"]})).await.ok(200);
    assert_eq!(turn().await, (2, 1));
}

/// An answer to a prompt of 2,000 tokens that its provider has in its cache.
fn cached_answer() -> Answer {
    let message = json!({"role": "assistant", "content": "Fine."});
    Answer::json(
        200,
        &json!({"id": "x", "object": "chat.completion", "created": 1, "model": "x",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 2000, "completion_tokens": 5, "total_tokens": 2005,
                "prompt_tokens_details": {"cached_tokens": 1900}}}),
    )
}

async fn a_key_uses_the_endpoints_of_its_list_alone(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let (key, path) =
        key_with(&server, &owner, json!({"allowed_endpoints": ["chat", "logs"]})).await;
    let trace = key.trace().await;
    let refused =
        json!({"error": "Endpoint not allowed for this key", "code": "ENDPOINT_NOT_ALLOWED"});
    let messages = json!([{"role": "user", "content": "Hi"}]);
    let chat =
        json!({"model": "sandbox", "trace_id": trace, "messages": messages, "max_tokens": 9});
    key.post("/api/v1/chat/completions", &chat).await.ok(200);
    key.post("/openai/v1/chat/completions", &chat).await.ok(200);
    let log = json!({"trace_id": trace, "output": {"text": "done"}});
    key.post("/api/v1/logs", &log).await.ok(200);
    key.execute(&trace, "Hi").await.is(403, &refused);
    for (path, body) in [
        ("/api/v1/runs", json!({"trace_id": trace, "model": "sandbox", "input": "Hi"})),
        ("/api/v1/checks", json!({"trace_id": trace, "input": "Hi"})),
        ("/api/v1/embeddings", json!({"trace_id": trace, "input": "Hi"})),
        ("/api/v1/images/generations", json!({"trace_id": trace, "prompt": "Hi"})),
        ("/api/v1/assistants", json!({"trace_id": trace, "messages": messages})),
        ("/api/v1/replay", json!({"trace_id": trace})),
    ] {
        key.post(path, &body).await.is(403, &refused);
    }
    let stream = format!("/api/v1/executions/stream?trace_id={trace}&input=Hi");
    key.get(&stream).await.is(403, &refused);
    key.post("/anthropic/v1/messages", &chat).await.tells(403, "Endpoint not allowed for this key");
    let gemini = "/gemini/v1beta/models/sandbox:generateContent";
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]});
    key.post(gemini, &contents).await.tells(403, "Endpoint not allowed for this key");
    let counted = json!({"model": "sandbox", "messages": messages});
    let count = key.post("/anthropic/v1/messages/count_tokens", &counted).await;
    count.tells(403, "Endpoint not allowed for this key");
    owner.patch(&path, &json!({"allowed_endpoints": []})).await.ok(200);
    key.post("/api/v1/chat/completions", &chat).await.is(403, &refused);
    owner.patch(&path, &json!({"allowed_endpoints": null})).await.ok(200);
    key.execute(&trace, "Hi").await.ok(200);
    let wrong = json!({"allowed_endpoints": ["telnet"]});
    owner.patch(&path, &wrong).await.says(422, "allowed_endpoints must be null or a list of these");
}

async fn a_secret_is_replaced_with_an_overlap(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let owner = server.owner().await;
    let made = owner.post("/api/v1/keys", &json!({"name": "k", "project_id": 1})).await.ok(201);
    let path = format!("/api/v1/keys/{}/rotate", made["id"].as_str().unwrap());
    let rotate = async |overlap: i64| {
        let rotated = owner.post(&path, &json!({"overlap_seconds": overlap})).await.ok(200);
        assert_eq!((&rotated["id"], &rotated["name"]), (&made["id"], &made["name"]));
        rotated["raw_key"].as_str().unwrap().to_owned()
    };
    let first = made["raw_key"].as_str().unwrap().to_owned();
    let second = rotate(3_600).await;
    assert_ne!(first, second);
    for raw in [&first, &second] {
        server.with_key(raw).get("/api/v1/traces").await.ok(200);
    }
    // A second rotation drops the oldest, and the overlap survives a restart.
    let third = rotate(604_800).await;
    server.restart().await;
    assert_eq!(server.with_key(&first).get("/api/v1/traces").await.status, 401);
    for raw in [&second, &third] {
        server.with_key(raw).get("/api/v1/traces").await.ok(200);
    }
    let last = rotate(0).await;
    for raw in [&first, &second, &third] {
        assert_eq!(server.with_key(raw).get("/api/v1/traces").await.status, 401);
    }
    server.with_key(&last).get("/api/v1/traces").await.ok(200);
    // An overlap ends by itself.
    let newest = rotate(1).await;
    crate::harness::until("the overlap ends", async || {
        let refused = server.with_key(&last).get("/api/v1/traces").await.status == 401;
        refused.then_some(())
    })
    .await;
    server.with_key(&newest).get("/api/v1/traces").await.ok(200);
    let rule = "overlap_seconds must be a whole number from 0 to 604800";
    for wrong in [-1, 604_801] {
        owner.post(&path, &json!({"overlap_seconds": wrong})).await.invalid(rule);
    }
    assert_eq!(owner.post("/api/v1/keys/ak_0000000000000001/rotate", &json!({})).await.status, 404);
    let events = owner.get("/api/v1/audit-events?event=key_updated").await.ok(200);
    assert_eq!(events[0]["metadata"]["rotated"]["overlap_seconds"], 1);
    assert!(!events.to_string().contains(newest.split_once('.').unwrap().1));
}
