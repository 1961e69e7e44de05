//! A backtest whose gateway stops or is killed comes to its end, and counts every request once.

use std::time::Duration;

use serde_json::{Value, json};

use super::{BACKTESTS, ask, body, ended};
use crate::harness::{Answer, Backend, Mock, Server, until};

crate::on_every_backend!(
    a_backtest_ends_however_often_the_gateway_is_killed,
    one_backtest_of_a_project_runs_and_goes_on_after_a_stop,
);

const CALLS: usize = 60;
/// How many backtests are interrupted.
const CRASHES: usize = 20;

/// A server with requests that take some time to judge.
async fn prepared(backend: &Backend) -> Server {
    let server = Server::unlimited(backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    let long = "The committee met on Tuesday and agreed on every point of the agenda. ".repeat(150);
    for number in 0..CALLS {
        let body =
            json!({"trace_id": trace, "model": "mock", "input": format!("{number}: {long}")});
        key.post("/api/v1/runs", &body).await.ok(200);
    }
    server
}

/// The most rules of a draft beside its own one.
const MOST_MORE: usize = 99;

/// A draft that blocks one request, and has more rules, which find nothing and take time.
fn draft(number: usize, more: usize) -> Value {
    let mut rules = vec![json!({"name": "odd", "pattern": format!("^{number}: ")})];
    rules.extend((0..more).map(|at| {
        json!({"name": format!("none_{at}"), "pattern": format!("[aeiou][a-z]{{3,9}}[jqxz]{{2}}{at}")})
    }));
    json!({"safety": {"rules": rules}})
}

#[track_caller]
fn is_whole(job: &Value) {
    assert_eq!(job["status"], "completed", "{job}");
    let (steps, blocked) = (&job["report"]["steps"], &job["report"]["blocked"]);
    assert_eq!((&steps["read"], &steps["judged"]), (&json!(CALLS), &json!(CALLS)), "{job}");
    assert_eq!(blocked["newly_blocked"], 1, "{job}");
}

async fn a_backtest_ends_however_often_the_gateway_is_killed(backend: Backend) {
    let mut server = prepared(&backend).await;
    let owner = server.owner().await;
    let (mut interrupted, mut runs, mut more) = (0, 0, 0);
    while interrupted < CRASHES && runs < 5 * CRASHES {
        let job = ask(&owner, &draft(runs % CALLS, more)).await;
        until("the backtest runs", async || {
            let job = owner.get(&format!("{BACKTESTS}/{job}")).await.ok(200);
            (job["status"] != "queued").then_some(())
        })
        .await;
        // Another moment of the run each time.
        tokio::time::sleep(Duration::from_millis(5 * (runs as u64 % 11))).await;
        server.kill().await;
        server.up().await;
        let found = owner.get(&format!("{BACKTESTS}/{job}")).await.ok(200);
        if found["status"] == "completed" {
            // This machine is quick.
            more = (2 * more + 1).min(MOST_MORE);
        } else {
            interrupted += 1;
        }
        runs += 1;
        is_whole(&ended(&owner, &job).await);
    }
    assert_eq!(interrupted, CRASHES, "the others of {runs} were over before");
}

async fn one_backtest_of_a_project_runs_and_goes_on_after_a_stop(backend: Backend) {
    let mut server = prepared(&backend).await;
    let owner = server.owner().await;
    let job = ask(&owner, &draft(7, 0)).await;
    let second = owner.post(BACKTESTS, &body(&json!({}))).await;
    second.says(503, "A backtest of this project waits or runs already");
    assert_eq!(second.header("retry-after"), "10");
    server.restart().await;
    is_whole(&ended(&owner, &job).await);
    ask(&owner, &json!({})).await;
}
