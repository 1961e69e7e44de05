//! Authorization and authentication.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, OWNER, PASSWORD, Server, Setup, until};

crate::on_every_backend!(
    every_bad_key_gets_the_same_401,
    a_key_ends_when_it_expires_or_is_revoked,
    keys_and_sessions_are_not_interchangeable,
    members_and_viewers,
    a_member_sees_no_other_project,
    pages_of_other_sites_change_nothing,
    a_trusted_proxy_says_how_the_browser_came,
    seven_wrong_passwords,
    wrong_passwords_at_the_same_time,
    strangers_do_not_lock_the_owner_out,
    the_cookie,
    the_cookie_behind_https,
);

const USER_PASSWORD: &str = "user-password-1";

fn unauthorized() -> Value {
    json!({"error": "Unauthorized"})
}

async fn user(server: &Server, role: &str, projects: &[&str]) -> Caller {
    let email = format!("{role}@example.org");
    let mut args = vec!["user", "create", &email, "--role", role];
    for project in projects {
        args.extend(["--project", project]);
    }
    let made = server.cli(&args, &[("SLUICE_USER_PASSWORD", USER_PASSWORD)]).await;
    assert!(made.status.success(), "{made:?}");
    assert!(!String::from_utf8_lossy(&made.stdout).contains(USER_PASSWORD));
    server.session(&email, USER_PASSWORD).await
}

async fn every_bad_key_gets_the_same_401(backend: Backend) {
    let server = Server::start(&backend).await;
    server.any.get("/api/v1/traces").await.is(401, &unauthorized());
    for value in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer nonsense",
        "Basic b3duZXI6cGFzcw==",
        "Bearer ak_",
        "Bearer ak_00000000000000aa",
        "Bearer ak_00000000000000aa.",
        "Bearer ak_00000000000000aa.0123456789abcdefghijABCDEFGHIJ0123456789_-X",
        "Bearer ak_00000000000000ab.0123456789abcdefghijABCDEFGHIJ0123456789_-x",
        "Bearer ak_zz.0123456789abcdefghijABCDEFGHIJ0123456789_-x",
        "ak_00000000000000aa.0123456789abcdefghijABCDEFGHIJ0123456789_-x",
    ] {
        let caller = server.any.with("authorization", value);
        caller.get("/api/v1/traces").await.is(401, &unauthorized());
        caller.post("/api/v1/executions", &json!({})).await.is(401, &unauthorized());
        caller.get("/api/v1/stats").await.is(401, &unauthorized());
    }
    let query = format!("/api/v1/traces?api_key={}", crate::harness::KEY);
    server.any.get(&query).await.is(401, &unauthorized());
    let owner = server.owner().await;
    let events = owner.get("/api/v1/audit-events?event=perimeter_block").await.ok(200);
    assert_eq!(events.as_array().unwrap().len(), 1, "one row per address and minute: {events}");
    assert_eq!(events[0]["ip"], "127.0.0.1");
    let refused = events[0]["metadata"]["count"].as_u64().unwrap();
    server.any.with("authorization", "Bearer ak_00000000000000ab.0").get("/api/v1/stats").await;
    let again = owner.get("/api/v1/audit-events?event=perimeter_block").await.ok(200);
    assert_eq!(again[0]["metadata"]["count"], refused + 1, "{again}");
}

async fn a_key_ends_when_it_expires_or_is_revoked(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let new = json!({"name": "short", "project_id": 1, "expires_at": "2001-01-01T00:00:00Z"});
    let made = owner.post("/api/v1/keys", &new).await.ok(201);
    let key = server.with_key(made["raw_key"].as_str().unwrap());
    key.get("/api/v1/traces").await.is(401, &unauthorized());
    let path = format!("/api/v1/keys/{}", made["id"].as_str().unwrap());
    let lifted = owner.patch(&path, &json!({"expires_at": null})).await.ok(200);
    assert!(lifted["expires_at"].is_null());
    key.get("/api/v1/traces").await.ok(200);
    let far = owner.patch(&path, &json!({"expires_at": "2999-12-31T23:59:59Z"})).await.ok(200);
    assert!(far["expires_at"].as_str().unwrap().starts_with("2999-12-31T23:59:59"));
    key.get("/api/v1/traces").await.ok(200);
    let naive = owner.patch(&path, &json!({"expires_at": "2998-12-31T23:59:59"})).await.ok(200);
    assert_eq!(naive["expires_at"], "2998-12-31T23:59:59.000Z", "no offset is UTC");
    owner.patch(&path, &json!({"expires_at": "tomorrow"})).await.says(422, "expires_at");
    assert_eq!(owner.delete(&path).await.ok(204), Value::Null);
    key.get("/api/v1/traces").await.is(401, &unauthorized());
    owner.delete(&path).await.is(404, &json!({"error": "Not found"}));
    owner.patch(&path, &json!({"status": "active"})).await.is(404, &json!({"error": "Not found"}));
    let keys = owner.get("/api/v1/keys").await;
    assert!(!keys.text.contains(made["id"].as_str().unwrap()));
}

async fn keys_and_sessions_are_not_interchangeable(backend: Backend) {
    let server = Server::start(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    for path in ["projects", "projects/1", "projects/1/models", "keys", "audit-events", "session"] {
        let path = format!("/api/v1/{path}");
        owner.get(&path).await.ok(200);
        key.get(&path).await.is(401, &unauthorized());
        server.any.get(&path).await.is(401, &unauthorized());
    }
    for path in ["traces", "sdk/config"] {
        owner.get(&format!("/api/v1/{path}")).await.is(401, &unauthorized());
    }
    owner.post("/api/v1/traces", &json!({})).await.is(401, &unauthorized());
    let (by_key, by_session) =
        (key.get("/api/v1/stats").await.ok(200), owner.get("/api/v1/stats").await.ok(200));
    assert_eq!(by_key["security"], by_session["security"]);
    server.any.get("/api/v1/stats").await.is(401, &unauthorized());
    for cookie in ["sluice_session=nonsense", &format!("sluice_session={}", "0".repeat(64))] {
        let odd = server.any.with("cookie", cookie);
        odd.get("/api/v1/projects").await.is(401, &json!({"error": "Invalid token"}));
        odd.get("/api/v1/session").await.is(401, &unauthorized());
        odd.delete("/api/v1/session").await.is(401, &unauthorized());
    }
}

async fn members_and_viewers(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let member = user(&server, "member", &["1"]).await;
    let viewer = user(&server, "viewer", &["1"]).await;
    let key = |limit: Value| json!({"name": "k", "project_id": 1, "hourly_limit": limit});
    let model = json!({"model_definition": {"name": "m", "identifier": "m", "provider": "openai"}});
    let first = owner.post("/api/v1/keys", &key(Value::Null)).await.ok(201);
    let a_key = format!("/api/v1/keys/{}", first["id"].as_str().unwrap());
    let model_id = owner.get("/api/v1/projects/1/models").await.ok(200);
    let a_model = format!("/api/v1/projects/1/models/{}", model_id[0]["model_definition"]["id"]);
    let none = Value::Null;
    for (method, path, body, may_member, may_viewer) in [
        ("GET", "/api/v1/projects", &none, 200, 200),
        ("GET", "/api/v1/projects/1", &none, 200, 200),
        ("GET", "/api/v1/projects/1/models", &none, 200, 200),
        ("GET", &*a_model, &none, 200, 200),
        ("GET", "/api/v1/keys", &none, 200, 200),
        ("GET", "/api/v1/stats?project_id=1", &none, 200, 200),
        ("GET", "/api/v1/session", &none, 200, 200),
        ("POST", "/api/v1/projects/1/safety/test", &json!({"text": "x"}), 200, 403),
        ("GET", "/api/v1/audit-events", &none, 403, 403),
        ("POST", "/api/v1/projects", &json!({"project": {"name": "x"}}), 403, 403),
        ("PATCH", "/api/v1/projects/1", &json!({"project": {"name": "x"}}), 403, 403),
        ("PATCH", "/api/v1/projects/1", &json!({"project": {"settings": {}}}), 403, 403),
        ("DELETE", "/api/v1/projects/1", &none, 403, 403),
        ("POST", "/api/v1/projects/1/models", &model, 403, 403),
        ("PATCH", &a_model, &model, 403, 403),
        ("DELETE", &a_model, &none, 403, 403),
        ("POST", "/api/v1/keys", &key(Value::Null), 201, 403),
        ("POST", "/api/v1/keys", &key(json!(5)), 403, 403),
        ("PATCH", &a_key, &json!({"status": "active"}), 403, 403),
        ("PATCH", &a_key, &json!({"hourly_limit": 5}), 403, 403),
        ("DELETE", &a_key, &none, 204, 403),
    ] {
        let body = (!body.is_null()).then(|| body.to_string().into_bytes());
        for (who, caller, may) in [("viewer", &viewer, may_viewer), ("member", &member, may_member)]
        {
            let reply = caller.send(method, path, body.clone()).await;
            assert_eq!(reply.status, may, "{who}: {method} {path}: {}", reply.text);
            if may == 403 {
                reply.is(403, &json!({"error": "Forbidden"}));
            }
        }
    }
    admin.get("/api/v1/audit-events").await.ok(200);
    admin.post("/api/v1/keys", &key(json!(5))).await.ok(201);
    admin.post("/api/v1/projects/1/models", &model).await.ok(201);
    let made = admin.post("/api/v1/projects", &json!({"project": {"name": "x"}})).await.ok(201);
    assert_eq!(admin.get("/api/v1/projects").await.ok(200).as_array().unwrap().len(), 2);
    admin.delete(&format!("/api/v1/projects/{}", made["id"])).await.ok(204);
    let whoami = member.get("/api/v1/session").await.ok(200);
    assert_eq!(whoami["user"]["email"], "member@example.org");
    assert_eq!(whoami["user"]["role"], "member");
    assert_eq!(whoami["user"]["mfa_enabled"], false);
    assert!(whoami["organization"]["id"].is_i64());
}

async fn a_member_sees_no_other_project(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let made =
        owner.post("/api/v1/projects", &json!({"project": {"name": "Theirs"}})).await.ok(201);
    let theirs = &made["id"];
    let new = json!({"name": "theirs", "project_id": theirs});
    let their_key = owner.post("/api/v1/keys", &new).await.ok(201)["id"].clone();
    let their_key = format!("/api/v1/keys/{}", their_key.as_str().unwrap());
    let member = user(&server, "member", &["1"]).await;
    let projects = member.get("/api/v1/projects").await.ok(200);
    assert_eq!(projects.as_array().unwrap().len(), 1);
    assert_eq!(projects[0]["id"], 1);
    let keys = member.get("/api/v1/keys").await.ok(200);
    assert!(keys.as_array().unwrap().iter().all(|key| key["project"]["id"] == 1), "{keys}");
    let gone = json!({"error": "Not found"});
    for id in [theirs, &json!(999)] {
        let path = format!("/api/v1/projects/{id}");
        member.get(&path).await.is(404, &gone);
        member.patch(&path, &json!({"project": {"name": "x"}})).await.is(404, &gone);
        member.delete(&path).await.is(404, &gone);
        member.get(&format!("{path}/models")).await.is(404, &gone);
        member.get(&format!("/api/v1/stats?project_id={id}")).await.is(404, &gone);
        let reply = member.post("/api/v1/keys", &json!({"name": "k", "project_id": id})).await;
        reply.invalid("Project not found");
    }
    for path in [&*their_key, "/api/v1/keys/ak_1234567890abcdef", "/api/v1/keys/nonsense"] {
        member.delete(path).await.is(404, &gone);
        member.patch(path, &json!({"status": "active"})).await.is(404, &gone);
    }
    let nobody = user(&server, "viewer", &[]).await;
    assert_eq!(nobody.get("/api/v1/projects").await.ok(200), json!([]));
    assert_eq!(nobody.get("/api/v1/keys").await.ok(200), json!([]));
}

async fn pages_of_other_sites_change_nothing(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let forbidden = json!({"error": "Forbidden"});
    let own = format!("http://127.0.0.1:{}", server.port);
    let new = json!({"project": {"name": "x"}});
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", &format!("{own}0")),
        ("origin", &format!("http://127.0.0.1:{}", server.port ^ 1)),
        ("origin", &format!("https://127.0.0.1:{}", server.port)),
        ("origin", &format!("{own}/")),
        ("origin", "127.0.0.1"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "nonsense"),
    ] {
        let foreign = owner.with(name, value);
        foreign.post("/api/v1/projects", &new).await.is(403, &forbidden);
        foreign.patch("/api/v1/projects/1", &new).await.is(403, &forbidden);
        foreign.delete("/api/v1/projects/1").await.is(403, &forbidden);
        foreign.delete("/api/v1/session").await.is(403, &forbidden);
        foreign.get("/api/v1/projects").await.ok(200);
        let login = json!({"email": OWNER, "password": PASSWORD});
        let login = server.any.with(name, value).post("/api/v1/session", &login).await;
        login.is(403, &forbidden);
        // A key is no cookie: nobody else's browser holds it.
        server.key().with(name, value).post("/api/v1/traces", &json!({})).await.ok(201);
    }
    let same = owner.with("origin", &own).with("sec-fetch-site", "same-origin");
    same.post("/api/v1/projects", &new).await.ok(201);
    for site in ["same-site", "none"] {
        let same = owner.with("origin", &own).with("sec-fetch-site", site);
        same.post("/api/v1/projects", &new).await.ok(201);
    }
    // Nobody is trusted to have spoken TLS with the browser.
    let tls = owner.with("origin", &format!("https://127.0.0.1:{}", server.port));
    let tls = tls.with("x-forwarded-proto", "https");
    tls.post("/api/v1/projects", &new).await.is(403, &forbidden);
}

async fn a_trusted_proxy_says_how_the_browser_came(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_TRUSTED_PROXIES", "127.0.0.1/32").start().await;
    let owner = server.owner().await;
    let new = json!({"project": {"name": "x"}});
    for (proto, origin, status) in [
        ("https", "https", 201),
        ("https", "http", 403),
        ("HTTPS, http", "https", 201),
        ("http", "http", 201),
        ("http", "https", 403),
        ("nonsense", "https", 403),
    ] {
        let origin = format!("{origin}://127.0.0.1:{}", server.port);
        let asked = owner.with("origin", &origin).with("x-forwarded-proto", proto);
        let reply = asked.post("/api/v1/projects", &new).await;
        assert_eq!(reply.status, status, "{proto} {origin}: {}", reply.text);
    }
}

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
