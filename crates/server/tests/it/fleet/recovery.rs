//! Counters that are lost and calls that did not reach Redis are found again, to the nano-dollar.

use serde_json::json;
use tokio::task::JoinSet;

use super::{Fleet, decided, dollars, run};
use crate::harness::{Answer, Mock, settings, until};

const REBUILDS: &str = "sluice_counter_rebuilds_total";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redis_has_lost_is_spent_only_when_all_nodes_have_added_what_they_hold() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    let slow = Mock::always(Answer::text("At last.")).await;
    let owner = fleet.nodes[0].owner().await;
    slow.register(&owner, "slow").await;
    settings(&owner, 1, json!({"limits": {"requests_per_hour": 100}})).await;
    let (made, raw) = fleet.key(Some(dollars(10))).await;
    let (holds, asks) = (fleet.nodes[0].with_key(&raw), fleet.nodes[1].with_key(&raw));
    let trace = asks.trace().await;
    decided(&asks, &trace, "mock").await.ok(200);
    fleet.nothing_is_reserved().await;
    slow.hold();
    let held = tokio::spawn(async move {
        let trace = holds.trace().await;
        decided(&holds, &trace, "slow").await
    });
    until("the call is made", async || (slow.begun() == 1).then_some(())).await;
    // One that Redis granted too late is given back first.
    let reserved = until("one is reserved, and for whom", async || {
        let reserved = fleet.reservations();
        (reserved.len() == 2).then_some(reserved)
    })
    .await;
    let rebuilds = fleet.metric(1, REBUILDS).await;

    // The node that holds it cannot say so.
    fleet.nodes[0].pause().await;
    fleet.redis.ask("FLUSHALL");
    let refused = async || {
        run(&asks, &trace).await.says(503, "Limits cannot be checked");
        assert_ne!(fleet.counter("s", "o").as_deref(), Some("1"), "it is open");
    };
    for _ in 0..2 {
        refused().await;
    }
    // Those may have been refused because Redis took too long.
    until("a call finds them lost", async || {
        refused().await;
        (fleet.decisions(1, "gate", "lost").await > 0).then_some(())
    })
    .await;
    assert_eq!(fleet.metric(1, REBUILDS).await, rebuilds);
    // Redis counts requests all the same, and a refusal has what is left by that, not by its node.
    let requests = format!("k:{}", made["id"].as_str().unwrap());
    until("a refusal has the requests that Redis counts", async || {
        asks.get("/api/v1/sdk/config").await.ok(200);
        let refused = run(&asks, &trace).await;
        refused.says(503, "Limits cannot be checked");
        let counted: u64 = fleet.counter(&requests, "qn")?.parse().unwrap();
        let left = refused.header("x-ratelimit-remaining-requests");
        (counted > 0 && left == (100 - counted).to_string()).then_some(())
    })
    .await;
    fleet.nodes[0].resume();
    until("the project is open", async || {
        (fleet.counter("s", "o").as_deref() == Some("1")).then_some(())
    })
    .await;
    assert_eq!(fleet.reservations(), reserved);
    until("it is told", async || (fleet.metric(1, REBUILDS).await > rebuilds).then_some(())).await;

    slow.release();
    held.await.unwrap().ok(200);
    decided(&asks, &trace, "mock").await.ok(200);
    fleet.is_settled(&made).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_end_while_redis_is_away_are_counted_when_it_is_back() {
    let Some(fleet) = Fleet::start(2, &[]).await else { return };
    // There is room for all at the same time.
    let (made, raw) = fleet.key(Some(100.0)).await;
    fleet.mock.hold();
    let mut calls = JoinSet::new();
    for call in 0..4 {
        let key = fleet.nodes[call % 2].with_key(&raw);
        calls.spawn(async move {
            let trace = key.trace().await;
            decided(&key, &trace, "mock").await
        });
    }
    until("all calls are made", async || (fleet.mock.begun() == 4).then_some(())).await;
    fleet.redis.pause();
    fleet.mock.release();
    for reply in calls.join_all().await {
        reply.ok(200);
    }
    fleet.redis.resume();
    fleet.is_settled(&made).await;
}
