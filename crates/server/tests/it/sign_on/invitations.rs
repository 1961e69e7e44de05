//! Invitations of people who come by a provider.

use serde_json::{Value, json};

use super::issuer::Issuer;
use super::{PROVIDERS, events, linked, person, refused, sign_on, signed_on, with_provider};
use crate::harness::{Backend, Caller, OWNER, PASSWORD, Server};
use crate::session::roles::user;

crate::on_every_backend!(
    an_invitation_gives_what_no_rule_gives,
    a_rule_goes_before_an_invitation_and_that_before_the_default,
    without_passwords_an_invitation_leads_to_the_provider,
    a_provider_stays_that_alone_lets_the_invited_in,
    an_invitation_that_nobody_could_accept_is_refused
);

const ANN: &str = "ann@example.org";

async fn invite(caller: &Caller, role: &str, projects: &[i64]) -> Value {
    let invited = json!({"email": ANN, "role": role, "projects": projects});
    caller.post("/api/v1/invitations", &invited).await.ok(200)
}

/// Ann in the list of users.
async fn ann_of(owner: &Caller) -> Value {
    let people = owner.get("/api/v1/users").await.ok(200);
    people.as_array().unwrap().iter().find(|person| person["email"] == ANN).unwrap().clone()
}

async fn an_invitation_gives_what_no_rule_gives(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let owner = server.owner().await;
    let invited = invite(&owner, "member", &[1]).await;
    let mut claims = person("user-1", ANN, &["nobody-knows"]);
    // Anybody could claim an address that the provider has not verified.
    claims["email_verified"] = json!(false);
    issuer.says(&claims);
    refused(&server, &sign_on(&server, &issuer).await, "no_rule", "no_rule").await;
    assert_eq!(owner.get("/api/v1/invitations").await.ok(200)[0]["id"], invited["id"]);
    issuer.says(&person("user-1", ANN, &["nobody-knows"]));
    signed_on(&server, &issuer).await;
    let ann = ann_of(&owner).await;
    assert_eq!((&ann["role"], &ann["projects"]), (&json!("member"), &json!([1])));
    owner.get("/api/v1/invitations").await.is(200, &json!([]));
    let [joined] = &events(&server, "member_joined").await[..] else { panic!("one user") };
    let noted = json!({"role": "member", "provider": "stub", "invitation": invited["id"]});
    assert_eq!(joined["metadata"], noted);
    // Admins manage the account from then on: the rules leave it as it is.
    let change = json!({"role": "viewer"});
    owner.patch(&format!("/api/v1/users/{}", ann["id"]), &change).await.ok(200);
    for groups in [&[][..], &["ops"]] {
        issuer.says(&person("user-1", ANN, groups));
        let who = signed_on(&server, &issuer).await.get("/api/v1/session").await.ok(200);
        assert_eq!(who["user"]["role"], "viewer", "{groups:?}");
    }
}

async fn a_rule_goes_before_an_invitation_and_that_before_the_default(backend: Backend) {
    for (groups, role) in [(&["eng"][..], "member"), (&[], "admin")] {
        let (server, issuer, _) = with_provider(&backend).await;
        let owner = server.owner().await;
        let default = json!({"settings": {"security": {"default_role": "viewer"}}});
        owner.patch("/api/v1/organization", &default).await.ok(200);
        invite(&owner, "admin", &[]).await;
        issuer.says(&person("user-1", ANN, groups));
        signed_on(&server, &issuer).await;
        assert_eq!(ann_of(&owner).await["role"], role, "{groups:?}");
        owner.get("/api/v1/invitations").await.is(200, &json!([]));
    }
}

/// Disables passwords; the owner comes by the provider from then on.
async fn without_passwords(server: &Server, issuer: &Issuer) -> Caller {
    let owner = linked(server, issuer, "boss", (OWNER, PASSWORD)).await;
    let disabled = json!({"settings": {"security": {"disable_password_login": true}}});
    owner.patch("/api/v1/organization", &disabled).await.ok(200);
    owner
}

async fn without_passwords_an_invitation_leads_to_the_provider(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    user(&server, "member", &[]).await;
    let owner = without_passwords(&server, &issuer).await;
    let invited = invite(&owner, "member", &[1]).await;
    let link = invited["link"].as_str().unwrap();
    let page = server.any.get(link.strip_prefix(&server.any.base).unwrap()).await;
    assert_eq!(page.status, 200, "{}", page.text);
    let button = r#"href="/api/v1/sign-on/stub?next=%2F">Sign in with Stub</a>"#;
    for part in [ANN, "There are no passwords here", button] {
        assert!(page.text.contains(part), "no {part} in {}", page.text);
    }
    assert!(!page.text.contains(r#"type="password""#), "{}", page.text);
    issuer.says(&person("user-1", ANN, &[]));
    signed_on(&server, &issuer).await.get("/api/v1/projects").await.ok(200);
    let ann = ann_of(&owner).await;
    assert_eq!((&ann["role"], &ann["projects"]), (&json!("member"), &json!([1])));
    // No link to a password is handed out that would let nobody in.
    let link = owner.post("/api/v1/users/2/password-link", &json!({})).await;
    link.says(422, "Passwords are disabled");
    let page = owner.get("/people").await;
    assert!(page.text.contains(ANN) && !page.text.contains("/password-link"), "{}", page.text);
}

async fn a_provider_stays_that_alone_lets_the_invited_in(backend: Backend) {
    let (server, issuer, provider) = with_provider(&backend).await;
    let (owner, owners) = (server.owner().await, Issuer::start().await);
    invite(&owner, "member", &[]).await;
    issuer.says(&person("user-1", ANN, &[]));
    signed_on(&server, &issuer).await;
    // The owner gets in by a provider of their own, which has the first one's name.
    let one = format!("{PROVIDERS}/{}", provider["id"]);
    owner.patch(&one, &json!({"slug": "before"})).await.ok(200);
    owner.post(PROVIDERS, &super::fields(&owners)).await.ok(200);
    let owner = without_passwords(&server, &owners).await;
    owner.delete(&one).await.says(422, "1 user comes by this issuer alone");
}

async fn an_invitation_that_nobody_could_accept_is_refused(backend: Backend) {
    let (mut server, issuer, _) = with_provider(&backend).await;
    let owner = without_passwords(&server, &issuer).await;
    server.stop().await;
    // An issuer would not know where to lead back to.
    let mut server = server.with_env("SLUICE_PUBLIC_URL", "");
    server.up().await;
    let invited = json!({"email": ANN, "role": "member"});
    owner.post("/api/v1/invitations", &invited).await.says(422, "Nobody could accept it");
    owner.get("/api/v1/invitations").await.is(200, &json!([]));
}
