//! Requests for replays: what is refused, what is the same, who sees it.

use serde_json::{Value, json};

use super::{ask, each, ended, replay, run};
use crate::harness::{Answer, Backend, Mock, Server, Setup, free_port, settings, until};

crate::on_every_backend!(
    what_is_wrong_is_named,
    the_same_request_has_the_same_answer,
    requests_at_the_same_time_share_a_job,
    replays_that_wait_are_bounded_and_counted,
    a_job_belongs_to_its_project,
    an_archived_project_replays_nothing,
);

const FOREIGN: &str = "Trace not found or not owned by this customer";

async fn what_is_wrong_is_named(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    run(&key, &trace, "mock", "Hello.").await;
    let post = async |body: Value| key.post("/api/v1/replay", &body).await;
    let with = async |more: Value| {
        let mut body = json!({"trace_id": trace});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(body).await
    };
    for missing in [json!({}), json!({"force_model": "mock"})] {
        post(missing).await.is(400, &json!({"error": "Missing required parameter: trace_id"}));
    }
    let both = with(json!({"force_model": "mock", "compare_models": ["mock"]})).await;
    both.is(400, &json!({"error": "force_model and compare_models are mutually exclusive"}));
    for wrong in [
        json!({"force_model": 5}),
        json!({"compare_models": "mock"}),
        json!({"compare_models": [1]}),
        json!({"force_models": {"0": "mock"}}),
    ] {
        assert_eq!(with(wrong.clone()).await.status, 400, "{wrong}");
    }
    post(json!({"trace_id": 7})).await.says(400, "expected a string");
    for unknown in ["nonsense", "0199a7a4-0000-7000-8000-000000000000"] {
        post(json!({"trace_id": unknown})).await.invalid(FOREIGN);
    }
    for named in [
        json!({"force_model": "nobody"}),
        json!({"compare_models": ["mock", "nobody"]}),
        json!({"force_models": ["nobody"]}),
    ] {
        with(named).await.says(422, "Model not authorized or found: nobody");
    }
    let many = vec!["mock"; 21];
    for (more, fault) in [
        (json!({"compare_models": many}), "compare_models must not name more than 20 models"),
        (json!({"force_models": many}), "force_models must not name more than 20 models"),
        (json!({"compare_models": []}), "compare_models must name a model"),
        (json!({"force_models": []}), "force_models must name a model"),
        (json!({"max_cost": "cheap"}), "max_cost must be a number of at least 0, in USD"),
        (json!({"max_cost": [1]}), "max_cost must be a number of at least 0, in USD"),
        (json!({"max_cost": {"usd": 1}}), "max_cost must be a number of at least 0, in USD"),
        (json!({"max_cost": true}), "max_cost must be a number of at least 0, in USD"),
        (json!({"max_cost": -0.01}), "max_cost must be a number of at least 0, in USD"),
        (json!({"max_cost": 1e300}), "max_cost must be a number of at least 0, in USD"),
    ] {
        with(more).await.invalid(fault);
    }
    let get = async |job: &str| key.get(&format!("/api/v1/replay/{job}")).await.status;
    for unknown in ["nonsense", "0199a7a4-0000-4000-8000-000000000000"] {
        assert_eq!(get(unknown).await, 404);
    }
    server.any.post("/api/v1/replay", &json!({"trace_id": trace})).await.ok(401);
    assert_eq!(mock.begun(), 1, "nothing was called for all that");

    for number in 0..1_000 {
        let body = json!({"trace_id": trace, "output": {"number": number}});
        key.post("/api/v1/logs", &body).await.ok(200);
    }
    with(json!({})).await.invalid("trace_id: a trace of more than 1000 steps is not replayed");
}

async fn the_same_request_has_the_same_answer(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    run(&key, &trace, "mock", "Hello.").await;
    let overrides = json!({"force_model": "mock", "max_cost": 1});
    let first = replay(&key, &trace, &overrides).await;
    assert_eq!(mock.begun(), 2);
    for same in [
        json!({"trace_id": trace, "max_cost": 1.0, "force_model": "mock"}),
        json!({"trace_id": trace.to_uppercase(), "force_model": "mock", "max_cost": 1e0,
            "compare_models": null, "force_models": null}),
    ] {
        let again = key.post("/api/v1/replay", &same).await.ok(200);
        assert_eq!(again, first, "{same}");
    }
    assert_eq!(first["overrides"], json!({"force_model": "mock", "max_cost": 1.0}));
    assert_eq!(first["source_trace_id"], trace.as_str());
    assert_eq!(mock.begun(), 2);
    let other = replay(&key, &trace, &json!({"force_model": "mock"})).await;
    assert_ne!(other["job_id"], first["job_id"]);
    assert_eq!(mock.begun(), 3);
}

async fn requests_at_the_same_time_share_a_job(backend: Backend) {
    let metrics = format!("127.0.0.1:{}", free_port());
    let server = Setup::new(&backend).env("SLUICE_METRICS_LISTEN", &metrics).start().await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    run(&key, &trace, "mock", "Hello.").await;
    mock.hold();
    let none = json!({});
    let all = (0..8).map(|_| ask(&key, &trace, &none));
    let jobs = futures_util::future::join_all(all).await;
    assert!(jobs.iter().all(|job| *job == jobs[0]), "{jobs:?}");
    until("the call is open", async || (mock.begun() == 2).then_some(())).await;
    let body = json!({"trace_id": trace});
    let running = key.post("/api/v1/replay", &body).await.ok(202);
    assert_eq!(running, json!({"job_id": jobs[0], "status": "running"}));
    let job = key.get(&format!("/api/v1/replay/{}", jobs[0])).await.ok(200);
    assert_eq!(job["progress"], json!({"done": 0, "total": 1}), "{job}");
    let told = reqwest::get(format!("http://{metrics}/metrics")).await.unwrap();
    let told = told.text().await.unwrap();
    for line in [
        "sluice_jobs_running{kind=\"replay\"} 1",
        "sluice_jobs_parts_done{kind=\"replay\"} 0",
        "sluice_jobs_parts{kind=\"replay\"} 1",
    ] {
        assert!(told.lines().any(|told| told == line), "{line}\n{told}");
    }
    mock.release();
    ended(&key, &jobs[0]).await;
    assert_eq!(mock.begun(), 2);
}

async fn replays_that_wait_are_bounded_and_counted(backend: Backend) {
    let address = format!("127.0.0.1:{}", free_port());
    let server = Setup::new(&backend).env("SLUICE_METRICS_LISTEN", &address).start().await;
    server.lift_limits().await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    run(&key, &trace, "mock", "Hello.").await;
    mock.hold();
    for most in 1..=100 {
        ask(&key, &trace, &json!({"max_cost": most})).await;
    }
    let post = async |most: u64| {
        key.post("/api/v1/replay", &json!({"trace_id": trace, "max_cost": most})).await
    };
    let refused = post(101).await;
    refused.says(503, "This project has as many replays waiting as it may have");
    assert_eq!(refused.header("retry-after"), "60");
    // One that waits already is no further one.
    post(100).await.ok(202);
    let figure = async |name: &str| -> Option<u64> {
        let told = reqwest::get(format!("http://{address}/metrics")).await.unwrap();
        let told = told.text().await.unwrap();
        told.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    let waiting = "sluice_jobs_waiting{kind=\"replay\"}";
    let running = "sluice_jobs_running{kind=\"replay\"}";
    until("two run and all others wait", async || {
        let both = (figure(running).await?, figure(waiting).await?);
        (both == (2, 98)).then_some(())
    })
    .await;
    let finished = "sluice_jobs_finished_total{kind=\"replay\",outcome=\"completed\"}";
    assert_eq!(figure(finished).await, None);
    mock.release();
    until("some are over", async || (figure(finished).await? >= 3).then_some(())).await;
    until("fewer wait", async || (figure(waiting).await? < 98).then_some(())).await;
}

async fn a_job_belongs_to_its_project(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    Mock::always(Answer::text("Yes.")).await.register(&owner, "mock").await;
    let project = owner.post("/api/v1/projects", &json!({"project": {"name": "Other"}})).await;
    let project = project.ok(201)["id"].clone();
    let made = async |project: &Value| {
        let body = json!({"name": "k", "project_id": project});
        let made = owner.post("/api/v1/keys", &body).await.ok(201);
        server.with_key(made["raw_key"].as_str().unwrap())
    };
    let (foreign, colleague) = (made(&project).await, made(&json!(1)).await);
    let trace = key.trace().await;
    run(&key, &trace, "mock", "Hello.").await;
    let done = replay(&key, &trace, &json!({})).await;
    let path = format!("/api/v1/replay/{}", done["job_id"].as_str().unwrap());
    assert_eq!(colleague.get(&path).await.ok(200), done);
    assert_eq!(colleague.post("/api/v1/replay", &json!({"trace_id": trace})).await.ok(200), done);
    assert_eq!(foreign.get(&path).await.status, 404);
    foreign.post("/api/v1/replay", &json!({"trace_id": trace})).await.invalid(FOREIGN);
    // The trace of a replay is one of the project's.
    let listed = key.get("/api/v1/traces?status=replay").await.ok(200);
    assert_eq!(each(&listed, "id"), [&done["replay_trace_id"]]);
    assert_eq!(foreign.get("/api/v1/traces?status=replay").await.ok(200), json!([]));
}

async fn an_archived_project_replays_nothing(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    for input in ["One.", "Two."] {
        run(&key, &trace, "mock", input).await;
    }
    mock.hold();
    let job = ask(&key, &trace, &json!({})).await;
    until("the first call is open", async || (mock.begun() == 3).then_some(())).await;
    let archive = |status: &str| json!({"project": {"status": status}});
    owner.patch("/api/v1/projects/1", &archive("archived")).await.ok(200);
    mock.release();
    let job = ended(&key, &job).await;
    assert_eq!((&job["status"], &job["error"]), (&json!("failed"), &json!("Project is archived")));
    assert_eq!(mock.begun(), 3);
    let body = json!({"trace_id": trace});
    key.post("/api/v1/replay", &body).await.invalid("Project is archived");
    owner.patch("/api/v1/projects/1", &archive("active")).await.ok(200);
    // A failure is no result: the same request begins anew.
    let again = replay(&key, &trace, &json!({})).await;
    assert_ne!(again["job_id"], job["job_id"]);
    settings(&owner, 1, json!({"store_content": false})).await;
    run(&key, &trace, "mock", "Three.").await;
    let job = ask(&key, &trace, &json!({"force_model": "mock"})).await;
    let job = ended(&key, &job).await;
    assert_eq!(
        job["error"],
        "The contents of this trace are not stored: store_content is off, or their retention is over. It cannot be replayed"
    );
}
