//! Exports while the database is slow, and of rows that are damaged. Only PostgreSQL has a client that can
//! hold a table, or write past the gateway.

use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::support::{EXPORTS, ask, ended, exported, lines};
use crate::harness::{Backend, Caller, Server, until};

crate::on_every_backend!(
    an_export_outlasts_a_database_that_is_slow,
    a_request_is_refused_while_the_database_is_too_busy,
    a_damaged_content_is_marked,
    a_damaged_step_is_marked,
    the_command_reads_no_other_project,
    an_interrupted_command_leaves_no_file,
);

/// A lock on a table, which nobody can read meanwhile. It is given back when this is dropped.
struct TableLock {
    psql: Child,
    input: Option<ChildStdin>,
}

impl TableLock {
    async fn take(server: &Server, table: &str) -> Self {
        let mut psql = Command::new("psql");
        psql.args([server.database_url(), "-qX"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut psql = psql.spawn().unwrap();
        let mut input = psql.stdin.take().unwrap();
        writeln!(input, "BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE;").unwrap();
        let held = Self { psql, input: Some(input) };
        let locks = format!(
            "SELECT count(*) FROM pg_locks WHERE relation = '{table}'::regclass
             AND mode = 'AccessExclusiveLock' AND granted"
        );
        until("the table is locked", async || (server.sql(&locks) == "1").then_some(())).await;
        held
    }
}

impl Drop for TableLock {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.psql.wait();
    }
}

/// A server with two steps, and its owner; `None` on SQLite.
async fn prepared(backend: &Backend) -> Option<(Server, Caller)> {
    if matches!(backend, Backend::Sqlite) {
        return None;
    }
    let server = Server::unlimited(backend).await;
    let key = server.key();
    let trace = key.trace().await;
    for input in ["First.", "Second."] {
        let body = json!({"trace_id": trace, "model": "sandbox", "input": input});
        key.post("/api/v1/runs", &body).await.ok(200);
    }
    let owner = server.owner().await;
    Some((server, owner))
}

async fn file(owner: &Caller, job: &Value) -> Vec<Value> {
    assert_eq!(job["status"], "completed", "{job}");
    lines(&owner.get(job["download"].as_str().unwrap()).await.text)
}

async fn an_export_outlasts_a_database_that_is_slow(backend: Backend) {
    let Some((server, owner)) = prepared(&backend).await else { return };
    let lock = TableLock::take(&server, "traces").await;
    let job = ask(&owner, "jsonl", json!({})).await;
    let second = owner.post(EXPORTS, &json!({"format": "focus", "since": "7d"})).await;
    second.says(503, "An export of this project waits or runs");
    assert_eq!(second.header("retry-after"), "10");
    // A read may take five seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let running = owner.get(&format!("{EXPORTS}/{job}")).await.ok(200);
    assert_eq!(running["status"], "running", "{running}");
    drop(lock);
    let job = ended(&owner, &job).await;
    assert_eq!(file(&owner, &job).await.len(), 2);
    exported(&owner, "focus", json!({})).await;
}

async fn a_request_is_refused_while_the_database_is_too_busy(backend: Backend) {
    let Some((server, owner)) = prepared(&backend).await else { return };
    let lock = TableLock::take(&server, "steps").await;
    let refused = owner.post(EXPORTS, &json!({"format": "jsonl", "since": "1h"})).await;
    refused.says(503, "The gateway cannot read or store this right now");
    drop(lock);
    let events = owner.get("/api/v1/audit-events?event=export_created").await.ok(200);
    assert_eq!(events, json!([]), "what is refused is no export");
    let job = exported(&owner, "jsonl", json!({})).await;
    assert_eq!(file(&owner, &job).await.len(), 2);
}

async fn a_damaged_step_is_marked(backend: Backend) {
    let Some((server, owner)) = prepared(&backend).await else { return };
    server.sql("UPDATE steps SET status = 'odd' WHERE id = (SELECT min(id) FROM steps)");
    let mut id = String::new();
    for format in ["jsonl", "parquet"] {
        let job = exported(&owner, format, json!({})).await;
        assert_eq!((&job["steps"], &job["step_errors"]), (&json!(2), &json!(1)), "{job}");
        if format == "jsonl" {
            let lines = file(&owner, &job).await;
            assert_eq!(lines[0]["step_error"], "unreadable");
            id = lines[0]["id"].as_u64().unwrap().to_string();
            assert_eq!(
                (&lines[1]["status"], lines[1].get("step_error")),
                (&json!("completed"), None)
            );
        }
    }
    assert!(server.log().contains("an export has steps that cannot be read"), "{}", server.log());
    // Costs without it would be too low.
    let job = owner.post(EXPORTS, &json!({"format": "focus", "since": "1h"})).await.ok(202);
    let job = ended(&owner, job["job_id"].as_str().unwrap()).await;
    assert_eq!(job["status"], "failed", "{job}");
    assert!(job["error"].as_str().unwrap().contains(&format!("step {id} is damaged")), "{job}");
    let args = ["export", "--project", "1", "--format", "jsonl", "--since", "1h"];
    let done = server.cli(&args, &[]).await;
    assert!(done.status.success(), "{done:?}");
    let warned = String::from_utf8(done.stderr).unwrap();
    assert!(warned.contains(&format!("the file has no more than their ids: {id}")), "{warned}");
}

async fn a_damaged_content_is_marked(backend: Backend) {
    let Some((server, owner)) = prepared(&backend).await else { return };
    server.sql("UPDATE step_contents SET sealed = sealed || '\\x00' WHERE step_id = (SELECT min(id) FROM steps)");
    let job = exported(&owner, "jsonl", json!({"content": true})).await;
    assert_eq!((&job["steps"], &job["content_errors"]), (&json!(2), &json!(1)), "{job}");
    let lines = file(&owner, &job).await;
    assert_eq!((&lines[0]["content_error"], lines[0].get("input")), (&json!("unreadable"), None));
    assert_eq!((lines[1].get("content_error"), &lines[1]["input"]), (None, &json!("Second.")));
    assert!(server.log().contains("an export lacks contents"), "{}", server.log());
    let job = exported(&owner, "jsonl", json!({})).await;
    assert_eq!(job.get("content_errors"), None, "no contents were asked for");

    let args = ["export", "--project", "1", "--format", "jsonl", "--since", "1h", "--content"];
    let done = server.cli(&args, &[]).await;
    assert!(done.status.success(), "{done:?}");
    assert_eq!(self::lines(&String::from_utf8(done.stdout).unwrap()), lines);
    let warned = String::from_utf8(done.stderr).unwrap();
    assert!(warned.contains("the file lacks contents that cannot be read: 1"), "{warned}");
}

async fn the_command_reads_no_other_project(backend: Backend) {
    let Some((server, owner)) = prepared(&backend).await else { return };
    let made = json!({"project": {"name": "Other"}});
    let other = owner.post("/api/v1/projects", &made).await.ok(201)["id"].to_string();
    let export = async |projects: &[&str]| {
        let mut args = vec!["export", "--format", "jsonl", "--since", "1h"];
        args.extend(projects);
        server.cli(&args, &[]).await
    };
    for damage in [
        format!("UPDATE projects SET status = 'lost' WHERE id = {other}"),
        format!(
            "UPDATE projects SET status = 'active' WHERE id = {other};
             UPDATE data_keys SET wrapped = '\\x00' WHERE project_id = {other}"
        ),
    ] {
        server.sql(&damage);
        let done = export(&["--project", "1"]).await;
        assert!(done.status.success(), "{done:?}");
        for projects in [&["--project", &other][..], &["--all"]] {
            let done = export(projects).await;
            let fault = String::from_utf8(done.stderr).unwrap();
            assert!(!done.status.success(), "{fault}");
            assert!(fault.contains(&format!("project {other} cannot be read")), "{fault}");
        }
    }
}

async fn an_interrupted_command_leaves_no_file(backend: Backend) {
    let Some((server, _)) = prepared(&backend).await else { return };
    let _lock = TableLock::take(&server, "traces").await;
    let folder = server.data().parent().unwrap().join("exports");
    std::fs::create_dir(&folder).unwrap();
    let output = folder.join("steps.jsonl");
    let mut command = server.command(&["export", "--project", "1", "--format", "jsonl"]);
    command.args(["--since", "1h", "--output"]).arg(&output).stderr(Stdio::null());
    let mut command = command.spawn().unwrap();
    let files = || std::fs::read_dir(&folder).unwrap().count();
    until("the file is begun", async || (files() == 1).then_some(())).await;
    assert!(!output.exists(), "it has another name until it is whole");
    let pid = command.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = until("the command ends", async || command.try_wait().unwrap()).await;
    assert!(!status.success(), "{status}");
    assert_eq!(files(), 0);
}
