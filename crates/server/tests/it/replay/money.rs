//! Replays under caps, budgets and an upper cost.

use serde_json::{Value, json};

use super::{CALL, ask, each, ended, replay, run};
use crate::harness::{Answer, Backend, Mock, Server, Setup, settings};

crate::on_every_backend!(
    a_cap_ends_a_replay,
    a_budget_ends_a_replay,
    dear_calls_are_skipped,
    a_replay_has_no_shadow,
);

async fn a_cap_ends_a_replay(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    for input in ["One.", "Two.", "Three."] {
        run(&key, &trace, "mock", input).await;
    }
    let capped = json!({"name": "capped", "project_id": 1, "hourly_limit": 2.0 * CALL});
    let made = owner.post("/api/v1/keys", &capped).await.ok(201);
    let capped = server.with_key(made["raw_key"].as_str().unwrap());
    let job = ask(&capped, &trace, &json!({})).await;
    let job = ended(&key, &job).await;
    assert_eq!(job["status"], "failed");
    assert_eq!(job["error"], "Kill switch engaged: hourly limit of $0.009 exceeded.");
    let done = &job["comparison"]["replay"];
    assert_eq!(done["total_cost"], 2.0 * CALL);
    assert_eq!(done["steps"].as_array().unwrap().len(), 2, "{job}");
    assert_eq!(mock.begun(), 5);
    let keys = owner.get("/api/v1/keys").await.ok(200);
    let status = keys.as_array().unwrap().iter().find(|key| key["id"] == made["id"]).unwrap();
    assert_eq!(status["status"], "tripped");
    // The gate refuses the next request; the key that paid for the source goes on.
    let reply = capped.post("/api/v1/replay", &json!({"trace_id": trace})).await;
    assert_eq!((reply.status, &reply.json()["code"]), (429, &json!("CIRCUIT_OPEN")));
    replay(&key, &trace, &json!({})).await;
    // A key that is gone pays for nothing.
    let revoked =
        owner.post("/api/v1/keys", &json!({"name": "gone", "project_id": 1})).await.ok(201);
    let gone = server.with_key(revoked["raw_key"].as_str().unwrap());
    let slow = Mock::always(Answer::text("Yes.")).await;
    slow.register(&owner, "slow").await;
    let path = format!("/api/v1/keys/{}", revoked["id"].as_str().unwrap());
    let begun = async |calls: usize| {
        slow.hold();
        let job = ask(&gone, &trace, &json!({"force_model": "slow"})).await;
        crate::harness::until("a call is open", async || (slow.begun() == calls).then_some(()))
            .await;
        job
    };
    let job = begun(1).await;
    owner.patch(&path, &json!({"allowed_endpoints": ["chat"]})).await.ok(200);
    slow.release();
    let job = ended(&key, &job).await;
    assert_eq!(job["error"], "Endpoint not allowed for this key");
    let path_of_job = format!("/api/v1/replay/{}", job["job_id"].as_str().unwrap());
    gone.get(&path_of_job).await.says(403, "Endpoint not allowed for this key");
    owner.patch(&path, &json!({"allowed_endpoints": null})).await.ok(200);
    let job = begun(2).await;
    owner.delete(&path).await.ok(204);
    slow.release();
    let job = ended(&key, &job).await;
    assert_eq!(job["error"], "The key that asked for this replay was revoked, or has expired");
    assert_eq!(slow.begun(), 2);
}

async fn a_budget_ends_a_replay(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    for input in ["One.", "Two."] {
        run(&key, &trace, "mock", input).await;
    }
    settings(&owner, 1, json!({"monthly_budget": 3.0 * CALL})).await;
    let job = ask(&key, &trace, &json!({})).await;
    let job = ended(&key, &job).await;
    assert_eq!(
        (&job["status"], &job["error"]),
        (&json!("failed"), &json!("Monthly budget exceeded."))
    );
    assert_eq!(job["comparison"]["replay"]["total_cost"], CALL);
    assert_eq!(mock.begun(), 3);
    let reply = key.post("/api/v1/replay", &json!({"trace_id": trace})).await;
    assert_eq!((reply.status, &reply.json()["code"]), (402, &json!("BUDGET_EXCEEDED")));
}

async fn a_replay_has_no_shadow(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    let shadow = Mock::always(Answer::text("No.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    for input in ["One.", "Two.", "Three."] {
        run(&key, &trace, "mock", input).await;
    }
    shadow.register(&owner, "shadow").await;
    let setting = json!({"enabled": true, "model": "shadow", "sample_rate": 1});
    settings(&owner, 1, json!({"shadow_model": setting})).await;
    let job = replay(&key, &trace, &json!({"force_model": "mock"})).await;
    let replayed = &job["comparison"]["replay"];
    assert_eq!(each(&replayed["steps"], "model"), ["mock"; 3]);
    assert_eq!(each(&replayed["steps"], "cost"), [CALL; 3]);
    // A call of the application's own has one, and it comes after all shadows of the replay.
    run(&key, &trace, "mock", "Four.").await;
    crate::harness::until("the shadow", async || (shadow.begun() > 0).then_some(())).await;
    assert_eq!((mock.begun(), shadow.begun()), (7, 1));
    assert_eq!(super::steps(&key, &job["replay_trace_id"]).await.len(), 3);
}

async fn dear_calls_are_skipped(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_EGRESS_ALLOW", "127.0.0.1").start().await;
    server.lift_limits().await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    run(&key, &trace, "mock", "Hello.").await;
    run(&key, &trace, "mock", &"tea ".repeat(5_000)).await;
    // About 5,000 tokens at 0.15 a thousand; a simulation assumes 256 of an answer at 0.6 as well.
    let simulated = json!({"input": "Hello.", "project_id": 1});
    let tiers = json!({"simple": "mock", "complex": "mock", "secure": "mock"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let estimate = key.post("/api/v1/simulate", &simulated).await.ok(200);
    let estimate = estimate["estimated_cost"].as_f64().unwrap();
    let job = replay(&key, &trace, &json!({"max_cost": estimate})).await;
    let compared = &job["comparison"]["replay"];
    assert_eq!(each(&compared["steps"], "skipped"), [&Value::Null, &json!("max_cost")]);
    assert_eq!(compared["total_cost"], CALL);
    let job = replay(&key, &trace, &json!({"max_cost": estimate - 0.000_1})).await;
    let compared = &job["comparison"]["replay"];
    assert_eq!(each(&compared["steps"], "skipped"), ["max_cost"; 2]);
    assert_eq!(
        (&compared["total_cost"], &compared["cost_change_pct"]),
        (&json!(0.0), &Value::Null)
    );
    assert_eq!(mock.begun(), 3);
    // A public model without a price may cost any amount.
    let unpriced =
        json!({"is_public": true, "input_cost_per_1k": null, "output_cost_per_1k": null});
    mock.register_with(&owner, "unpriced", unpriced).await;
    let job = replay(&key, &trace, &json!({"max_cost": 1_000, "force_model": "unpriced"})).await;
    assert_eq!(each(&job["comparison"]["replay"]["steps"], "skipped"), ["max_cost"; 2]);
    assert_eq!(mock.begun(), 3);
}
