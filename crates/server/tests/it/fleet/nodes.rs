//! Nodes come and go.

use serde_json::json;

use super::{CALL, Fleet, dollars, run};
use crate::harness::{Backend, Redis, Setup, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_had_reserved_that_dies_is_given_back() {
    let Some(mut fleet) = Fleet::start(2, &[]).await else { return };
    let (made, raw) = fleet.key(Some(dollars(10))).await;
    let (here, there) = (fleet.nodes[0].with_key(&raw), fleet.nodes[1].with_key(&raw));
    let trace = here.trace().await;
    fleet.mock.hold();
    let asked = tokio::spawn(async move {
        let trace = there.trace().await;
        let body = json!({"trace_id": trace, "model": "mock", "input": "Hello."});
        let request = there.request("POST", "/api/v1/runs");
        let request = request.header("content-type", "application/json").body(body.to_string());
        crate::harness::Caller::try_send(request).await.is_err()
    });
    until("the call is made", async || (fleet.mock.begun() == 1).then_some(())).await;
    until("its start is written", async || {
        (fleet.nodes[0].sql("SELECT count(*) FROM open_calls") == "1").then_some(())
    })
    .await;
    fleet.nodes[1].kill().await;
    assert!(asked.await.unwrap(), "its caller is cut off");
    fleet.mock.release();
    // It held all that the cap affords, or nearly so.
    until("others can spend it", async || {
        let reply = run(&here, &trace).await;
        // On a slow machine Redis takes longer than a decision may.
        let is_late = reply.status == 503 && reply.text.contains("limits_unavailable");
        assert!(is_late || matches!(reply.status, 200 | 429), "{}", reply.text);
        (reply.status == 200).then_some(())
    })
    .await;
    until("its call is recorded", async || {
        (fleet.nodes[0].sql("SELECT count(*) FROM open_calls") == "0").then_some(())
    })
    .await;
    fleet.nothing_is_reserved().await;
    let (counted, spent) = (fleet.counted(&made), fleet.spent());
    assert!(spent > CALL, "both calls cost something: {spent}");
    assert!(counted >= spent, "Redis has {counted} of {spent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_without_redis_is_kept_away() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let alone = fleet.nodes[0].beside().without("SLUICE_REDIS_URL").prepare();
    let said = alone.cli(&["serve"], &[]).await;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("another Sluice serves this PostgreSQL database"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_does_not_answer_keeps_a_gateway_from_starting() {
    let Some(redis) = Redis::start().await else { return };
    let url = redis.url();
    drop(redis);
    for backend in [Some(Backend::Sqlite), Backend::postgres()].into_iter().flatten() {
        let setup = Setup::new(&backend).env("SLUICE_REDIS_URL", &url.replace("//", "//:hush@"));
        let said = setup.prepare().cli(&["serve"], &[]).await;
        assert!(!said.status.success());
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.contains(&format!("sluice: Redis at {url}: ")), "{said}");
        assert!(said.contains("SLUICE_REDIS_URL") && !said.contains("hush"), "{said}");
    }
}
