//! `kill -9` in the middle of a load, again and again on the same data.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Caller, Mock, Server, settings, until};

crate::on_every_backend!(
    nothing_that_was_answered_or_served_is_lost,
    a_strict_project_loses_no_call_that_left,
);

const CLIENTS: usize = 32;
/// Calls that are served before a crash; different each time, so that it falls on any phase.
const CALLS: [usize; 5] = [5, 17, 40, 64, 90];

/// Which calls have to be steps.
#[derive(Clone, Copy, PartialEq)]
enum Owed {
    /// Those that the provider answered while the gateway lived.
    Served,
    /// Those that reached the provider.
    Begun,
}

/// The answers clients received: step ids by trace.
type Answered = Arc<Mutex<HashMap<String, Vec<i64>>>>;

async fn nothing_that_was_answered_or_served_is_lost(backend: Backend) {
    crash(backend, 20, Owed::Served).await;
}

/// With `limits.strict` the start of a call is on disk before the call leaves.
async fn a_strict_project_loses_no_call_that_left(backend: Backend) {
    crash(backend, 5, Owed::Begun).await;
}

async fn crash(backend: Backend, crashes: usize, owed: Owed) {
    let mut server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let delay = Duration::from_millis(20);
    let served = Arc::<Mutex<HashSet<usize>>>::default();
    let noted = served.clone();
    let mock = Mock::start(delay, Some((10, 5)), move |asked| {
        noted.lock().unwrap().insert(number(&asked["messages"][0]["content"]));
        Answer::text("Served.")
    })
    .await;
    mock.register(&owner, "mock").await;
    if owed == Owed::Begun {
        settings(&owner, 1, json!({"limits": {"strict": true}})).await;
    }
    let answered = Answered::default();
    let mut seen = HashMap::new();
    for crash in 0..crashes {
        let traces = [server.key().trace().await, server.key().trace().await];
        let stop = Arc::new(AtomicBool::new(false));
        let numbers = Arc::new(AtomicUsize::new(1));
        served.lock().unwrap().clear();
        mock.take();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let trace = traces[client % traces.len()].clone();
                let (answered, stop, numbers) = (answered.clone(), stop.clone(), numbers.clone());
                tokio::spawn(call(server.key(), trace, answered, stop, numbers))
            })
            .collect();
        let enough = mock.served() + CALLS[crash % CALLS.len()];
        until("calls are served", async || (mock.served() >= enough).then_some(())).await;
        // On a busy machine a process may take as long to die as a call takes, and the provider does
        // not know who is gone.
        let mut expected = served.lock().unwrap().clone();
        server.kill().await;
        stop.store(true, Ordering::SeqCst);
        for client in clients {
            client.await.unwrap();
        }
        let idle = || mock.served() + mock.gone() == mock.begun();
        until("the provider is idle", async || idle().then_some(())).await;
        if owed == Owed::Begun {
            let begun = mock.requests();
            expected =
                begun.iter().map(|asked| number(&asked.body["messages"][0]["content"])).collect();
        }
        server.up().await;
        for trace in &traces {
            answered.lock().unwrap().entry(trace.clone()).or_default();
        }
        judge(&server, &answered, crash, &mut seen).await;
        let steps = traces.iter().flat_map(|trace| &seen[trace]);
        let found: HashSet<usize> = steps.map(|(_, step)| number_of_step(step)).collect();
        let lost: Vec<_> = expected.difference(&found).collect();
        assert!(
            lost.is_empty(),
            "crash {crash}: of {} calls these are lost: {lost:?}",
            expected.len()
        );
    }
    let answers: usize = answered.lock().unwrap().values().map(Vec::len).sum();
    assert!(answers > crashes, "the load was a load: {answers} answers");
}

/// Calls until the server is gone. The length of its input identifies a call.
async fn call(
    key: Caller,
    trace: String,
    answered: Answered,
    stop: Arc<AtomicBool>,
    numbers: Arc<AtomicUsize>,
) {
    while !stop.load(Ordering::SeqCst) {
        let input = "tea ".repeat(numbers.fetch_add(1, Ordering::SeqCst));
        let body = json!({"trace_id": trace, "model": "mock", "input": input}).to_string();
        let request = key.request("POST", "/api/v1/runs");
        let request = request.header("content-type", "application/json").body(body);
        // No answer is what a crash is about: the call may be a step or not.
        let Ok(reply) = Caller::try_send(request).await else { return };
        let step = reply.ok(200)["step_id"].as_i64().unwrap();
        answered.lock().unwrap().entry(trace.clone()).or_default().push(step);
    }
}

/// Which call asked this.
fn number(input: &Value) -> usize {
    input.as_str().unwrap().len() / "tea ".len()
}

/// The call of a step. A call whose end was lost has no input, but its estimated length.
fn number_of_step(step: &Value) -> usize {
    if step["status"] == "completed" {
        return number(&step["input"]);
    }
    usize::try_from(step["prompt_tokens"].as_u64().unwrap()).unwrap()
}

async fn judge(
    server: &Server,
    answered: &Answered,
    crash: usize,
    seen: &mut HashMap<String, Vec<(i64, Value)>>,
) {
    let answered = answered.lock().unwrap().clone();
    let mut cost = 0.0;
    for (trace, steps) in &answered {
        let detail = server.key().detail(trace).await;
        let runs: Vec<(i64, Value)> = detail["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| (step["id"].as_i64().unwrap(), step.clone()))
            .collect();
        let known: HashMap<i64, &Value> = runs.iter().map(|(id, step)| (*id, step)).collect();
        assert_eq!(known.len(), runs.len(), "step ids are unique");
        for step in steps {
            let found = known.get(step);
            let step = found.unwrap_or_else(|| panic!("crash {crash}: step {step} is lost"));
            assert_eq!(step["type"], "run");
            assert_eq!(step["status"], "completed", "crash {crash}: {step}");
            assert_eq!(step["output"], "Served.");
        }
        for (_, step) in &runs {
            cost += step["cost"].as_f64().unwrap();
            if step["status"] != "completed" {
                assert_eq!(step["status"], "failed", "crash {crash}: {step}");
                assert_eq!(step["cost_estimated"], true, "crash {crash}: {step}");
            }
        }
        if let Some(before) = seen.insert(trace.clone(), runs.clone()) {
            assert_eq!(before, runs, "crash {crash}: an old trace has changed");
        }
    }
    let owner = server.owner().await;
    let project = owner.get("/api/v1/projects/1").await.ok(200);
    let spend = project["total_monthly_spend"].as_f64().unwrap();
    assert!((spend - cost).abs() < 1e-6, "crash {crash}: spend {spend}, steps {cost}");
}
