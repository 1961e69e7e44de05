//! Nodes come and go.

use serde_json::{Value, json};

use super::{CALL, Fleet, decided, dollars, run};
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
async fn what_others_have_given_back_is_reserved_again_once_a_node_has_its_lock() {
    /// The reservations that Redis has, as it answers.
    const COUNT: &str = r#"EVAL "local n = 0 for _, key in ipairs(redis.call('KEYS', 'sluice:*:r')) do n = n + redis.call('HLEN', key) end return n" 0"#;
    /// Forgets them, as another node does that takes theirs for gone.
    const FORGET: &str = r#"EVAL "for _, key in ipairs(redis.call('KEYS', 'sluice:*:[ro]')) do redis.call('DEL', key) end return 0" 0"#;
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let (made, raw) = fleet.key(Some(1.0)).await;
    let key = fleet.nodes[0].with_key(&raw);
    let trace = key.trace().await;
    decided(&key, &trace, "mock").await.ok(200);
    fleet.nothing_is_reserved().await;
    assert_eq!(fleet.redis.ask(COUNT), ":0");
    fleet.mock.hold();
    let asked = tokio::spawn(async move { decided(&key, &trace, "mock").await });
    until("the call is made", async || (fleet.mock.begun() == 2).then_some(())).await;
    // One that Redis granted too late is given back first.
    until("it alone is reserved", async || (fleet.redis.ask(COUNT) == ":1").then_some(())).await;
    fleet.redis.ask(FORGET);
    assert_eq!(fleet.redis.ask(COUNT), ":0");
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name LIKE 'sluice lock %' AND datname = current_database()";
    assert_eq!(fleet.nodes[0].sql(cut), "t");
    until("it is reserved again", async || (fleet.redis.ask(COUNT) == ":1").then_some(())).await;
    fleet.mock.release();
    asked.await.unwrap().ok(200);
    fleet.nothing_is_reserved().await;
    assert_eq!(fleet.redis.ask(COUNT), ":0");
    fleet.is_settled(&made).await;
    assert_eq!(fleet.spent(), 2 * CALL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_at_another_redis_is_named_in_the_log() {
    let Some(fleet) = Fleet::start(1, &[]).await else { return };
    let Some(other) = Redis::start().await else { return };
    let beside = fleet.nodes[0].beside().env("SLUICE_REDIS_URL", &other.url());
    let beside = beside.env("SLUICE_METRICS_LISTEN", "off");
    let mut there = beside.env("SLUICE_LOG", "info").start().await;
    let (_, raw) = fleet.key(Some(1.0)).await;
    let key = fleet.nodes[0].with_key(&raw);
    let trace = key.trace().await;
    run(&key, &trace).await.says(503, "Limits cannot be checked right now");
    let line = |log: String, part: &str| {
        let line = log.lines().find(|line| line.contains(part))?;
        serde_json::from_str::<Value>(line).ok()
    };
    let warning =
        until("it is named", async || line(fleet.nodes[0].log(), "has not reached this Redis"))
            .await;
    let serving = line(there.log(), "\"serving\"").unwrap();
    assert!(warning["node"].is_string() && warning["node"] == serving["node"], "{warning}");
    assert_eq!((&warning["level"], &warning["projects"]), (&json!("WARN"), &json!(1)));
    // The advice of the line is enough.
    there.kill().await;
    until("the counters are built", async || {
        let reply = run(&key, &trace).await;
        assert!(matches!(reply.status, 200 | 503), "{}", reply.text);
        (reply.status == 200).then_some(())
    })
    .await;
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
