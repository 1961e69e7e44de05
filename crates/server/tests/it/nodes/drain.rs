//! A gateway that is asked to stop is not ready first, and serves on for a while.

use std::time::{Duration, Instant};

use crate::harness::{Answer, Backend, Caller, KEY, Mock, Server, Setup, until};

crate::on_every_backend!(
    a_stop_is_announced_before_it_comes,
    a_second_signal_ends_the_wait,
    a_single_node_stops_at_once,
);

async fn unready(server: &Server) {
    until("it is not ready", async || (server.any.get("/ready").await.status == 503).then_some(()))
        .await;
}

async fn a_stop_is_announced_before_it_comes(backend: Backend) {
    let setup = Setup::new(&backend).env("SLUICE_EGRESS_ALLOW", "127.0.0.1");
    let mut server = setup.env("SLUICE_SHUTDOWN_DELAY", "600").start().await;
    let mock =
        Mock::start(Duration::from_millis(200), Some((10, 5)), |_| Answer::text("Yes.")).await;
    mock.register(&server.owner().await, "mock").await;
    assert_eq!(server.any.get("/ready").await.status, 200);
    server.terminate();
    unready(&server).await;
    // Calls go on: begun before, on a connection that is open, and on a new one.
    let fresh = || reqwest::Client::builder().no_proxy().build().unwrap();
    let header = format!("Bearer {KEY}");
    let newcomer = Caller::new(fresh(), server.any.base.clone()).with("authorization", &header);
    for key in [server.key(), newcomer] {
        let trace = key.trace().await;
        let body = serde_json::json!({"trace_id": trace, "model": "mock", "input": "Well?"});
        let reply = key.post("/api/v1/runs", &body).await;
        assert_eq!(reply.header("connection"), "close", "its client finds another node");
        assert_eq!(reply.ok(200)["output"], "Yes.");
    }
    assert_eq!(server.any.get("/up").await.status, 200);
    server.terminate();
    assert!(server.ended().await.success(), "{}", server.log());
    server = server.with_env("SLUICE_SHUTDOWN_DELAY", "3");
    server.up().await;
    let asked = Instant::now();
    server.terminate();
    unready(&server).await;
    assert!(server.ended().await.success(), "{}", server.log());
    assert!(asked.elapsed() >= Duration::from_secs(3), "it waits");
    server = server.with_env("SLUICE_SHUTDOWN_DELAY", "0");
    server.up().await;
    assert_eq!(server.any.get("/ready").await.status, 200);
    assert_eq!(server.any.get("/up").await.header("connection"), "");
}

async fn a_second_signal_ends_the_wait(backend: Backend) {
    let mut server = Setup::new(&backend).env("SLUICE_SHUTDOWN_DELAY", "600").start().await;
    server.terminate();
    unready(&server).await;
    server.terminate();
    let status = server.ended().await;
    assert!(status.success(), "{}", server.log());
}

async fn a_single_node_stops_at_once(backend: Backend) {
    let mut server = Setup::new(&backend).env("SLUICE_LOG", "info").start().await;
    server.stop().await;
    assert!(!server.log().contains("shutdown delay"), "{}", server.log());
    if matches!(backend, Backend::Postgres(_)) {
        server = server.with_env("SLUICE_ALLOW_INEXACT_LIMITS", "true");
        server.up().await;
        server.terminate();
        unready(&server).await;
        let log = server.log();
        assert!(
            log.contains("stopping after the shutdown delay") && log.contains("\"seconds\":5"),
            "{log}"
        );
        server.stop().await;
    }
}
