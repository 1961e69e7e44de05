//! The files: every step once, as the detail of its trace shows it.

use serde_json::{Value, json};

use super::support::{exported, lines};
use crate::harness::{Answer, Backend, Caller, Mock, Server};

crate::on_every_backend!(
    a_file_has_every_step_as_details_show_it,
    the_command_writes_the_same_beside_the_gateway,
    contents_are_exported_only_if_asked_for,
);

/// Traces of some calls, checks and logs: their steps as details show them, by their ids.
async fn record(server: &Server, owner: &Caller) -> Vec<Value> {
    let prices =
        json!({"is_public": false, "input_cost_per_1k": 0.123_456_7, "output_cost_per_1k": 0.7});
    Mock::always(Answer::text("Yes.")).await.register_with(owner, "dear", prices).await;
    let key = server.key();
    let jane = key.with("x-sluice-user", "jane").with("x-sluice-tags", "team=red");
    let mut steps = Vec::new();
    for number in 0..3 {
        let trace = key.trace().await;
        let run = json!({"trace_id": trace, "model": "dear", "input": "Is it secret-word?"});
        jane.post("/api/v1/runs", &run).await.ok(200);
        key.post("/api/v1/runs", &run).await.ok(200);
        key.post("/api/v1/checks", &json!({"trace_id": trace, "input": "Hello."})).await.ok(200);
        if number == 0 {
            key.patch(&format!("/api/v1/traces/{trace}/complete"), &json!({})).await;
        }
        let detail = key.detail(&trace).await;
        steps.extend(detail["steps"].as_array().unwrap().clone());
    }
    steps.sort_by_key(|step| step["id"].as_i64());
    steps
}

/// The lines of a file, by their ids.
fn sorted(text: &str) -> Vec<Value> {
    let mut lines = lines(text);
    lines.sort_by_key(|line| line["id"].as_i64());
    lines
}

async fn a_file_has_every_step_as_details_show_it(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    let steps = record(&server, &owner).await;
    let job = exported(&owner, "jsonl", json!({"content": true})).await;
    assert_eq!((&job["status"], &job["steps"]), (&json!("completed"), &json!(steps.len())));
    assert_eq!(job["progress"], json!({"done": steps.len(), "total": steps.len()}));
    let file = owner.get(job["download"].as_str().unwrap()).await;
    assert_eq!(file.status, 200, "{}", file.text);
    assert_eq!(file.header("content-type"), "application/x-ndjson");
    assert_eq!(file.header("content-length"), job["bytes"].to_string());
    let name = file.header("content-disposition");
    assert!(name.starts_with("attachment; filename=\"sluice-1-20"), "{name}");
    assert!(name.ends_with(".jsonl\""), "{name}");
    let lines = sorted(&file.text);
    assert_eq!(lines.len(), steps.len());
    for (line, step) in lines.iter().zip(&steps) {
        for (name, value) in step.as_object().unwrap() {
            assert_eq!(&line[name], value, "{name} of {step}");
        }
        assert_eq!(line["project_id"], 1);
    }
    let total: f64 = lines.iter().filter_map(|line| line["cost"].as_f64()).sum();
    let stats = server.key().get("/api/v1/stats").await.ok(200);
    assert!((total - stats["cost"]["total"].as_f64().unwrap()).abs() < 1e-12, "{total}");

    let costs = exported(&owner, "focus", json!({})).await;
    let costs = owner.get(costs["download"].as_str().unwrap()).await;
    assert_eq!(costs.header("content-type"), "text/csv; charset=utf-8");
    let billed: f64 = costs
        .text
        .lines()
        .skip(1)
        .map(|row| row.split(',').next().unwrap().parse::<f64>().unwrap())
        .sum();
    assert!((total - billed).abs() < 1e-12, "{billed} of {total}");
    assert!(costs.text.contains(r#""{""team"":""red""}""#), "{}", costs.text);

    // An archived project is read on.
    let archived = json!({"project": {"status": "archived"}});
    owner.patch("/api/v1/projects/1", &archived).await.ok(200);
    let parquet = exported(&owner, "parquet", json!({})).await;
    let path = parquet["download"].as_str().unwrap();
    let bytes = owner.request("GET", path).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(json!(bytes.len()), parquet["bytes"]);
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));

    let events = owner.get("/api/v1/audit-events?event=export_created").await.ok(200);
    let event = &events.as_array().unwrap()[2];
    assert_eq!(event["metadata"]["format"], "jsonl", "{event}");
    assert_eq!(event["metadata"]["content"], true);
    let events = owner.get("/api/v1/audit-events?event=export_downloaded").await.ok(200);
    assert_eq!(events.as_array().unwrap().len(), 3);
}

async fn the_command_writes_the_same_beside_the_gateway(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    record(&server, &owner).await;
    let job = exported(&owner, "jsonl", json!({})).await;
    let file = owner.get(job["download"].as_str().unwrap()).await.text;
    // Without a project it is that of the only one.
    for project in [&["--project", "1"][..], &[]] {
        let mut args = vec!["export", "--format", "jsonl", "--since", "1h"];
        args.extend(project);
        let done = server.cli(&args, &[]).await;
        assert!(done.status.success(), "{done:?}");
        assert_eq!(String::from_utf8(done.stdout).unwrap(), file);
    }

    let path = server.data().join("steps.jsonl");
    let shown = path.to_str().unwrap();
    let args = ["export", "--all", "--format", "jsonl", "--since", "1h", "--output", shown];
    let done = server.cli(&args, &[]).await;
    let said = String::from_utf8(done.stdout).unwrap();
    assert_eq!(said, format!("9 steps were exported to {shown}.\n"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), file);
    let events = owner.get("/api/v1/audit-events?event=export_created").await.ok(200);
    assert_eq!(events.as_array().unwrap().len(), 4);

    let made = json!({"project": {"name": "Other"}});
    let other = owner.post("/api/v1/projects", &made).await.ok(201)["id"].to_string();
    let several = format!(
        "there are several projects: give --project N, or --all: 1 (Default), {other} (Other)"
    );
    for (args, fault) in [
        (&["--project", "99", "--format", "jsonl"][..], "there is no project 99"),
        (&["--project", "1", "--format", "xlsx"], "format must be jsonl, parquet or focus"),
        (&["--format", "jsonl"], &several),
    ] {
        let mut all = vec!["export", "--since", "1h"];
        all.extend(args);
        let done = server.cli(&all, &[]).await;
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success() && said.contains(fault), "{said}");
    }
}

async fn contents_are_exported_only_if_asked_for(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let owner = server.owner().await;
    record(&server, &owner).await;
    for (content, times) in [(false, 0), (true, 6)] {
        let job = exported(&owner, "jsonl", json!({"content": content})).await;
        let file = owner.get(job["download"].as_str().unwrap()).await.text;
        assert_eq!(file.matches("secret-word").count(), times);
    }
    // The file lies sealed in the database.
    let stored = server.stored();
    assert!(!stored.windows(11).any(|bytes| bytes == b"secret-word"));
}
