//! Roles and projects of people, and their removal.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, OWNER, PASSWORD, Server};
use crate::session::roles::{USER_PASSWORD, user};

crate::on_every_backend!(
    people_are_listed_for_admins,
    a_role_counts_from_the_next_request_on,
    the_last_owner_stays,
    nobody_grants_or_changes_what_stands_above_them,
    a_removed_user_is_forgotten_and_their_keys_go_on
);

const USERS: &str = "/api/v1/users";

fn forbidden() -> Value {
    json!({"error": "Forbidden"})
}

/// The path of a user, by address.
async fn path_of(admin: &Caller, email: &str) -> String {
    let people = admin.get(USERS).await.ok(200);
    let person = people.as_array().unwrap().iter().find(|person| person["email"] == email);
    format!("{USERS}/{}", person.unwrap()["id"])
}

async fn people_are_listed_for_admins(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let member = user(&server, "member", &["1"]).await;
    for someone in [&member, &user(&server, "viewer", &["1"]).await] {
        someone.get(USERS).await.is(403, &forbidden());
        someone.patch("/api/v1/users/1", &json!({"role": "viewer"})).await.is(403, &forbidden());
        someone.delete("/api/v1/users/1").await.is(403, &forbidden());
    }
    let people = admin.get(USERS).await.ok(200);
    assert_eq!(people, owner.get(USERS).await.ok(200));
    let rows: Vec<(&str, &str)> = people
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["email"].as_str().unwrap(), row["role"].as_str().unwrap()))
        .collect();
    assert_eq!(
        rows,
        [
            (OWNER, "owner"),
            ("admin@example.org", "admin"),
            ("member@example.org", "member"),
            ("viewer@example.org", "viewer")
        ]
    );
    let row = &people[2];
    assert_eq!((&row["projects"], &row["mfa_enabled"]), (&json!([1]), &json!(false)));
    assert_eq!(row["email_verified"], false);
    assert!(row["last_seen_at"].is_string());
    assert!(!people.to_string().contains("argon2"));
}

async fn a_role_counts_from_the_next_request_on(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let member = user(&server, "member", &[]).await;
    let path = path_of(&owner, "member@example.org").await;
    member.get("/api/v1/projects/1").await.ok(404);
    let changed = owner.patch(&path, &json!({"projects": [1, 1]})).await.ok(200);
    assert_eq!(changed["projects"], json!([1]));
    member.get("/api/v1/projects/1").await.ok(200);
    owner.patch(&path, &json!({"projects": []})).await.ok(200);
    member.get("/api/v1/projects/1").await.ok(404);
    assert_eq!(owner.patch(&path, &json!({"role": "admin"})).await.ok(200)["role"], "admin");
    member.get(USERS).await.ok(200);
    member.get("/api/v1/projects/1").await.ok(200);
    owner.patch(&path, &json!({"role": "viewer"})).await.ok(200);
    member.get(USERS).await.is(403, &forbidden());
    // A change to what is there already is no event.
    owner.patch(&path, &json!({"role": "viewer", "projects": []})).await.ok(200);
    let events = owner.get("/api/v1/audit-events").await.ok(200);
    let of = |kind: &str| {
        let events = events.as_array().unwrap().iter().filter(|event| event["event"] == kind);
        events.cloned().collect::<Vec<Value>>()
    };
    let roles = of("member_role_changed");
    assert_eq!((roles.len(), of("member_projects_changed").len()), (2, 2));
    assert_eq!(roles[1]["actor"], OWNER);
    let changed = json!({"email": "member@example.org", "role": {"old": "member", "new": "admin"}});
    assert_eq!(roles[1]["metadata"], changed);
    for (change, status, error) in [
        (json!({"role": "king"}), 422, "role must be one of owner, admin, member, viewer"),
        (json!({"role": null}), 422, "role must be one of"),
        (json!({"roles": "admin"}), 400, "unknown field `roles`"),
        (json!({"projects": [999]}), 422, "There is no project 999"),
        (json!({"projects": "1"}), 400, "expected an array"),
    ] {
        owner.patch(&path, &change).await.says(status, error);
    }
    owner.patch("/api/v1/users/999", &json!({"role": "viewer"})).await.ok(404);
    owner.patch("/api/v1/users/x", &json!({"role": "viewer"})).await.ok(404);
}

async fn the_last_owner_stays(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let first = path_of(&owner, OWNER).await;
    let demoted = "The last owner cannot be demoted: make somebody else an owner first";
    let removed = "The last owner cannot be removed: make somebody else an owner first";
    owner.patch(&first, &json!({"role": "admin"})).await.invalid(demoted);
    owner.delete(&first).await.invalid(removed);
    let other = user(&server, "admin", &[]).await;
    let second = path_of(&owner, "admin@example.org").await;
    owner.patch(&second, &json!({"role": "owner"})).await.ok(200);
    // Two owners who demote each other at once: one of them stays.
    for _ in 0..4 {
        let role = json!({"role": "admin"});
        let (one, two) = tokio::join!(owner.patch(&second, &role), other.patch(&first, &role));
        let statuses = [one.status, two.status];
        assert!(statuses.contains(&200), "{statuses:?}");
        assert!(statuses.iter().any(|status| [403, 422].contains(status)), "{statuses:?}");
        let people = owner.get(USERS).await.ok(200);
        let owners: Vec<&Value> =
            people.as_array().unwrap().iter().filter(|person| person["role"] == "owner").collect();
        assert_eq!(owners.len(), 1, "{people}");
        let (left, lost) =
            if owners[0]["email"] == OWNER { (&owner, &second) } else { (&other, &first) };
        left.patch(lost, &json!({"role": "owner"})).await.ok(200);
    }
    other.delete(&first).await.ok(204);
    other.delete(&second).await.invalid(removed);
}

async fn nobody_grants_or_changes_what_stands_above_them(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    user(&server, "member", &[]).await;
    let [first, own, member] = [
        path_of(&owner, OWNER).await,
        path_of(&owner, "admin@example.org").await,
        path_of(&owner, "member@example.org").await,
    ];
    for path in [&own, &member] {
        admin.patch(path, &json!({"role": "owner"})).await.is(403, &forbidden());
    }
    admin.patch(&first, &json!({"role": "viewer"})).await.is(403, &forbidden());
    admin.patch(&first, &json!({"projects": []})).await.is(403, &forbidden());
    admin.delete(&first).await.is(403, &forbidden());
    admin.patch(&member, &json!({"role": "admin"})).await.ok(200);
    admin.delete(&member).await.ok(204);
    let elsewhere = owner.with("origin", "https://evil.example");
    elsewhere.patch(&own, &json!({"role": "viewer"})).await.ok(403);
    elsewhere.delete(&own).await.ok(403);
    server.key().get(USERS).await.ok(401);
}

async fn a_removed_user_is_forgotten_and_their_keys_go_on(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let member = user(&server, "member", &["1"]).await;
    let made = member.post("/api/v1/keys", &json!({"name": "k", "project_id": 1})).await.ok(201);
    let path = path_of(&owner, "member@example.org").await;
    owner.delete(&path).await.ok(204);
    member.get("/api/v1/projects").await.ok(401);
    server.login("member@example.org", USER_PASSWORD).await.ok(401);
    server.login("removed 2", USER_PASSWORD).await.ok(401);
    owner.delete(&path).await.ok(404);
    server.with_key(made["raw_key"].as_str().unwrap()).trace().await;
    assert_eq!(owner.get(USERS).await.ok(200).as_array().unwrap().len(), 1);
    let events = owner.get("/api/v1/audit-events?event=member_removed").await.ok(200);
    assert_eq!(events[0]["metadata"], json!({"email": "member@example.org", "role": "member"}));
    // The address is free again, for another user.
    user(&server, "member", &[]).await;
    assert_ne!(path_of(&owner, "member@example.org").await, path);
    server.login(OWNER, PASSWORD).await.ok(200);
}
