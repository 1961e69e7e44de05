//! Loops, rates, caps and budgets, as a caller meets them.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Answer, Backend, Caller, KEY, Mock, Reply, Server, Setup, settings};

crate::on_every_backend!(
    the_51st_request_in_ten_seconds_pauses_the_key,
    the_hourly_cap_pauses_the_key,
    spend_before_a_restart_counts_after_it,
    a_cap_that_comes_later_counts_the_whole_hour,
    the_monthly_budget_stops_what_could_spend,
    the_request_rate_is_a_sliding_hour,
    a_cap_of_zero_blocks_the_first_call_that_costs,
    calls_at_the_same_time_do_not_pass_a_cap_or_a_budget,
    a_call_that_does_not_fit_leaves_the_key_active,
    what_was_refused_unsent_holds_no_money,
    a_cap_needs_a_price,
    a_model_without_a_price_is_passed_over,
);

/// The one kind of call that a mock model costs 0.0045 USD for.
const CALL: f64 = 0.0045;

fn is_loop(reply: &Reply) {
    let body = json!({"error": "Recursive loop detected. Account throttled.",
        "code": "LOOP_DETECTED"});
    reply.is(429, &body);
    assert_eq!(reply.header("x-should-retry"), "false");
}

fn is_capped(reply: &Reply, dollars: &str) {
    let error = format!("Kill switch engaged: hourly limit of ${dollars} exceeded.");
    reply.is(429, &json!({"error": error, "code": "CIRCUIT_OPEN"}));
    assert_eq!(reply.header("x-should-retry"), "false");
}

async fn run(key: &Caller, trace: &str) -> Reply {
    let body = json!({"trace_id": trace, "model": "mock", "input": "Hello."});
    key.post("/api/v1/runs", &body).await
}

async fn key_body(owner: &Caller, id: &Value) -> Value {
    let keys = owner.get("/api/v1/keys").await.ok(200);
    keys.as_array().unwrap().iter().find(|key| &key["id"] == id).unwrap().clone()
}

/// A server with a model that costs, its owner, and what the owner made of a key.
async fn priced(backend: &Backend, key: Value) -> (Server, Caller, Value) {
    let server = Server::unlimited(backend).await;
    let owner = server.owner().await;
    Mock::always(Answer::text("Yes.")).await.register(&owner, "mock").await;
    let made = owner.post("/api/v1/keys", &key).await.ok(201);
    (server, owner, made)
}

async fn the_51st_request_in_ten_seconds_pauses_the_key(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let id = json!(KEY.split('.').next().unwrap());
    for request in 1..=50 {
        let reply = key.get("/api/v1/sdk/config").await;
        assert_eq!(reply.status, 200, "request {request}: {}", reply.text);
    }
    is_loop(&key.get("/api/v1/sdk/config").await);
    let paused = key_body(&owner, &id).await;
    assert_eq!(paused["status"], "loop_detected");
    assert_eq!(paused["loop_intervention_count"], 1);
    is_loop(&key.post("/api/v1/traces", &json!({})).await);
    assert_eq!(key_body(&owner, &id).await["loop_intervention_count"], 1, "one loop, one count");
    server.restart().await;
    is_loop(&key.get("/api/v1/sdk/config").await);
    let path = format!("/api/v1/keys/{}", id.as_str().unwrap());
    for status in ["tripped", "loop_detected", "nonsense"] {
        owner.patch(&path, &json!({"status": status})).await.says(422, "Status");
    }
    let reset = owner.patch(&path, &json!({"status": "active"})).await.ok(200);
    assert_eq!(reset["status"], "active");
    assert_eq!(reset["loop_intervention_count"], 1);
    key.get("/api/v1/sdk/config").await.ok(200);
    let stats = owner.get("/api/v1/stats?project_id=1").await.ok(200);
    assert_eq!(stats["security"]["loop_interventions"], 1);
}

async fn the_hourly_cap_pauses_the_key(backend: Backend) {
    let cap = json!({"name": "capped", "project_id": 1, "hourly_limit": 2.0 * CALL});
    let (mut server, owner, made) = priced(&backend, cap).await;
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    let trace = key.trace().await;
    run(&key, &trace).await.ok(200);
    assert_eq!(key_body(&owner, &made["id"]).await["status"], "active");
    run(&key, &trace).await.ok(200);
    assert_eq!(key_body(&owner, &made["id"]).await["status"], "tripped");
    is_capped(&run(&key, &trace).await, "0.009");
    is_capped(&key.get("/api/v1/traces").await, "0.009");
    // However fast it asks, it stays what it is.
    settings(&owner, 1, json!({"limits": {"loop_requests": 3}})).await;
    for _ in 0..5 {
        is_capped(&key.get("/api/v1/traces").await, "0.009");
    }
    assert_eq!(key_body(&owner, &made["id"]).await["status"], "tripped");
    settings(&owner, 1, json!({"limits": {"loop_requests": null}})).await;
    let steps = server.key().detail(&trace).await["steps"].as_array().unwrap().len();
    assert_eq!(steps, 2, "a limit leaves no step");
    server.restart().await;
    is_capped(&run(&key, &trace).await, "0.009");
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    owner.patch(&path, &json!({"status": "active"})).await.ok(200);
    run(&key, &trace).await.ok(200);
    server.restart().await;
    let state = key_body(&owner, &made["id"]).await;
    assert_eq!(state["status"], "active", "the window of a reset key starts at the reset: {state}");
    run(&key, &trace).await.ok(200);
    is_capped(&run(&key, &trace).await, "0.009");
    let raised = json!({"status": "active", "hourly_limit": null});
    assert!(owner.patch(&path, &raised).await.ok(200)["hourly_limit"].is_null());
    for _ in 0..3 {
        run(&key, &trace).await.ok(200);
    }
}

async fn spend_before_a_restart_counts_after_it(backend: Backend) {
    let cap = json!({"name": "capped", "project_id": 1, "hourly_limit": 2.0 * CALL});
    let (mut server, owner, made) = priced(&backend, cap).await;
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    let trace = key.trace().await;
    run(&key, &trace).await.ok(200);
    server.kill().await;
    server.up().await;
    run(&key, &trace).await.ok(200);
    is_capped(&run(&key, &trace).await, "0.009");
    assert_eq!(key_body(&owner, &made["id"]).await["status"], "tripped");
}

async fn a_cap_that_comes_later_counts_the_whole_hour(backend: Backend) {
    let (mut server, owner, made) = priced(&backend, json!({"name": "k", "project_id": 1})).await;
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    let trace = key.trace().await;
    run(&key, &trace).await.ok(200);
    server.restart().await;
    run(&key, &trace).await.ok(200);
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    owner.patch(&path, &json!({"hourly_limit": 3.0 * CALL})).await.ok(200);
    run(&key, &trace).await.ok(200);
    is_capped(&run(&key, &trace).await, "0.0135");
    assert_eq!(server.key().detail(&trace).await["steps"].as_array().unwrap().len(), 3);
}

async fn the_monthly_budget_stops_what_could_spend(backend: Backend) {
    let plain = json!({"name": "plain", "project_id": 1});
    let (mut server, owner, made) = priced(&backend, plain).await;
    settings(&owner, 1, json!({"monthly_budget": 2.0 * CALL})).await;
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    let trace = key.trace().await;
    run(&key, &trace).await.ok(200);
    run(&key, &trace).await.ok(200);
    let over = json!({"error": "Monthly budget exceeded.", "code": "BUDGET_EXCEEDED"});
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
        }
        let messages = json!([{"role": "user", "content": "Hello."}]);
        for reply in [
            run(&key, &trace).await,
            key.execute(&trace, "Hello.").await,
            key.get(&format!("/api/v1/executions/stream?trace_id={trace}&input=Hello")).await,
            key.post("/api/v1/chat/completions", &json!({"trace_id": trace, "messages": messages}))
                .await,
        ] {
            reply.is(402, &over);
            assert_eq!(reply.header("x-should-retry"), "false");
        }
        assert_eq!(key.detail(&trace).await["steps"].as_array().unwrap().len(), 2);
        key.post("/api/v1/checks", &json!({"trace_id": key.trace().await, "input": "x"}))
            .await
            .ok(200);
    }
    let body = owner.get("/api/v1/projects/1").await.ok(200);
    assert_eq!(body["total_monthly_spend"], 2.0 * CALL);
    settings(&owner, 1, json!({"monthly_budget": null})).await;
    run(&key, &trace).await.ok(200);
}

async fn the_request_rate_is_a_sliding_hour(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let owner = server.owner().await;
    settings(&owner, 1, json!({"limits": {"requests_per_hour": 3}})).await;
    let key = server.key();
    for _ in 0..3 {
        key.get("/api/v1/traces").await.ok(200);
    }
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
        }
        let refused = key.get("/api/v1/traces").await;
        refused.is(429, &json!({"error": "Rate limit exceeded"}));
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((3_400..=3_600).contains(&wait), "{wait}");
        assert_ne!(refused.header("x-should-retry"), "false");
    }
    let made = owner.post("/api/v1/keys", &json!({"name": "other", "project_id": 1})).await;
    let other = server.with_key(made.ok(201)["raw_key"].as_str().unwrap());
    other.get("/api/v1/traces").await.ok(200);
    settings(&owner, 1, json!({"limits": {"requests_per_hour": null}})).await;
    key.get("/api/v1/traces").await.ok(200);
}

async fn a_cap_of_zero_blocks_the_first_call_that_costs(backend: Backend) {
    let zero = json!({"name": "zero", "project_id": 1, "hourly_limit": 0});
    let (server, owner, made) = priced(&backend, zero).await;
    assert_eq!(made["hourly_limit"], 0.0);
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    let trace = key.trace().await;
    is_capped(&run(&key, &trace).await, "0.00");
    assert_eq!(key_body(&owner, &made["id"]).await["status"], "tripped");
    for bad in [json!(-0.01), json!(-1)] {
        let body = json!({"name": "bad", "project_id": 1, "hourly_limit": bad});
        owner.post("/api/v1/keys", &body).await.says(422, "imit");
        let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
        owner.patch(&path, &json!({"hourly_limit": bad})).await.says(422, "imit");
    }
}

/// Calls 64 times at once and gives how often a status came.
async fn crowd(key: &Caller, trace: &str) -> impl Fn(u16) -> usize + use<> {
    let mut calls = JoinSet::new();
    for _ in 0..64 {
        let (key, trace) = (key.clone(), trace.to_owned());
        calls.spawn(async move { run(&key, &trace).await.status });
    }
    let statuses = calls.join_all().await;
    move |status| statuses.iter().filter(|had| **had == status).count()
}

async fn calls_at_the_same_time_do_not_pass_a_cap_or_a_budget(backend: Backend) {
    let cap = json!({"name": "capped", "project_id": 1, "hourly_limit": 4.0 * CALL});
    let (server, owner, made) = priced(&backend, cap).await;
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    let trace = key.trace().await;
    // Four fit, one after the other. On a slow machine some wait in vain for them to settle.
    let had = crowd(&key, &trace).await;
    let capped = had(200);
    assert!((1..=4).contains(&capped), "{capped} calls were let through");
    assert_eq!(had(429), 64 - capped);
    // A key without a cap, and a month that has room for two more.
    settings(&owner, 1, json!({"monthly_budget": (capped + 2) as f64 * CALL})).await;
    let had = crowd(&server.key(), &trace).await;
    let budgeted = had(200);
    assert!((1..=2).contains(&budgeted), "{budgeted} calls were let through");
    assert_eq!(had(402), 64 - budgeted);
    let project = owner.get("/api/v1/projects/1").await.ok(200);
    let spent = project["total_monthly_spend"].as_f64().unwrap();
    assert!((spent - (capped + budgeted) as f64 * CALL).abs() < 1e-9, "{spent}");
}

async fn a_call_that_does_not_fit_leaves_the_key_active(backend: Backend) {
    let cap = json!({"name": "capped", "project_id": 1, "hourly_limit": 4.0 * CALL});
    let (server, owner, made) = priced(&backend, cap).await;
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let mut ask = json!({"trace_id": key.trace().await, "model": "mock", "messages": messages,
        "max_tokens": 1000});
    let refused = key.post("/api/v1/chat/completions", &ask).await;
    let error = "Kill switch engaged: hourly limit of $0.018 exceeded.";
    refused.is(429, &json!({"error": error, "code": "CIRCUIT_OPEN"}));
    assert_eq!(refused.header("retry-after"), "1");
    assert!(!refused.headers.contains_key("x-should-retry"), "a smaller call may fit");
    assert_eq!(key_body(&owner, &made["id"]).await["status"], "active");
    ask["max_tokens"] = json!(10);
    key.post("/api/v1/chat/completions", &ask).await.ok(200);
}

async fn what_was_refused_unsent_holds_no_money(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let mock = Mock::always(Answer::text("Yes.")).await;
    // It cannot make two choices. There is money for either model, and not for both.
    let config = json!({"is_public": false, "provider": "anthropic", "input_cost_per_1k": 0,
        "output_cost_per_1k": 10, "additional_config": {"fallback_identifier": "second"}});
    mock.register_with(&owner, "first", config).await;
    let config = json!({"is_public": false, "input_cost_per_1k": 0, "output_cost_per_1k": 9});
    mock.register_with(&owner, "second", config).await;
    let cap = json!({"name": "capped", "project_id": 1, "hourly_limit": 1.5});
    let made = owner.post("/api/v1/keys", &cap).await.ok(201);
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let ask = json!({"trace_id": key.trace().await, "model": "first", "messages": messages,
        "n": 2, "max_tokens": 50});
    key.post("/api/v1/chat/completions", &ask).await.ok(200);
}

async fn a_cap_needs_a_price(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_EGRESS_ALLOW", "127.0.0.1").start().await;
    let owner = server.owner().await;
    let mock = Mock::always(Answer::text("Yes.")).await;
    let free = json!({"is_public": true, "input_cost_per_1k": null, "output_cost_per_1k": null});
    let model = mock.register_with(&owner, "unpriced", free).await;
    assert!(model["input_cost_per_1k"].is_null());
    assert_ne!(model["warnings"], json!([]), "the body says so before");
    let key = server.key();
    let trace = key.trace().await;
    let ask = json!({"trace_id": trace, "model": "unpriced", "input": "Hello."});
    key.post("/api/v1/runs", &ask).await.ok(200);
    settings(&owner, 1, json!({"monthly_budget": 1})).await;
    key.post("/api/v1/runs", &ask).await.invalid("Model has no price: unpriced");
    settings(&owner, 1, json!({"monthly_budget": null})).await;
    let capped = json!({"name": "capped", "project_id": 1, "hourly_limit": 1});
    let capped = owner.post("/api/v1/keys", &capped).await.ok(201);
    let capped = server.with_key(capped["raw_key"].as_str().unwrap());
    capped.post("/api/v1/runs", &ask).await.invalid("Model has no price: unpriced");
    assert_eq!(mock.begun(), 1);
}

async fn a_model_without_a_price_is_passed_over(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let (free, priced) =
        (Mock::always(Answer::text("Free.")).await, Mock::always(Answer::text("Paid.")).await);
    let first = json!({"is_public": true, "input_cost_per_1k": null, "output_cost_per_1k": null,
        "additional_config": {"fallback_identifier": "priced"}});
    let model = free.register_with(&owner, "unpriced", first).await;
    priced.register(&owner, "priced").await;
    let tiers = json!({"simple": "unpriced", "complex": "unpriced"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let trace = key.trace().await;
    assert_eq!(key.execute(&trace, "Hello.").await.ok(200)["model"], "unpriced");
    settings(&owner, 1, json!({"monthly_budget": 1})).await;
    let done = key.execute(&trace, "Hello.").await.ok(200);
    assert_eq!((&done["model"], &done["output"]), (&json!("priced"), &json!("Paid.")));
    let messages = json!([{"role": "user", "content": "Hello."}]);
    let named = json!({"trace_id": trace, "model": "unpriced", "messages": messages});
    let done = key.post("/api/v1/chat/completions", &named).await.ok(200);
    assert_eq!(done["model"], "priced", "a named model has its fallbacks");
    let ask = json!({"input": "Hello.", "project_id": 1});
    let path = key.post("/api/v1/simulate", &ask).await.ok(200)["fallback_path"].clone();
    assert_eq!(path, json!(["priced"]), "simulated as it is executed");
    assert_eq!(free.begun(), 1, "what cannot be counted is not called");
    assert_eq!(key.detail(&trace).await["steps"].as_array().unwrap().len(), 3);
    // None is left.
    let alone = json!({"model_definition": {"additional_config": {}}});
    let path = format!("/api/v1/projects/1/models/{}", model["id"]);
    owner.patch(&path, &alone).await.ok(200);
    key.execute(&trace, "Hello.").await.invalid("Model has no price: unpriced");
    key.post("/api/v1/simulate", &ask).await.invalid("Model has no price: unpriced");
}
