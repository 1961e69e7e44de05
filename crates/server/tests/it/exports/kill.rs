//! An export whose gateway stops or is killed comes to its end, with each step once.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{EXPORTS, ask, ended, lines};
use crate::harness::{Backend, Caller, Server, until};

crate::on_every_backend!(
    a_file_is_whole_however_often_the_gateway_is_killed,
    an_export_goes_on_after_a_stop,
);

const NOTES: usize = 60;
/// How many exports are interrupted.
const CRASHES: u64 = 20;
/// The bytes of a piece, in which files are stored.
const PIECE: u64 = 256 * 1024;

/// A server with steps whose file has several pieces.
async fn prepared(backend: &Backend) -> Server {
    let server = Server::unlimited(backend).await;
    let key = server.key();
    let trace = key.trace().await;
    let long = "The committee met on Tuesday and agreed on every point of the agenda. ".repeat(430);
    for number in 0..NOTES {
        let note = json!({"number": number, "text": long});
        key.post("/api/v1/logs", &json!({"trace_id": trace, "output": note})).await.ok(200);
    }
    server
}

/// Asserts that an export that is over has every note once, and returns its file.
async fn whole(owner: &Caller, job: &Value) -> String {
    assert_eq!(job["status"], "completed", "{job}");
    assert_eq!((&job["steps"], &job["content_errors"]), (&json!(NOTES), &json!(0)), "{job}");
    assert_eq!(job["progress"], json!({"done": NOTES, "total": NOTES}));
    let file = owner.get(job["download"].as_str().unwrap()).await;
    assert_eq!(json!(file.text.len()), job["bytes"]);
    let numbers = lines(&file.text).into_iter().map(|line| line["output"]["number"].as_u64());
    assert_eq!(numbers.collect::<Vec<_>>(), (0..NOTES as u64).map(Some).collect::<Vec<_>>());
    file.text
}

async fn a_file_is_whole_however_often_the_gateway_is_killed(backend: Backend) {
    let mut server = prepared(&backend).await;
    let owner = server.owner().await;
    let job = ask(&owner, "jsonl", json!({"content": true})).await;
    let job = ended(&owner, &job).await;
    let expected = whole(&owner, &job).await;
    assert!(job["bytes"].as_u64().unwrap() > 4 * PIECE, "{job}");
    let (mut interrupted, mut runs) = (0, 0);
    while interrupted < CRASHES && runs < 2 * CRASHES {
        let job = ask(&owner, "jsonl", json!({"content": true})).await;
        until("the export runs", async || {
            let job = owner.get(&format!("{EXPORTS}/{job}")).await.ok(200);
            (job["status"] != "queued").then_some(())
        })
        .await;
        // Another moment of the run each time.
        tokio::time::sleep(Duration::from_millis(5 * (runs % 11))).await;
        server.kill().await;
        server.up().await;
        let found = owner.get(&format!("{EXPORTS}/{job}")).await.ok(200);
        interrupted += u64::from(found["status"] != "completed");
        runs += 1;
        let job = ended(&owner, &job).await;
        assert_eq!(whole(&owner, &job).await, expected, "crash {runs}");
    }
    assert_eq!(interrupted, CRASHES, "the others of {runs} were over before");
}

async fn an_export_goes_on_after_a_stop(backend: Backend) {
    let mut server = prepared(&backend).await;
    let owner = server.owner().await;
    let job = ask(&owner, "parquet", json!({"content": true})).await;
    server.restart().await;
    let job = ended(&owner, &job).await;
    assert_eq!((&job["status"], &job["steps"]), (&json!("completed"), &json!(NOTES)), "{job}");
}
