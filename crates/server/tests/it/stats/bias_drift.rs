//! The reports of drift in the statistics.

use serde_json::json;

use crate::harness::{Answer, Backend, Caller, Mock, Server};

crate::on_every_backend!(a_model_whose_answers_change_is_flagged);

async fn call(key: &Caller, times: usize) {
    let trace = key.trace().await;
    let body = json!({"trace_id": trace, "model": "m", "input": "Hello."});
    for _ in 0..times {
        key.post("/api/v1/runs", &body).await.ok(200);
    }
}

async fn a_model_whose_answers_change_is_flagged(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let before =
        Mock::always(Answer::text("The house is green, and the garden behind it is large.")).await;
    before.register(&owner, "m").await;
    call(&key, 60).await;
    let stats = key.get("/api/v1/stats?window=24").await.ok(200);
    assert_eq!(stats["agent"]["bias_drift"], json!([]), "there is no period before");
    if server.on_sqlite() {
        // Its past cannot be written from outside; crates/gateway tests the comparison.
        return;
    }
    server.sql("UPDATE steps SET finished_at = finished_at - 108000000000, started_at = started_at - 108000000000");
    let models = owner.get("/api/v1/projects/1/models").await.ok(200);
    let models = models.as_array().unwrap().iter().map(|model| &model["model_definition"]);
    let id =
        models.filter(|model| model["identifier"] == "m").map(|model| &model["id"]).next().unwrap();
    let after = Mock::always(Answer::text("I'm sorry, but I can't help with that.")).await;
    let address = json!({"model_definition": {"base_url": after.url()}});
    owner.patch(&format!("/api/v1/projects/1/models/{id}"), &address).await.ok(200);
    call(&key, 50).await;
    let stats = owner.get("/api/v1/stats?project_id=1&window=24").await.ok(200);
    let reports = stats["agent"]["bias_drift"].as_array().unwrap();
    assert_eq!(reports.len(), 1, "{stats}");
    let report = &reports[0];
    assert_eq!((&report["model"], &report["flagged"]), (&json!("m"), &json!(true)));
    assert_eq!((&report["samples"], &report["baseline_samples"]), (&json!(50), &json!(60)));
    let psi = |name: &str| report["psi"][name].as_f64().unwrap();
    assert!(psi("refusal_rate") > 0.2, "{report}");
    assert!(psi("language") < 0.2, "{report}");
    assert!(report["psi"]["output_length"].is_f64() && report["psi"]["latency"].is_f64());
}
