//! Keys: made, listed, changed.

use serde_json::{Value, json};

use crate::harness::{Backend, Server, until};

crate::on_every_backend!(keys);

async fn keys(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let new = json!({"name": "Backend", "project_id": 1, "hourly_limit": 0.5});
    let made = owner.post("/api/v1/keys", &new).await.ok(201);
    let raw = made["raw_key"].as_str().unwrap();
    let (id, secret) = raw.split_once('.').unwrap();
    assert_eq!(made["id"], id);
    let hex = id.strip_prefix("ak_").unwrap();
    assert!(hex.len() == 16 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    assert_eq!(secret.len(), 43);
    let masked = format!("{}...{}", &raw[..6], &raw[raw.len() - 4..]);
    assert_eq!(made["masked"], masked);
    assert_eq!(made["project"], json!({"id": 1, "name": "Default"}));
    assert_eq!(made["status"], "active");
    assert_eq!(made["loop_intervention_count"], 0);
    assert!(made["last_used"].is_null() && made["expires_at"].is_null());
    server.with_key(raw).get("/api/v1/traces").await.ok(200);
    let list = owner.get("/api/v1/keys").await;
    assert!(!list.text.contains(secret) && !list.text.contains("raw_key"));
    let path = format!("/api/v1/keys/{id}");
    let changed = owner.patch(&path, &json!({"hourly_limit": 7})).await.ok(200);
    assert_eq!(changed["hourly_limit"], 7.0);
    assert_eq!(changed["name"], "Backend");
    until("the key's use shows", async || {
        let keys = owner.get("/api/v1/keys").await.ok(200);
        let used = |key: &Value| key["id"] == id && key["last_used"].is_string();
        keys.as_array().unwrap().iter().any(used).then_some(())
    })
    .await;
    let nowhere = json!({"name": "x", "project_id": 999});
    owner.post("/api/v1/keys", &nowhere).await.invalid("Project not found");
    let stored = server.stored();
    assert!(!stored.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()));
    assert!(!server.log().contains(secret));
}
