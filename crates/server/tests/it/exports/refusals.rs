//! Requests that are refused.

use serde_json::json;

use super::support::{EXPORTS, exported};
use crate::harness::{Backend, Server};

crate::on_every_backend!(faults_name_their_fields, an_export_is_of_its_project);

async fn faults_name_their_fields(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    for (body, fault) in [
        (
            json!({"format": "xlsx", "since": "7d"}),
            "format must be jsonl, parquet or focus, not 'xlsx'",
        ),
        (
            json!({"format": "jsonl", "since": "soon"}),
            "since must be a date, a time, or an age such as 7d, 12h or 90m, not 'soon'",
        ),
        (
            json!({"format": "jsonl", "since": "1d", "until": "2d"}),
            "since must be before until and before now",
        ),
        (json!({"format": "jsonl", "since": "367d"}), "since: an export covers at most 366 days"),
        (
            json!({"format": "focus", "since": "7d", "content": true}),
            "content: a file of costs holds none",
        ),
    ] {
        owner.post(EXPORTS, &body).await.invalid(fault);
    }
    let missing = owner.post(EXPORTS, &json!({"since": "7d"})).await;
    missing.says(400, "Missing required parameter: format");
    for path in ["nonsense", "019ac000-0000-7000-8000-000000000000"] {
        owner.get(&format!("{EXPORTS}/{path}")).await.says(404, "Not found");
        owner.get(&format!("{EXPORTS}/{path}/download")).await.says(404, "Not found");
    }
    let events = owner.get("/api/v1/audit-events?event=export_created").await.ok(200);
    assert_eq!(events, json!([]), "what is refused is no export");
}

async fn an_export_is_of_its_project(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let body = json!({"format": "jsonl", "since": "7d"});
    owner.post("/api/v1/projects/99/exports", &body).await.says(404, "Not found");
    let made = json!({"project": {"name": "Other"}});
    let other = owner.post("/api/v1/projects", &made).await.ok(201)["id"].to_string();
    let job = exported(&owner, "jsonl", json!({})).await;
    let id = job["job_id"].as_str().unwrap();
    for path in [id.to_owned(), format!("{id}/download")] {
        let foreign = format!("/api/v1/projects/{other}/exports/{path}");
        owner.get(&foreign).await.says(404, "Not found");
    }
    assert_eq!(server.key().post(EXPORTS, &body).await.status, 401);
}
