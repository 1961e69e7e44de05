//! Invitations of people who come by a provider.

use serde_json::{Value, json};

use super::issuer::Issuer;
use super::{
    PROVIDERS, START, begin_at, cookie, events, fields, linked, person, refused, server_at,
    sign_on, signed_on, with_provider,
};
use crate::harness::{Backend, Caller, Device, OWNER, PASSWORD, Reply, Server};
use crate::keys::authentication::unauthorized;
use crate::session::passkeys;
use crate::session::roles::user;

crate::on_every_backend!(
    an_invitation_gives_what_no_rule_gives,
    without_its_link_an_invitation_counts_for_nobody,
    the_link_counts_for_its_address_and_its_time,
    no_provider_makes_an_owner,
    a_rule_goes_before_an_invitation_and_that_before_the_default,
    without_passwords_an_invitation_leads_to_the_provider,
    a_provider_stays_that_alone_lets_the_invited_in,
    without_passwords_no_passkey_alone_signs_the_invited_in,
    an_invitation_that_nobody_could_accept_is_refused
);

const ANN: &str = "ann@example.org";

async fn invite(caller: &Caller, role: &str, projects: &[i64]) -> Value {
    let invited = json!({"email": ANN, "role": role, "projects": projects});
    caller.post("/api/v1/invitations", &invited).await.ok(200)
}

/// The token of the link of an invitation.
fn token(invited: &Value) -> &str {
    invited["link"].as_str().unwrap().split_once("?token=").unwrap().1
}

/// Goes the whole way in a browser that comes by the link of an invitation.
async fn sign_on_by(server: &Server, issuer: &Issuer, invited: &Value) -> Reply {
    let path = format!("{START}?next=/traces&invitation={}", token(invited));
    begin_at(server, issuer, &path).await.finish().await
}

/// Accepts an invitation with a password.
async fn accept(server: &Server, invited: &Value) -> Reply {
    let given = json!({"token": token(invited), "name": "Ann", "password": "a-long-password-1"});
    server.any.post("/api/v1/invitations/accept", &given).await
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
    // Anybody could claim an address that the provider has not verified, whatever a rule gives them.
    claims["email_verified"] = json!(false);
    for (groups, by_link) in [(&["nobody-knows"][..], true), (&["ops"], false)] {
        claims["groups"] = json!(groups);
        issuer.says(&claims);
        let reply = if by_link {
            sign_on_by(&server, &issuer, &invited).await
        } else {
            sign_on(&server, &issuer).await
        };
        refused(&server, &reply, "email_taken", "email_not_verified").await;
        assert_eq!(owner.get("/api/v1/invitations").await.ok(200)[0]["id"], invited["id"]);
    }
    issuer.says(&person("user-1", ANN, &["nobody-knows"]));
    let reply = sign_on_by(&server, &issuer, &invited).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/traces"), "{}", reply.text);
    let flow = cookie(&reply, "sluice_sign_on").unwrap();
    assert_eq!(flow, "sluice_sign_on=", "the browser keeps nothing of it");
    assert!(!server.log().contains(token(&invited)), "the token is logged nowhere");
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

async fn without_its_link_an_invitation_counts_for_nobody(backend: Backend) {
    let (server, issuer, provider) = with_provider(&backend).await;
    let owner = server.owner().await;
    let invited = invite(&owner, "admin", &[]).await;
    issuer.says(&person("user-1", ANN, &[]));
    refused(&server, &sign_on(&server, &issuer).await, "invited", "invited").await;
    let mut forged = invited.clone();
    forged["link"] = json!(format!("/invitation?token={}A", token(&invited)));
    let reply = sign_on_by(&server, &issuer, &forged).await;
    refused(&server, &reply, "invited", "invited").await;
    // Another provider can name any address.
    let other = Issuer::start().await;
    let one = format!("{PROVIDERS}/{}", provider["id"]);
    owner.patch(&one, &json!({"slug": "before"})).await.ok(200);
    owner.post(PROVIDERS, &fields(&other)).await.ok(200);
    other.says(&person("user-9", ANN, &[]));
    refused(&server, &sign_on(&server, &other).await, "invited", "invited").await;
    assert_eq!(owner.get("/api/v1/invitations").await.ok(200)[0]["id"], invited["id"]);
    accept(&server, &invited).await.ok(200);
}

async fn the_link_counts_for_its_address_and_its_time(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let owner = server.owner().await;
    let invited = json!({"email": "kim@example.org", "role": "member"});
    let invited = owner.post("/api/v1/invitations", &invited).await.ok(200);
    // The second begins with the sign of Kelvin, of which `k` is the lower case.
    for (email, word) in [("eve@example.org", "no_rule"), ("\u{212a}im@example.org", "invited")] {
        issuer.says(&person("user-1", email, &[]));
        let reply = sign_on_by(&server, &issuer, &invited).await;
        refused(&server, &reply, word, word).await;
    }
    issuer.says(&person("user-1", "Kim@Example.org", &[]));
    assert_eq!(sign_on_by(&server, &issuer, &invited).await.header("location"), "/traces");
    accept(&server, &invited).await.says(422, "was used already");
    // The harness changes no SQLite database beside its server.
    if !server.on_sqlite() {
        let expired = invite(&owner, "member", &[]).await;
        server.sql("UPDATE one_time_links SET expires_at = 1");
        issuer.says(&person("user-2", ANN, &[]));
        let reply = sign_on_by(&server, &issuer, &expired).await;
        refused(&server, &reply, "no_rule", "no_rule").await;
    }
}

async fn no_provider_makes_an_owner(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let owner = server.owner().await;
    let invited = invite(&owner, "owner", &[]).await;
    issuer.says(&person("user-1", ANN, &[]));
    let reply = sign_on_by(&server, &issuer, &invited).await;
    refused(&server, &reply, "owner_invited", "owner_invited").await;
    let page = server.any.get(reply.header("location")).await;
    assert!(page.text.contains("invitation is accepted with a password"), "{}", page.text);
    assert_eq!(accept(&server, &invited).await.ok(200)["user"]["role"], "owner");
    let owner = without_passwords(&server, &issuer).await;
    let invited = json!({"email": "bob@example.org", "role": "owner"});
    let refused = owner.post("/api/v1/invitations", &invited).await;
    refused.says(422, "An owner's invitation is accepted with a password");
}

async fn a_rule_goes_before_an_invitation_and_that_before_the_default(backend: Backend) {
    for (groups, by_link, role) in
        [(&["eng"][..], true, "member"), (&["eng"], false, "member"), (&[], true, "admin")]
    {
        let (server, issuer, _) = with_provider(&backend).await;
        let owner = server.owner().await;
        let default = json!({"settings": {"security": {"default_role": "viewer"}}});
        owner.patch("/api/v1/organization", &default).await.ok(200);
        let invited = invite(&owner, "admin", &[]).await;
        // The default role does not end an invitation, which gives more.
        issuer.says(&person("user-1", ANN, &[]));
        refused(&server, &sign_on(&server, &issuer).await, "invited", "invited").await;
        let mut claims = person("user-1", ANN, groups);
        // The link stands in for the provider's word where a rule gives the role.
        claims["email_verified"] = json!(!by_link || groups.is_empty());
        issuer.says(&claims);
        let reply = if by_link {
            sign_on_by(&server, &issuer, &invited).await
        } else {
            sign_on(&server, &issuer).await
        };
        assert_eq!(reply.header("location"), "/traces", "{groups:?}");
        assert_eq!(ann_of(&owner).await["role"], role, "{groups:?} {by_link}");
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
    let button = format!("invitation={}\">Sign in with Stub</a>", token(&invited));
    for part in [ANN, "There are no passwords here", &button] {
        assert!(page.text.contains(part), "no {part} in {}", page.text);
    }
    assert!(!page.text.contains(r#"type="password""#), "{}", page.text);
    let (_, href) = page.text.split_once("href=\"/api/v1/sign-on/").unwrap();
    let href = href.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
    issuer.says(&person("user-1", ANN, &[]));
    let reply = begin_at(&server, &issuer, &format!("/api/v1/sign-on/{href}")).await.finish().await;
    let ann = server.any.with("cookie", &cookie(&reply, "sluice_session").unwrap());
    ann.get("/api/v1/projects").await.ok(200);
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
    let invited = invite(&owner, "member", &[]).await;
    issuer.says(&person("user-1", ANN, &[]));
    assert_eq!(sign_on_by(&server, &issuer, &invited).await.header("location"), "/traces");
    // The owner gets in by a provider of their own, which has the first one's name.
    let one = format!("{PROVIDERS}/{}", provider["id"]);
    owner.patch(&one, &json!({"slug": "before"})).await.ok(200);
    owner.post(PROVIDERS, &fields(&owners)).await.ok(200);
    let owner = without_passwords(&server, &owners).await;
    owner.delete(&one).await.says(422, "1 user comes by this issuer alone");
}

async fn without_passwords_no_passkey_alone_signs_the_invited_in(backend: Backend) {
    let server = server_at(&backend, "http://localhost").await;
    let (issuer, owners) = (Issuer::start().await, Issuer::start().await);
    let owner = server.owner().await;
    let provider = owner.post(PROVIDERS, &fields(&issuer)).await.ok(200);
    let invited = invite(&owner, "member", &[1]).await;
    issuer.says(&person("user-1", ANN, &[]));
    let reply = sign_on_by(&server, &issuer, &invited).await;
    let ann = server.any.with("cookie", &cookie(&reply, "sluice_session").unwrap());
    let here = format!("http://localhost:{}", server.port).leak();
    let mut device = passkeys::added_to(&ann, "", Device::new(here, "localhost"), "Laptop").await;
    passkeys::sign_in(&server.any, &mut device).await.ok(200);
    // The owner gets in by a provider of their own, which has the first one's name.
    let one = format!("{PROVIDERS}/{}", provider["id"]);
    owner.patch(&one, &json!({"slug": "before"})).await.ok(200);
    owner.post(PROVIDERS, &fields(&owners)).await.ok(200);
    let owner = without_passwords(&server, &owners).await;
    passkeys::sign_in(&server.any, &mut device).await.is(401, &unauthorized());
    let failed = owner.get("/api/v1/audit-events?event=login_failed").await.ok(200);
    assert_eq!(failed[0]["metadata"]["reason"], "sign_on_required");
    let first = json!({"old_password": "", "new_password": "a-password-1"});
    let set = ann.post("/api/v1/session/password", &first).await;
    set.says(422, "Passwords are disabled");
    // The identity that says so is not given up for the passkey.
    let listed = ann.get("/api/v1/session/identities").await.ok(200);
    let path = format!("/api/v1/session/identities/{}", listed[0]["id"].as_str().unwrap());
    let unlinked = ann.send("DELETE", &path, Some(br#"{"password": ""}"#.to_vec())).await;
    unlinked.says(422, "This is your last way in");
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
