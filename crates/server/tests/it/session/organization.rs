//! The organization's settings, and what `require_mfa` does.

use serde_json::{Value, json};

use crate::harness::{Backend, OWNER, PASSWORD, Server};
use crate::keys::authentication::unauthorized;
use crate::session::roles::user;
use crate::session::second_factor::enrol;

crate::on_every_backend!(
    settings_are_read_by_all_and_changed_by_admins,
    what_is_no_setting_is_refused,
    without_a_second_factor_one_may_only_set_one_up
);

const PATH: &str = "/api/v1/organization";

fn security(security: Value) -> Value {
    json!({"settings": {"security": security}})
}

async fn settings_are_read_by_all_and_changed_by_admins(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let viewer = user(&server, "viewer", &[]).await;
    let before = viewer.get(PATH).await.ok(200);
    let plain =
        json!({"require_mfa": false, "default_role": null, "disable_password_login": false});
    assert_eq!(before["settings"], json!({"security": plain}));
    let change = security(json!({"default_role": "viewer"}));
    viewer.patch(PATH, &change).await.is(403, &json!({"error": "Forbidden"}));
    server.key().get(PATH).await.is(401, &unauthorized());
    owner.with("origin", "https://evil.example").patch(PATH, &change).await.ok(403);
    admin.patch(PATH, &change).await.ok(200);
    let name = json!({"name": " New name "});
    let after = owner.patch(PATH, &name).await.ok(200);
    assert_eq!(after["name"], "New name");
    assert_eq!(after["settings"]["security"]["default_role"], "viewer", "it was merged");
    assert_eq!(owner.get("/api/v1/session").await.ok(200)["organization"]["name"], "New name");
    let null = security(json!({"default_role": null}));
    let reset = owner.patch(PATH, &null).await.ok(200);
    assert_eq!(reset["settings"]["security"], plain);
    let events = owner.get("/api/v1/audit-events?event=organization_updated").await.ok(200);
    let events = events.as_array().unwrap();
    assert_eq!(events.len(), 3);
    assert_eq!(events[2]["actor"], "admin@example.org");
    let changes = &events[2]["metadata"]["changes"]["settings"];
    assert_eq!(changes, &json!({"old": {}, "new": {"security": {"default_role": "viewer"}}}));
}

async fn what_is_no_setting_is_refused(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    for (change, status, error) in [
        (json!({"name": " "}), 422, "Name can't be blank"),
        (json!({"name": "x".repeat(256)}), 422, "Name is too long"),
        (json!({"name": 5}), 400, "expected a string"),
        (json!({"names": "x"}), 400, "unknown field `names`"),
        (json!({"settings": 5}), 400, "expected an object"),
        (json!({"settings": {"secure": {}}}), 422, "settings.secure is not known"),
        (json!({"settings": {"security": true}}), 422, "settings.security must be an object"),
        (security(json!({"require_mfa": "true"})), 422, "require_mfa must be true or false"),
        (security(json!({"default_role": "owner"})), 422, "default_role must be one of"),
        (security(json!({"mfa": true})), 422, "settings.security.mfa is not known"),
        (security(json!({"disable_password_login": true})), 422, "none is configured"),
    ] {
        owner.patch(PATH, &change).await.says(status, error);
    }
    let changed = owner.get("/api/v1/audit-events?event=organization_updated").await;
    changed.is(200, &json!([]));
}

async fn without_a_second_factor_one_may_only_set_one_up(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    owner.patch(PATH, &security(json!({"require_mfa": true}))).await.ok(200);
    // It holds for sessions that have begun before, and for new ones.
    for session in [owner, server.owner().await] {
        for (method, path) in [
            ("GET", "/api/v1/projects"),
            ("POST", "/api/v1/projects"),
            ("GET", "/api/v1/stats?project_id=1"),
            ("GET", "/api/v1/audit-events"),
            ("PATCH", PATH),
            ("DELETE", "/api/v1/users/1/mfa"),
        ] {
            let refused = session.send(method, path, Some(b"{}".to_vec())).await;
            refused.says(403, "POST /api/v1/session/mfa/totp");
            assert_eq!(refused.json()["code"], "MFA_REQUIRED", "{method} {path}");
        }
        session.get("/api/v1/session").await.ok(200);
        session.get("/api/v1/session/all").await.ok(200);
    }
    // Keys are not meant.
    server.key().trace().await;
    let session = server.owner().await;
    let enrolled = enrol(session, PASSWORD).await;
    enrolled.caller.get("/api/v1/projects").await.ok(200);
    server.login(OWNER, PASSWORD).await.is(200, &json!({"mfa_required": true}));
    enrolled.caller.patch(PATH, &security(json!({"require_mfa": false}))).await.ok(200);
}
