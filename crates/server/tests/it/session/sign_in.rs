//! Sign-in: wrong passwords, and the cookie.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Backend, OWNER, PASSWORD, Server, Setup, until};

use crate::keys::authentication::unauthorized;
use crate::session::roles::USER_PASSWORD;

crate::on_every_backend!(
    seven_wrong_passwords,
    wrong_passwords_at_the_same_time,
    strangers_do_not_lock_the_owner_out,
    the_cookie,
    the_cookie_behind_https
);

async fn seven_wrong_passwords(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    for attempt in 0..6 {
        let email = if attempt % 2 == 0 { OWNER } else { "no\0body@example.org" };
        server.login(email, "wrong-password-1").await.is(401, &unauthorized());
    }
    let seventh = server.login(OWNER, PASSWORD).await;
    assert_eq!(seventh.status, 429, "{}", seventh.text);
    let wait: u64 = seventh.header("retry-after").parse().unwrap();
    assert!((1..=900).contains(&wait), "{wait}");
    assert!(!seventh.headers.contains_key("set-cookie"));
    let failed = owner.get("/api/v1/audit-events?event=login_failed").await.ok(200);
    assert_eq!(failed.as_array().unwrap().len(), 6);
    assert!(!failed.to_string().contains("wrong-password-1"));
    let fine = owner.get("/api/v1/audit-events?event=login_success").await.ok(200);
    assert_eq!(fine.as_array().unwrap().len(), 1);
}

async fn strangers_do_not_lock_the_owner_out(backend: Backend) {
    let proxied = Setup::new(&backend).env("SLUICE_TRUSTED_PROXIES", "127.0.0.1/32");
    let mut server = proxied.start().await;
    let login = async |server: &Server, address: &str, password: &str| {
        let from = server.any.with("x-forwarded-for", address);
        let body = json!({"email": OWNER, "password": password});
        from.post("/api/v1/session", &body).await.status
    };
    let (home, office) = ("203.0.113.5", "2001:db8:1:2::5");
    for address in [home, office] {
        assert_eq!(login(&server, address, PASSWORD).await, 200);
    }
    for run in ["", "after a restart"] {
        for stranger in 1..=6 {
            let address = format!("198.51.100.{stranger}");
            assert_eq!(login(&server, &address, "wrong-password-1").await, 401, "{run}");
        }
        assert_eq!(login(&server, "198.51.100.7", "wrong-password-1").await, 429, "{run}");
        assert_eq!(login(&server, "192.0.2.1", PASSWORD).await, 429, "strangers are many");
        assert_eq!(login(&server, home, PASSWORD).await, 200, "{run}");
        assert_eq!(login(&server, "2001:db8:1:2:ffff::9", PASSWORD).await, 200, "the same /64");
        assert_eq!(login(&server, "2001:db8:1:3::5", PASSWORD).await, 429, "another /64");
        // A known address has no more tries than any.
        for _ in 0..6 {
            assert_eq!(login(&server, home, "wrong-password-1").await, 401, "{run}");
        }
        assert_eq!(login(&server, home, PASSWORD).await, 429, "{run}");
        assert_eq!(login(&server, office, PASSWORD).await, 200, "{run}");
        server.restart().await;
    }
}

async fn wrong_passwords_at_the_same_time(backend: Backend) {
    let server = Server::start(&backend).await;
    let attempts: Vec<_> = (0..20)
        .map(|_| {
            let body = json!({"email": OWNER, "password": "wrong-password-1"});
            let any = server.any.clone();
            tokio::spawn(async move { any.post("/api/v1/session", &body).await.status })
        })
        .collect();
    let mut compared = 0;
    for attempt in attempts {
        let status = attempt.await.unwrap();
        assert!([401, 429].contains(&status), "{status}");
        compared += usize::from(status == 401);
    }
    assert!(compared <= 6, "{compared} passwords were tried, 6 are allowed");
}

async fn the_cookie(backend: Backend) {
    let server = Server::start(&backend).await;
    let login = server.login("OWNER@localhost", PASSWORD).await;
    let who = login.ok(200);
    assert_eq!(who["user"]["role"], "owner");
    let cookie = login.header("set-cookie").to_owned();
    let parts: Vec<&str> = cookie.split("; ").collect();
    for part in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(parts.contains(&part), "{cookie}");
    }
    assert!(!parts.contains(&"Secure"), "this server is asked by http");
    let token = parts[0].strip_prefix("sluice_session=").unwrap();
    assert!(token.len() >= 43, "256 bits: {token}");
    let signed_in = server.any.with("cookie", &format!("theme=dark; {}", parts[0]));
    assert_eq!(signed_in.get("/api/v1/session").await.ok(200), who);
    let out = signed_in.delete("/api/v1/session").await;
    out.ok(204);
    assert!(out.header("set-cookie").contains("Max-Age=0"));
    signed_in.get("/api/v1/session").await.is(401, &unauthorized());
    signed_in.get("/api/v1/projects").await.is(401, &json!({"error": "Invalid token"}));
    let stored = server.stored();
    for secret in [token, PASSWORD, crate::harness::KEY.split('.').nth(1).unwrap()] {
        let found = stored.windows(secret.len()).any(|bytes| bytes == secret.as_bytes());
        assert!(!found, "{secret} is in the database as it is");
        assert!(!server.log().contains(secret));
    }
    let missing = server.any.post("/api/v1/session", &json!({"email": OWNER})).await;
    missing.is(400, &json!({"error": "Missing required parameter: password"}));
}

async fn the_cookie_behind_https(backend: Backend) {
    let url = "https://sluice.example.com";
    let server = Setup::new(&backend).env("SLUICE_PUBLIC_URL", url).start().await;
    let login = server.login(OWNER, PASSWORD).await;
    assert!(login.header("set-cookie").split("; ").any(|part| part == "Secure"));
    let owner = server.owner().await;
    let renamed = json!({"project": {"name": "x"}});
    owner.with("origin", url).patch("/api/v1/projects/1", &renamed).await.ok(200);
    for other in ["http://sluice.example.com", "https://sluice.example.com:8443"] {
        let foreign = owner.with("origin", other);
        foreign.patch("/api/v1/projects/1", &renamed).await.is(403, &json!({"error": "Forbidden"}));
    }
    // Changes by the command line reach the running server, sessions that it ends too.
    let reset = [("SLUICE_USER_PASSWORD", USER_PASSWORD)];
    let done = server.cli(&["user", "reset-password", OWNER], &reset).await;
    assert!(done.status.success(), "{done:?}");
    tokio::time::timeout(
        Duration::from_secs(2),
        until("the session has ended", async || {
            (owner.get("/api/v1/session").await.status == 401).then_some(())
        }),
    )
    .await
    .expect("within two seconds");
    server.login(OWNER, PASSWORD).await.is(401, &unauthorized());
    server.session(OWNER, USER_PASSWORD).await;
}
