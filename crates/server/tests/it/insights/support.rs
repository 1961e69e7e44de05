//! Calls that insights are computed from.

use serde_json::{Value, json};

use crate::harness::{Caller, Mock};

pub const INSIGHTS: &str = "/api/v1/projects/1/insights";

/// Makes this many calls of a model, in one trace.
pub async fn call(key: &Caller, model: &str, input: &str, times: usize) {
    let trace = key.trace().await;
    let body = json!({"trace_id": trace, "model": model, "input": input});
    for _ in 0..times {
        key.post("/api/v1/runs", &body).await.ok(200);
    }
}

/// Registers a model with prices per 1,000 tokens.
pub async fn register(mock: &Mock, owner: &Caller, model: &str, prices: (f64, f64), more: Value) {
    let mut fields = json!({"is_public": false,
        "input_cost_per_1k": prices.0, "output_cost_per_1k": prices.1});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    mock.register_with(owner, model, fields).await;
}

/// The path of a model.
pub async fn model_path(owner: &Caller, identifier: &str) -> String {
    let all = owner.get("/api/v1/projects/1/models").await.ok(200);
    let found = all.as_array().unwrap().iter().map(|wrapped| &wrapped["model_definition"]);
    let mut found = found.filter(|model| model["identifier"] == identifier);
    format!("/api/v1/projects/1/models/{}", found.next().unwrap()["id"])
}

/// Computes the insights, and gives those of a kind.
pub async fn refreshed(owner: &Caller, kind: &str) -> Vec<Value> {
    let all = owner.post(&format!("{INSIGHTS}/refresh"), &json!({})).await.ok(200);
    assert_eq!(all, owner.get(INSIGHTS).await.ok(200), "the list is that of the refresh");
    let of_kind = |insight: &&Value| insight["insight_type"] == kind;
    all.as_array().unwrap().iter().filter(of_kind).cloned().collect()
}
