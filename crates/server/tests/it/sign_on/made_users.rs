//! Users whom a sign-on has made: they stay so, whatever becomes of the identity that they came by.

use serde_json::{Value, json};

use super::issuer::{Issuer, SECRET};
use super::{PROVIDERS, linked, person, refused, sign_on, signed_on, with_provider};
use crate::harness::{Backend, Caller, Device, OWNER, PASSWORD, Server};
use crate::keys::authentication::unauthorized;
use crate::session::passkeys;

crate::on_every_backend!(
    linked_anew_they_follow_the_rules,
    without_passwords_no_passkey_alone_signs_them_in,
    once_removed_no_rule_lets_them_in,
    a_provider_stays_that_alone_lets_them_in,
    an_invitation_is_used_up_by_a_sign_on
);

const ANN: (&str, &str) = ("ann@example.org", "a-password-1");

/// The ways in which the identity of a user is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    /// They unlink it themselves.
    Unlinked,
    /// An owner ends every way in.
    Reset,
    /// The provider is removed, and another one takes its place.
    ProviderRemoved,
    /// The provider is at another issuer.
    IssuerChanged,
}

/// Ann, whom a rule has made with the groups; she has a password.
async fn made(server: &Server, issuer: &Issuer, groups: &[&str]) -> Caller {
    issuer.says(&person("user-1", ANN.0, groups));
    let ann = signed_on(server, issuer).await;
    let first = json!({"old_password": "", "new_password": ANN.1});
    ann.post("/api/v1/session/password", &first).await.ok(204);
    ann
}

async fn id_of_ann(owner: &Caller) -> i64 {
    let people = owner.get("/api/v1/users").await.ok(200);
    let people = people.as_array().unwrap();
    people.iter().find(|person| person["email"] == ANN.0).unwrap()["id"].as_i64().unwrap()
}

/// Loses the identity of Ann. Returns the issuer that knows her from then on, and her subject there.
async fn lose(
    server: &Server,
    provider: &Value,
    ann: &Caller,
    lost: Lost,
) -> Option<(Issuer, &'static str)> {
    let owner = server.owner().await;
    let one = format!("{PROVIDERS}/{}", provider["id"]);
    match lost {
        Lost::Unlinked => {
            let listed = ann.get("/api/v1/session/identities").await.ok(200);
            let path = format!("/api/v1/session/identities/{}", listed[0]["id"].as_str().unwrap());
            let password = json!({"password": ANN.1}).to_string().into_bytes();
            ann.send("DELETE", &path, Some(password)).await.ok(204);
            None
        }
        Lost::Reset => {
            let path = format!("/api/v1/users/{}/reset", id_of_ann(&owner).await);
            let link = owner.post(&path, &json!({})).await.ok(200)["link"].clone();
            let token = link.as_str().unwrap().split("token=").nth(1).unwrap().to_owned();
            let set = json!({"token": token, "password": ANN.1});
            server.any.post("/api/v1/password-resets/use", &set).await.ok(204);
            None
        }
        Lost::ProviderRemoved => {
            let other = Issuer::start().await;
            owner.delete(&one).await.ok(204);
            owner.post(PROVIDERS, &super::fields(&other)).await.ok(200);
            Some((other, "user-9"))
        }
        Lost::IssuerChanged => {
            let other = Issuer::start().await;
            let change = json!({"issuer": other.url(), "client_secret": SECRET});
            owner.patch(&one, &change).await.ok(200);
            Some((other, "user-9"))
        }
    }
}

const WAYS: [Lost; 4] = [Lost::Unlinked, Lost::Reset, Lost::ProviderRemoved, Lost::IssuerChanged];

async fn linked_anew_they_follow_the_rules(backend: Backend) {
    for lost in WAYS {
        let (server, issuer, provider) = with_provider(&backend).await;
        let ann = made(&server, &issuer, &["ops"]).await;
        let moved = lose(&server, &provider, &ann, lost).await;
        let (issuer, subject) =
            moved.as_ref().map_or((&issuer, "user-1"), |(at, name)| (at, *name));
        linked(&server, issuer, subject, ANN).await;
        issuer.says(&person(subject, ANN.0, &["eng"]));
        let who = signed_on(&server, issuer).await.get("/api/v1/session").await.ok(200);
        assert_eq!(who["user"]["role"], "member", "{lost:?}");
        issuer.says(&person(subject, ANN.0, &[]));
        refused(&server, &sign_on(&server, issuer).await, "no_rule", "no_rule").await;
    }
}

async fn without_passwords_no_passkey_alone_signs_them_in(backend: Backend) {
    for lost in [Lost::Unlinked, Lost::IssuerChanged] {
        let server = super::server_at(&backend, "http://localhost").await;
        let (issuer, owners) = (Issuer::start().await, Issuer::start().await);
        let owner = server.owner().await;
        let provider = owner.post(PROVIDERS, &super::fields(&issuer)).await.ok(200);
        let ann = made(&server, &issuer, &["eng"]).await;
        let here = format!("http://localhost:{}", server.port).leak();
        let device = Device::new(here, "localhost");
        let mut device = passkeys::added_to(&ann, ANN.1, device, "Laptop").await;
        lose(&server, &provider, &ann, lost).await;
        // The owner gets in by a provider of their own, which has the first one's name.
        let one = format!("{PROVIDERS}/{}", provider["id"]);
        owner.patch(&one, &json!({"slug": "before"})).await.ok(200);
        owner.post(PROVIDERS, &super::fields(&owners)).await.ok(200);
        linked(&server, &owners, "boss", (OWNER, PASSWORD)).await;
        let disabled = json!({"settings": {"security": {"disable_password_login": true}}});
        owner.patch("/api/v1/organization", &disabled).await.ok(200);
        passkeys::sign_in(&server.any, &mut device).await.is(401, &unauthorized());
        let failed = owner.get("/api/v1/audit-events?event=login_failed").await.ok(200);
        assert_eq!(failed[0]["metadata"]["reason"], "sign_on_required", "{lost:?}");
    }
}

async fn once_removed_no_rule_lets_them_in(backend: Backend) {
    for lost in WAYS {
        let (server, issuer, provider) = with_provider(&backend).await;
        let owner = server.owner().await;
        let ann = made(&server, &issuer, &["eng"]).await;
        let moved = lose(&server, &provider, &ann, lost).await;
        let (issuer, subject) =
            moved.as_ref().map_or((&issuer, "user-1"), |(at, name)| (at, *name));
        let id = id_of_ann(&owner).await;
        owner.delete(&format!("/api/v1/users/{id}")).await.ok(204);
        issuer.says(&person(subject, ANN.0, &["ops"]));
        refused(&server, &sign_on(&server, issuer).await, "removed", "removed").await;
        // An admin lets them in again, as somebody new.
        let invited = json!({"email": ANN.0, "role": "viewer"});
        owner.post("/api/v1/invitations", &invited).await.ok(200);
        let who = signed_on(&server, issuer).await.get("/api/v1/session").await.ok(200);
        assert_ne!(who["user"]["id"], id, "{lost:?}");
    }
}

async fn a_provider_stays_that_alone_lets_them_in(backend: Backend) {
    let (server, issuer, provider) = with_provider(&backend).await;
    let (owner, owners, other) =
        (server.owner().await, Issuer::start().await, Issuer::start().await);
    made(&server, &issuer, &["eng"]).await;
    let one = format!("{PROVIDERS}/{}", provider["id"]);
    owner.patch(&one, &json!({"slug": "before"})).await.ok(200);
    owner.post(PROVIDERS, &super::fields(&owners)).await.ok(200);
    linked(&server, &owners, "boss", (OWNER, PASSWORD)).await;
    let disabled = json!({"settings": {"security": {"disable_password_login": true}}});
    owner.patch("/api/v1/organization", &disabled).await.ok(200);
    let refused = "1 user comes by this issuer alone, and passwords are disabled: allow passwords until they are \
        linked to another provider, or remove them first";
    let moved = json!({"issuer": other.url(), "client_secret": SECRET});
    assert_eq!(owner.patch(&one, &moved).await.ok(422)["error"], refused);
    assert_eq!(owner.delete(&one).await.ok(422)["error"], refused);
    owner.delete(&format!("/api/v1/users/{}", id_of_ann(&owner).await)).await.ok(204);
    owner.delete(&one).await.ok(204);
}

async fn an_invitation_is_used_up_by_a_sign_on(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let owner = server.owner().await;
    let invited = json!({"email": ANN.0, "role": "admin"});
    owner.post("/api/v1/invitations", &invited).await.ok(200);
    made(&server, &issuer, &["eng"]).await;
    assert_eq!(owner.get("/api/v1/invitations").await.ok(200), json!([]));
}
