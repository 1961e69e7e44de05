//! Ways in that come and go: unlinked, reset, changed at the provider, confirmed anew.

use serde_json::{Value, json};

use super::issuer::{Hold, Issuer, query, query_of};
use super::{
    PROVIDERS, START, browser, cookie, events, linked, person, refused, sign_on, signed_on,
    with_provider,
};
use crate::harness::{Backend, Caller, Device, OWNER, PASSWORD, Reply};
use crate::keys::authentication::unauthorized;
use crate::session::passkeys;
use crate::session::roles::{USER_PASSWORD, user};
use crate::session::second_factor::enrol;

crate::on_every_backend!(
    an_identity_is_unlinked_unless_it_is_the_last_way_in,
    an_owner_ends_every_way_in,
    a_factor_that_is_trusted_no_more_counts_no_more,
    another_issuer_or_client_ends_the_sessions_of_the_one_before,
    a_provider_that_changes_meanwhile_signs_nobody_in,
    without_passwords_an_owner_still_gets_in,
    without_a_password_the_issuer_asks_once_more,
    without_passwords_a_sign_on_user_comes_by_the_provider,
    over_tls_no_other_host_sets_the_cookies_of_a_sign_on
);

const IDENTITIES: &str = "/api/v1/session/identities";
const MEMBER: (&str, &str) = ("member@example.org", USER_PASSWORD);

async fn unlink(caller: &Caller, id: &Value, password: &str) -> Reply {
    let path = format!("{IDENTITIES}/{}", id.as_str().unwrap());
    caller.send("DELETE", &path, Some(json!({"password": password}).to_string().into())).await
}

async fn an_identity_is_unlinked_unless_it_is_the_last_way_in(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    user(&server, "member", &["1"]).await;
    let member = linked(&server, &issuer, "user-1", MEMBER).await;
    let came = signed_on(&server, &issuer).await;
    let listed = member.get(IDENTITIES).await.ok(200);
    let id = &listed[0]["id"];
    assert!(!listed.to_string().contains("user-1"), "the subject is for nobody to read");
    unlink(&member, id, "wrong-password").await.says(422, "The password is wrong");
    unlink(&member, &json!("0000000000000000"), USER_PASSWORD).await.ok(404);
    unlink(&server.owner().await, id, PASSWORD).await.ok(404);
    unlink(&member, id, USER_PASSWORD).await.ok(204);
    came.get("/api/v1/session").await.is(401, &unauthorized());
    member.get(IDENTITIES).await.is(200, &json!([]));
    assert_eq!(sign_on(&server, &issuer).await.header("location"), "/sign-on/link");
    let [event] = &events(&server, "identity_unlinked").await[..] else { panic!("one") };
    assert_eq!(event["actor"], "member@example.org");
    assert_eq!(event["metadata"], json!({"issuer": issuer.url()}));
    // Somebody who has nothing else keeps it.
    issuer.says(&person("user-2", "ann@example.org", &["eng"]));
    let ann = signed_on(&server, &issuer).await;
    let listed = ann.get(IDENTITIES).await.ok(200);
    let id = &listed[0]["id"];
    unlink(&ann, id, "").await.says(422, "This is your last way in");
    let first = json!({"old_password": "", "new_password": "a-password-1"});
    ann.post("/api/v1/session/password", &first).await.ok(204);
    let people = server.owner().await.get("/api/v1/users").await.ok(200);
    assert_eq!(people[0]["ways_in"], json!(["password"]));
    assert_eq!(people[2]["ways_in"], json!(["password", "sign_on"]));
    let page = ann.get("/account").await;
    assert!(page.text.contains(&format!("Unlink {}", issuer.url())), "{}", page.text);
    unlink(&ann, id, "a-password-1").await.ok(204);
    server.session("ann@example.org", "a-password-1").await;
}

async fn an_owner_ends_every_way_in(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    user(&server, "member", &["1"]).await;
    let member = linked(&server, &issuer, "user-1", MEMBER).await;
    let path = "/api/v1/users/3/reset";
    admin.post(path, &json!({})).await.is(403, &json!({"error": "Forbidden"}));
    owner.post("/api/v1/users/1/reset", &json!({})).await.says(422, "Your own ways in");
    owner.post("/api/v1/users/9/reset", &json!({})).await.ok(404);
    owner.patch("/api/v1/users/3", &json!({"role": "admin"})).await.ok(200);
    let token = json!({"password": USER_PASSWORD, "name": "t", "role": "viewer"});
    let token = member.post("/api/v1/service-tokens", &token).await.ok(201)["token"].clone();
    let token = server.any.with("authorization", &format!("Bearer {}", token.as_str().unwrap()));
    let enrolled = enrol(member, USER_PASSWORD).await;
    let made = owner.post(path, &json!({})).await.ok(200);
    for caller in [&enrolled.caller, &token] {
        caller.get("/api/v1/projects").await.ok(401);
    }
    server.login(MEMBER.0, MEMBER.1).await.is(401, &unauthorized());
    issuer.says(&person("user-1", MEMBER.0, &["ops"]));
    assert_eq!(sign_on(&server, &issuer).await.header("location"), "/sign-on/link");
    let people = owner.get("/api/v1/users").await.ok(200);
    assert_eq!((&people[2]["ways_in"], &people[2]["mfa_enabled"]), (&json!([]), &json!(false)));
    for (kind, target) in [
        ("mfa_disabled", "3"),
        ("identity_unlinked", "3"),
        ("service_token_revoked", "st_"),
        ("password_link_made", "3"),
    ] {
        let event = &events(&server, kind).await[0];
        assert!(event["target_id"].as_str().unwrap().starts_with(target), "{event}");
        assert_eq!(
            (&event["actor"], &event["metadata"]["email"]),
            (&json!(OWNER), &json!(MEMBER.0))
        );
    }
    let link = made["link"].as_str().unwrap().split("token=").nth(1).unwrap();
    let set = json!({"token": link, "password": "a-password-1"});
    server.any.post("/api/v1/password-resets/use", &set).await.ok(204);
    server.session(MEMBER.0, "a-password-1").await;
}

async fn a_factor_that_is_trusted_no_more_counts_no_more(backend: Backend) {
    let (server, issuer, made) = with_provider(&backend).await;
    let one = format!("{PROVIDERS}/{}", made["id"]);
    let owner = enrol(server.owner().await, PASSWORD).await.caller;
    owner.patch(&one, &json!({"trusts_factor": true})).await.ok(200);
    let required = json!({"settings": {"security": {"require_mfa": true}}});
    owner.patch("/api/v1/organization", &required).await.ok(200);
    let mut claims = person("user-1", "ann@example.org", &["eng"]);
    claims["amr"] = json!(["mfa"]);
    issuer.says(&claims);
    let ann = signed_on(&server, &issuer).await;
    claims["sub"] = json!("user-2");
    claims["email"] = json!("bob@example.org");
    issuer.says(&claims);
    let enrolled = enrol(signed_on(&server, &issuer).await, "").await;
    // He has a factor of his own, and was not asked for it.
    let bob = signed_on(&server, &issuer).await;
    for session in [&ann, &bob, &enrolled.caller] {
        session.get("/api/v1/projects").await.ok(200);
    }
    owner.patch(&one, &json!({"trusts_factor": false})).await.ok(200);
    ann.get("/api/v1/projects").await.says(403, "requires a second factor");
    bob.get("/api/v1/projects").await.ok(401);
    let code = json!({"code": enrolled.code()});
    bob.post("/api/v1/session/mfa", &code).await.ok(200);
    owner.get("/api/v1/projects").await.ok(200);
}

async fn another_issuer_or_client_ends_the_sessions_of_the_one_before(backend: Backend) {
    let (server, issuer, made) = with_provider(&backend).await;
    let other = Issuer::start().await;
    let one = format!("{PROVIDERS}/{}", made["id"]);
    linked(&server, &issuer, "boss", (OWNER, PASSWORD)).await;
    for change in [json!({"client_id": "another"}), json!({"issuer": other.url()})] {
        issuer.says(&person("boss", OWNER, &[]));
        let boss = signed_on(&server, &issuer).await;
        issuer.says(&person("user-1", "ann@example.org", &["eng"]));
        let ann = signed_on(&server, &issuer).await;
        let by_password = server.owner().await;
        // A change that asks nobody else ends nothing.
        boss.patch(&one, &json!({"name": "Work"})).await.ok(200);
        ann.get("/api/v1/projects").await.ok(200);
        boss.patch(&one, &change).await.ok(200);
        ann.get("/api/v1/session").await.is(401, &unauthorized());
        for caller in [&boss, &by_password] {
            caller.get("/api/v1/projects").await.ok(200);
        }
        let updated = &events(&server, "sign_on_provider_updated").await[0];
        assert_eq!(updated["metadata"]["sessions"], 1, "{updated}");
        let back = super::fields(&issuer);
        let back = json!({
            "issuer": issuer.url(), "client_id": back["client_id"],
            "client_secret": back["client_secret"],
        });
        by_password.patch(&one, &back).await.ok(200);
    }
}

async fn a_provider_that_changes_meanwhile_signs_nobody_in(backend: Backend) {
    let (server, issuer, made) = with_provider(&backend).await;
    let owner = server.owner().await;
    let one = format!("{PROVIDERS}/{}", made["id"]);
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    for is_removed in [false, true] {
        let hold = Hold::default();
        issuer.script(|script| script.hold = Some(hold.clone()));
        let begun = super::begin(&server, &issuer).await;
        let coming = tokio::spawn(async move { begun.finish().await });
        hold.came.notified().await;
        if is_removed {
            owner.delete(&one).await.ok(204);
        } else {
            owner.patch(&one, &json!({"client_id": "another"})).await.ok(200);
        }
        hold.goes_on.notify_one();
        let reply = coming.await.unwrap();
        refused(&server, &reply, "stale", "provider_changed").await;
        if !is_removed {
            owner.patch(&one, &json!({"client_id": super::CLIENT})).await.ok(200);
        }
    }
    assert_eq!(owner.get("/api/v1/users").await.ok(200).as_array().unwrap().len(), 1);
}

async fn without_passwords_an_owner_still_gets_in(backend: Backend) {
    let (server, issuer, made) = with_provider(&backend).await;
    let other = Issuer::start().await;
    let one = format!("{PROVIDERS}/{}", made["id"]);
    let owner = linked(&server, &issuer, "boss", (OWNER, PASSWORD)).await;
    let second = user(&server, "admin", &[]).await;
    owner.patch("/api/v1/users/2", &json!({"role": "owner"})).await.ok(200);
    let disabled = json!({"settings": {"security": {"disable_password_login": true}}});
    owner.patch("/api/v1/organization", &disabled).await.ok(200);
    let mut more = super::fields(&other);
    more["slug"] = json!("more");
    let more = owner.post(PROVIDERS, &more).await.ok(200);
    let sentence = "No owner could sign in";
    owner.patch(&one, &json!({"issuer": other.url()})).await.says(422, sentence);
    owner.patch(&one, &json!({"client_id": "another"})).await.says(422, sentence);
    owner.delete(&one).await.says(422, sentence);
    second.patch("/api/v1/users/1", &json!({"role": "member"})).await.says(422, sentence);
    second.delete("/api/v1/users/1").await.says(422, sentence);
    let id = &owner.get(IDENTITIES).await.ok(200)[0]["id"];
    unlink(&owner, id, PASSWORD).await.says(422, "This is your last way in");
    // Changes that lock nobody out are allowed.
    owner.patch(&one, &json!({"name": "Work"})).await.ok(200);
    owner.delete(&format!("{PROVIDERS}/{}", more["id"])).await.ok(204);
    owner.delete("/api/v1/users/2").await.ok(204);
    signed_on(&server, &issuer).await.get("/api/v1/projects").await.ok(200);
}

async fn without_a_password_the_issuer_asks_once_more(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let hours_ago = now.as_secs() - 3 * 3600;
    let says = |auth_time: Value| {
        let mut claims = person("user-1", "ann@example.org", &["eng"]);
        claims["auth_time"] = auth_time;
        issuer.says(&claims);
    };
    let first = json!({"old_password": "", "new_password": "a-password-1"});
    // An issuer that remembers its user, or does not tell, has asked nobody.
    for auth_time in [json!(hours_ago), Value::Null] {
        says(auth_time);
        let ann = signed_on(&server, &issuer).await;
        let set = ann.post("/api/v1/session/password", &first).await;
        set.says(422, "sign in again");
        let page = ann.get("/account").await;
        let way = format!("{START}?anew=1&#38;next=/account");
        assert!(page.text.contains(&way), "{}", page.text);
    }
    let anew = async |auth_time: Value| {
        let browser = browser(&server);
        let reply = browser.get(&format!("{START}?anew=1&next=/account")).await;
        let asked = query_of(reply.header("location"));
        assert_eq!((&*asked["prompt"], &*asked["max_age"]), ("login", "0"));
        let answer = issuer.agree(reply.header("location"));
        says(auth_time);
        let browser = browser.with("cookie", &cookie(&reply, "sluice_sign_on").unwrap());
        browser.get(&format!("{START}/callback?{}", query(&answer))).await
    };
    for auth_time in [json!(hours_ago), Value::Null] {
        refused(&server, &anew(auth_time).await, "issuer", "not_anew").await;
    }
    // An issuer that has its own mind makes nobody wait.
    says(json!(hours_ago));
    let one = browser(&server);
    for _ in 0..8 {
        let reply = one.get(&format!("{START}?anew=1")).await;
        let answer = issuer.agree(reply.header("location"));
        let back = one.with("cookie", &cookie(&reply, "sluice_sign_on").unwrap());
        let back = back.get(&format!("{START}/callback?{}", query(&answer))).await;
        refused(&server, &back, "issuer", "not_anew").await;
    }
    let done = anew(json!(now.as_secs() + 1)).await;
    assert_eq!((done.status, done.header("location")), (303, "/account"), "{}", done.text);
    let ann = server.any.with("cookie", &cookie(&done, "sluice_session").unwrap());
    ann.post("/api/v1/session/password", &first).await.ok(204);
    let plain = query_of(browser(&server).get(START).await.header("location"));
    assert!(!plain.contains_key("prompt") && !plain.contains_key("max_age"));
}

async fn without_passwords_a_sign_on_user_comes_by_the_provider(backend: Backend) {
    let server = super::server_at(&backend, "http://localhost").await;
    let issuer = Issuer::start().await;
    let owner = server.owner().await;
    owner.post(PROVIDERS, &super::fields(&issuer)).await.ok(200);
    linked(&server, &issuer, "boss", (OWNER, PASSWORD)).await;
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    let ann = signed_on(&server, &issuer).await;
    let here = format!("http://localhost:{}", server.port).leak();
    let device = Device::new(here, "localhost");
    let mut device = passkeys::added_to(&ann, "", device, "Laptop").await;
    passkeys::sign_in(&server.any, &mut device).await.ok(200);
    let disabled = json!({"settings": {"security": {"disable_password_login": true}}});
    owner.patch("/api/v1/organization", &disabled).await.ok(200);
    passkeys::sign_in(&server.any, &mut device).await.is(401, &unauthorized());
    let failed = owner.get("/api/v1/audit-events?event=login_failed").await.ok(200);
    assert_eq!(failed[0]["metadata"]["reason"], "sign_on_required");
    // A right passkey is no guess, however often it is not enough; a copy of its answer is one that fails.
    for _ in 0..8 {
        passkeys::sign_in(&server.any, &mut device).await.is(401, &unauthorized());
    }
    passkeys::sign_in_twice(&server.any, &mut device).await.is(401, &unauthorized());
    let failed = owner.get("/api/v1/audit-events?event=mfa_failed").await.ok(200);
    assert_eq!(failed[0]["metadata"]["reason"], "counter", "it was used before");
    // After the provider it is the second factor.
    let reply = sign_on(&server, &issuer).await;
    assert_eq!(reply.header("location"), "/sign-in/code?next=%2Ftraces");
    let pending = server.any.with("cookie", &cookie(&reply, "sluice_session").unwrap());
    passkeys::sign_in(&pending, &mut device).await.ok(200);
    // Owners get in when the provider is lost.
    owner.patch("/api/v1/users/2", &json!({"role": "owner"})).await.ok(200);
    passkeys::sign_in(&server.any, &mut device).await.ok(200);
}

async fn over_tls_no_other_host_sets_the_cookies_of_a_sign_on(backend: Backend) {
    let server = super::server_at(&backend, "https://localhost").await;
    let issuer = Issuer::start().await;
    server.owner().await.post(PROVIDERS, &super::fields(&issuer)).await.ok(200);
    let (flow, link) = ("__Host-sluice_sign_on", "__Host-sluice_link");
    issuer.says(&person("boss", OWNER, &[]));
    let browser = browser(&server);
    let reply = browser.get(START).await;
    let set = reply.header("set-cookie");
    for part in ["Path=/", "Secure", "HttpOnly", "SameSite=Lax"] {
        assert!(set.starts_with(flow) && set.split("; ").any(|found| found == part), "{set}");
    }
    let answer = query(&issuer.agree(reply.header("location")));
    let back = format!("{START}/callback?{answer}");
    let value = cookie(&reply, flow).unwrap();
    // One that another host of the domain can set is not read.
    let tossed = browser.with("cookie", &value.replace("__Host-", "")).get(&back).await;
    assert!(tossed.header("location").starts_with("/sign-in?refused=stale&"), "{}", tossed.text);
    let done = browser.with("cookie", &value).get(&back).await;
    assert_eq!(done.header("location"), "/sign-on/link", "{}", done.text);
    assert!(cookie(&done, link).is_some() && cookie(&done, flow).unwrap().ends_with('='));
    // The name of the session is prescribed.
    let session = server.login(OWNER, PASSWORD).await;
    let both = format!(
        "{}; {}",
        cookie(&session, "sluice_session").unwrap(),
        cookie(&done, link).unwrap()
    );
    let linking = server.any.with("cookie", &both);
    linking.post(IDENTITIES, &json!({"password": PASSWORD})).await.ok(204);
}
