//! Exports that are asked for and waited for.

use serde_json::{Value, json};

use crate::harness::{Caller, until};

pub const EXPORTS: &str = "/api/v1/projects/1/exports";

/// Asks for an export of the last hour, with these members beside, and waits for its end.
pub async fn exported(owner: &Caller, format: &str, more: Value) -> Value {
    let mut body = json!({"format": format, "since": "1h"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let job = owner.post(EXPORTS, &body).await.ok(202);
    let path = format!("{EXPORTS}/{}", job["job_id"].as_str().unwrap());
    until("the export is over", async || {
        let job = owner.get(&path).await.ok(200);
        Some(job).filter(|job| job["status"] != "queued" && job["status"] != "running")
    })
    .await
}

/// The lines of a file of JSON Lines.
pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
