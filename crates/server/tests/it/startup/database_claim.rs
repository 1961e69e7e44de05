//! One gateway per database, whatever happens to the connection that holds the claim.

use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::harness::{Backend, Server, Setup, until};

crate::on_every_backend!(a_gateway_that_was_displaced_stops, a_shared_gateway_forbids_a_rotation);

/// The number of the lock that a gateway holds on PostgreSQL.
const SERVES: &str = "126909663503205";
const HOLDERS: &str = "FROM pg_locks WHERE locktype = 'advisory'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// A process that waits for a lock and then keeps it. It dies with this value.
struct Rival(Child);

impl Rival {
    fn start(url: &str) -> Self {
        let mut psql = Command::new("psql");
        psql.args([url, "-qXc", &format!("SELECT pg_advisory_lock({SERVES})")]);
        psql.args(["-c", "SELECT pg_sleep(600)"]).stdin(Stdio::null()).stdout(Stdio::null());
        Self(psql.spawn().unwrap())
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn a_gateway_that_was_displaced_stops(backend: Backend) {
    if matches!(backend, Backend::Sqlite) {
        return;
    }
    let mut server = Server::start(&backend).await;
    let _rival = Rival::start(server.database_url());
    let waits = format!("SELECT count(*) {HOLDERS} AND NOT granted");
    until("the rival waits", async || (server.sql(&waits) == "1").then_some(())).await;
    let cut = format!("SELECT pg_terminate_backend(pid) {HOLDERS} AND granted");
    server.sql(&cut);
    let status = server.ended().await;
    assert_eq!(status.code(), Some(1), "{}", server.log());
    let log = server.log();
    assert!(log.contains("the database lock is lost to another process"), "{log}");
    assert!(log.contains("sluice: another Sluice serves this database"), "{log}");
    // When the other one is gone, this one can come back.
    server.sql(&cut);
    server.up().await;
    server.key().trace().await;
}

async fn a_shared_gateway_forbids_a_rotation(backend: Backend) {
    let setup = Setup::new(&backend).env("SLUICE_ALLOW_INEXACT_LIMITS", "true");
    let server = setup.start().await;
    let new = "a1".repeat(32);
    let env = [("SLUICE_NEW_MASTER_KEY", new.as_str())];
    let rotated = server.cli(&["rotate-master-key"], &env).await;
    let said = String::from_utf8_lossy(&rotated.stderr).into_owned();
    assert!(!rotated.status.success() && said.contains("another Sluice serves this"), "{said}");
    // The gateway's own key still seals.
    server.key().trace().await;
    let project = json!({"project": {"name": "Sealed"}});
    server.owner().await.post("/api/v1/projects", &project).await.ok(201);
}
