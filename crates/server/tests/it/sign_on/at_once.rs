//! Many sign-ons at the same time, and an issuer that keeps them waiting.

use std::time::Duration;

use super::issuer::Issuer;
use super::{Begun, START, cookie, person, refused, signed_on, with_provider};
use crate::harness::{Backend, Caller, Server};

crate::on_every_backend!(
    more_sign_ons_than_connections_to_the_database,
    an_issuer_that_answers_no_code_makes_nobody_wait
);

/// More than there are connections to the database.
const AT_ONCE: usize = 16;

async fn begun_by(server: &Server, issuer: &Issuer, browser: &Caller) -> Begun {
    let start = browser.get(&format!("{START}?next=/traces")).await;
    assert_eq!(start.status, 303, "{}", start.text);
    let answer = issuer.agree(start.header("location"));
    let browser = browser.with("cookie", &cookie(&start, "sluice_sign_on").unwrap());
    assert_eq!(browser.base, server.any.base);
    Begun { browser, answer }
}

/// The answers to sign-ons that go on together, within a minute.
async fn finished(begun: Vec<Begun>) -> Vec<crate::harness::Reply> {
    let all = begun.into_iter().map(|begun| async move { begun.finish().await });
    let all = futures_util::future::join_all(all);
    tokio::time::timeout(Duration::from_mins(1), all).await.expect("none stands still")
}

async fn more_sign_ons_than_connections_to_the_database(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    for round in ["the account is made", "it is known"] {
        let mut begun = Vec::new();
        for _ in 0..AT_ONCE {
            begun.push(super::begin(&server, &issuer).await);
        }
        for reply in finished(begun).await {
            let page = (reply.status, reply.header("location"));
            assert_eq!(page, (303, "/traces"), "{round}: {}", reply.text);
        }
    }
    let users = server.owner().await.get("/api/v1/users").await.ok(200);
    assert_eq!(users.as_array().unwrap().len(), 2, "one account: {users}");
}

async fn an_issuer_that_answers_no_code_makes_nobody_wait(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    let office = super::browser(&server);
    let mut begun = Vec::new();
    for _ in 0..6 {
        begun.push(begun_by(&server, &issuer, &office).await);
    }
    issuer.script(|script| script.is_silent = true);
    for reply in finished(begun).await {
        refused(&server, &reply, "issuer", "issuer_unreachable").await;
    }
    issuer.script(|script| script.is_silent = false);
    // Six that were nobody's failure leave room for the next one from there.
    let reply = begun_by(&server, &issuer, &office).await.finish().await;
    assert_eq!((reply.status, reply.header("location")), (303, "/traces"), "{}", reply.text);
    signed_on(&server, &issuer).await;
}
