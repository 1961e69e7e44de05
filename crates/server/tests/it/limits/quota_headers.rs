//! The headers that tell what is left of a key's requests.

use serde_json::json;

use crate::harness::{Backend, Caller, Redis, Reply, Server, Setup, settings};

crate::on_every_backend!(
    every_answer_tells_what_is_left,
    a_refusal_tells_it_whoever_counts,
    what_is_not_there_tells_it_and_counts_nowhere,
    without_a_limit_there_is_nothing_to_tell
);

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

/// A refusal: its case, its status, a part of its text, and the requests that are left, if it tells.
type Refusal = (&'static str, u16, &'static str, Option<u64>);

/// The refusals of keys that have made some requests under a limit of 6.
const REFUSALS: [Refusal; 8] = [
    ("the cap is spent", 429, "Kill switch engaged", Some(4)),
    ("paused by spend", 429, "Kill switch engaged", Some(4)),
    ("a loop", 429, "Recursive loop", Some(3)),
    ("paused by a loop", 429, "Recursive loop", Some(3)),
    ("the budget is spent", 402, "Monthly budget exceeded", Some(5)),
    ("too many requests", 429, "Rate limit exceeded", Some(0)),
    ("too many requests, again", 429, "Rate limit exceeded", Some(0)),
    ("revoked", 401, "", None),
];

async fn a_refusal_tells_it_whoever_counts(backend: Backend) {
    let redis = Redis::start().await;
    let alone = Setup::new(&backend).start().await;
    refusals_tell(&alone).await;
    if let Some(redis) = &redis {
        let shared = counted_by(redis, &backend).await;
        refusals_tell(&shared).await;
        // Then the gateway's own windows count.
        redis.pause();
        refusals_tell(&shared).await;
    }
}

/// A server whose requests a Redis counts; while that is away, the server counts them itself.
async fn counted_by(redis: &Redis, backend: &Backend) -> Server {
    let setup = Setup::new(backend).env("SLUICE_REDIS_URL", &redis.url());
    setup.env("SLUICE_ON_COUNTER_LOSS", "local").start().await
}

async fn what_is_not_there_tells_it_and_counts_nowhere(backend: Backend) {
    let redis = Redis::start().await;
    let alone = Setup::new(&backend).start().await;
    what_is_not_there_tells(&alone).await;
    if let Some(redis) = &redis {
        let shared = counted_by(redis, &backend).await;
        what_is_not_there_tells(&shared).await;
        redis.pause();
        what_is_not_there_tells(&shared).await;
    }
}

/// Asserts what paths and methods that do not exist tell a key that has made one request of 6.
async fn what_is_not_there_tells(server: &Server) {
    let owner = server.owner().await;
    settings(&owner, 1, json!({"limits": {"requests_per_hour": 6}})).await;
    let made = json!({"name": "Lost", "project_id": 1});
    let made = owner.post("/api/v1/keys", &made).await.ok(201);
    let raw = made["raw_key"].as_str().unwrap();
    let key = server.with_key(raw);
    tells(&key.get("/api/v1/sdk/config").await, 200, 5);
    let elsewhere = server.any.with("x-goog-api-key", raw);
    let query = format!("/gemini/v1beta/nothing?key={raw}");
    for (caller, method, path, status) in [
        (&key, "GET", "/api/v1/nothing", 404),
        (&key, "POST", "/openai/v1/batches", 404),
        (&key, "POST", "/anthropic/v1/complete", 404),
        (&elsewhere, "GET", "/gemini/v1beta/nothing", 404),
        (&server.any, "GET", &*query, 404),
        (&key, "GET", "/api/v1/executions", 405),
        (&key, "PUT", "/api/v1/traces", 405),
        (&key, "GET", "/openai/v1/chat/completions", 405),
        (&key, "HEAD", "/api/v1/executions/stream", 405),
    ] {
        let reply = caller.send(method, path, None).await;
        assert_eq!(reply.status, status, "{method} {path}: {}", reply.text);
        tells(&reply, status, 5);
    }
    tells(&key.get("/api/v1/sdk/config").await, 200, 4);
    // Who is no key learns nothing; a key that was tried is on record.
    let before = refused_keys(&owner).await;
    for stranger in [&server.any, &owner, &server.with_key("ak_0.wrong"), &elsewhere] {
        let reply = stranger.get("/api/v1/nothing").await;
        assert_eq!(reply.status, 404, "{}", reply.text);
        assert!(NAMES.iter().all(|name| reply.header(name).is_empty()), "{reply:?}");
    }
    assert_eq!(refused_keys(&owner).await, before + 1);
}

/// The requests with a wrong key that are in the audit. Those of two minutes are two rows.
async fn refused_keys(owner: &Caller) -> u64 {
    let events = owner.get("/api/v1/audit-events?event=perimeter_block").await.ok(200);
    let rows = events.as_array().unwrap().iter().map(|event| &event["metadata"]);
    let counts = rows.filter(|row| row["why"] == "invalid key");
    counts.map(|row| row["count"].as_u64().unwrap()).sum()
}

/// Asserts what refusals tell, in the order of the table.
async fn refusals_tell(server: &Server) {
    let owner = server.owner().await;
    let limits = async |loops: Option<u64>| {
        let limits = json!({"requests_per_hour": 6, "loop_requests": loops});
        settings(&owner, 1, json!({"limits": limits})).await;
    };
    limits(None).await;
    let key = async |name: &str, hourly_limit: Option<f64>| {
        let key = json!({"name": name, "project_id": 1, "hourly_limit": hourly_limit});
        let made = owner.post("/api/v1/keys", &key).await.ok(201);
        let raw = made["raw_key"].as_str().unwrap();
        (server.with_key(raw), format!("/api/v1/keys/{}", made["id"].as_str().unwrap()))
    };
    let mut table = REFUSALS.into_iter();
    let mut tells_next = |reply: Reply| {
        let (case, status, text, left) = table.next().unwrap();
        assert_eq!(reply.status, status, "{case}: {}", reply.text);
        assert!(reply.text.contains(text), "{case}: {}", reply.text);
        let Some(left) = left else {
            assert!(NAMES.iter().all(|name| reply.header(name).is_empty()), "{case}: {reply:?}");
            return;
        };
        assert_eq!(reply.header("x-ratelimit-remaining-requests"), left.to_string(), "{case}");
        tells(&reply, status, left);
    };
    let (capped, _) = key("Capped", Some(0.0)).await;
    let trace = capped.trace().await;
    tells_next(capped.execute(&trace, "Hello.").await);
    tells_next(capped.get("/api/v1/sdk/config").await);
    let (looping, _) = key("Looping", None).await;
    limits(Some(3)).await;
    for _ in 0..3 {
        looping.get("/api/v1/sdk/config").await.ok(200);
    }
    tells_next(looping.get("/api/v1/sdk/config").await);
    tells_next(looping.get("/api/v1/sdk/config").await);
    limits(None).await;
    let (poor, _) = key("Poor", None).await;
    settings(&owner, 1, json!({"monthly_budget": 0})).await;
    tells_next(poor.execute(&trace, "Hello.").await);
    settings(&owner, 1, json!({"monthly_budget": null})).await;
    let (busy, path) = key("Busy", None).await;
    for _ in 0..6 {
        busy.get("/api/v1/sdk/config").await.ok(200);
    }
    tells_next(busy.get("/api/v1/sdk/config").await);
    tells_next(busy.get("/api/v1/sdk/config").await);
    owner.delete(&path).await;
    tells_next(busy.get("/api/v1/sdk/config").await);
    assert!(table.next().is_none());
}

async fn without_a_limit_there_is_nothing_to_tell(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let key = server.key();
    let trace = key.trace().await;
    let reply = key.execute(&trace, "Hello.").await;
    reply.ok(200);
    assert!(NAMES.iter().all(|name| reply.header(name).is_empty()), "{reply:?}");
}
