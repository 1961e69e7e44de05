//! Service tokens, `/service-tokens`: programs on the control plane.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, KEY, OWNER, PASSWORD, Server};
use crate::keys::authentication::unauthorized;
use crate::session::roles::{USER_PASSWORD, user};

crate::on_every_backend!(
    a_token_does_what_its_role_and_projects_allow,
    a_token_is_served_wherever_it_is_declared,
    a_token_lets_nobody_in,
    what_is_no_good_token_is_refused,
    a_token_ends_when_it_is_revoked_or_its_maker_is_no_admin,
    tokens_are_made_by_admins_within_bounds,
    a_token_makes_keys_that_are_nobodys,
    the_command_line_makes_a_token
);

const TOKENS: &str = "/api/v1/service-tokens";

/// Makes a token; a caller with it, and its body.
async fn token(server: &Server, by: &Caller, role: &str, projects: Value) -> (Caller, Value) {
    let email = by.get("/api/v1/session").await.ok(200)["user"]["email"].clone();
    let password = if email == OWNER { PASSWORD } else { USER_PASSWORD };
    let new = json!({
        "password": password, "name": format!("a {role}"), "role": role, "projects": projects,
    });
    let made = by.post(TOKENS, &new).await.ok(201);
    (bearer(server, made["token"].as_str().unwrap()), made)
}

fn bearer(server: &Server, token: &str) -> Caller {
    server.any.with("authorization", &format!("Bearer {token}"))
}

async fn a_token_does_what_its_role_and_projects_allow(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let other = owner.post("/api/v1/projects", &json!({"project": {"name": "x"}})).await.ok(201);
    let other = format!("/api/v1/projects/{}", other["id"]);
    let (admin, made) = token(&server, &owner, "admin", json!([])).await;
    let (member, _) = token(&server, &owner, "member", json!([1])).await;
    let (viewer, _) = token(&server, &owner, "viewer", json!([1])).await;
    let id = made["id"].as_str().unwrap();
    assert_eq!((id.len(), &made["created_by"]["email"]), (19, &json!(OWNER)));
    let key = json!({"name": "k", "project_id": 1});
    let model = json!({"model_definition": {"name": "m", "identifier": "m", "provider": "openai"}});
    let none = Value::Null;
    for (method, path, body, may_admin, may_member, may_viewer) in [
        ("GET", "/api/v1/projects", &none, 200, 200, 200),
        ("GET", "/api/v1/projects/1/models", &none, 200, 200, 200),
        ("GET", &*other, &none, 200, 404, 404),
        ("GET", "/api/v1/stats?project_id=1", &none, 200, 200, 200),
        ("GET", "/api/v1/organization", &none, 200, 200, 200),
        ("GET", "/api/v1/audit-events", &none, 200, 403, 403),
        ("GET", "/api/v1/users", &none, 200, 403, 403),
        ("GET", "/api/v1/invitations", &none, 200, 403, 403),
        ("POST", "/api/v1/keys", &key, 201, 201, 403),
        ("POST", "/api/v1/projects/1/models", &model, 201, 403, 403),
        ("PATCH", "/api/v1/projects/1", &json!({"project": {"name": "n"}}), 200, 403, 403),
        ("DELETE", &*other, &none, 204, 404, 404),
        ("DELETE", "/api/v1/users/99", &none, 404, 403, 403),
    ] {
        let body = (!body.is_null()).then(|| body.to_string().into_bytes());
        for (caller, may) in [(&viewer, may_viewer), (&member, may_member), (&admin, may_admin)] {
            let reply = caller.send(method, path, body.clone()).await;
            assert_eq!(reply.status, may, "{method} {path}: {}", reply.text);
        }
    }
    // Each write names the token, and the filter finds what it did.
    let events = owner.get(&format!("/api/v1/audit-events?actor={id}")).await.ok(200);
    let kinds: Vec<_> = events.as_array().unwrap().iter().map(|one| &one["event"]).collect();
    assert_eq!(kinds, ["project_deleted", "project_updated", "model_created", "key_created"]);
    // A second factor is a person's.
    let required = json!({"settings": {"security": {"require_mfa": true}}});
    owner.patch("/api/v1/organization", &required).await.ok(200);
    owner.get("/api/v1/projects").await.ok(403);
    admin.get("/api/v1/projects").await.ok(200);
}

async fn a_token_is_served_wherever_it_is_declared(backend: Backend) {
    let server = Server::start(&backend).await;
    let (admin, _) = token(&server, &server.owner().await, "admin", json!([])).await;
    let document = server.any.get("/api/v1/openapi.json").await.ok(200);
    let mut served = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, route) in methods.as_object().unwrap() {
            let credentials = route["security"].as_array();
            let admits = |all: &Vec<Value>| all.contains(&json!({"service-token": []}));
            if !credentials.is_some_and(admits) {
                continue;
            }
            let parts = path.split('/');
            let filled = parts.map(|part| if part.starts_with('{') { "1" } else { part });
            let filled = filled.collect::<Vec<_>>().join("/");
            let body = (method != "get").then(|| b"{}".to_vec());
            let reply = admin.send(&method.to_uppercase(), &filled, body).await;
            let is_served = reply.status < 500 && reply.status != 401;
            assert!(is_served, "{method} {path}: {} {}", reply.status, reply.text);
            served += 1;
        }
    }
    assert!(served > 30, "{served}");
}

async fn a_token_lets_nobody_in(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    user(&server, "viewer", &[]).await;
    let (admin, made) = token(&server, &owner, "admin", json!([])).await;
    let forbidden = json!({"error": "Forbidden"});
    let raw = made["token"].as_str().unwrap();
    let own = format!("{TOKENS}/{}", made["id"].as_str().unwrap());
    for (method, path, body) in [
        ("POST", "/api/v1/invitations", json!({"email": "a@b.c", "role": "viewer"})),
        ("PATCH", "/api/v1/users/2", json!({"role": "admin"})),
        ("PATCH", "/api/v1/users/2", json!({"projects": [1]})),
        ("POST", "/api/v1/users/2/password-link", json!({})),
        ("DELETE", "/api/v1/users/2/mfa", Value::Null),
        ("PATCH", "/api/v1/organization", json!({"settings": {"security": {}}})),
        ("GET", "/api/v1/sign-on-providers", Value::Null),
        ("POST", "/api/v1/sign-on-providers", json!({})),
        ("DELETE", "/api/v1/sign-on-providers/1", Value::Null),
        ("GET", "/api/v1/usage/own", Value::Null),
        ("GET", TOKENS, Value::Null),
        ("POST", TOKENS, json!({"name": "more", "role": "viewer"})),
        ("DELETE", &*own, Value::Null),
    ] {
        let body = (!body.is_null()).then(|| body.to_string().into_bytes());
        // Not even together with a session.
        let both = owner.with("authorization", &format!("Bearer {raw}"));
        for caller in [&admin, &both] {
            caller.send(method, path, body.clone()).await.is(403, &forbidden);
        }
    }
    for (method, path) in [
        ("GET", "/api/v1/session"),
        ("DELETE", "/api/v1/session"),
        ("GET", "/api/v1/session/all"),
        ("POST", "/api/v1/session/password"),
        ("POST", "/api/v1/session/mfa/totp"),
        ("DELETE", "/api/v1/session/mfa"),
        ("GET", "/api/v1/session/passkeys"),
        ("POST", "/api/v1/session/passkeys/offer"),
        ("GET", "/api/v1/session/identities"),
        ("POST", "/api/v1/session/verification"),
    ] {
        admin.send(method, path, None).await.is(401, &unauthorized());
    }
    // It ends what a person has: that lets nobody in.
    admin.delete("/api/v1/users/1").await.is(403, &forbidden);
    admin.delete("/api/v1/users/2").await.ok(204);
    let removed = owner.get("/api/v1/audit-events?event=member_removed").await.ok(200);
    assert_eq!(removed[0]["actor"], made["id"]);
    // The data plane knows no such credential, and the console needs a session.
    let trace = server.key().trace().await;
    for (method, path) in [
        ("GET", "/api/v1/traces"),
        ("GET", &*format!("/api/v1/traces/{trace}")),
        ("POST", "/api/v1/executions"),
        ("POST", "/api/v1/chat/completions"),
        ("GET", "/api/v1/sdk/config"),
    ] {
        admin.send(method, path, None).await.is(401, &unauthorized());
    }
    server.any.with("x-api-key", raw).get("/api/v1/stats").await.is(401, &unauthorized());
    server.any.with("x-api-key", raw).get("/api/v1/projects").await.is(401, &unauthorized());
    server.any.get(&format!("/openai/v1/models?key={raw}")).await.tells(401, "Unauthorized");
    assert!(admin.get("/keys").await.text.contains("id=\"password\""), "the sign-in");
}

async fn what_is_no_good_token_is_refused(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let (good, made) = token(&server, &owner, "admin", json!([])).await;
    let raw = made["token"].as_str().unwrap();
    let (id, secret) = raw.split_once('.').unwrap();
    let invalid = json!({"error": "Invalid token"});
    for wrong in [
        "st_".to_owned(),
        "st_.".to_owned(),
        id.to_owned(),
        format!("{id}."),
        format!("{id}.{secret}x"),
        format!("{id}.{}", secret.to_lowercase()),
        format!("{id}.{raw}"),
        format!("st_0000000000000001.{secret}"),
        format!("st_+1.{secret}"),
        format!("st_zz.{secret}"),
        format!("st_{}", &KEY[3..]),
        format!("st_{}", "9".repeat(2_000)),
    ] {
        let caller = bearer(&server, &wrong);
        for path in ["/api/v1/projects", "/api/v1/stats", TOKENS] {
            caller.get(path).await.is(401, &invalid);
        }
        // A session beside it does not make it good.
        let both = owner.with("authorization", &format!("Bearer {wrong}"));
        both.get("/api/v1/projects").await.is(401, &invalid);
    }
    // What is no service token at all is no credential here, as ever.
    for other in [KEY, secret, "", &format!("ST_{}", &raw[3..])] {
        bearer(&server, other).get("/api/v1/projects").await.is(401, &unauthorized());
    }
    let blocked = owner.get("/api/v1/audit-events?event=perimeter_block").await.ok(200);
    let counted = blocked[0]["metadata"]["count"].as_u64().unwrap();
    assert!(counted >= 36, "{blocked}");
    assert!(!blocked.to_string().contains(secret));
    // Pages of other sites can send no token: nothing of theirs is refused for its origin.
    let elsewhere =
        good.with("origin", "https://evil.example").with("sec-fetch-site", "cross-site");
    elsewhere.patch("/api/v1/projects/1", &json!({"project": {"name": "n"}})).await.ok(200);
    // A proxy in front may have a credential of its own.
    let basic = owner.with("authorization", "Basic b3duZXI6cGFzcw==");
    basic.get("/api/v1/projects").await.ok(200);
}

async fn a_token_ends_when_it_is_revoked_or_its_maker_is_no_admin(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let invalid = json!({"error": "Invalid token"});
    let (first, made) = token(&server, &admin, "viewer", json!([1])).await;
    first.get("/api/v1/projects").await.ok(200);
    let path = format!("{TOKENS}/{}", made["id"].as_str().unwrap());
    owner.delete(&path).await.ok(204);
    first.get("/api/v1/projects").await.is(401, &invalid);
    owner.delete(&path).await.ok(404);
    owner.delete(&format!("{TOKENS}/none")).await.ok(404);
    assert_eq!(owner.get(TOKENS).await.ok(200), json!([]));
    let revoked = owner.get("/api/v1/audit-events?event=service_token_revoked").await.ok(200);
    assert_eq!(
        (&revoked[0]["actor"], &revoked[0]["target_id"], &revoked[0]["metadata"]),
        (&json!(OWNER), &made["id"], &json!({"name": "a viewer"}))
    );

    // Signing out ends none.
    let leaving = server.session("admin@example.org", USER_PASSWORD).await;
    let (left, _) = token(&server, &leaving, "viewer", json!([1])).await;
    leaving.delete("/api/v1/session").await;
    left.get("/api/v1/projects").await.ok(200);

    // As owner and as admin they may give it; as a member they may not.
    let (second, made) = token(&server, &admin, "admin", json!([])).await;
    let (owners, _) = token(&server, &owner, "viewer", json!([])).await;
    for (role, status) in [("owner", 200), ("admin", 200), ("member", 401)] {
        owner.patch("/api/v1/users/2", &json!({"role": role})).await.ok(200);
        second.get("/api/v1/projects").await.ok(status);
    }
    let changed = owner.get("/api/v1/audit-events?event=member_role_changed").await.ok(200);
    let revoked = changed[0]["metadata"]["service_tokens_revoked"].as_array().unwrap();
    assert!(revoked.len() == 2 && revoked.contains(&made["id"]), "{revoked:?}");
    owner.patch("/api/v1/users/2", &json!({"role": "admin"})).await.ok(200);
    second.get("/api/v1/projects").await.is(401, &invalid);
    let (third, _) = token(&server, &admin, "viewer", json!([])).await;
    owner.delete("/api/v1/users/2").await.ok(204);
    third.get("/api/v1/projects").await.is(401, &invalid);
    owners.get("/api/v1/projects").await.ok(200);
}

async fn tokens_are_made_by_admins_within_bounds(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let member = user(&server, "member", &["1"]).await;
    let good = json!({"password": USER_PASSWORD, "name": "t", "role": "viewer", "projects": [1]});
    member.post(TOKENS, &good).await.is(403, &json!({"error": "Forbidden"}));
    member.get(TOKENS).await.is(403, &json!({"error": "Forbidden"}));
    server.any.post(TOKENS, &good).await.is(401, &unauthorized());
    owner.with("origin", "https://evil.example").post(TOKENS, &good).await.ok(403);
    let with = |field: &str, value: Value| {
        let mut new = good.clone();
        new[field] = value;
        new
    };
    let mut twice = with("expires_in", json!(60));
    twice["expires_at"] = json!("2099-01-01T00:00:00Z");
    for (new, status, error) in [
        (with("role", json!("owner")), 422, "must be one of admin, member, viewer"),
        (with("role", json!("king")), 422, "must be one of admin, member, viewer"),
        (with("name", json!(" ")), 422, "Name can't be blank"),
        (with("projects", json!([9])), 422, "There is no project 9"),
        (with("projects", json!((0..101).collect::<Vec<_>>())), 422, "100 projects at most"),
        (with("expires_at", json!("2020-01-01T00:00:00Z")), 422, "expires_at must be"),
        (with("expires_at", json!("tomorrow")), 422, "expires_at must be"),
        (with("expires_in", json!(59)), 422, "expires_in must be"),
        // One that lasts is made on the machine.
        (with("expires_at", Value::Null), 422, "ends within 366 days"),
        (with("expires_at", json!("2099-01-01T00:00:00Z")), 422, "ends within 366 days"),
        (with("expires_in", json!(367 * 24 * 3600)), 422, "ends within 366 days"),
        // It outlives the session: whoever holds that alone makes none.
        (with("password", json!("wrong-password")), 422, "The password is wrong"),
        (with("password", json!("")), 422, "The password is wrong"),
        (with("password", Value::Null), 400, "expected a string"),
        (twice, 422, "expires_at or expires_in"),
        (with("owner", json!(true)), 400, "unknown field"),
    ] {
        admin.post(TOKENS, &new).await.says(status, error);
    }
    let made = admin.post(TOKENS, &good).await.ok(201);
    assert!(made["expires_at"].is_string(), "90 days unless it is said otherwise: {made}");
    admin.post(TOKENS, &with("expires_in", json!(366 * 24 * 3600))).await.ok(201);
    admin.post(TOKENS, &with("expires_in", json!(3600))).await.ok(201);
    let failed = owner.get("/api/v1/audit-events?event=login_failed").await.ok(200);
    assert_eq!(failed.as_array().unwrap().len(), 2, "wrong passwords, as at every other place");
    // Neither the list, nor the audit, nor the database knows the secret.
    let secret = made["token"].as_str().unwrap().split_once('.').unwrap().1.to_owned();
    let listed = owner.get(TOKENS).await;
    assert_eq!(listed.ok(200).as_array().unwrap().len(), 3);
    assert!(!listed.text.contains(&secret) && !listed.text.contains("\"token\""));
    let events = owner.get("/api/v1/audit-events?event=service_token_created").await;
    assert!(!events.text.contains(&secret));
    let created = &events.ok(200)[2];
    assert_eq!(
        (&created["actor"], &created["target_id"]),
        (&json!("admin@example.org"), &made["id"])
    );
    assert_eq!(created["metadata"]["changes"]["role"]["new"], "viewer");
    let stored = server.stored();
    assert!(!stored.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()));
}

async fn a_token_makes_keys_that_are_nobodys(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let (member, _) = token(&server, &owner, "member", json!([1])).await;
    let new = json!({"name": "k", "project_id": 1});
    let made = member.post("/api/v1/keys", &new).await.ok(201);
    assert_eq!(made["owner_id"], Value::Null);
    // A key of nobody's is not the own one of every token.
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    member.post(&format!("{path}/rotate"), &json!({})).await.ok(403);
    member.delete(&path).await.ok(204);
    // The bounds of a project are those of each person, and a token is none.
    let rules = json!({"project": {"settings": {"self_service": {"max_keys": 1}}}});
    owner.patch("/api/v1/projects/1", &rules).await.ok(200);
    member.post("/api/v1/keys", &new).await.says(422, "self_service");
    let (admin, _) = token(&server, &owner, "admin", json!([])).await;
    admin.post("/api/v1/keys", &new).await.ok(201);
}

async fn the_command_line_makes_a_token(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let made = server.cli(&["token", "create", "--role", "member", "--project", "1"], &[]).await;
    assert!(made.status.success(), "{made:?}");
    let raw = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    bearer(&server, &raw).get("/api/v1/projects/1").await.ok(200);
    // The operator alone makes one that lasts.
    let lasting = server.cli(&["token", "create", "--expires-at", "never"], &[]).await;
    assert!(lasting.status.success(), "{lasting:?}");
    assert_eq!(owner.get(TOKENS).await.ok(200)[0]["expires_at"], Value::Null);
    let listed = owner.get(TOKENS).await.ok(200);
    assert_eq!((&listed[1]["created_by"], &listed[1]["role"]), (&Value::Null, &json!("member")));
    for wrong in [&["--role", "owner"][..], &["--project", "9"], &["--expires-at", "soon"]] {
        let args = [&["token", "create"], wrong].concat();
        let refused = server.cli(&args, &[]).await;
        assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    }
    let events = owner.get("/api/v1/audit-events?event=service_token_created").await.ok(200);
    assert_eq!((&events[0]["actor"], events.as_array().unwrap().len()), (&json!("cli"), 2));
}
