//! What a replay does with the steps of its source, and how it compares.

use std::time::Duration;

use serde_json::{Value, json};

use super::{CALL, each, ended, is_about, replay, run, steps};
use crate::harness::{Answer, Backend, Caller, Mock, Server, settings, until};

crate::on_every_backend!(
    a_trace_compares_with_another_model,
    models_are_compared_side_by_side,
    parallel_calls_get_models_in_turn,
    steps_without_a_call_are_carried_over,
    a_call_that_fails_is_named,
);

async fn a_trace_compares_with_another_model(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let (old, new) =
        (Mock::always(Answer::text("Yes.")).await, Mock::always(Answer::text("Yes, or no.")).await);
    old.register(&owner, "old").await;
    let half = json!({"is_public": false, "input_cost_per_1k": 0.075, "output_cost_per_1k": 0.3});
    new.register_with(&owner, "new", half).await;
    let trace = key.trace().await;
    let first = run(&key, &trace, "old", "Is it so?").await;
    let second = run(&key, &trace, "old", "Is it really?").await;
    key.send("PATCH", &format!("/api/v1/traces/{trace}/complete"), None).await.ok(200);
    let source = key.detail(&trace).await;

    let job = replay(&key, &trace, &json!({"force_model": "new"})).await;
    let sent: Vec<Value> =
        new.requests().iter().map(|asked| asked.body["messages"].clone()).collect();
    let asked: Vec<Value> =
        old.requests().iter().map(|asked| asked.body["messages"].clone()).collect();
    assert_eq!(sent, asked);
    assert!(job.get("progress").is_none() && job.get("error").is_none(), "{job}");
    let (before, after) = (&job["comparison"]["source"], &job["comparison"]["replay"]);
    assert_eq!(before["total_cost"], 2.0 * CALL);
    assert_eq!(before["models_used"], json!(["old"]));
    assert_eq!(before["optimization_grade"], source["optimization_grade"]);
    assert_eq!(before["grades"], source["grades"]);
    assert_eq!(before["total_latency_ms"], source["summary"]["total_latency_ms"]);
    assert_eq!(after["total_cost"], CALL);
    assert_eq!(after["models_used"], json!(["new"]));
    assert_eq!(after["cost_change_pct"], -50.0);
    assert!(after["latency_change_pct"].is_number(), "{job}");
    assert_eq!(after["totals"]["cost_change_pct"], -50.0);
    let [was, is] = [before, after].map(|side| side["total_latency_ms"].as_f64().unwrap());
    is_about(&after["totals"]["latency_change_pct"], (is - was) / was * 100.0);
    assert!(job["comparison"].get("replays").is_none());

    let id = &job["replay_trace_id"];
    assert_eq!(&after["replay_trace_id"], id);
    let made = key.detail(id.as_str().unwrap()).await;
    assert_eq!(made["status"], "replay");
    assert_eq!(made["metadata"], json!({"replay_of": trace}));
    assert_eq!(made["optimization_grade"], after["optimization_grade"]);
    assert_eq!(made["grades"], after["grades"]);
    assert_eq!(made["summary"]["total_latency_ms"], after["total_latency_ms"]);
    assert_eq!(each(&made["steps"], "source_step_id"), [first, second]);
    assert_eq!(each(&made["steps"], "output"), ["Yes, or no."; 2]);
    for (compared, step) in
        std::iter::zip(after["steps"].as_array().unwrap(), made["steps"].as_array().unwrap())
    {
        assert_eq!(compared["source_step_id"], step["source_step_id"]);
        assert_eq!(compared["step_id"], step["id"]);
        assert_eq!(compared["model"], "new");
        assert_eq!(compared["cost"], CALL / 2.0);
        assert_eq!(compared["latency_ms"], step["latency_ms"]);
        assert!(compared["skipped"].is_null());
        let similarity = compared["similarity"].as_f64().unwrap();
        assert!((0.1..0.9).contains(&similarity), "{job}");
    }
    // It takes no calls, and is not completed by anybody.
    key.execute(id.as_str().unwrap(), "Hello.").await.invalid("Trace is not pending");
    let complete = format!("/api/v1/traces/{}/complete", id.as_str().unwrap());
    key.send("PATCH", &complete, None).await.invalid("Trace is not pending");
    assert_eq!(key.detail(&trace).await, source, "the source stays as it was");
    let spent = owner.get("/api/v1/projects/1").await.ok(200)["total_monthly_spend"].clone();
    is_about(&spent, 3.0 * CALL);
    // Without overrides each call keeps its model.
    let same = replay(&key, &trace, &json!({})).await;
    assert_eq!(same["comparison"]["replay"]["models_used"], json!(["old"]));
    assert_eq!(same["comparison"]["replay"]["cost_change_pct"], 0.0);
    assert_eq!(each(&same["comparison"]["replay"]["steps"], "similarity"), [1.0; 2]);
    assert_eq!(old.begun(), 4);
    // The trace of a replay is replayed like any other.
    let twice = replay(&key, id.as_str().unwrap(), &json!({"force_model": "old"})).await;
    assert_eq!(twice["comparison"]["source"], {
        let mut source = after.clone();
        let beside =
            ["replay_trace_id", "steps", "cost_change_pct", "latency_change_pct", "totals"];
        for beside in beside {
            source.as_object_mut().unwrap().remove(beside);
        }
        source
    });
}

async fn models_are_compared_side_by_side(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    for model in ["a", "b", "c"] {
        mock.register(&owner, model).await;
    }
    let trace = key.trace().await;
    run(&key, &trace, "a", "Is it so?").await;
    let job = replay(&key, &trace, &json!({"compare_models": ["c", "b"]})).await;
    let replays = &job["comparison"]["replays"];
    assert_eq!(each(replays, "model"), ["c", "b"]);
    assert_eq!(each(replays, "models_used"), [&json!(["c"]), &json!(["b"])]);
    assert!(job["comparison"].get("replay").is_none());
    let traces = each(replays, "replay_trace_id");
    assert_ne!(traces[0], traces[1]);
    assert_eq!(&job["replay_trace_id"], traces[0]);
    for (trace, model) in std::iter::zip(traces, ["c", "b"]) {
        let steps = steps(&key, trace).await;
        assert_eq!((steps.len(), &steps[0]["model"]), (1, &json!(model)));
    }
}

async fn parallel_calls_get_models_in_turn(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    // The calls of a crowd are answered when all of them have come.
    let (closed, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let mock = Mock::start(Duration::ZERO, Some((10, 5)), move |asked| {
        if asked["messages"][0]["content"].as_str().unwrap().starts_with("Part") {
            // It ends when the other side is dropped.
            let _ = tokio::task::block_in_place(|| gate.lock().unwrap().recv());
        }
        Answer::text("Yes.")
    })
    .await;
    for model in ["own", "a", "b"] {
        mock.register(&owner, model).await;
    }
    let trace = key.trace().await;
    run(&key, &trace, "own", "First.").await;
    let call = |number| {
        let (key, trace) = (key.clone(), trace.clone());
        async move { run(&key, &trace, "own", &format!("Part {number}.")).await }
    };
    let crowd = tokio::spawn(futures_util::future::join_all((0..3).map(call)));
    let all_there = async || (mock.begun() == 4).then_some(());
    until("the calls are open", all_there).await;
    drop(closed);
    crowd.await.unwrap();
    run(&key, &trace, "own", "Last.").await;
    let job = replay(&key, &trace, &json!({"force_models": ["a", "b"]})).await;
    let models = each(&job["comparison"]["replay"]["steps"], "model");
    assert_eq!(models, ["own", "a", "b", "a", "own"], "{job}");
    let job = replay(&key, &trace, &json!({"force_models": ["a"], "force_model": "b"})).await;
    let models = each(&job["comparison"]["replay"]["steps"], "model");
    assert_eq!(models, ["b", "a", "a", "a", "b"], "{job}");
}

async fn requests(key: &Caller) -> Value {
    key.get("/api/v1/stats").await.ok(200)["security"]["total_requests"].clone()
}

async fn steps_without_a_call_are_carried_over(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    let tiers = json!({"simple": "mock", "complex": "mock", "secure": "mock"});
    settings(&owner, 1, json!({"routing_tiers": tiers})).await;
    let check = json!({"trace_id": trace, "input": "Is this fine?"});
    key.post("/api/v1/checks", &check).await.ok(200);
    let call = run(&key, &trace, "mock", "Hello.").await;
    let secret = "Use ghp_x9Kd83jfLs02mXq7vTzB4nRwY6cEuH1pGaQ5 for this.";
    let body = json!({"trace_id": trace, "model": "mock", "input": secret});
    assert!(key.post("/api/v1/runs", &body).await.ok(200)["reason"].is_string());
    let log = json!({"trace_id": trace, "output": {"user_rating": 0.1}, "parent_step_id": call});
    key.post("/api/v1/logs", &log).await.ok(200);
    let source = steps(&key, &json!(trace)).await;
    let before = requests(&key).await.as_u64().unwrap();
    let job = replay(&key, &trace, &json!({})).await;
    assert_eq!(each(&job["comparison"]["replay"]["steps"], "source_step_id"), [call]);
    let copies = steps(&key, &job["replay_trace_id"]).await;
    assert_eq!(copies.len(), 4);
    for (copy, of) in std::iter::zip(&copies, &source) {
        for member in ["type", "status", "reason", "input", "output", "security"] {
            assert_eq!(copy[member], of[member], "{member} of {of}");
        }
        assert_eq!(copy["source_step_id"], of["id"]);
        assert_ne!(copy["id"], of["id"]);
    }
    assert_eq!(copies[3]["parent_step_id"], copies[1]["id"]);
    assert_eq!(mock.begun(), 2);
    assert_eq!(requests(&key).await, before + 1, "a refusal that is copied counts once");
    // A rating of the source rates its replay.
    let (graded, replayed) = (&job["comparison"]["source"], &job["comparison"]["replay"]);
    assert_eq!(graded["optimization_grade"], "B", "{job}");
    assert_eq!(replayed["optimization_grade"], "B", "{job}");

    // The replay refuses a call that safety refuses today.
    let rules = json!([{"name": "greeting", "pattern": "Hello", "action": "block"}]);
    settings(&owner, 1, json!({"safety": {"rules": rules}})).await;
    let job = replay(&key, &trace, &json!({"force_model": "mock"})).await;
    let step = &job["comparison"]["replay"]["steps"][0];
    assert!(step["blocked"].as_str().unwrap().contains("greeting"), "{job}");
    assert_eq!((&step["cost"], &step["model"]), (&Value::Null, &json!("mock")));
    let blocked = &steps(&key, &job["replay_trace_id"]).await[1];
    assert_eq!(blocked["type"], "blocked");
    assert_eq!(blocked["source_step_id"], call);
    assert_eq!(mock.begun(), 2);
    assert!(job["comparison"]["replay"]["cost_change_pct"].is_null());
    // In a replay of the replay it is copied, and has counted.
    let before = requests(&key).await;
    let again = replay(&key, job["replay_trace_id"].as_str().unwrap(), &json!({})).await;
    assert_eq!(steps(&key, &again["replay_trace_id"]).await[1]["type"], "blocked");
    assert_eq!(requests(&key).await, before);
}

async fn a_call_that_fails_is_named(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    Mock::always(Answer::text("Yes.")).await.register(&owner, "good").await;
    let bad = Mock::start(Duration::ZERO, Some((10, 5)), |asked| {
        match asked["messages"][0]["content"].as_str() {
            Some("One.") => Answer::json(400, &json!({"error": {"message": "No."}})),
            _ => Answer::text("Yes."),
        }
    });
    bad.await.register(&owner, "bad").await;
    let trace = key.trace().await;
    let first = run(&key, &trace, "good", "One.").await;
    let second =
        json!({"trace_id": trace, "model": "good", "input": "Two.", "parent_step_id": first});
    key.post("/api/v1/runs", &second).await.ok(200);
    let job = replay(&key, &trace, &json!({"force_model": "bad"})).await;
    let made = super::steps(&key, &job["replay_trace_id"]).await;
    assert_eq!(made[0]["status"], "failed");
    assert_eq!(made[1]["parent_step_id"], made[0]["id"], "it follows from the failed one");
    let steps = job["comparison"]["replay"]["steps"].as_array().unwrap();
    assert_eq!(steps[0]["error"], "The provider refused the request (400)");
    assert!(steps[0]["similarity"].is_null(), "{job}");
    assert!(steps[1].get("error").is_none(), "{job}");
    assert_eq!(job["comparison"]["replay"]["cost_change_pct"], 0.0, "of the other one alone");
    // A model that is gone ends it.
    let models = owner.get("/api/v1/projects/1/models").await.ok(200);
    let models = models.as_array().unwrap().iter().map(|model| &model["model_definition"]);
    let good = models.clone().find(|model| model["identifier"] == "good").unwrap();
    owner.delete(&format!("/api/v1/projects/1/models/{}", good["id"])).await.ok(204);
    let failed = super::ask(&key, &trace, &json!({})).await;
    let failed = ended(&key, &failed).await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error"], "Model not authorized or found: good");
}
