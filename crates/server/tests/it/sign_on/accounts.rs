//! Accounts: made, linked, given roles by rules.

use serde_json::{Value, json};

use super::issuer::Issuer;
use super::{START, browser, cookie, events, person, refused, sign_on, signed_on, with_provider};
use crate::harness::{Backend, Caller, OWNER, PASSWORD, Reply, Server};
use crate::session::roles::{USER_PASSWORD, user};

crate::on_every_backend!(
    role_and_projects_follow_the_groups,
    an_account_with_the_address_is_linked_once_its_owner_says_so,
    an_offer_is_recorded_whatever_strangers_send,
    pages_lead_through_the_link
);

async fn role_and_projects_follow_the_groups(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let owner = server.owner().await;
    let me = async |caller: &Caller| {
        let session = caller.get("/api/v1/session").await.ok(200);
        let id = session["user"]["id"].clone();
        let people = server.owner().await.get("/api/v1/users").await.ok(200);
        let people = people.as_array().unwrap().clone();
        people.into_iter().find(|person| person["id"] == id).unwrap()
    };
    issuer.says(&person("user-1", "ann@example.org", &[]));
    refused(&server, &sign_on(&server, &issuer).await, "no_rule", "no_rule").await;
    issuer.says(&json!({"sub": "user-1"}));
    refused(&server, &sign_on(&server, &issuer).await, "no_email", "no_email").await;
    issuer.says(&person("user-1", "ann@example.org", &["eng", "other"]));
    let ann = signed_on(&server, &issuer).await;
    let shown = me(&ann).await;
    assert_eq!((&shown["role"], &shown["projects"]), (&json!("member"), &json!([1])));
    assert_eq!(shown["email_verified"], true);
    // The groups have changed, and so has what an admin had given.
    owner
        .patch(&format!("/api/v1/users/{}", shown["id"]), &json!({"role": "viewer"}))
        .await
        .ok(200);
    issuer.says(&person("user-1", "ann@example.org", &["eng", "ops"]));
    signed_on(&server, &issuer).await;
    let shown = me(&ann).await;
    assert_eq!((&shown["role"], &shown["projects"]), (&json!("admin"), &json!([])));
    let changes = events(&server, "member_role_changed").await;
    let change = json!({"old": "viewer", "new": "admin"});
    assert_eq!((&changes[0]["metadata"]["role"], &changes[0]["actor"]), (&change, &Value::Null));
    assert_eq!(changes[0]["metadata"]["provider"], "stub");
    let token = json!({"password": "", "name": "t", "role": "viewer"});
    let token = ann.post("/api/v1/service-tokens", &token).await.ok(201);
    // No group any more: no way in, and the sessions are over.
    issuer.says(&person("user-1", "ann@example.org", &[]));
    refused(&server, &sign_on(&server, &issuer).await, "no_rule", "no_rule").await;
    assert_eq!(ann.get("/api/v1/session").await.status, 401);
    let ended = &events(&server, "session_revoked").await[0];
    assert_eq!(
        (&ended["actor"], &ended["target_id"]),
        (&Value::Null, &json!(shown["id"].to_string()))
    );
    let metadata = json!({
        "email": "ann@example.org", "provider": "stub", "reason": "no_rule", "sessions": 2,
        "service_tokens_revoked": [token["id"]],
    });
    assert_eq!(ended["metadata"], metadata);
    let raw = format!("Bearer {}", token["token"].as_str().unwrap());
    server.any.with("authorization", &raw).get("/api/v1/projects").await.ok(401);
    let default = json!({"settings": {"security": {"default_role": "viewer"}}});
    owner.patch("/api/v1/organization", &default).await.ok(200);
    let ann = signed_on(&server, &issuer).await;
    assert_eq!(me(&ann).await["role"], "viewer");
    // An owner stays one, whatever the groups say.
    owner.patch(&format!("/api/v1/users/{}", shown["id"]), &json!({"role": "owner"})).await.ok(200);
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    signed_on(&server, &issuer).await;
    assert_eq!(me(&ann).await["role"], "owner");
}

/// Confirms a link, with the session of an account.
async fn confirm(server: &Server, link: &str, session: &Caller, password: &str) -> Reply {
    let _ = server;
    let cookie = session_cookie(session);
    let both = session.with("cookie", &format!("{cookie}; {link}"));
    both.post("/api/v1/session/identities", &json!({"password": password})).await
}

fn session_cookie(session: &Caller) -> String {
    let request = session.request("GET", "/").build().unwrap();
    request.headers()["cookie"].to_str().unwrap().to_owned()
}

async fn an_account_with_the_address_is_linked_once_its_owner_says_so(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let member = user(&server, "member", &["1"]).await;
    let other = user(&server, "viewer", &["1"]).await;
    let known = async |issuer: &Issuer, verified: Value| {
        let mut claims = person("user-1", "MEMBER@example.org", &["ops"]);
        claims["email_verified"] = verified;
        issuer.says(&claims);
        sign_on(&server, issuer).await
    };
    for unverified in [json!(false), Value::Null] {
        let reply = known(&issuer, unverified).await;
        refused(&server, &reply, "email_taken", "email_not_verified").await;
    }
    let reply = known(&issuer, json!(true)).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/sign-on/link"));
    assert_eq!(cookie(&reply, "sluice_session"), None, "nobody is signed in by it");
    let [offered] = &events(&server, "identity_link_offered").await[..] else {
        panic!("one offer")
    };
    let metadata =
        json!({"email": "member@example.org", "issuer": issuer.url(), "provider": "stub"});
    assert_eq!((&offered["actor"], &offered["metadata"]), (&Value::Null, &metadata));
    let link = cookie(&reply, "sluice_link").unwrap();
    assert!(!link.contains("member"), "it is sealed");
    member.get("/api/v1/session/identities").await.is(200, &json!([]));
    // The one who holds the cookie has to be the owner of the account, and say so.
    server.any.with("cookie", &link).post("/api/v1/session/identities", &json!({})).await.ok(401);
    let by_other = confirm(&server, &link, &other, USER_PASSWORD).await;
    by_other.says(422, "belongs to member@example.org");
    confirm(&server, &link, &member, "wrong-password").await.says(422, "The password is wrong");
    let password = json!({"password": USER_PASSWORD});
    let without = member.post("/api/v1/session/identities", &password).await;
    without.says(422, "No sign-on waits");
    confirm(&server, "sluice_link=AQAA", &member, USER_PASSWORD)
        .await
        .says(422, "No sign-on waits");
    confirm(&server, &link, &member, USER_PASSWORD).await.ok(204);
    confirm(&server, &link, &member, USER_PASSWORD).await.says(422, "It is linked already");
    let [linked] = &events(&server, "identity_linked").await[..] else { panic!("one link") };
    assert_eq!(linked["actor"], "member@example.org");
    assert_eq!(linked["metadata"], json!({"issuer": issuer.url()}));
    // From now on the issuer signs in, and changes nothing of the account.
    let who = signed_on(&server, &issuer).await.get("/api/v1/session").await.ok(200);
    assert_eq!(
        (&who["user"]["email"], &who["user"]["role"]),
        (&json!("member@example.org"), &json!("member"))
    );
    server.session("member@example.org", USER_PASSWORD).await;
    // Another subject with the address is not the same user.
    issuer.says(&person("user-2", "member@example.org", &[]));
    assert_eq!(sign_on(&server, &issuer).await.header("location"), "/sign-on/link");
    // A removed user comes back by an admin alone, and as somebody new.
    let id = &who["user"]["id"];
    let owner = server.owner().await;
    owner.delete(&format!("/api/v1/users/{id}")).await.ok(204);
    issuer.says(&person("user-1", "member@example.org", &["eng"]));
    refused(&server, &sign_on(&server, &issuer).await, "removed", "removed").await;
    let invited = json!({"email": "other@example.org", "role": "viewer"});
    owner.post("/api/v1/invitations", &invited).await.ok(200);
    refused(&server, &sign_on(&server, &issuer).await, "removed", "removed").await;
    let invited = json!({"email": "member@example.org", "role": "viewer"});
    owner.post("/api/v1/invitations", &invited).await.ok(200);
    let anew = signed_on(&server, &issuer).await.get("/api/v1/session").await.ok(200);
    assert_ne!(anew["user"]["id"], *id);
}

async fn an_offer_is_recorded_whatever_strangers_send(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let stranger = browser(&server);
    for _ in 0..70 {
        let reply = stranger.get(&format!("{START}/callback?code=x&state=x")).await;
        assert!(reply.header("location").starts_with("/sign-in?refused=stale&"), "{}", reply.text);
    }
    issuer.says(&person("boss", OWNER, &[]));
    assert_eq!(sign_on(&server, &issuer).await.header("location"), "/sign-on/link");
    assert_eq!(events(&server, "identity_link_offered").await.len(), 1);
    // Neither do they hide who was refused by name.
    issuer.says(&person("user-1", "ann@example.org", &[]));
    refused(&server, &sign_on(&server, &issuer).await, "no_rule", "no_rule").await;
}

async fn pages_lead_through_the_link(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    issuer.says(&person("boss", OWNER, &[]));
    let reply = sign_on(&server, &issuer).await;
    let link = cookie(&reply, "sluice_link").unwrap();
    let stranger = browser(&server).with("cookie", &link);
    let page = stranger.get("/sign-on/link").await;
    assert!(page.text.contains("Stub knows you as <strong>owner@localhost"), "{}", page.text);
    assert!(page.text.contains(r#"href="/sign-in?next=/sign-on/link""#), "{}", page.text);
    let none = browser(&server).get("/sign-on/link").await;
    assert!(none.text.contains("No sign-on waits"), "{}", none.text);
    let session = server.login(OWNER, PASSWORD).await;
    let session = cookie(&session, "sluice_session").unwrap();
    let both = stranger.with("cookie", &format!("{session}; {link}"));
    let page = both.get("/sign-on/link").await;
    assert!(page.text.contains("Link to Stub"), "{}", page.text);
    let send = async |caller: &Caller, password: &str| {
        let own = caller.base.clone();
        let request = caller.with("origin", &own).request("POST", "/sign-on/link");
        let kind = "application/x-www-form-urlencoded";
        let request = request.header("content-type", kind).body(format!("password={password}"));
        Caller::try_send(request).await.unwrap()
    };
    let wrong = send(&both, "wrong-password").await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.text.contains("The password is wrong"), "{}", wrong.text);
    let evil = both.with("origin", "https://evil.example").request("POST", "/sign-on/link");
    assert_eq!(Caller::try_send(evil).await.unwrap().status, 403);
    let done = send(&both, PASSWORD).await;
    assert_eq!((done.status, done.header("location")), (303, "/traces"), "{}", done.text);
    assert_eq!(cookie(&done, "sluice_link").as_deref(), Some("sluice_link="));
    // Signing out leads to the issuer, by a page: a form follows no redirect to another host.
    let boss = signed_on(&server, &issuer).await;
    let own = boss.base.clone();
    let out =
        Caller::try_send(boss.with("origin", &own).request("POST", "/sign-out")).await.unwrap();
    assert_eq!(out.status, 200, "{}", out.text);
    assert!(out.text.contains(&format!("url={}/end?client_id=", issuer.url())), "{}", out.text);
}
