//! Exports that are asked for and waited for.

use serde_json::{Value, json};

use crate::harness::{Caller, until};

pub const EXPORTS: &str = "/api/v1/projects/1/exports";

/// Asks for an export of the last hour, with these members beside, and returns its id.
pub async fn ask(owner: &Caller, format: &str, more: Value) -> String {
    let mut body = json!({"format": format, "since": "1h"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let job = owner.post(EXPORTS, &body).await.ok(202);
    job["job_id"].as_str().unwrap().to_owned()
}

/// Waits for the end of an export.
pub async fn ended(owner: &Caller, job: &str) -> Value {
    let path = format!("{EXPORTS}/{job}");
    until("the export is over", async || {
        let job = owner.get(&path).await.ok(200);
        Some(job).filter(|job| job["status"] != "queued" && job["status"] != "running")
    })
    .await
}

/// Asks for an export as [`ask`] does, and waits for its end.
pub async fn exported(owner: &Caller, format: &str, more: Value) -> Value {
    let job = ask(owner, format, more).await;
    ended(owner, &job).await
}

/// The lines of a file of JSON Lines.
pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
