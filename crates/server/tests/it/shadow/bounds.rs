//! Shadow calls keep no others from anything: money, time, a stop, private prompts.

use std::time::Duration;

use serde_json::json;

use super::support::{cast, detail, start};
use crate::harness::{Answer, Backend, Mock, settings};

crate::on_every_backend!(
    a_public_shadow_model_sees_no_sensitive_prompt,
    money_is_kept_for_calls_that_somebody_waits_for,
    a_busy_gateway_makes_no_more_shadow_calls_and_stops_in_time,
    a_failing_shadow_model_is_recorded_and_harms_nobody,
);

async fn a_public_shadow_model_sees_no_sensitive_prompt(backend: Backend) {
    let (server, metrics) = start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let (main, shadow) =
        (Mock::always(Answer::text("Yes.")).await, Mock::always(Answer::text("Yes.")).await);
    cast(&owner, &main, &shadow, json!({"is_public": true})).await;
    let trace = key.trace().await;
    key.execute(&trace, "Write to jane@acme.org, please.").await.ok(200);
    let body =
        json!({"trace_id": trace, "model": "main", "input": "Write to jane@acme.org, please."});
    key.post("/api/v1/runs", &body).await.ok(200);
    let metadata = json!({"metadata": {"sensitivity": "secure"}});
    let secure = key.post("/api/v1/traces", &metadata).await.ok(201)["id"].clone();
    key.execute(secure.as_str().unwrap(), "How are you?").await.ok(200);
    metrics.wait("private", 3).await;
    key.execute(&trace, "How are you?").await.ok(200);
    detail(&key, &trace, 4).await;
    assert_eq!(shadow.begun(), 1, "only the last");
    let private = json!({"model_definition": {"is_public": false}});
    let models = owner.get("/api/v1/projects/1/models").await.ok(200);
    let models = models.as_array().unwrap().iter().map(|model| &model["model_definition"]);
    let id =
        models.filter(|model| model["identifier"] == "shadow").map(|model| &model["id"]).next();
    owner.patch(&format!("/api/v1/projects/1/models/{}", id.unwrap()), &private).await.ok(200);
    key.post("/api/v1/runs", &body).await.ok(200);
    detail(&key, &trace, 6).await;
    assert_eq!(shadow.begun(), 2, "a private one sees it");
}

async fn money_is_kept_for_calls_that_somebody_waits_for(backend: Backend) {
    let (server, metrics) = start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let (main, shadow) =
        (Mock::always(Answer::text("Yes.")).await, Mock::always(Answer::text("Yes.")).await);
    cast(&owner, &main, &shadow, json!({"is_public": false})).await;
    let trace = key.trace().await;
    let body = json!({"trace_id": trace, "model": "main", "max_tokens": 100,
        "messages": [{"role": "user", "content": "How are you?"}]});
    // A call is set aside at about 0.06: less than four of them are in 0.2.
    settings(&owner, 1, json!({"monthly_budget": 0.2})).await;
    key.post("/api/v1/chat/completions", &body).await.ok(200);
    metrics.wait("unfunded", 1).await;
    assert_eq!(
        (shadow.begun(), detail(&key, &trace, 1).await["security"]["shadow_score"].clone()),
        (0, json!(null))
    );
    settings(&owner, 1, json!({"monthly_budget": 1})).await;
    key.post("/api/v1/chat/completions", &body).await.ok(200);
    detail(&key, &trace, 3).await;
    settings(&owner, 1, json!({"monthly_budget": null})).await;
    // A model without a price is not asked under a cap.
    let capped = json!({"name": "capped", "project_id": 1, "hourly_limit": 100});
    let made = owner.post("/api/v1/keys", &capped).await.ok(201);
    let capped = server.with_key(made["raw_key"].as_str().unwrap());
    shadow
        .register_with(
            &owner,
            "unpriced",
            json!({"is_public": true,
        "input_cost_per_1k": null, "output_cost_per_1k": null}),
        )
        .await;
    settings(&owner, 1, json!({"shadow_model": {"model": "unpriced"}})).await;
    capped.post("/api/v1/chat/completions", &body).await.ok(200);
    metrics.wait("unfunded", 2).await;
}

async fn a_busy_gateway_makes_no_more_shadow_calls_and_stops_in_time(backend: Backend) {
    let (mut server, metrics) = start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let main = Mock::always(Answer::text("Yes.")).await;
    let shadow = Mock::start(Duration::from_hours(1), None, |_| Answer::text("Too late.")).await;
    cast(&owner, &main, &shadow, json!({"is_public": false})).await;
    let trace = key.trace().await;
    let body = json!({"trace_id": trace, "model": "main", "input": "How are you?"});
    for _ in 0..70 {
        key.post("/api/v1/runs", &body).await.ok(200);
    }
    metrics.wait("busy", 6).await;
    crate::harness::until("sixteen are asked", async || (shadow.begun() == 16).then_some(())).await;
    assert_eq!(key.detail(&trace).await["steps"].as_array().unwrap().len(), 70, "none is recorded");
    let began = std::time::Instant::now();
    server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    server.up().await;
    let detail = server.key().detail(&trace).await;
    let steps = detail["steps"].as_array().unwrap();
    let shadows: Vec<_> = steps.iter().filter(|step| step["shadow"] == true).collect();
    assert_eq!(shadows.len(), 16, "those that were asked are paid for");
    let stopped = "The gateway stopped before this call ended";
    assert!(shadows.iter().all(|step| step["status"] == "failed" && step["error"] == stopped));
    assert!(shadows.iter().all(|step| step.get("similarity").is_none()));
}

async fn a_failing_shadow_model_is_recorded_and_harms_nobody(backend: Backend) {
    let (server, metrics) = start(&backend).await;
    let (owner, key) = (server.owner().await, server.key());
    let main = Mock::always(Answer::text("Yes.")).await;
    let shadow = Mock::always(Answer::json(400, &json!({"error": {"message": "no"}}))).await;
    cast(&owner, &main, &shadow, json!({"is_public": false})).await;
    let trace = key.trace().await;
    assert_eq!(key.execute(&trace, "How are you?").await.ok(200)["output"], "Yes.");
    metrics.wait("failed", 1).await;
    let detail = detail(&key, &trace, 2).await;
    let step = &detail["steps"][1];
    assert_eq!((&step["shadow"], &step["status"]), (&json!(true), &json!("failed")), "{step}");
    assert_eq!(detail["security"]["shadow_score"], json!(null));
    let done = key.patch(&format!("/api/v1/traces/{trace}/complete"), &json!({})).await.ok(200);
    assert_eq!(done["optimization_grade"], "A");
}
