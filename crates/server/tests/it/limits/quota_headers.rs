//! The headers that tell what is left of a key's requests.

use serde_json::json;

use crate::harness::{Backend, Reply, Server, settings};

crate::on_every_backend!(every_answer_tells_what_is_left, without_a_limit_there_is_nothing_to_tell);

const NAMES: [&str; 5] = [
    "ratelimit",
    "ratelimit-policy",
    "x-ratelimit-limit-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset-requests",
];

/// Asserts the headers of an answer under a limit of 6 requests; the time is about an hour.
#[track_caller]
fn tells(reply: &Reply, status: u16, remaining: u64) {
    assert_eq!(reply.status, status, "{}", reply.text);
    assert_eq!(reply.header("ratelimit-policy"), "\"requests\";q=6;w=3600");
    assert_eq!(reply.header("x-ratelimit-limit-requests"), "6");
    assert_eq!(reply.header("x-ratelimit-remaining-requests"), remaining.to_string());
    let told = reply.header("ratelimit");
    let seconds = told.strip_prefix(&format!("\"requests\";r={remaining};t="));
    let seconds: u64 = seconds.unwrap_or_else(|| panic!("{told}")).parse().unwrap();
    assert!((3_000..=3_600).contains(&seconds), "{told}");
    let reset = match seconds {
        3_600 => "1h0m0s".to_owned(),
        _ => format!("{}m{}s", seconds / 60, seconds % 60),
    };
    assert_eq!(reply.header("x-ratelimit-reset-requests"), reset);
}

async fn every_answer_tells_what_is_left(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let made = json!({"name": "Counted", "project_id": 1});
    let made = owner.post("/api/v1/keys", &made).await.ok(201);
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    settings(&owner, 1, json!({"limits": {"requests_per_hour": 6}})).await;
    let trace = key.post("/api/v1/traces", &json!({})).await;
    tells(&trace, 201, 5);
    let trace = trace.json()["id"].as_str().unwrap().to_owned();
    tells(&key.get("/api/v1/stats").await, 200, 4);
    let call = json!({"model": "sandbox", "max_tokens": 9, "stream": true,
        "messages": [{"role": "user", "content": "Hello."}]});
    let stream = key.with("idempotency-key", "one");
    tells(&stream.post("/anthropic/v1/messages", &call).await, 200, 3);
    // An answer that comes again has the figures of now.
    let again = stream.post("/anthropic/v1/messages", &call).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    tells(&again, 200, 2);
    tells(&key.post("/openai/v1/chat/completions", &json!([])).await, 400, 1);
    tells(&key.execute(&trace, "Hello.").await, 200, 0);
    let refused = key.get("/gemini/v1beta/models").await;
    tells(&refused, 429, 0);
    let told = refused.header("ratelimit");
    assert!(told.ends_with(&format!(";t={}", refused.header("retry-after"))), "{told}");
    tells(&key.execute(&trace, "Hello.").await, 429, 0);
    for stranger in [
        server.with_key("ak_0.wrong").get("/api/v1/traces").await,
        owner.get("/api/v1/stats").await,
    ] {
        assert!(NAMES.iter().all(|name| stranger.header(name).is_empty()), "{stranger:?}");
    }
    // A key that is paused is told as well.
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    owner.patch(&path, &json!({"hourly_limit": 0})).await.ok(200);
    settings(&owner, 1, json!({"limits": {"requests_per_hour": 100}})).await;
    let capped = key.execute(&trace, "Hello.").await;
    assert_eq!((capped.status, capped.header("x-ratelimit-limit-requests")), (429, "100"));
    let left = capped.header("x-ratelimit-remaining-requests");
    assert_eq!(left, "93", "the one that was refused counts: it came this far");
}

async fn without_a_limit_there_is_nothing_to_tell(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let trace = key.trace().await;
    let reply = key.execute(&trace, "Hello.").await;
    reply.ok(200);
    assert!(NAMES.iter().all(|name| reply.header(name).is_empty()), "{reply:?}");
}
