//! Keys as credentials: unknown, expired, revoked, and in the place of a session.

use serde_json::{Value, json};

use crate::harness::{Backend, Server};

crate::on_every_backend!(
    every_bad_key_gets_the_same_401,
    a_key_ends_when_it_expires_or_is_revoked,
    keys_and_sessions_are_not_interchangeable
);

async fn every_bad_key_gets_the_same_401(backend: Backend) {
    let server = Server::start(&backend).await;
    server.any.get("/api/v1/traces").await.is(401, &unauthorized());
    for value in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer nonsense",
        "Basic b3duZXI6cGFzcw==",
        "Bearer ak_",
        "Bearer ak_00000000000000aa",
        "Bearer ak_00000000000000aa.",
        "Bearer ak_00000000000000aa.0123456789abcdefghijABCDEFGHIJ0123456789_-X",
        "Bearer ak_00000000000000ab.0123456789abcdefghijABCDEFGHIJ0123456789_-x",
        "Bearer ak_zz.0123456789abcdefghijABCDEFGHIJ0123456789_-x",
        "ak_00000000000000aa.0123456789abcdefghijABCDEFGHIJ0123456789_-x",
    ] {
        let caller = server.any.with("authorization", value);
        caller.get("/api/v1/traces").await.is(401, &unauthorized());
        caller.post("/api/v1/executions", &json!({})).await.is(401, &unauthorized());
        caller.get("/api/v1/stats").await.is(401, &unauthorized());
    }
    let query = format!("/api/v1/traces?api_key={}", crate::harness::KEY);
    server.any.get(&query).await.is(401, &unauthorized());
    let owner = server.owner().await;
    let events = owner.get("/api/v1/audit-events?event=perimeter_block").await.ok(200);
    assert_eq!(events.as_array().unwrap().len(), 1, "one row per address and minute: {events}");
    assert_eq!(events[0]["ip"], "127.0.0.1");
    let refused = events[0]["metadata"]["count"].as_u64().unwrap();
    server.any.with("authorization", "Bearer ak_00000000000000ab.0").get("/api/v1/stats").await;
    let again = owner.get("/api/v1/audit-events?event=perimeter_block").await.ok(200);
    assert_eq!(again[0]["metadata"]["count"], refused + 1, "{again}");
}

async fn a_key_ends_when_it_expires_or_is_revoked(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let new = json!({"name": "short", "project_id": 1, "expires_at": "2001-01-01T00:00:00Z"});
    let made = owner.post("/api/v1/keys", &new).await.ok(201);
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    key.get("/api/v1/traces").await.is(401, &unauthorized());
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    let lifted = owner.patch(&path, &json!({"expires_at": null})).await.ok(200);
    assert!(lifted["expires_at"].is_null());
    key.get("/api/v1/traces").await.ok(200);
    let far = owner.patch(&path, &json!({"expires_at": "2999-12-31T23:59:59Z"})).await.ok(200);
    assert!(far["expires_at"].as_str().unwrap().starts_with("2999-12-31T23:59:59"));
    key.get("/api/v1/traces").await.ok(200);
    let naive = owner.patch(&path, &json!({"expires_at": "2998-12-31T23:59:59"})).await.ok(200);
    assert_eq!(naive["expires_at"], "2998-12-31T23:59:59.000Z", "no offset is UTC");
    owner.patch(&path, &json!({"expires_at": "tomorrow"})).await.says(422, "expires_at");
    assert_eq!(owner.delete(&path).await.ok(204), Value::Null);
    key.get("/api/v1/traces").await.is(401, &unauthorized());
    owner.delete(&path).await.is(404, &json!({"error": "Not found"}));
    owner.patch(&path, &json!({"status": "active"})).await.is(404, &json!({"error": "Not found"}));
    let keys = owner.get("/api/v1/keys").await;
    assert!(!keys.text.contains(made["id"].as_str().unwrap()));
}

async fn keys_and_sessions_are_not_interchangeable(backend: Backend) {
    let server = Server::start(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    for path in ["projects", "projects/1", "projects/1/models", "keys", "audit-events", "session"] {
        let path = format!("/api/v1/{path}");
        owner.get(&path).await.ok(200);
        key.get(&path).await.is(401, &unauthorized());
        server.any.get(&path).await.is(401, &unauthorized());
    }
    for path in ["traces", "sdk/config"] {
        owner.get(&format!("/api/v1/{path}")).await.is(401, &unauthorized());
    }
    owner.post("/api/v1/traces", &json!({})).await.is(401, &unauthorized());
    let (by_key, by_session) =
        (key.get("/api/v1/stats").await.ok(200), owner.get("/api/v1/stats").await.ok(200));
    assert_eq!(by_key["security"], by_session["security"]);
    server.any.get("/api/v1/stats").await.is(401, &unauthorized());
    for cookie in ["sluice_session=nonsense", &format!("sluice_session={}", "0".repeat(64))] {
        let odd = server.any.with("cookie", cookie);
        odd.get("/api/v1/projects").await.is(401, &json!({"error": "Invalid token"}));
        odd.get("/api/v1/session").await.is(401, &unauthorized());
        odd.delete("/api/v1/session").await.is(401, &unauthorized());
    }
}

pub fn unauthorized() -> Value {
    json!({"error": "Unauthorized"})
}
