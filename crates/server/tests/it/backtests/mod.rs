//! `/projects/:id/backtests`: recorded requests, judged by draft settings.

mod command;
mod kill;
mod reports;
mod requests;

use serde_json::{Value, json};

use crate::harness::{Caller, until};

const BACKTESTS: &str = "/api/v1/projects/1/backtests";

/// A request for a backtest of the last day.
fn body(settings: &Value) -> Value {
    let now = domain::time::Clock::system().now();
    json!({"settings": settings, "from": now.minus_micros(domain::time::DAY)})
}

/// Asks for a backtest, and returns the job's id.
async fn ask(owner: &Caller, settings: &Value) -> String {
    let accepted = owner.post(BACKTESTS, &body(settings)).await.ok(202);
    accepted["job_id"].as_str().unwrap().to_owned()
}

/// Waits for the end of a backtest.
async fn ended(owner: &Caller, job: &str) -> Value {
    until("the backtest is over", async || {
        let job = owner.get(&format!("{BACKTESTS}/{job}")).await.ok(200);
        let is_over = ["completed", "failed"].contains(&job["status"].as_str().unwrap());
        is_over.then_some(job)
    })
    .await
}

/// The report of a backtest that is completed.
pub(crate) async fn backtest(owner: &Caller, settings: &Value) -> Value {
    let job = ask(owner, settings).await;
    let job = ended(owner, &job).await;
    assert_eq!(job["status"], "completed", "{job}");
    job["report"].clone()
}
