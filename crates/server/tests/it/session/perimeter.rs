//! Attacks on browsers with a session: refused, and on record.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, OWNER, PASSWORD, Server, Setup};

crate::on_every_backend!(
    requests_of_other_sites_are_on_record,
    pages_in_frames_are_refused_and_on_record,
    sessions_that_nobody_has_are_on_record,
    addresses_of_other_hosts_are_on_record,
    looks_at_spent_links_are_on_record,
    made_up_names_fill_no_audit
);

/// A browser that follows no redirect by itself, with the cookie of a caller's session.
fn browser(server: &Server, cookie: &str) -> Caller {
    let policy = reqwest::redirect::Policy::none();
    let client = reqwest::Client::builder().redirect(policy).no_proxy().build().unwrap();
    let browser = Caller::new(client, server.any.base.clone());
    if cookie.is_empty() { browser } else { browser.with("cookie", cookie) }
}

async fn cookie(server: &Server) -> String {
    let login = server.login(OWNER, PASSWORD).await;
    login.header("set-cookie").split(';').next().unwrap().to_owned()
}

/// The requests that the audit counts for a reason. Those of two minutes are two rows.
async fn counted(owner: &Caller, why: &str) -> u64 {
    let events = owner.get("/api/v1/audit-events?event=perimeter_block").await.ok(200);
    let rows = events.as_array().unwrap().iter().map(|event| &event["metadata"]);
    rows.filter(|row| row["why"] == why).map(|row| row["count"].as_u64().unwrap()).sum()
}

async fn requests_of_other_sites_are_on_record(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let why = "page of another site";
    let signed_in = browser(&server, &cookie(&server).await).with("origin", "https://evil.example");
    // Browsers leave the cookie out of most of these requests.
    let without = browser(&server, "").with("origin", "https://evil.example");
    let new = json!({"project": {"name": "x"}});
    signed_in.post("/api/v1/projects", &new).await.ok(403);
    assert_eq!(counted(&owner, why).await, 1);
    without.post("/api/v1/projects", &new).await.ok(401);
    without.post("/api/v1/session", &json!({"email": OWNER, "password": PASSWORD})).await.ok(403);
    for path in ["/sign-in", "/sign-in/code", "/invitation", "/new-password", "/verification"] {
        assert_eq!(without.send("POST", path, None).await.status, 403, "{path}");
    }
    assert_eq!(signed_in.send("POST", "/keys", None).await.status, 403);
    assert_eq!(without.send("POST", "/keys", None).await.status, 303);
    assert_eq!(counted(&owner, why).await, 10);
    // An own page is none, and so is a look.
    owner.with("origin", &server.any.base).post("/api/v1/projects", &new).await.ok(201);
    signed_in.get("/api/v1/projects").await.ok(200);
    assert_eq!(counted(&owner, why).await, 10);
    // One reason hides no other.
    server.with_key("ak_0000000000000001.no").get("/api/v1/traces").await.ok(401);
    assert_eq!(counted(&owner, "invalid key").await, 1);
}

async fn pages_in_frames_are_refused_and_on_record(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let page = browser(&server, &cookie(&server).await);
    for place in ["iframe", "frame", "embed", "object", "IFrame"] {
        for path in ["/keys", "/sign-in", "/docs/", "/docs/index.html"] {
            let framed = page.with("sec-fetch-dest", place).get(path).await;
            assert_eq!(framed.status, 403, "{path} {place}: {}", framed.text);
            assert_eq!(framed.header("x-frame-options"), "DENY", "{path}");
        }
    }
    assert_eq!(counted(&owner, "framed page").await, 20);
    for path in ["/keys", "/docs/"] {
        let shown = page.with("sec-fetch-dest", "document").get(path).await;
        assert_eq!(shown.status, 200, "{path}");
        assert_eq!(shown.header("x-frame-options"), "DENY", "{path}");
        let policy = shown.header("content-security-policy");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        // The docs share their origin with sessions.
        let sources = policy.split("; ").find(|part| part.starts_with("script-src "));
        assert_eq!(sources, Some("script-src 'self'"), "{path}");
    }
    assert_eq!(counted(&owner, "framed page").await, 20);
}

async fn sessions_that_nobody_has_are_on_record(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let invalid = json!({"error": "Invalid token"});
    let ended = cookie(&server).await;
    browser(&server, &ended).delete("/api/v1/session").await.ok(204);
    assert_eq!(counted(&owner, "unknown session").await, 0);
    let fixed = format!("sluice_session={}", "0".repeat(64));
    for session in [&*fixed, "sluice_session=x", "sluice_session=", &ended] {
        let thief = browser(&server, session);
        thief.get("/api/v1/projects").await.is(401, &invalid);
        assert_eq!(thief.get("/keys").await.status, 303, "{session}");
    }
    assert_eq!(counted(&owner, "unknown session").await, 8);
    // Another host of the domain can set a second cookie, before the own one or after it.
    let own = cookie(&server).await;
    for both in [format!("{own}; {fixed}"), format!("{fixed}; {own}"), format!("{own}; {own}")] {
        let fixed = browser(&server, &both);
        fixed.get("/api/v1/projects").await.is(401, &invalid);
        fixed.get("/api/v1/session").await.is(401, &json!({"error": "Unauthorized"}));
    }
    assert_eq!(counted(&owner, "several session cookies").await, 6);
    // The console removes them and says so: nobody is locked out.
    let fixed = browser(&server, &format!("{own}; {fixed}"));
    let page = fixed.get("/keys").await;
    assert_eq!(page.header("location"), "/sign-in?next=%2Fkeys&sessions=several");
    let removed = page.header("set-cookie");
    assert!(removed.starts_with("sluice_session=; Path=/; Max-Age=0"), "{removed}");
    let form = browser(&server, "").get(page.header("location")).await;
    assert!(form.text.contains("several sessions"), "{}", form.text);
    let fields = format!("email={}&password={PASSWORD}", OWNER.replace('@', "%40"));
    let request = fixed.with("origin", &server.any.base).request("POST", "/sign-in");
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(fields);
    let entered = Caller::try_send(request).await.unwrap();
    assert_eq!((entered.status, entered.header("location")), (303, "/"), "{}", entered.text);
    let last = entered.headers.get_all("set-cookie").iter().next_back().unwrap();
    assert!(!last.to_str().unwrap().starts_with("sluice_session=;"), "the new session stays");
    browser(&server, &own).get("/api/v1/projects").await.ok(200);
    // No session is none that somebody has made up.
    browser(&server, "theme=dark").get("/api/v1/projects").await.ok(401);
    assert_eq!(counted(&owner, "unknown session").await, 8);
}

async fn addresses_of_other_hosts_are_on_record(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let why = "address of another host";
    let visitor = browser(&server, "");
    for next in ["//evil.example", "https%3A%2F%2Fevil.example", "%2F%5Cevil.example"] {
        let form = visitor.get(&format!("/sign-in?next={next}")).await;
        assert_eq!(form.status, 200);
        assert!(!form.text.contains("evil.example"), "{}", form.text);
    }
    assert_eq!(counted(&owner, why).await, 3);
    visitor.get("/api/v1/sign-on/none?next=//evil.example").await.ok(404);
    assert_eq!(counted(&owner, why).await, 4);
    for own in ["/sign-in", "/sign-in?next=", "/sign-in?next=/traces%3Fuser=a"] {
        assert_eq!(visitor.get(own).await.status, 200);
    }
    assert_eq!(counted(&owner, why).await, 4);
}

async fn looks_at_spent_links_are_on_record(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let invited = json!({"email": "ada@example.org", "role": "viewer", "projects": []});
    let link = owner.post("/api/v1/invitations", &invited).await.ok(200)["link"].clone();
    let link = link.as_str().unwrap();
    // Scanners of letters look before the reader does.
    let visitor = browser(&server, "");
    for _ in 0..8 {
        assert_eq!(visitor.get(link).await.status, 200);
    }
    assert_eq!(counted(&owner, "spent link").await, 0);
    let token = link.split_once("token=").unwrap().1;
    let accept = json!({"token": token, "name": "Ada", "password": "a-long-password-1"});
    server.any.post("/api/v1/invitations/accept", &accept).await.ok(200);
    for _ in 0..8 {
        assert_eq!(visitor.get(link).await.status, 422, "a look is no attempt that is throttled");
    }
    assert_eq!(counted(&owner, "spent link").await, 8);
    // A token that was never made here is nobody's link.
    assert_eq!(visitor.get("/invitation?token=made-up").await.status, 422);
    assert_eq!(counted(&owner, "spent link").await, 8);
    let failed = owner.get("/api/v1/audit-events?event=login_failed").await.ok(200);
    assert_eq!(failed, Value::Array(Vec::new()));
}

async fn made_up_names_fill_no_audit(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_TRUSTED_PROXIES", "127.0.0.1/32").start().await;
    let owner = server.owner().await;
    let attempt = async |name: &str, from: u32| {
        let from = format!("198.51.{}.{}", from / 250, from % 250);
        let caller = server.any.with("x-forwarded-for", &from);
        let wrong = json!({"email": name, "password": "wrong-password-1"});
        caller.post("/api/v1/session", &wrong).await.ok(401);
    };
    let begun = std::time::Instant::now();
    for name in 0..80 {
        attempt(&format!("{name}@example.org"), name).await;
    }
    attempt(OWNER, 400).await;
    let path = "/api/v1/audit-events?event=login_failed&limit=1000";
    let failed = owner.get(path).await.ok(200);
    let failed = failed.as_array().unwrap();
    assert_eq!(failed[0]["metadata"]["email"], OWNER, "an account's are always kept");
    let of_strangers = failed.len() - 1;
    let minutes = begun.elapsed().as_secs() as usize / 60 + 1;
    assert!(
        (60..=60 * minutes).contains(&of_strangers),
        "{of_strangers} rows in {minutes} minutes"
    );
}
