//! What the gateway does by itself, now and then.

use crate::harness::{Backend, Setup, until};

crate::on_every_backend!(idle_traces_fail, a_part_of_the_sweep_that_fails_stops_no_other);

async fn idle_traces_fail(backend: Backend) {
    let mut server = Setup::new(&backend).env("SLUICE_TRACE_IDLE_HOURS", "0").start().await;
    let key = server.key();
    let (idle, completed) = (key.trace().await, key.trace().await);
    key.send("PATCH", &format!("/api/v1/traces/{completed}/complete"), None).await.ok(200);
    // A sweep comes with every start.
    server.restart().await;
    let has_failed = async || (key.detail(&idle).await["status"] == "failed").then_some(());
    until("the idle trace has failed", has_failed).await;
    assert_eq!(key.detail(&completed).await["status"], "completed");
    key.execute(&idle, "Hello.").await.invalid("Trace is not pending");
}

async fn a_part_of_the_sweep_that_fails_stops_no_other(backend: Backend) {
    if matches!(backend, Backend::Sqlite) {
        // Only PostgreSQL has a client that can break a part; the sweep is the same.
        return;
    }
    let mut server = Setup::new(&backend).env("SLUICE_TRACE_IDLE_HOURS", "0").start().await;
    let trace = server.key().trace().await;
    let owner = server.owner().await;
    server.stop().await;
    // The first part cannot write; the last one has something to do.
    server.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
         'BEGIN RAISE EXCEPTION ''not today''; END';
         CREATE TRIGGER refuse BEFORE UPDATE ON traces FOR EACH ROW EXECUTE FUNCTION refuse();
         UPDATE sessions SET created_at = 0",
    );
    server.up().await;
    let sessions = "SELECT count(*) FROM sessions";
    until("the old session is gone", async || (server.sql(sessions) == "0").then_some(())).await;
    assert_eq!(owner.get("/api/v1/projects").await.status, 401);
    let log = server.log();
    assert!(log.contains("background work failed") && log.contains("not today"), "{log}");
    assert_eq!(server.key().detail(&trace).await["status"], "pending");
}
