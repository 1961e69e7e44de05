//! Links that go by letter.

use serde_json::{Value, json};

use crate::harness::{Backend, Mailbox, OWNER, PASSWORD, Server, Setup};
use crate::session::roles::{USER_PASSWORD, user};

crate::on_every_backend!(
    an_invitation_goes_by_letter,
    whoever_has_forgotten_their_password_gets_a_link,
    an_address_is_verified_by_a_letter,
    a_mail_server_that_is_busy_or_gone_stops_nobody
);

const PUBLIC: &str = "http://sluice.example:8080";

async fn start(backend: &Backend, mailbox: &Mailbox) -> Server {
    mailbox.configure(Setup::new(backend), PUBLIC).start().await
}

fn token(link: &str) -> &str {
    link.split_once("?token=").unwrap().1
}

async fn an_invitation_goes_by_letter(backend: Backend) {
    let mailbox = Mailbox::start(0).await;
    let server = start(&backend, &mailbox).await;
    let owner = server.owner().await;
    let new = json!({"email": "ada@example.org", "role": "viewer"});
    let made = owner.post("/api/v1/invitations", &new).await.ok(200);
    assert_eq!((&made["sent"], &made["link"]), (&json!(true), &Value::Null));
    let letter = mailbox.next().await;
    assert_eq!(letter.to, "ada@example.org");
    for part in [
        "From: Sluice <sluice@example.com>",
        "Subject: An invitation to Sluice",
        "Content-Type: text/plain",
        "The link is good once, for 72 hours.",
    ] {
        assert!(letter.text.contains(part), "{part}: {}", letter.text);
    }
    let link = letter.link(PUBLIC);
    assert!(link.starts_with("/invitation?token="), "{link}");
    let accept = json!({"token": token(&link), "name": "Ada", "password": USER_PASSWORD});
    server.any.post("/api/v1/invitations/accept", &accept).await.ok(200);
    let people = owner.get("/api/v1/users").await.ok(200);
    assert_eq!(people[1]["email_verified"], false, "its link may have been handed over");
    assert!(!server.log().contains(token(&link)), "a link is no part of the log");
    for email in ["to@example.org\r\nBcc: x@example.org", "a,b@example.org"] {
        let new = json!({"email": email, "role": "viewer"});
        owner.post("/api/v1/invitations", &new).await.says(422, "Email is not");
    }
    assert!(mailbox.take().is_empty());
}

async fn whoever_has_forgotten_their_password_gets_a_link(backend: Backend) {
    let mailbox = Mailbox::start(0).await;
    let server = start(&backend, &mailbox).await;
    let owner = server.owner().await;
    user(&server, "member", &[]).await;
    let ask = async |email: &str| {
        server.any.post("/api/v1/password-resets", &json!({"email": email})).await
    };
    // The answer does not tell an address with an account from others.
    let [known, unknown] = [ask("member@example.org").await, ask("nobody@example.org").await];
    assert_eq!((known.status, &known.text), (202, &unknown.text));
    assert_eq!(unknown.status, 202);
    let letter = mailbox.next().await;
    assert_eq!(letter.to, "member@example.org");
    let link = letter.link(PUBLIC);
    let set = json!({"token": token(&link), "password": "another-password-2"});
    server.any.post("/api/v1/password-resets/use", &set).await.ok(204);
    server.login("member@example.org", "another-password-2").await.ok(200);
    assert!(mailbox.take().is_empty(), "nobody else gets a letter");
    let events = owner.get("/api/v1/audit-events?event=password_link_made").await.ok(200);
    let events = events.as_array().unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["actor"], &events[0]["target_id"]), (&Value::Null, &json!("2")));
    // An owner's link goes by letter too.
    let made = owner.post("/api/v1/users/2/password-link", &json!({})).await.ok(200);
    assert_eq!(made, json!({"sent": true, "link": null}));
    mailbox.next().await.link(PUBLIC);
    // A stranger who asks again ends no link that was made before.
    let mut links = Vec::new();
    for _ in 0..2 {
        ask("member@example.org").await.ok(202);
        links.push(mailbox.next().await.link(PUBLIC));
    }
    let set = json!({"token": token(&links[0]), "password": "another-password-3"});
    server.any.post("/api/v1/password-resets/use", &set).await.ok(204);
    let set = json!({"token": token(&links[1]), "password": "another-password-4"});
    server.any.post("/api/v1/password-resets/use", &set).await.says(422, "The link is invalid");
    // A network asks for a few letters, and no more.
    let mut statuses = Vec::new();
    for number in 0..4 {
        statuses.push(ask(&format!("{number}@example.org")).await.status);
    }
    assert_eq!((statuses[0], statuses[3]), (202, 429), "{statuses:?}");
    let elsewhere = server.any.with("origin", "https://evil.example");
    let body = json!({"email": OWNER});
    elsewhere.post("/api/v1/password-resets", &body).await.ok(403);
    server.login(OWNER, PASSWORD).await.ok(200);
}

async fn an_address_is_verified_by_a_letter(backend: Backend) {
    let mailbox = Mailbox::start(0).await;
    let server = start(&backend, &mailbox).await;
    let owner = server.owner().await;
    let member = user(&server, "member", &[]).await;
    member.post("/api/v1/session/verification", &json!({})).await.ok(202);
    let letter = mailbox.next().await;
    assert_eq!(letter.to, "member@example.org");
    let link = letter.link(PUBLIC);
    let token = json!({"token": token(&link)});
    server.any.post("/api/v1/verifications/use", &token).await.ok(204);
    server.any.post("/api/v1/verifications/use", &token).await.says(422, "The link is invalid");
    let people = owner.get("/api/v1/users").await.ok(200);
    assert_eq!(
        (&people[0]["email_verified"], &people[1]["email_verified"]),
        (&json!(false), &json!(true))
    );
    let events = owner.get("/api/v1/audit-events?event=email_verified").await.ok(200);
    assert_eq!(events[0]["actor"], "member@example.org");
    // Without a mail server there is nothing to send.
    let bare = Server::start(&backend).await;
    let refused = bare.owner().await.post("/api/v1/session/verification", &json!({})).await;
    refused.says(422, "No mail server is configured");
    let ask = json!({"email": OWNER});
    bare.any.post("/api/v1/password-resets", &ask).await.says(422, "No mail server is configured");
}

async fn a_mail_server_that_is_busy_or_gone_stops_nobody(backend: Backend) {
    let mailbox = Mailbox::start(1).await;
    let server = start(&backend, &mailbox).await;
    let owner = server.owner().await;
    let invite = async |server: &crate::harness::Caller| {
        let new = json!({"email": "ada@example.org", "role": "viewer"});
        server.post("/api/v1/invitations", &new).await.ok(200);
    };
    invite(&owner).await;
    assert_eq!(mailbox.next().await.to, "ada@example.org", "it was tried again");
    // Nobody listens: the invitation stands, and the gateway stops at once.
    let mut gone = Setup::new(&backend)
        .env("SLUICE_SMTP_URL", "smtp://127.0.0.1:9")
        .env("SLUICE_MAIL_FROM", "sluice@example.com")
        .env("SLUICE_PUBLIC_URL", PUBLIC)
        .start()
        .await;
    let owner = gone.owner().await;
    invite(&owner).await;
    assert_eq!(owner.get("/api/v1/invitations").await.ok(200).as_array().unwrap().len(), 1);
    gone.stop().await;
}
