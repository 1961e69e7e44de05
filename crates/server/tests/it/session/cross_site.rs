//! Requests that pages of other sites make browsers send.

use serde_json::json;

use crate::harness::{Backend, OWNER, PASSWORD, Server, Setup};

crate::on_every_backend!(
    pages_of_other_sites_change_nothing,
    a_trusted_proxy_says_how_the_browser_came
);

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
