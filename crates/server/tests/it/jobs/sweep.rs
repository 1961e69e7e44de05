//! The periodic work of the gateway. Only PostgreSQL has a client that can make a trace
//! old or break a part; the sweep is the same on both databases.

use crate::harness::{Backend, Server, until};

crate::on_every_backend!(idle_traces_fail, a_part_of_the_sweep_that_fails_stops_no_other);

/// Ids begin with the time: these are of the year 2023.
const OLD: [&str; 2] =
    ["018bcfe5-6800-7000-8000-000000000001", "018bcfe5-6800-7000-8000-000000000002"];

/// Makes a trace old. It has another id then.
fn age(server: &Server, trace: &str, old: &str) {
    server.sql(&format!("UPDATE traces SET id = '{old}' WHERE id = '{trace}'"));
}

async fn idle_traces_fail(backend: Backend) {
    if matches!(backend, Backend::Sqlite) {
        return;
    }
    let mut server = Server::start(&backend).await;
    let key = server.key();
    let (idle, completed, young) = (key.trace().await, key.trace().await, key.trace().await);
    key.send("PATCH", &format!("/api/v1/traces/{completed}/complete"), None).await.ok(200);
    server.stop().await;
    age(&server, &idle, OLD[0]);
    age(&server, &completed, OLD[1]);
    // A sweep comes with every start.
    server.up().await;
    let has_failed = async || (key.detail(OLD[0]).await["status"] == "failed").then_some(());
    until("the idle trace has failed", has_failed).await;
    assert_eq!(key.detail(OLD[1]).await["status"], "completed");
    assert_eq!(key.detail(&young).await["status"], "pending");
    key.execute(OLD[0], "Hello.").await.invalid("Trace is not pending");
}

async fn a_part_of_the_sweep_that_fails_stops_no_other(backend: Backend) {
    if matches!(backend, Backend::Sqlite) {
        return;
    }
    let mut server = Server::start(&backend).await;
    let trace = server.key().trace().await;
    let owner = server.owner().await;
    server.stop().await;
    age(&server, &trace, OLD[0]);
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
    assert_eq!(server.key().detail(OLD[0]).await["status"], "pending");
}
