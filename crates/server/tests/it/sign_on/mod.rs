//! Single sign-on, against an issuer of the tests' own.

mod accounts;
mod at_once;
mod invitations;
mod issuer;
mod made_users;
mod providers;
mod resets;
mod round_trip;
mod second_factor;
mod tokens;
mod ways_in;

use std::collections::HashMap;

use serde_json::{Value, json};

use self::issuer::{CLIENT, Issuer, SECRET, query};
use crate::harness::{Backend, Caller, Reply, Server, Setup};

const PROVIDERS: &str = "/api/v1/sign-on-providers";
const START: &str = "/api/v1/sign-on/stub";

/// A server that knows its own address, may call loopback, and believes loopback about addresses of clients.
async fn server(backend: &Backend) -> Server {
    server_at(backend, "http://127.0.0.1").await
}

/// The same, which browsers reach at a host.
async fn server_at(backend: &Backend, host: &str) -> Server {
    let setup = Setup::new(backend)
        .env("SLUICE_EGRESS_ALLOW", "127.0.0.1")
        .env("SLUICE_TRUSTED_PROXIES", "127.0.0.1/32");
    let server = setup.prepare();
    let base = format!("{host}:{}", server.port);
    let mut server = server.with_env("SLUICE_PUBLIC_URL", &base);
    server.up().await;
    server
}

/// The fields of a provider at an issuer.
fn fields(issuer: &Issuer) -> Value {
    json!({
        "slug": "stub", "name": "Stub", "issuer": issuer.url(), "client_id": CLIENT,
        "client_secret": SECRET,
        "rules": [
            {"claim_value": "ops", "role": "admin"},
            {"claim_value": "eng", "role": "member", "projects": [1]},
        ],
    })
}

/// A server with one provider, and its issuer.
async fn with_provider(backend: &Backend) -> (Server, Issuer, Value) {
    let (server, issuer) = (server(backend).await, Issuer::start().await);
    let provider = server.owner().await.post(PROVIDERS, &fields(&issuer)).await.ok(200);
    (server, issuer, provider)
}

/// A browser that follows no redirect by itself. Each has an address of its own, so that the failures of one
/// do not count for the next.
fn browser(server: &Server) -> Caller {
    use std::sync::atomic::{AtomicU8, Ordering};
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let policy = reqwest::redirect::Policy::none();
    let client = reqwest::Client::builder().redirect(policy).no_proxy().build().unwrap();
    let address = format!("203.0.113.{}", NEXT.fetch_add(1, Ordering::Relaxed));
    Caller::new(client, server.any.base.clone()).with("x-forwarded-for", &address)
}

/// The value of a cookie that an answer sets, as a browser sends it.
fn cookie(reply: &Reply, name: &str) -> Option<String> {
    let values = reply.headers.get_all("set-cookie").iter();
    let mut values = values.map(|value| value.to_str().unwrap());
    let found = values.find(|value| value.starts_with(&format!("{name}=")))?;
    Some(found.split(';').next().unwrap().to_owned())
}

/// A sign-on that has begun: its browser, and what the issuer leads back with.
struct Begun {
    browser: Caller,
    answer: HashMap<String, String>,
}

impl Begun {
    async fn finish(&self) -> Reply {
        self.browser.get(&format!("{START}/callback?{}", query(&self.answer))).await
    }
}

async fn begin(server: &Server, issuer: &Issuer) -> Begun {
    begin_at(server, issuer, &format!("{START}?next=/traces")).await
}

/// A sign-on that has begun at an address.
async fn begin_at(server: &Server, issuer: &Issuer, path: &str) -> Begun {
    let browser = browser(server);
    let reply = browser.get(path).await;
    assert_eq!(reply.status, 303, "{}", reply.text);
    let answer = issuer.agree(reply.header("location"));
    let browser = browser.with("cookie", &cookie(&reply, "sluice_sign_on").unwrap());
    Begun { browser, answer }
}

/// Goes the whole way.
async fn sign_on(server: &Server, issuer: &Issuer) -> Reply {
    begin(server, issuer).await.finish().await
}

/// Goes the whole way, and is signed in.
async fn signed_on(server: &Server, issuer: &Issuer) -> Caller {
    let reply = sign_on(server, issuer).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/traces"), "{}", reply.text);
    server.any.with("cookie", &cookie(&reply, "sluice_session").unwrap())
}

/// The sign-on was refused, for this reason.
async fn refused(server: &Server, reply: &Reply, word: &str, reason: &str) {
    assert_eq!(reply.status, 303, "{}", reply.text);
    let page = reply.header("location");
    assert!(page.starts_with(&format!("/sign-in?refused={word}&")), "{page} {reason}");
    assert_eq!(cookie(reply, "sluice_session"), None);
    assert_eq!(cookie(reply, "sluice_sign_on").as_deref(), Some("sluice_sign_on="));
    let events = events(server, "login_failed").await;
    let metadata = &events[0]["metadata"];
    assert_eq!((&metadata["provider"], &metadata["reason"]), (&json!("stub"), &json!(reason)));
}

async fn events(server: &Server, kind: &str) -> Vec<Value> {
    let path = format!("/api/v1/audit-events?event={kind}");
    server.owner().await.get(&path).await.ok(200).as_array().unwrap().clone()
}

/// A user with an address that the issuer has verified.
fn person(subject: &str, email: &str, groups: &[&str]) -> Value {
    json!({"sub": subject, "email": email, "email_verified": true, "name": "Ann O. Ther", "groups": groups})
}

/// Links the account of somebody to the issuer's user; their session.
async fn linked(
    server: &Server,
    issuer: &Issuer,
    subject: &str,
    (email, password): (&str, &str),
) -> Caller {
    issuer.says(&person(subject, email, &[]));
    let reply = sign_on(server, issuer).await;
    let link = cookie(&reply, "sluice_link").unwrap();
    let session = server.login(email, password).await;
    let session = cookie(&session, "sluice_session").unwrap();
    let linking = server.any.with("cookie", &format!("{session}; {link}"));
    let password = json!({"password": password});
    linking.post("/api/v1/session/identities", &password).await.ok(204);
    server.any.with("cookie", &session)
}
