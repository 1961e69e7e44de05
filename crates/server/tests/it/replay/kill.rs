//! A replay whose gateway stops or is killed: it comes to its end, and no call is paid twice.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::{CALL, ask, ended, run, steps};
use crate::harness::{Answer, Backend, Mock, Server, until};

crate::on_every_backend!(
    no_call_is_made_twice_when_the_gateway_is_killed,
    a_replay_goes_on_after_a_stop,
);

const CALLS: usize = 12;

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

async fn no_call_is_made_twice_when_the_gateway_is_killed(backend: Backend) {
    let (mut server, mock, trace) = prepared(&backend, Duration::from_millis(30)).await;
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
        let cost: f64 = made.iter().map(|step| step["cost"].as_f64().unwrap()).sum();
        assert!(cost <= CALL * CALLS as f64 + 1e-9, "crash {crash}: {cost}");
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
