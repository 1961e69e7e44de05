//! The way to an issuer and back, and what does not belong to it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::issuer::{Issuer, query, query_of};
use super::{
    START, begin, browser, cookie, events, person, refused, server, sign_on, signed_on,
    with_provider,
};
use crate::harness::{Backend, Caller, Setup};

crate::on_every_backend!(
    a_user_signs_in_by_their_provider,
    the_issuer_learns_at_the_sign_out_whose_session_ends,
    what_comes_back_belongs_to_the_browser_that_went,
    what_one_provider_began_ends_at_no_other,
    a_client_that_is_set_up_wrongly_is_nobodys_failure,
    without_a_console_the_answers_are_json,
    an_issuer_that_does_not_answer_is_left_alone,
    an_address_that_may_not_call_does_not_sign_on
);

async fn a_user_signs_in_by_their_provider(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    issuer.says(&person("user-1", "Ann@Example.org", &["eng"]));
    let page = browser(&server).get("/sign-in?next=/keys").await;
    let button = r#"href="/api/v1/sign-on/stub?next=%2Fkeys">Sign in with Stub</a>"#;
    assert!(page.text.contains(button), "{}", page.text);
    let start = browser(&server).get(&format!("{START}?next=/traces")).await;
    let asked = query_of(start.header("location"));
    assert_eq!(asked["redirect_uri"], format!("{}{START}/callback", server.any.base));
    assert_eq!(asked["scope"], "openid email profile");
    let kept = start.header("set-cookie");
    for part in ["Path=/api/v1/sign-on;", "Max-Age=600", "HttpOnly", "SameSite=Lax"] {
        assert!(kept.contains(part), "{kept}");
    }
    assert!(!kept.contains(&asked["state"]) && !kept.contains(&asked["nonce"]), "it is sealed");
    let ann = signed_on(&server, &issuer).await;
    let who = ann.get("/api/v1/session").await.ok(200);
    assert_eq!(who["user"]["email"], "ann@example.org");
    assert_eq!(
        (&who["user"]["name"], &who["user"]["role"]),
        (&json!("Ann O. Ther"), &json!("member"))
    );
    assert_eq!(ann.get("/api/v1/projects").await.ok(200).as_array().unwrap().len(), 1);
    let [joined] = &events(&server, "member_joined").await[..] else { panic!("one user") };
    assert_eq!(joined["metadata"], json!({"role": "member", "provider": "stub"}));
    let success = &events(&server, "login_success").await;
    let by_provider: Vec<_> =
        success.iter().filter(|event| event["metadata"]["provider"] == "stub").collect();
    assert_eq!((by_provider.len(), &by_provider[0]["actor"]), (1, &json!("ann@example.org")));
    // They are the same user under a new address.
    issuer.says(&person("user-1", "ann@elsewhere.example", &["eng"]));
    let again = signed_on(&server, &issuer).await.get("/api/v1/session").await.ok(200);
    assert_eq!(again["user"]["id"], who["user"]["id"]);
    let identities = ann.get("/api/v1/session/identities").await.ok(200);
    assert_eq!(identities[0]["issuer"], issuer.url());
    // No password fits an account without one.
    for password in ["", " ", "null"] {
        server.login("ann@example.org", password).await.ok(401);
    }
    let out = ann.delete("/api/v1/session").await;
    let end = out.header("x-sluice-end-session");
    assert!(end.starts_with(&format!("{}/end?", issuer.url())), "{end}");
    let back = format!("{}/sign-in", server.any.base);
    assert_eq!(query_of(end)["post_logout_redirect_uri"], back);
    assert_eq!(ann.get("/api/v1/session").await.status, 401);
    // The secret is nowhere to be seen.
    let secret = super::SECRET.as_bytes();
    assert!(!server.stored().windows(secret.len()).any(|part| part == secret));
    assert!(!server.log().contains(super::SECRET));
}

async fn the_issuer_learns_at_the_sign_out_whose_session_ends(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    // The session of somebody who signs on, and the hint that their browser keeps; empty if it is to keep none.
    let signed_on = async |who: &str, groups: &[&str]| {
        issuer.says(&person(who, &format!("{who}@example.org"), groups));
        let reply = sign_on(&server, &issuer).await;
        assert_eq!((reply.status, reply.header("location")), (303, "/traces"), "{}", reply.text);
        let mut set = reply.headers.get_all("set-cookie").iter().map(|set| set.to_str().unwrap());
        let hint = set.find(|set| set.starts_with("sluice_sign_out=")).unwrap().to_owned();
        (cookie(&reply, "sluice_session").unwrap(), hint)
    };
    // The subject of the token that the page of the sign-out shows to the issuer.
    let sign_out = async |session: &str, hints: &[&str]| {
        let hints = hints.iter().map(|hint| hint.split(';').next().unwrap());
        let cookies: Vec<&str> = [session].into_iter().chain(hints).collect();
        let caller = server.any.with("cookie", &cookies.join("; "));
        let out = caller.with("origin", &server.any.base).request("POST", "/sign-out");
        let out = Caller::try_send(out).await.unwrap();
        assert_eq!(out.status, 200, "{}", out.text);
        assert!(out.text.contains(&format!("url={}/end?", issuer.url())), "{}", out.text);
        assert_eq!(cookie(&out, "sluice_sign_out").as_deref(), Some("sluice_sign_out="));
        let (_, token) = out.text.split_once("id_token_hint=")?;
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        Some(claims["sub"].as_str().unwrap().to_owned())
    };
    let (ann, of_ann) = signed_on("ann", &["eng"]).await;
    for part in ["Path=/sign-out;", "Max-Age=2592000", "HttpOnly", "SameSite=Strict"] {
        assert!(of_ann.contains(part), "{of_ann}");
    }
    let (bob, of_bob) = signed_on("bob", &["eng"]).await;
    assert_eq!(sign_out(&ann, &[&of_ann]).await.as_deref(), Some("ann"));
    // Other hosts of the domain may have set those of others, and what is none.
    assert_eq!(sign_out(&bob, &[&of_ann, "sluice_sign_out=AAAA"]).await, None);
    let (bob, _) = signed_on("bob", &["eng"]).await;
    let planted = ["sluice_sign_out=AAAA", &of_ann, &of_bob];
    assert_eq!(sign_out(&bob, &planted).await.as_deref(), Some("bob"));
    // A token of many groups would fill the headers that proxies pass on.
    let groups: Vec<String> = (0..200).map(|number| format!("group-{number}")).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).chain(["eng"]).collect();
    let (_, hint) = signed_on("cid", &groups).await;
    assert!(hint.starts_with("sluice_sign_out=;") && hint.contains("Max-Age=0"), "{hint}");
}

async fn what_comes_back_belongs_to_the_browser_that_went(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    let no_cookie = begin(&server, &issuer).await;
    let reply = super::Begun { browser: browser(&server), ..no_cookie }.finish().await;
    refused(&server, &reply, "stale", "cookie").await;
    let mut other = begin(&server, &issuer).await;
    other.answer = begin(&server, &issuer).await.answer;
    refused(&server, &other.finish().await, "stale", "state").await;
    let mut changed = begin(&server, &issuer).await;
    changed.answer.remove("state");
    refused(&server, &changed.finish().await, "stale", "state").await;
    let mut changed = begin(&server, &issuer).await;
    changed.answer.remove("code");
    refused(&server, &changed.finish().await, "stale", "code").await;
    let mut changed = begin(&server, &issuer).await;
    changed.browser = changed.browser.with("cookie", "sluice_sign_on=AQAAAA");
    refused(&server, &changed.finish().await, "stale", "cookie").await;
    assert_eq!(issuer.token_requests(), 0, "nothing of it was the issuer's business");
    let mut mixed_up = begin(&server, &issuer).await;
    mixed_up.answer.insert("iss".to_owned(), "https://evil.example".to_owned());
    refused(&server, &mixed_up.finish().await, "stale", "iss").await;
    for (error, word, reason) in
        [("access_denied", "cancelled", "access_denied"), ("<script>", "issuer", "issuer_error")]
    {
        let mut declined = begin(&server, &issuer).await;
        declined.answer.insert("error".to_owned(), error.to_owned());
        let reply = declined.finish().await;
        refused(&server, &reply, word, reason).await;
        let page = browser(&server).get(reply.header("location")).await;
        assert!(page.text.contains(r#"role="alert""#) && !page.text.contains(error));
    }
    // A browser that kept the cookie, and the code, which is good once.
    let replayed = begin(&server, &issuer).await;
    assert_eq!(replayed.finish().await.header("location"), "/traces");
    refused(&server, &replayed.finish().await, "issuer", "code_refused").await;
    // The code of somebody else's sign-on.
    let mut swapped = begin(&server, &issuer).await;
    let code = begin(&server, &issuer).await.answer["code"].clone();
    swapped.answer.insert("code".to_owned(), code);
    refused(&server, &swapped.finish().await, "issuer", "code_refused").await;
    // The way afterwards is one of this console.
    let start = browser(&server).get(&format!("{START}?next=//evil.example")).await;
    let answer = issuer.agree(start.header("location"));
    let browser = browser(&server).with("cookie", &cookie(&start, "sluice_sign_on").unwrap());
    let reply = super::Begun { browser, answer }.finish().await;
    assert_eq!((reply.status, reply.header("location")), (303, "/"));
    for path in ["/api/v1/sign-on/none", "/api/v1/sign-on/none/callback"] {
        server.any.get(path).await.is(404, &json!({"error": "Not found"}));
    }
    // After six failures an address waits.
    let one = super::browser(&server);
    for tries in 0..8 {
        let start = one.get(START).await;
        let state = &query_of(start.header("location"))["state"];
        let browser = one.with("cookie", &cookie(&start, "sluice_sign_on").unwrap());
        let reply = browser.get(&format!("{START}/callback?code=x&state={state}")).await;
        assert_eq!(reply.status, if tries < 6 { 303 } else { 429 }, "{tries}");
    }
}

async fn what_one_provider_began_ends_at_no_other(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let other = Issuer::start().await;
    let mut fields = super::fields(&other);
    fields["slug"] = json!("other");
    fields["name"] = json!("Other & Co");
    server.owner().await.post(super::PROVIDERS, &fields).await.ok(200);
    let page = browser(&server).get("/sign-in").await;
    for button in [
        r#"href="/api/v1/sign-on/stub?next=%2F">Sign in with Stub</a>"#,
        r#"href="/api/v1/sign-on/other?next=%2F">Sign in with Other &#38; Co</a>"#,
    ] {
        assert!(page.text.contains(button), "no {button} in {}", page.text);
    }
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    let begun = begin(&server, &issuer).await;
    let back = format!("/api/v1/sign-on/other/callback?{}", query(&begun.answer));
    let reply = begun.browser.get(&back).await;
    assert_eq!(reply.status, 303, "{}", reply.text);
    assert!(reply.header("location").starts_with("/sign-in?refused=stale&"), "{}", reply.text);
    assert_eq!(cookie(&reply, "sluice_session"), None);
    let refused = &events(&server, "login_failed").await[0]["metadata"];
    assert_eq!((&refused["provider"], &refused["reason"]), (&json!("other"), &json!("cookie")));
    assert_eq!((issuer.token_requests(), other.token_requests()), (0, 0), "no code is sent");
}

async fn a_client_that_is_set_up_wrongly_is_nobodys_failure(backend: Backend) {
    let (server, issuer, made) = with_provider(&backend).await;
    let owner = server.owner().await;
    let one = format!("{}/{}", super::PROVIDERS, made["id"]);
    owner.patch(&one, &json!({"client_secret": "a-wrong-secret"})).await.ok(200);
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    // Honest people behind one address do not wait for the mistake of an owner.
    let office = super::browser(&server);
    let sign_on = async || {
        let start = office.get(START).await;
        let answer = issuer.agree(start.header("location"));
        let browser = office.with("cookie", &cookie(&start, "sluice_sign_on").unwrap());
        super::Begun { browser, answer }.finish().await
    };
    for _ in 0..8 {
        refused(&server, &sign_on().await, "issuer", "issuer_status").await;
    }
    owner.patch(&one, &json!({"client_secret": super::SECRET})).await.ok(200);
    for error in ["unauthorized_client", "invalid_scope", "unsupported_grant_type"] {
        issuer.script(|script| script.error = Some(error));
        for _ in 0..3 {
            refused(&server, &sign_on().await, "issuer", "issuer_status").await;
        }
    }
    // Some issuers say this of codes that are wrong: whoever makes them up has to wait.
    issuer.script(|script| script.error = Some("invalid_request"));
    refused(&server, &sign_on().await, "issuer", "code_refused").await;
    issuer.script(|script| script.error = None);
    assert_eq!(sign_on().await.header("location"), "/");
    super::signed_on(&server, &issuer).await;
}

async fn without_a_console_the_answers_are_json(backend: Backend) {
    let server = Setup::new(&backend)
        .env("SLUICE_EGRESS_ALLOW", "127.0.0.1")
        .env("SLUICE_CONSOLE", "false")
        .env("SLUICE_PUBLIC_URL", "http://127.0.0.1:1")
        .start()
        .await;
    let issuer = Issuer::start().await;
    server.owner().await.post(super::PROVIDERS, &super::fields(&issuer)).await.ok(200);
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    let reply = sign_on(&server, &issuer).await;
    assert_eq!(reply.ok(200)["user"]["email"], "ann@example.org");
    issuer.says(&person("user-2", "bob@example.org", &[]));
    let reply = sign_on(&server, &issuer).await;
    reply.says(401, "gives you no role here");
    assert_eq!(reply.json()["code"], "SIGN_ON_REFUSED");
    issuer.says(&person("user-3", crate::harness::OWNER, &[]));
    sign_on(&server, &issuer).await.says(401, "POST /api/v1/session/identities");
}

async fn an_issuer_that_does_not_answer_is_left_alone(backend: Backend) {
    let mut server = server(&backend).await;
    let issuer = Issuer::start().await;
    server.owner().await.post(super::PROVIDERS, &super::fields(&issuer)).await.ok(200);
    let begun = begin(&server, &issuer).await;
    // Nothing is remembered of it, and it gives no sense any more.
    server.restart().await;
    issuer.script(|script| {
        script.metadata.insert("issuer".to_owned(), json!("https://other.example"));
    });
    for _ in 0..3 {
        let reply = browser(&server).get(START).await;
        assert_eq!(reply.header("location"), "/sign-in?refused=issuer&next=%2F");
        assert_eq!(cookie(&reply, "sluice_sign_on"), None);
    }
    // That is nobody's failure: whoever is back from it does not have to wait.
    for _ in 0..8 {
        refused(&server, &begun.finish().await, "issuer", "issuer_other").await;
    }
    let page = browser(&server).get("/sign-in?refused=issuer").await;
    assert!(page.text.contains("Your provider could not be reached"), "{}", page.text);
    let page = browser(&server).get("/sign-in?refused=made-up").await;
    assert!(!page.text.contains("alert") && !page.text.contains("made-up"), "{}", page.text);
}

async fn an_address_that_may_not_call_does_not_sign_on(backend: Backend) {
    let setup = Setup::new(&backend)
        .env("SLUICE_EGRESS_ALLOW", "127.0.0.1")
        .env("SLUICE_TRUSTED_PROXIES", "127.0.0.1/32")
        .env("SLUICE_PERIMETER_BLOCK", "198.51.100.0/24")
        .env("SLUICE_PUBLIC_URL", "http://127.0.0.1:1");
    let (server, issuer) = (setup.start().await, Issuer::start().await);
    server.owner().await.post(super::PROVIDERS, &super::fields(&issuer)).await.ok(200);
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    let mut begun = begin(&server, &issuer).await;
    begun.browser = begun.browser.with("x-forwarded-for", "198.51.100.7");
    let blocked = json!({"error": "Forbidden", "code": "PERIMETER_BLOCK"});
    begun.finish().await.is(403, &blocked);
    begun.browser.get(START).await.is(403, &blocked);
    assert_eq!(issuer.token_requests(), 0);
    begun.browser = begun.browser.with("x-forwarded-for", "203.0.113.99");
    assert_eq!(begun.finish().await.header("location"), "/traces");
}
