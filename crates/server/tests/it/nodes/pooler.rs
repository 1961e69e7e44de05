//! PostgreSQL behind PgBouncer in transaction mode.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{
    Answer, Backend, Cable, Caller, Mock, Node, Pooler, Server, Setup, parts, run, until,
};
use crate::replay::replay;
use crate::startup::process::{complaint, printed};

/// A server that reaches its database through a pooler.
async fn pooled() -> Option<(Server, Pooler)> {
    let (server, pooler, _) = pooled_over_cable().await?;
    Some((server, pooler))
}

/// A server that reaches its database through a pooler, and the cable behind the pooler.
async fn pooled_over_cable() -> Option<(Server, Pooler, Cable)> {
    let backend = Backend::postgres()?;
    let server = Setup::new(&backend).env("SLUICE_ALLOW_INEXACT_LIMITS", "true");
    let server = server.env("SLUICE_SHUTDOWN_DELAY", "0").env("SLUICE_EGRESS_ALLOW", "127.0.0.1");
    let server = server.prepare();
    let direct = server.database_url().to_owned();
    let (host, port, user) = parts(&direct);
    let cable = Cable::to(format!("{host}:{port}").parse().unwrap()).await;
    let (_, database) = direct.rsplit_once('/').unwrap();
    let through = format!("postgres://{user}@127.0.0.1:{}/{database}", cable.port());
    let pooler = Pooler::start(&through)?;
    let mut server = server
        .with_env("SLUICE_DATABASE_URL", &pooler.url(&direct))
        .with_env("SLUICE_DATABASE_DIRECT_URL", &direct);
    server.up().await;
    server.lift_limits().await;
    Some((server, pooler, cable))
}

async fn calls(key: &Caller, trace: &str, count: usize) {
    let calls: Vec<_> = (0..count)
        .map(|_| {
            let (key, trace) = (key.clone(), trace.to_owned());
            tokio::spawn(async move {
                let body = json!({"trace_id": trace, "model": "mock", "input": "Well?"});
                key.post("/api/v1/runs", &body).await.ok(200);
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_serve_through_a_pooler() {
    let Some((server, _pooler)) = pooled().await else { return };
    let owner = server.owner().await;
    let mock =
        Mock::start(Duration::from_millis(10), Some((10, 5)), |_| Answer::text("Served.")).await;
    mock.register(&owner, "mock").await;
    let mut node = Node::start(&server, &[]).await;
    let (one, other) = (server.key(), node.key());

    // Many calls at once change connections all the time.
    let trace = one.trace().await;
    tokio::join!(calls(&one, &trace, 60), calls(&other, &trace, 60));
    let detail = other.detail(&trace).await;
    let steps = detail["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 120);
    assert!(steps.iter().all(|step| step["output"] == "Served."));
    let done = other.patch(&format!("/api/v1/traces/{trace}/complete"), &json!({})).await.ok(200);
    assert_eq!(done["status"], "completed");
    other.execute(&trace, "Again.").await.says(422, "Trace is not pending");

    // Changes of the control plane here are known there.
    let key = json!({"name": "Mine", "project_id": 1});
    let key: Value = owner.post("/api/v1/keys", &key).await.ok(201);
    let raw = key["raw_key"].as_str().unwrap();
    until("the other node knows the key", async || {
        let key = node.any.with("authorization", &format!("Bearer {raw}"));
        (key.post("/api/v1/traces", &json!({})).await.status == 201).then_some(())
    })
    .await;

    // Long reads have a bound, and jobs run: on either node.
    one.get("/api/v1/stats?window=24").await.ok(200);
    let found = one.get("/api/v1/traces?per_page=5").await.ok(200);
    assert!(!found.as_array().unwrap().is_empty());
    let job = replay(&one, &trace, &json!({})).await;
    assert_eq!(job["status"], "completed", "{job}");

    // A node that dies is noticed through its own session, and its calls are settled.
    mock.hold();
    let trace = one.trace().await;
    let body = json!({"trace_id": trace, "model": "mock", "input": "Well?"}).to_string();
    let request = other.request("POST", "/api/v1/runs").header("content-type", "application/json");
    let cut_off = tokio::spawn(Caller::try_send(request.body(body)));
    until("its call is known", async || {
        (server.sql("SELECT count(*) FROM open_calls") == "1").then_some(())
    })
    .await;
    node.kill();
    assert!(cut_off.await.unwrap().is_err());
    mock.release();
    until("its calls are settled", async || {
        (server.sql("SELECT count(*) FROM open_calls") == "0").then_some(())
    })
    .await;
    let steps = one.detail(&trace).await["steps"].clone();
    assert_eq!(steps.as_array().unwrap().len(), 1, "{steps}");
    assert_eq!(steps[0]["status"], "failed");
    assert!(!server.log().contains("prepared statement"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_pooler_whose_database_is_silent() {
    let Some((server, _pooler, cable)) = pooled_over_cable().await else { return };
    let key = server.key();
    let trace = key.trace().await;
    cable.silence();
    let began = Instant::now();
    // More than the pooler has connections. Reads wait for one, writes for the writer as well.
    let ask = |number: usize| {
        let (key, path) = (key.clone(), format!("/api/v1/traces/{trace}"));
        tokio::spawn(async move {
            if number.is_multiple_of(2) {
                key.get(&path).await.status
            } else {
                key.post("/api/v1/traces", &json!({})).await.status
            }
        })
    };
    for asked in (0..12).map(ask).collect::<Vec<_>>() {
        assert_eq!(asked.await.unwrap(), 503);
    }
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(30),
        "the pooler alone would wait for two minutes: {took:?}"
    );
    assert_eq!(server.any.get("/ready").await.status, 503);
    cable.mend();
    until("it is ready again", async || {
        (server.any.get("/ready").await.status == 200).then_some(())
    })
    .await;
    key.get(&format!("/api/v1/traces/{trace}")).await.ok(200);
    key.trace().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_work_through_a_pooler() {
    let Some((mut server, _pooler)) = pooled().await else { return };
    let made = printed(&server.cli(&["key", "create", "--project", "1"], &[]).await);
    let raw = made.split_whitespace().find(|word| word.starts_with("ak_")).unwrap();
    until("the gateway knows the key", async || {
        let key = server.with_key(raw);
        (key.post("/api/v1/traces", &json!({})).await.status == 201).then_some(())
    })
    .await;
    let said = printed(&server.cli(&["migrate", "--check"], &[]).await);
    assert!(said.starts_with("The schema is up to date"), "{said}");
    printed(&server.cli(&["doctor"], &[]).await);
    let new = "a1".repeat(32);
    let env = [("SLUICE_NEW_MASTER_KEY", new.as_str())];
    let said = complaint(&server.cli(&["rotate-master-key"], &env).await);
    assert!(said.contains("another Sluice serves this"), "its lock is seen: {said}");
    server.stop().await;
    printed(&server.cli(&["rotate-master-key"], &env).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_without_a_direct_way_is_refused() {
    let Some(backend) = Backend::postgres() else { return };
    let server = Setup::new(&backend).prepare();
    let direct = server.database_url().to_owned();
    let Some(pooler) = Pooler::start(&direct) else { return };
    for (url, way) in [(pooler.url(&direct), None), (direct.clone(), Some(pooler.url(&direct)))] {
        let mut command = server.command(&["serve"]);
        command.env("SLUICE_DATABASE_URL", url);
        if let Some(way) = way {
            command.env("SLUICE_DATABASE_DIRECT_URL", way);
        }
        let said = complaint(&run(command).await);
        assert!(
            said.contains("connection pooler") && said.contains("SLUICE_DATABASE_DIRECT_URL"),
            "{said}"
        );
    }
}
