//! A replay whose gateway stops or is killed: it comes to its end, and no call is paid twice.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::{CALL, ask, ended, is_about, run, steps};
use crate::harness::{Answer, Backend, Mock, Server, settings, until};

crate::on_every_backend!(
    no_call_is_made_twice_when_the_gateway_is_killed,
    a_replay_goes_on_after_a_stop,
);

const CALLS: usize = 12;
/// The monthly budget while replays run, in USD.
const BUDGET: f64 = 1_000.0;

/// A server, a provider that takes a while, and a trace of calls with inputs of their own.
async fn prepared(backend: &Backend, delay: Duration) -> (Server, Mock, String) {
    let server = Server::unlimited(backend).await;
    let owner = server.owner().await;
    let quick = Mock::always(Answer::text("Yes.")).await;
    quick.register(&owner, "quick").await;
    let mock = Mock::start(delay, Some((10, 5)), |_| Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let key = server.key();
    let trace = key.trace().await;
    for number in 0..CALLS {
        run(&key, &trace, "quick", &format!("Number {number}.")).await;
    }
    (server, mock, trace)
}

/// How often each input reached the provider.
fn times(mock: &Mock) -> HashMap<String, usize> {
    let mut times = HashMap::new();
    for asked in mock.take() {
        *times.entry(asked.body["messages"][0]["content"].to_string()).or_default() += 1;
    }
    times
}

/// The cost of the steps of a trace.
async fn cost(server: &Server, trace: &Value) -> f64 {
    let steps = steps(&server.key(), trace).await;
    steps.iter().map(|step| step["cost"].as_f64().unwrap_or(0.0)).sum()
}

/// Asserts that the ledger has the cost of all steps, and that no money is set aside. The call that shows
/// this is made in a trace of its own.
async fn settled(server: &Server, cost: f64, probes: &str, at: usize) {
    let (key, owner) = (server.key(), server.owner().await);
    let spent = owner.get("/api/v1/projects/1").await.ok(200)["total_monthly_spend"].clone();
    is_about(&spent, cost);
    let by_model = key.get("/api/v1/stats?group_by=model").await.ok(200);
    is_about(&by_model["total"]["cost"], cost);
    // A call of a replay sets aside 4,096 tokens of an answer: $2.46. If one of them still did, the budget
    // would have no room for a call of a cent.
    settings(&owner, 1, json!({"monthly_budget": cost + 1.0})).await;
    let probe = json!({"trace_id": probes, "model": "quick", "max_tokens": 5,
        "messages": [{"role": "user", "content": format!("Is there room after crash {at}?")}]});
    key.post("/api/v1/chat/completions", &probe).await.ok(200);
    settings(&owner, 1, json!({"monthly_budget": BUDGET})).await;
}

async fn no_call_is_made_twice_when_the_gateway_is_killed(backend: Backend) {
    let (mut server, mock, trace) = prepared(&backend, Duration::from_millis(30)).await;
    // Under a budget each call sets money aside.
    settings(&server.owner().await, 1, json!({"monthly_budget": BUDGET})).await;
    let probes = server.key().trace().await;
    let mut replayed = cost(&server, &json!(trace)).await;
    for crash in 0..20 {
        let before = mock.begun();
        let overrides = json!({"force_model": "mock", "max_cost": 1_000 + crash});
        let job = ask(&server.key(), &trace, &overrides).await;
        // On another call each time, and at another moment of it.
        let calls = before + 1 + crash % (CALLS - 2);
        until("calls are made", async || (mock.begun() >= calls).then_some(())).await;
        tokio::time::sleep(Duration::from_millis(3 * (crash as u64 % 11))).await;
        server.kill().await;
        server.up().await;
        let job = ended(&server.key(), &job).await;
        assert_eq!(job["status"], "completed", "crash {crash}: {job}");
        let times = times(&mock);
        assert!(times.values().all(|times| *times == 1), "crash {crash}: {times:?}");
        // One that had its start on disk may not have left.
        assert!(times.len() >= CALLS - 1, "crash {crash}: {times:?}");
        let made = steps(&server.key(), &job["replay_trace_id"]).await;
        assert_eq!(made.len(), CALLS, "crash {crash}: {made:?}");
        let interrupted = made.iter().filter(|step| step["status"] != "completed");
        for step in interrupted.clone() {
            assert_eq!(step["error"], "The gateway stopped before this call ended");
            assert_eq!(step["cost_estimated"], true);
        }
        assert!(interrupted.count() <= 1, "crash {crash}: {made:?}");
        let compared = job["comparison"]["replay"]["steps"].as_array().unwrap();
        let errors = compared.iter().filter(|step| step.get("error").is_some()).count();
        assert!(compared.len() == CALLS && errors <= 1, "crash {crash}: {job}");
        let made = cost(&server, &job["replay_trace_id"]).await;
        assert!(made <= CALL * CALLS as f64 + 1e-9, "crash {crash}: {made}");
        replayed += made;
        let all = replayed + cost(&server, &json!(probes)).await;
        settled(&server, all, &probes, crash).await;
    }
}

async fn a_replay_goes_on_after_a_stop(backend: Backend) {
    let (mut server, mock, trace) = prepared(&backend, Duration::from_millis(100)).await;
    let job = ask(&server.key(), &trace, &json!({"force_model": "mock"})).await;
    until("a call is open", async || (mock.begun() == 3).then_some(())).await;
    server.restart().await;
    let made = mock.begun();
    assert!(made < CALLS, "it does not wait for the whole replay");
    let job = ended(&server.key(), &job).await;
    assert_eq!(job["status"], "completed", "{job}");
    assert!(times(&mock).values().all(|times| *times == 1));
    // A call that is open at the stop comes to its end.
    let made = steps(&server.key(), &job["replay_trace_id"]).await;
    assert!(made.iter().all(|step: &Value| step["status"] == "completed"), "{made:?}");
    assert_eq!(made.len(), CALLS);
}
