//! From the invitation to the account.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, OWNER, Server, Setup};
use crate::session::roles::user;

crate::on_every_backend!(
    an_invitation_becomes_an_account_once,
    an_invitation_ends_when_another_is_made_or_it_is_withdrawn,
    what_is_no_invitation_is_refused,
    links_end_with_the_role_of_whoever_made_them,
    a_link_has_the_public_address
);

const INVITATIONS: &str = "/api/v1/invitations";
const ACCEPT: &str = "/api/v1/invitations/accept";
const GONE: &str = "The link is invalid, has expired or was used already: ask for a new one";

/// Invites somebody; the token of the link.
async fn invite(by: &Caller, email: &str, role: &str, projects: Value) -> (String, Value) {
    let new = json!({"email": email, "role": role, "projects": projects});
    let made = by.post(INVITATIONS, &new).await.ok(200);
    let link = made["link"].as_str().unwrap();
    (link.split_once("?token=").unwrap().1.to_owned(), made)
}

fn acceptance(token: &str) -> Value {
    json!({"token": token, "name": " Ada Lovelace ", "password": "a-long-password-1"})
}

async fn an_invitation_becomes_an_account_once(backend: Backend) {
    let server = Server::start(&backend).await;
    let admin = user(&server, "admin", &[]).await;
    let (token, made) = invite(&admin, " Ada@Example.org ", "member", json!([1])).await;
    assert_eq!(made["email"], "ada@example.org");
    assert_eq!((&made["role"], &made["projects"]), (&json!("member"), &json!([1])));
    assert_eq!(made["link"], format!("/invitation?token={token}"));
    let listed = admin.get(INVITATIONS).await.ok(200);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!((&listed[0]["id"], &listed[0]["link"]), (&made["id"], &Value::Null));

    // A password that is refused does not use it up.
    let mut weak = acceptance(&token);
    weak["password"] = "short".into();
    server.any.post(ACCEPT, &weak).await.says(422, "Password must have 8 to 1024 characters");
    let accepted = server.any.post(ACCEPT, &acceptance(&token)).await;
    let who = accepted.ok(200);
    assert_eq!(who["user"]["email"], "ada@example.org");
    assert_eq!(
        (&who["user"]["name"], &who["user"]["role"]),
        (&json!("Ada Lovelace"), &json!("member"))
    );
    let cookie = accepted.header("set-cookie").split(';').next().unwrap().to_owned();
    let ada = server.any.with("cookie", &cookie);
    ada.get("/api/v1/projects/1").await.ok(200);
    assert_eq!(ada.get("/api/v1/session").await.ok(200), who);
    server.login("ada@example.org", "a-long-password-1").await.ok(200);
    server.any.post(ACCEPT, &acceptance(&token)).await.invalid(GONE);
    assert_eq!(admin.get(INVITATIONS).await.ok(200), json!([]));
    let again = json!({"email": "ada@example.org", "role": "viewer"});
    admin.post(INVITATIONS, &again).await.invalid("ada@example.org has an account already");

    let events = admin.get("/api/v1/audit-events").await.ok(200);
    let event = |kind: &str| {
        let found = events.as_array().unwrap().iter().find(|event| event["event"] == kind);
        found.unwrap_or_else(|| panic!("{kind}: {events}")).clone()
    };
    let invited = event("member_invited");
    assert_eq!(invited["actor"], "admin@example.org");
    let metadata = json!({"email": "ada@example.org", "role": "member", "projects": [1]});
    assert_eq!(invited["metadata"], metadata);
    assert_eq!(event("member_joined")["actor"], "ada@example.org");
    let entered =
        events.as_array().unwrap().iter().filter(|event| event["event"] == "login_success");
    let of_ada = entered.filter(|event| event["actor"] == "ada@example.org");
    assert_eq!(of_ada.count(), 2, "the acceptance is one: {events}");
    assert_eq!(event("login_failed")["metadata"], json!({"link": "invitation"}));
    let secret = token.split_once('.').unwrap().0;
    assert!(!events.to_string().contains(secret));
    let stored = server.stored();
    assert!(!stored.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()));
}

async fn an_invitation_ends_when_another_is_made_or_it_is_withdrawn(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let (first, _) = invite(&owner, "ada@example.org", "member", json!([])).await;
    let (second, made) = invite(&owner, "ada@example.org", "owner", json!([])).await;
    let (other, _) = invite(&owner, "bob@example.org", "viewer", json!([1])).await;
    server.any.post(ACCEPT, &acceptance(&first)).await.invalid(GONE);
    let path = format!("{INVITATIONS}/{}", made["id"].as_str().unwrap());
    owner.delete(&path).await.ok(204);
    owner.delete(&path).await.ok(404);
    owner.delete(&format!("{INVITATIONS}/x")).await.ok(404);
    server.any.post(ACCEPT, &acceptance(&second)).await.invalid(GONE);
    // The project is gone by the time that the invitation is accepted.
    owner.delete("/api/v1/projects/1").await.ok(204);
    let joined = server.any.post(ACCEPT, &acceptance(&other)).await.ok(200);
    assert_eq!(joined["user"]["role"], "viewer");
    let withdrawn = owner.get("/api/v1/audit-events?event=invitation_withdrawn").await.ok(200);
    assert_eq!(withdrawn[0]["metadata"]["email"], "ada@example.org");
}

async fn links_end_with_the_role_of_whoever_made_them(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    owner.patch("/api/v1/users/2", &json!({"role": "owner"})).await.ok(200);
    let (first, _) = invite(&admin, "first@example.org", "owner", json!([])).await;
    let reset = admin.post("/api/v1/users/1/password-link", &json!({})).await.ok(200);
    let reset = reset["link"].as_str().unwrap().split_once("?token=").unwrap().1.to_owned();
    owner.patch("/api/v1/users/2", &json!({"role": "admin"})).await.ok(200);
    server.any.post(ACCEPT, &acceptance(&first)).await.invalid(GONE);
    let set = json!({"token": reset, "password": "a-long-password-1"});
    server.any.post("/api/v1/password-resets/use", &set).await.invalid(GONE);
    let (second, _) = invite(&admin, "second@example.org", "admin", json!([])).await;
    owner.delete("/api/v1/users/2").await.ok(204);
    server.any.post(ACCEPT, &acceptance(&second)).await.invalid(GONE);
    server.owner().await;
}

async fn what_is_no_invitation_is_refused(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let member = user(&server, "member", &["1"]).await;
    let new = |role: &str| json!({"email": "ada@example.org", "role": role, "projects": []});
    member.post(INVITATIONS, &new("viewer")).await.is(403, &json!({"error": "Forbidden"}));
    member.get(INVITATIONS).await.is(403, &json!({"error": "Forbidden"}));
    admin.post(INVITATIONS, &new("owner")).await.is(403, &json!({"error": "Forbidden"}));
    let elsewhere = owner.with("origin", "https://evil.example");
    elsewhere.post(INVITATIONS, &new("viewer")).await.ok(403);
    for (new, status, error) in [
        (new("king"), 422, "role must be one of owner, admin, member, viewer"),
        (json!({"email": "ada", "role": "viewer"}), 422, "Email is not an e-mail address"),
        (json!({"email": "a@b\r\nBcc: c@d", "role": "viewer"}), 422, "Email is not"),
        (json!({"email": OWNER, "role": "viewer"}), 422, "has an account already"),
        (
            json!({"email": "a@b.c", "role": "viewer", "projects": [9]}),
            422,
            "There is no project 9",
        ),
        (json!({"role": "viewer"}), 400, "Missing required parameter: email"),
    ] {
        owner.post(INVITATIONS, &new).await.says(status, error);
    }
    let (token, _) = invite(&owner, "ada@example.org", "viewer", json!([])).await;
    // An admin ends and changes nothing that only an owner grants.
    let of_owner = json!({"email": "boss@example.org", "role": "owner"});
    let made = owner.post(INVITATIONS, &of_owner).await.ok(200);
    let again = json!({"email": "boss@example.org", "role": "viewer"});
    admin.post(INVITATIONS, &again).await.is(403, &json!({"error": "Forbidden"}));
    let withdraw = format!("{INVITATIONS}/{}", made["id"].as_str().unwrap());
    admin.delete(&withdraw).await.is(403, &json!({"error": "Forbidden"}));
    // A page of another site cannot have somebody accept it, and the link serves no other purpose.
    let elsewhere = server.any.with("origin", "https://evil.example");
    elsewhere.post(ACCEPT, &acceptance(&token)).await.ok(403);
    let reset = json!({"token": token, "password": "a-long-password-1"});
    server.any.post("/api/v1/password-resets/use", &reset).await.invalid(GONE);
    let nameless = json!({"token": token, "name": " ", "password": "a-long-password-1"});
    server.any.post(ACCEPT, &nameless).await.invalid("Name can't be blank");
    // Tokens that were made up, until the address has to wait: signing in goes on.
    let (random, signature) = token.split_once('.').unwrap();
    for made_up in [
        String::new(),
        "x".repeat(3_000),
        format!("{random}.{}", "A".repeat(signature.len())),
        format!("{}.{signature}", "A".repeat(random.len())),
        format!("{random}\0.{signature}"),
    ] {
        server.any.post(ACCEPT, &acceptance(&made_up)).await.invalid(GONE);
    }
    let waits = server.any.post(ACCEPT, &acceptance(&token)).await;
    assert_eq!(waits.status, 429, "{}", waits.text);
    assert!(waits.header("retry-after").parse::<u64>().unwrap() > 0);
    server.owner().await;
}

async fn a_link_has_the_public_address(backend: Backend) {
    let setup = Setup::new(&backend).env("SLUICE_PUBLIC_URL", "http://sluice.example:8080/");
    let server = setup.start().await;
    let (token, made) = invite(&server.owner().await, "a@b.c", "viewer", json!([])).await;
    assert_eq!(made["link"], format!("http://sluice.example:8080/invitation?token={token}"));
}
