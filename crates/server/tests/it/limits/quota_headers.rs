//! The headers that tell what is left of a key's requests.

use serde_json::json;

use crate::harness::{Backend, Caller, Redis, Reply, Server, Setup, free_port, settings, until};

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
        let shared = counted_by(redis, &backend).start().await;
        refusals_tell(&shared).await;
        // Then the gateway's own windows count.
        redis.pause();
        refusals_tell(&shared).await;
    }
}

/// The setup of a server whose requests a Redis counts; while that is away, the server counts them itself.
fn counted_by(redis: &Redis, backend: &Backend) -> Setup {
    let setup = Setup::new(backend).env("SLUICE_REDIS_URL", &redis.url());
    setup.env("SLUICE_ON_COUNTER_LOSS", "local")
}

/// The answer to a request, and what it is to have: the status, and the requests that are left.
type Answered = (String, u16, u64, Reply);

async fn what_is_not_there_tells_it_and_counts_nowhere(backend: Backend) {
    let redis = Redis::start().await;
    let alone = Setup::new(&backend).start().await;
    all_tell(what_is_not_there(&alone).await);
    if let Some(redis) = &redis {
        let metrics = format!("127.0.0.1:{}", free_port());
        let shared = counted_by(redis, &backend).env("SLUICE_METRICS_LISTEN", &metrics);
        let shared = shared.start().await;
        // On a busy machine a decision of Redis may take too long, and the figures are the server's: then all is asked
        // again, with another key.
        let answered = until("Redis has decided all of it", async || {
            let late = late_decisions(&metrics).await;
            let answered = what_is_not_there(&shared).await;
            (late_decisions(&metrics).await == late).then_some(answered)
        })
        .await;
        all_tell(answered);
        redis.pause();
        all_tell(what_is_not_there(&shared).await);
    }
}

/// The decisions about requests that Redis did not make in time.
async fn late_decisions(metrics: &str) -> Option<String> {
    let page = reqwest::get(format!("http://{metrics}/metrics")).await.unwrap();
    let page = page.text().await.unwrap();
    let name = "sluice_counter_decisions_total{function=\"gate\",outcome=\"away\"} ";
    page.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
}

#[track_caller]
fn all_tell(answered: Vec<Answered>) {
    for (request, status, left, reply) in answered {
        assert_eq!(reply.status, status, "{request}: {}", reply.text);
        assert_eq!(reply.header("x-ratelimit-remaining-requests"), left.to_string(), "{request}");
        tells(&reply, status, left);
    }
}

#[track_caller]
fn tells_nothing(reply: &Reply) {
    assert_eq!(reply.status, 404, "{}", reply.text);
    assert!(NAMES.iter().all(|name| reply.header(name).is_empty()), "{reply:?}");
}

/// The answers of paths and methods that do not exist to a new key that has made one request of 6, and to that request
/// and another one. Asserts that others learn nothing.
async fn what_is_not_there(server: &Server) -> Vec<Answered> {
    let owner = server.owner().await;
    settings(&owner, 1, json!({"limits": {"requests_per_hour": 6}})).await;
    let made = json!({"name": "Lost", "project_id": 1});
    let made = owner.post("/api/v1/keys", &made).await.ok(201);
    let raw = made["raw_key"].as_str().unwrap();
    let key = server.with_key(raw);
    // It counts nowhere, and is a use of the key.
    let first = key.get("/api/v1/nothing").await;
    assert_eq!((first.status, first.header("x-ratelimit-remaining-requests")), (404, "6"));
    let keys = owner.get("/api/v1/keys").await.ok(200);
    let listed = keys.as_array().unwrap().iter().find(|listed| listed["id"] == made["id"]);
    assert!(listed.unwrap()["last_used"].is_string(), "{keys}");
    let config = "/api/v1/sdk/config";
    let mut answered = vec![(config.to_owned(), 200, 5, key.get(config).await)];
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
        answered.push((format!("{method} {path}"), status, 5, reply));
    }
    answered.push((config.to_owned(), 200, 4, key.get(config).await));
    // A caller without a key learns nothing; a key that was tried is on record.
    let before = refused_keys(&owner).await;
    let wrong = server.with_key("ak_0.wrong");
    for stranger in [&server.any, &owner, &wrong, &elsewhere] {
        tells_nothing(&stranger.get("/api/v1/nothing").await);
    }
    assert_eq!(refused_keys(&owner).await, before + 1);
    // On other paths no credential is looked at.
    for caller in [&key, &wrong] {
        tells_nothing(&caller.get("/nothing").await);
    }
    assert_eq!(refused_keys(&owner).await, before + 1);
    // An address that may not use the key learns nothing either.
    settings(&owner, 1, json!({"perimeter": {"block": ["127.0.0.1/32"]}})).await;
    tells_nothing(&key.get("/api/v1/nothing").await);
    settings(&owner, 1, json!({"perimeter": {"block": []}})).await;
    answered
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
