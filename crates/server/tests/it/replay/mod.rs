//! `/replay`: a trace whose calls are made again.

mod calls;
mod command;
mod compared;
mod doors;
mod kill;
mod left_out;
mod money;
mod requests;
mod safety;
mod sim_tests;

use serde_json::{Value, json};

use crate::harness::{Caller, until};

/// The cost of a call of a mock provider.
const CALL: f64 = 0.0045;

/// Asks for a replay, and returns the job's id.
async fn ask(key: &Caller, trace: &str, overrides: &Value) -> String {
    let mut body = json!({"trace_id": trace});
    body.as_object_mut().unwrap().extend(overrides.as_object().unwrap().clone());
    let accepted = key.post("/api/v1/replay", &body).await.ok(202);
    accepted["job_id"].as_str().unwrap().to_owned()
}

/// Waits for the end of a replay.
async fn ended(key: &Caller, job: &str) -> Value {
    until("the replay is over", async || {
        let job = key.get(&format!("/api/v1/replay/{job}")).await.ok(200);
        let is_over = ["completed", "failed"].contains(&job["status"].as_str().unwrap());
        is_over.then_some(job)
    })
    .await
}

/// Replays a trace, and returns the completed job.
pub async fn replay(key: &Caller, trace: &str, overrides: &Value) -> Value {
    let job = ask(key, trace, overrides).await;
    let job = ended(key, &job).await;
    assert_eq!(job["status"], "completed", "{job}");
    job
}

/// Calls a model by its name, and returns the step.
async fn run(key: &Caller, trace: &str, model: &str, input: &str) -> i64 {
    let body = json!({"trace_id": trace, "model": model, "input": input});
    let reply = key.post("/api/v1/runs", &body).await.ok(200);
    reply["step_id"].as_i64().unwrap()
}

/// The steps of a trace.
async fn steps(key: &Caller, trace: &Value) -> Vec<Value> {
    let detail = key.detail(trace.as_str().unwrap()).await;
    detail["steps"].as_array().unwrap().clone()
}

/// Asserts an amount, which has been through a float.
#[track_caller]
pub fn is_about(value: &Value, expected: f64) {
    assert!((value.as_f64().unwrap() - expected).abs() < 1e-9, "{value} is not {expected}");
}

/// One member of each item of a list.
pub fn each<'a>(list: &'a Value, member: &str) -> Vec<&'a Value> {
    list.as_array().unwrap().iter().map(|item| &item[member]).collect()
}
