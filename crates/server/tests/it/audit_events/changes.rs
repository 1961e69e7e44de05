//! The record of who changed what.

use serde_json::json;

use crate::harness::{Backend, Server, settings};
use crate::models::registry::{CANARY, MODELS, add_model, project};

crate::on_every_backend!(what_was_changed_is_on_record);

async fn what_was_changed_is_on_record(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let id = add_model(&owner, json!({"input_cost_per_1k": 0.1})).await["id"].clone();
    let path = format!("{MODELS}/{id}");
    let change = json!({"model_definition": {"input_cost_per_1k": 0.2, "api_key": CANARY}});
    owner.patch(&path, &change).await.ok(200);
    owner.delete(&path).await.ok(204);
    owner.patch("/api/v1/projects/1", &project(json!({"name": "Renamed"}))).await.ok(200);
    settings(&owner, 1, json!({"monthly_budget": 5})).await;
    let new = json!({"name": "k", "project_id": 1});
    let key = owner.post("/api/v1/keys", &new).await.ok(201)["id"].clone();
    let path = format!("/api/v1/keys/{}", key.as_str().unwrap());
    owner.patch(&path, &json!({"hourly_limit": 5})).await.ok(200);
    owner.patch(&path, &json!({"status": "active"})).await.ok(200);
    owner.delete(&path).await.ok(204);
    let new_project = json!({"name": "x", "settings": {"monthly_budget": 3}});
    let made = owner.post("/api/v1/projects", &project(new_project)).await.ok(201);
    owner.delete(&format!("/api/v1/projects/{}", made["id"])).await.ok(204);
    let events = owner.with("user-agent", "it/1").get("/api/v1/audit-events").await.ok(200);
    let events = events.as_array().unwrap();
    let kinds: Vec<_> = events.iter().rev().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "login_success",
            "model_created",
            "model_updated",
            "model_deleted",
            "project_updated",
            "project_updated",
            "key_created",
            "key_updated",
            "key_reset",
            "key_revoked",
            "project_created",
            "project_deleted",
        ]
    );
    for event in events {
        assert_eq!(event["actor"], "owner@localhost", "{event}");
        assert_eq!(event["ip"], "127.0.0.1");
        assert!(event["occurred_at"].is_string() && event["id"].is_i64());
    }
    let of = |kind: &str| events.iter().rev().find(|event| event["event"] == kind).unwrap();
    let updated = of("model_updated");
    assert_eq!(updated["target_type"], "model");
    assert_eq!(updated["target_id"], id.to_string());
    let changes = &updated["metadata"]["changes"];
    assert_eq!(changes["input_cost_per_1k"], json!({"old": 0.1, "new": 0.2}));
    assert_eq!(changes["api_key"], json!({"old": "unset", "new": "set"}));
    assert_eq!(changes.as_object().unwrap().len(), 2, "only what changed: {changes}");
    let renamed = &of("project_updated")["metadata"]["changes"];
    assert_eq!(*renamed, json!({"name": {"old": "Default", "new": "Renamed"}}));
    let made = &of("project_created")["metadata"]["changes"];
    let budget = json!({"old": null, "new": 3});
    assert_eq!((&made["name"]["new"], &made["settings.monthly_budget"]), (&json!("x"), &budget));
    assert_eq!(of("key_updated")["metadata"]["changes"]["hourly_limit"]["new"], 5.0);
    for none in ["logout", "%00"] {
        let path = format!("/api/v1/audit-events?event={none}");
        assert_eq!(owner.get(&path).await.ok(200), json!([]));
    }
    for _ in 0..60 {
        owner.patch("/api/v1/projects/1", &project(json!({"description": "x"}))).await.ok(200);
    }
    let last = owner.get("/api/v1/audit-events").await.ok(200);
    assert_eq!(last.as_array().unwrap().len(), 50);
}
