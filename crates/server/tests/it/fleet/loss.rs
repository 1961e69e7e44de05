//! A Redis that is slow or gone: what is bounded waits for it, all else goes on.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{CALL, Fleet, dollars, run};
use crate::harness::{Reply, settings, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_known_is_refused_and_all_else_goes_on() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    let (_, capped) = fleet.key(Some(1.0)).await;
    let (_, free) = fleet.key(None).await;
    let (capped, free) = (fleet.nodes[0].with_key(&capped), fleet.nodes[0].with_key(&free));
    let (trace, other) = (capped.trace().await, free.trace().await);
    run(&capped, &trace).await.ok(200);
    let up = async |is_up: i64| {
        until("it is told whether Redis answers", async || {
            (fleet.metric(0, "sluice_counters_up").await == is_up).then_some(())
        })
        .await;
    };
    up(1).await;
    assert!(fleet.decisions(0, "gate", "made").await > 0);
    assert!(fleet.metric(0, "sluice_counter_seconds_count{function=\"gate\"}").await > 0);
    fleet.redis.pause();
    for _ in 0..5 {
        let began = Instant::now();
        let refused = run(&capped, &trace).await;
        // 50 ms for the decision, and some time for a busy machine.
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
        let error = "Limits cannot be checked right now: try again in a moment";
        refused.is(503, &json!({"error": error, "code": "limits_unavailable"}));
        assert_eq!(refused.header("retry-after"), "1");
        assert_eq!(refused.header("x-should-retry"), "true");
        run(&free, &other).await.ok(200);
    }
    for node in &fleet.nodes {
        until("it is not ready", async || {
            (node.any.get("/ready").await.status == 503).then_some(())
        })
        .await;
    }
    up(0).await;
    assert!(fleet.decisions(0, "gate", "away").await >= 10, "of both keys");
    // Free calls are bounded by nothing.
    capped.get("/api/v1/sdk/config").await.ok(200);
    fleet.redis.resume();
    for node in &fleet.nodes {
        until("it is ready", async || (node.any.get("/ready").await.status == 200).then_some(()))
            .await;
    }
    up(1).await;
    run(&capped, &trace).await.ok(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_without_redis_has_what_is_left_at_its_node() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let limits = json!({"requests_per_hour": 6, "loop_requests": null});
    settings(&fleet.nodes[0].owner().await, 1, json!({"limits": limits})).await;
    let (_, capped) = fleet.key(Some(1.0)).await;
    let (_, paused) = fleet.key(Some(0.0)).await;
    let (_, free) = fleet.key(None).await;
    let [capped, paused, free] = [capped, paused, free].map(|raw| fleet.nodes[0].with_key(&raw));
    let trace = capped.trace().await;
    run(&paused, &trace).await.says(429, "Kill switch engaged");
    fleet.redis.pause();
    let has = |reply: &Reply, left: u64| {
        let names = ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests"];
        let told = names.map(|name| reply.header(name).to_owned());
        assert_eq!(told, ["6".to_owned(), left.to_string()], "{reply:?}");
        assert_eq!(reply.header("ratelimit-policy"), "\"requests\";q=6;w=3600");
        let told = reply.header("ratelimit");
        assert!(told.starts_with(&format!("\"requests\";r={left};t=")), "{told}");
    };
    // The node counts from now on.
    let config = "/api/v1/sdk/config";
    let counted = capped.get(config).await;
    counted.ok(200);
    has(&counted, 5);
    let refused = run(&capped, &trace).await;
    refused.says(503, "Limits cannot be checked right now");
    has(&refused, 5);
    for left in (0..6).rev() {
        has(&free.get(config).await, left);
    }
    let refused = free.get(config).await;
    refused.says(429, "Rate limit exceeded");
    has(&refused, 0);
    let refused = run(&paused, &trace).await;
    refused.says(429, "Kill switch engaged");
    has(&refused, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_each_node_counts_holds_if_so_configured() {
    let Some(fleet) = Fleet::start(1, &[("SLUICE_ON_COUNTER_LOSS", "local")]).await else { return };
    let (made, raw) = fleet.key(Some(dollars(3))).await;
    let key = fleet.nodes[0].with_key(&raw);
    let trace = key.trace().await;
    run(&key, &trace).await.ok(200);
    fleet.redis.pause();
    run(&key, &trace).await.ok(200);
    run(&key, &trace).await.ok(200);
    run(&key, &trace).await.says(429, "Kill switch engaged");
    fleet.redis.resume();
    assert_eq!(fleet.spent(), 3 * CALL);
    // Nothing was reserved for those in the outage, and nothing is owed: Redis has them from the database.
    until("all three count in Redis", async || (fleet.counted(&made) == 3 * CALL).then_some(()))
        .await;
    fleet.nothing_is_reserved().await;
}
