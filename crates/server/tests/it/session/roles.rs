//! Roles: what members and viewers may do and see.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, Server};

crate::on_every_backend!(members_and_viewers, a_member_sees_no_other_project);

async fn members_and_viewers(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let member = user(&server, "member", &["1"]).await;
    let viewer = user(&server, "viewer", &["1"]).await;
    let key = |limit: Value| json!({"name": "k", "project_id": 1, "hourly_limit": limit});
    let model = json!({"model_definition": {"name": "m", "identifier": "m", "provider": "openai"}});
    let first = owner.post("/api/v1/keys", &key(Value::Null)).await.ok(201);
    let a_key = format!("/api/v1/keys/{}", first["id"].as_str().unwrap());
    let model_id = owner.get("/api/v1/projects/1/models").await.ok(200);
    let a_model = format!("/api/v1/projects/1/models/{}", model_id[0]["model_definition"]["id"]);
    let none = Value::Null;
    for (method, path, body, may_member, may_viewer) in [
        ("GET", "/api/v1/projects", &none, 200, 200),
        ("GET", "/api/v1/projects/1", &none, 200, 200),
        ("GET", "/api/v1/projects/1/models", &none, 200, 200),
        ("GET", &*a_model, &none, 200, 200),
        ("GET", "/api/v1/keys", &none, 200, 200),
        ("GET", "/api/v1/stats?project_id=1", &none, 200, 200),
        ("GET", "/api/v1/session", &none, 200, 200),
        ("POST", "/api/v1/projects/1/safety/test", &json!({"text": "x"}), 200, 403),
        ("GET", "/api/v1/projects/1/reviews", &none, 200, 200),
        ("PUT", "/api/v1/projects/1/reviews/1", &json!({"verdict": "confirmed"}), 404, 403),
        ("GET", "/api/v1/projects/1/insights", &none, 200, 200),
        ("POST", "/api/v1/projects/1/insights/refresh", &none, 200, 403),
        ("PATCH", "/api/v1/projects/1/insights/1/dismiss", &none, 404, 403),
        ("GET", "/api/v1/audit-events", &none, 403, 403),
        ("GET", "/api/v1/audit-events/export", &none, 403, 403),
        (
            "POST",
            "/api/v1/projects/1/exports",
            &json!({"format": "jsonl", "since": "1d"}),
            403,
            403,
        ),
        ("GET", "/api/v1/projects/1/exports/1", &none, 403, 403),
        ("GET", "/api/v1/projects/1/exports/1/download", &none, 403, 403),
        ("POST", "/api/v1/projects", &json!({"project": {"name": "x"}}), 403, 403),
        ("PATCH", "/api/v1/projects/1", &json!({"project": {"name": "x"}}), 403, 403),
        ("PATCH", "/api/v1/projects/1", &json!({"project": {"settings": {}}}), 403, 403),
        ("DELETE", "/api/v1/projects/1", &none, 403, 403),
        ("POST", "/api/v1/projects/1/models", &model, 403, 403),
        ("PATCH", &a_model, &model, 403, 403),
        ("DELETE", &a_model, &none, 403, 403),
        ("POST", "/api/v1/keys", &key(Value::Null), 201, 403),
        ("POST", "/api/v1/keys", &key(json!(5)), 403, 403),
        ("PATCH", &a_key, &json!({"status": "active"}), 403, 403),
        ("PATCH", &a_key, &json!({"hourly_limit": 5}), 403, 403),
        ("DELETE", &a_key, &none, 204, 403),
    ] {
        let body = (!body.is_null()).then(|| body.to_string().into_bytes());
        for (who, caller, may) in [("viewer", &viewer, may_viewer), ("member", &member, may_member)]
        {
            let reply = caller.send(method, path, body.clone()).await;
            assert_eq!(reply.status, may, "{who}: {method} {path}: {}", reply.text);
            if may == 403 {
                reply.is(403, &json!({"error": "Forbidden"}));
            }
        }
    }
    admin.get("/api/v1/audit-events").await.ok(200);
    admin.post("/api/v1/keys", &key(json!(5))).await.ok(201);
    admin.post("/api/v1/projects/1/models", &model).await.ok(201);
    let made = admin.post("/api/v1/projects", &json!({"project": {"name": "x"}})).await.ok(201);
    assert_eq!(admin.get("/api/v1/projects").await.ok(200).as_array().unwrap().len(), 2);
    admin.delete(&format!("/api/v1/projects/{}", made["id"])).await.ok(204);
    let whoami = member.get("/api/v1/session").await.ok(200);
    assert_eq!(whoami["user"]["email"], "member@example.org");
    assert_eq!(whoami["user"]["role"], "member");
    assert_eq!(whoami["user"]["mfa_enabled"], false);
    assert!(whoami["organization"]["id"].is_i64());
}

async fn a_member_sees_no_other_project(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let made =
        owner.post("/api/v1/projects", &json!({"project": {"name": "Theirs"}})).await.ok(201);
    let theirs = &made["id"];
    let new = json!({"name": "theirs", "project_id": theirs});
    let their_key = owner.post("/api/v1/keys", &new).await.ok(201)["id"].clone();
    let their_key = format!("/api/v1/keys/{}", their_key.as_str().unwrap());
    let member = user(&server, "member", &["1"]).await;
    let projects = member.get("/api/v1/projects").await.ok(200);
    assert_eq!(projects.as_array().unwrap().len(), 1);
    assert_eq!(projects[0]["id"], 1);
    let keys = member.get("/api/v1/keys").await.ok(200);
    assert!(keys.as_array().unwrap().iter().all(|key| key["project"]["id"] == 1), "{keys}");
    let gone = json!({"error": "Not found"});
    for id in [theirs, &json!(999)] {
        let path = format!("/api/v1/projects/{id}");
        member.get(&path).await.is(404, &gone);
        member.patch(&path, &json!({"project": {"name": "x"}})).await.is(404, &gone);
        member.delete(&path).await.is(404, &gone);
        member.get(&format!("{path}/models")).await.is(404, &gone);
        member.get(&format!("{path}/reviews")).await.is(404, &gone);
        member.get(&format!("{path}/insights")).await.is(404, &gone);
        member.post(&format!("{path}/insights/refresh"), &json!({})).await.is(404, &gone);
        member.patch(&format!("{path}/insights/1/dismiss"), &json!({})).await.is(404, &gone);
        member.get(&format!("/api/v1/stats?project_id={id}")).await.is(404, &gone);
        let reply = member.post("/api/v1/keys", &json!({"name": "k", "project_id": id})).await;
        reply.invalid("Project not found");
    }
    for path in [&*their_key, "/api/v1/keys/ak_1234567890abcdef", "/api/v1/keys/nonsense"] {
        member.delete(path).await.is(404, &gone);
        member.patch(path, &json!({"status": "active"})).await.is(404, &gone);
    }
    let nobody = user(&server, "viewer", &[]).await;
    assert_eq!(nobody.get("/api/v1/projects").await.ok(200), json!([]));
    assert_eq!(nobody.get("/api/v1/keys").await.ok(200), json!([]));
}

/// Makes a user, `ROLE@example.org`, and signs them in.
pub async fn user(server: &Server, role: &str, projects: &[&str]) -> Caller {
    let email = format!("{role}@example.org");
    let mut args = vec!["user", "create", &email, "--role", role];
    for project in projects {
        args.extend(["--project", project]);
    }
    let made = server.cli(&args, &[("SLUICE_USER_PASSWORD", USER_PASSWORD)]).await;
    assert!(made.status.success(), "{made:?}");
    assert!(!String::from_utf8_lossy(&made.stdout).contains(USER_PASSWORD));
    server.session(&email, USER_PASSWORD).await
}

pub const USER_PASSWORD: &str = "user-password-1";
