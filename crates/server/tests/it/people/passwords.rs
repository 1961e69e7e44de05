//! Passwords that are replaced.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, OWNER, PASSWORD, Server};
use crate::session::roles::{USER_PASSWORD, user};
use crate::session::second_factor::enrol;

crate::on_every_backend!(
    a_user_replaces_their_password,
    a_link_sets_a_new_password_once,
    a_link_to_a_password_opens_no_way_past_the_second_factor
);

const OWN: &str = "/api/v1/session/password";
const USE: &str = "/api/v1/password-resets/use";
const GONE: &str = "The link is invalid, has expired or was used already: ask for a new one";
const NEW: &str = "another-password-2";

async fn link(owner: &Caller, user: i64) -> String {
    let path = format!("/api/v1/users/{user}/password-link");
    let made = owner.post(&path, &json!({})).await.ok(200);
    let link = made["link"].as_str().unwrap();
    link.strip_prefix("/new-password?token=").unwrap().to_owned()
}

fn with(token: &str, password: &str) -> Value {
    json!({"token": token, "password": password})
}

async fn a_user_replaces_their_password(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let member = user(&server, "member", &[]).await;
    let other = server.session("member@example.org", USER_PASSWORD).await;
    let outstanding = link(&owner, 2).await;
    let change = |old: &str, new: &str| json!({"old_password": old, "new_password": new});
    member.post(OWN, &change("wrong", NEW)).await.invalid("The password is wrong");
    // A new password that is refused is no failure to sign in.
    for _ in 0..7 {
        member.post(OWN, &change(USER_PASSWORD, "short")).await.says(422, "Password must have");
    }
    let elsewhere = member.with("origin", "https://evil.example");
    elsewhere.post(OWN, &change(USER_PASSWORD, NEW)).await.ok(403);
    member.post(OWN, &change(USER_PASSWORD, NEW)).await.ok(204);
    member.get("/api/v1/session").await.ok(200);
    other.get("/api/v1/session").await.ok(401);
    server.any.post(USE, &with(&outstanding, "a-third-password")).await.invalid(GONE);
    server.login("member@example.org", USER_PASSWORD).await.ok(401);
    server.login("member@example.org", NEW).await.ok(200);
    let changed = owner.get("/api/v1/audit-events?event=password_changed").await.ok(200);
    assert_eq!(changed[0]["actor"], "member@example.org");
    assert!(!server.stored().windows(NEW.len()).any(|bytes| bytes == NEW.as_bytes()));
    // Guesses from a session count like failed sign-ins.
    let last = async || member.post(OWN, &change("wrong", NEW)).await.status;
    let mut statuses = Vec::new();
    for _ in 0..7 {
        statuses.push(last().await);
    }
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
}

async fn a_link_sets_a_new_password_once(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let path = "/api/v1/users/2/password-link";
    admin.post(path, &json!({})).await.is(403, &json!({"error": "Forbidden"}));
    owner.post("/api/v1/users/99/password-link", &json!({})).await.ok(404);
    let own = "Your own password is changed with POST /api/v1/session/password";
    owner.post("/api/v1/users/1/password-link", &json!({})).await.invalid(own);
    let first = link(&owner, 2).await;
    let token = link(&owner, 2).await;
    server.any.post(USE, &with(&first, NEW)).await.invalid(GONE);
    server.any.post(USE, &with(&token, "short")).await.says(422, "Password must have");
    let accept = json!({"token": token, "name": "x", "password": NEW});
    server.any.post("/api/v1/invitations/accept", &accept).await.invalid(GONE);
    let elsewhere = server.any.with("origin", "https://evil.example");
    elsewhere.post(USE, &with(&token, NEW)).await.ok(403);
    let reset = server.any.post(USE, &with(&token, NEW)).await;
    reset.ok(204);
    assert!(reset.headers.get("set-cookie").is_none(), "it signs nobody in");
    admin.get("/api/v1/session").await.ok(401);
    server.login("admin@example.org", USER_PASSWORD).await.ok(401);
    server.login("admin@example.org", NEW).await.ok(200);
    server.any.post(USE, &with(&token, "a-third-password")).await.invalid(GONE);
    let events = owner.get("/api/v1/audit-events?event=password_reset").await.ok(200);
    assert_eq!(events[0]["metadata"], json!({"email": "admin@example.org"}));
    // A password that the command line sets ends links that were made before.
    let outstanding = link(&owner, 2).await;
    let args = ["user", "reset-password", "admin@example.org"];
    let done = server.cli(&args, &[("SLUICE_USER_PASSWORD", USER_PASSWORD)]).await;
    assert!(done.status.success(), "{done:?}");
    server.any.post(USE, &with(&outstanding, NEW)).await.invalid(GONE);
}

async fn a_link_to_a_password_opens_no_way_past_the_second_factor(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    enrol(admin, USER_PASSWORD).await;
    let token = link(&owner, 2).await;
    server.any.post(USE, &with(&token, NEW)).await.ok(204);
    server.login("admin@example.org", NEW).await.is(200, &json!({"mfa_required": true}));
    server.login(OWNER, PASSWORD).await.ok(200);
}
