//! Limits hold over all nodes, whichever gets a request.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{CALL, Fleet, run};
use crate::harness::{KEY, settings, until};

/// Has many clients call over all nodes until each is refused for good. Returns how many calls were answered.
async fn storm(fleet: &Fleet, raw: &str, flushes: bool) -> u64 {
    let mut clients = JoinSet::new();
    for client in 0..64 {
        let key = fleet.nodes[client % fleet.nodes.len()].with_key(raw);
        clients.spawn(async move {
            let (mut answered, trace) = (0, key.trace().await);
            loop {
                let reply = run(&key, &trace).await;
                match (reply.status, reply.headers.get("x-should-retry")) {
                    (200, _) => answered += 1,
                    // Paused for good, by whichever call has spent the last of it.
                    (429, Some(retries)) if retries == "false" => return answered,
                    // It does not fit beside others, or what is spent is not known at the moment.
                    (429 | 503, _) => {}
                    (status, _) => panic!("{status}: {}", reply.text),
                }
            }
        });
    }
    if flushes {
        until("some calls were made", async || (fleet.mock.begun() > 5).then_some(())).await;
        fleet.redis.ask("FLUSHALL");
    }
    clients.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cap_that_is_crossed_by_all_nodes_is_not_overspent() {
    let Some(fleet) = Fleet::start(3, &[]).await else { return };
    // The most that a call of the mock may cost is little above what it does: the cap is met.
    let cap = 40 * CALL;
    let (made, raw) = fleet.key(Some(cap as f64 / 1e9)).await;
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    let rounds = std::env::var("SLUICE_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let mut before = 0;
    for round in 0..rounds.unwrap_or(3) {
        let answered = storm(&fleet, &raw, round % 2 == 1).await;
        let spent = fleet.spent() - before;
        assert!(spent <= cap, "round {round}: {spent} of {cap} was spent");
        assert_eq!(spent, cap, "round {round}: all of it is of use ({answered} calls)");
        before += spent;
        let owner = fleet.nodes[round % 3].owner().await;
        owner.patch(&path, &json!({"status": "active"})).await.ok(200);
        // A reset holds everywhere.
        fleet.everywhere(&raw, |reply| reply.status == 200).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_counted_over_all_nodes() {
    let Some(fleet) = Fleet::start(3, &[]).await else { return };
    let owner = fleet.nodes[0].owner().await;
    let (_, raw) = fleet.key(None).await;
    let limited = async |limits: Value| {
        settings(&owner, 1, json!({"limits": limits})).await;
        let limit = |view: &Value| view["settings"]["limits"].clone();
        let is_known = |view: &Value| {
            limits.as_object().unwrap().iter().all(|(name, value)| limit(view)[name] == *value)
        };
        fleet.known("/api/v1/projects/1", is_known).await;
    };
    limited(json!({"requests_per_hour": 1000, "loop_requests": null})).await;
    let get = async |request: usize, raw: &str| {
        fleet.nodes[request % 3].with_key(raw).get("/api/v1/sdk/config").await
    };
    for request in 1..=1000 {
        let reply = get(request, &raw).await;
        assert_eq!(reply.status, 200, "request {request}: {}", reply.text);
    }
    for request in 0..3 {
        let refused = get(request, &raw).await;
        refused.is(429, &json!({"error": "Rate limit exceeded"}));
        let wait: u64 = refused.header("retry-after").parse().unwrap();
        assert!((3_000..=3_600).contains(&wait), "{wait}");
    }
    limited(json!({"requests_per_hour": null, "loop_requests": 50})).await;
    for request in 1..=50 {
        let reply = get(request, KEY).await;
        assert_eq!(reply.status, 200, "request {request}: {}", reply.text);
    }
    get(0, KEY).await.says(429, "Recursive loop");
    // It is paused for all.
    fleet.everywhere(KEY, |reply| reply.status == 429).await;
    limited(json!({"requests_per_hour": null, "loop_requests": null})).await;
    let path = format!("/api/v1/keys/{}", KEY.split('.').next().unwrap());
    owner.patch(&path, &json!({"status": "active"})).await.ok(200);
    fleet.everywhere(KEY, |reply| reply.status == 200).await;
    // So is a revocation.
    owner.delete(&path).await;
    fleet.everywhere(KEY, |reply| reply.status == 401).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_and_a_cap_that_come_later_count_what_was_spent() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    let (made, raw) = fleet.key(None).await;
    let keys = [fleet.nodes[0].with_key(&raw), fleet.nodes[1].with_key(&raw)];
    let trace = keys[0].trace().await;
    for key in &keys {
        run(key, &trace).await.ok(200);
    }
    let owner = fleet.nodes[0].owner().await;
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    let dollars = |calls: i64| (calls * CALL) as f64 / 1e9;
    owner.patch(&path, &json!({"hourly_limit": dollars(3)})).await.ok(200);
    let is_capped = |keys: &Value| {
        let mut keys = keys.as_array().unwrap().iter();
        keys.any(|key| key["id"] == made["id"] && key["hourly_limit"] == json!(dollars(3)))
    };
    fleet.known("/api/v1/keys", is_capped).await;
    run(&keys[1], &trace).await.ok(200);
    for key in &keys {
        run(key, &trace).await.says(429, "Kill switch engaged");
    }
    owner.patch(&path, &json!({"hourly_limit": null, "status": "active"})).await.ok(200);
    settings(&owner, 1, json!({"monthly_budget": dollars(4)})).await;
    let is_budgeted = |view: &Value| view["settings"]["monthly_budget"] == json!(dollars(4));
    fleet.known("/api/v1/projects/1", is_budgeted).await;
    fleet.everywhere(&raw, |reply| reply.status == 200).await;
    run(&keys[0], &trace).await.ok(200);
    for key in &keys {
        run(key, &trace).await.says(402, "Monthly budget exceeded");
    }
}
