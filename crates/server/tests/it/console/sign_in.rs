//! Signing in and out by forms.

use super::{browser, owner, send_form, shows};
use crate::harness::{Backend, Caller, OWNER, PASSWORD, Reply, Server, Setup};
use crate::session::second_factor::enrol;

crate::on_every_backend!(
    a_page_leads_to_the_sign_in_and_back,
    a_session_that_has_expired_leads_to_the_sign_in,
    the_second_factor_comes_after_the_password,
    forms_of_other_sites_are_refused,
    a_gateway_without_a_console_has_no_pages
);

async fn a_page_leads_to_the_sign_in_and_back(backend: Backend) {
    let server = Server::start(&backend).await;
    let stranger = browser(&server);
    let reply = stranger.get("/traces?status=failed&user=a%26b").await;
    let target = "/sign-in?next=%2Ftraces%3Fstatus%3Dfailed%26user%3Da%2526b";
    assert_eq!((reply.status, reply.header("location")), (303, target));
    let form = stranger.get(target).await;
    assert_eq!(form.status, 200);
    assert!(form.text.contains(r#"name="next" value="/traces?status=failed&#38;user=a%26b""#));
    // A password that is wrong is asked for again; the address stays, and is text.
    let wrong = [("email", "\"><script>x</script>"), ("password", "wrong"), ("next", "/keys")];
    let reply = send_form(&stranger, "/sign-in", &wrong).await;
    shows(&reply, 401, "E-mail or password is wrong.");
    assert!(!reply.text.contains("<script>x") && reply.text.contains(r#"value="/keys""#));
    assert!(reply.headers.get("set-cookie").is_none());
    // No address of another host is gone to.
    let evil = [("email", OWNER), ("password", PASSWORD), ("next", "//evil.example")];
    let reply = send_form(&stranger, "/sign-in", &evil).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/"));
    // A signed-in user sees no form.
    let owner = owner(&server).await;
    let reply = owner.get("/sign-in?next=/models").await;
    assert_eq!((reply.status, reply.header("location")), (303, "/models"));
    let reply = send_form(&owner, "/sign-out", &[]).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/sign-in"));
    assert!(reply.header("set-cookie").contains("Max-Age=0"));
    assert_eq!(owner.get("/").await.status, 303, "the session is over");
    // A form that comes too late does nothing, and leads to its page by way of the sign-in.
    let own = owner.base.clone();
    for (page, target) in [
        (format!("{own}/keys?project=1&done=key_reset"), "/sign-in?next=%2Fkeys%3Fproject%3D1"),
        (format!("{own}/traces/5?step=2"), "/sign-in?next=%2Ftraces%2F5%3Fstep%3D2"),
        // The page that another form has answered with is none by itself.
        (format!("{own}/people/3/reset"), "/sign-in?next=%2Fpeople"),
        (format!("{own}//evil.example"), "/sign-in"),
        (own.clone(), "/sign-in"),
        ("https://evil.example/keys".to_owned(), "/sign-in"),
        ("about:blank".to_owned(), "/sign-in"),
    ] {
        let sender = owner.with("referer", &page);
        let late = send_form(&sender, "/keys", &[("name", "late"), ("project", "1")]).await;
        assert_eq!((late.status, late.header("location")), (303, target), "{page}");
    }
    let late = send_form(&owner, "/keys", &[("name", "late"), ("project", "1")]).await;
    assert_eq!((late.status, late.header("location")), (303, "/sign-in"), "it names no page");
}

async fn a_session_that_has_expired_leads_to_the_sign_in(backend: Backend) {
    // Only PostgreSQL has a client that can make a session old.
    if matches!(backend, Backend::Sqlite) {
        return;
    }
    let server = Server::start(&backend).await;
    let (owner, api) = (owner(&server).await, server.owner().await);
    let half_a_day = 12 * 3_600_000_000_i64;
    for (age, column) in [(half_a_day, "last_seen_at"), (60 * half_a_day, "created_at")] {
        for (slack, status) in [(-60_000_000, 200), (60_000_000, 401)] {
            let age = age + slack;
            server.sql(&format!(
                "UPDATE sessions SET {column} = CAST(extract(epoch FROM now()) * 1000000 AS BIGINT) - {age}"
            ));
            let reply = api.get("/api/v1/projects").await;
            assert_eq!(reply.status, status, "{column} {slack}: {}", reply.text);
            if status == 401 {
                reply.is(401, &serde_json::json!({"error": "Token expired"}));
                let page = owner.get("/traces?status=failed").await;
                let target = "/sign-in?next=%2Ftraces%3Fstatus%3Dfailed";
                assert_eq!((page.status, page.header("location")), (303, target));
            }
        }
        server.sql(
            "UPDATE sessions SET last_seen_at = CAST(extract(epoch FROM now()) * 1000000 AS BIGINT)",
        );
    }
}

async fn the_second_factor_comes_after_the_password(backend: Backend) {
    let server = Server::start(&backend).await;
    let enrolled = enrol(server.owner().await, PASSWORD).await;
    let stranger = browser(&server);
    let fields = [("email", OWNER), ("password", PASSWORD), ("next", "/models")];
    let asked = send_form(&stranger, "/sign-in", &fields).await;
    shows(&asked, 200, "Code of your authenticator");
    let cookie = |reply: &Reply| reply.header("set-cookie").split(';').next().unwrap().to_owned();
    let pending = stranger.with("cookie", &cookie(&asked));
    assert_eq!(pending.get("/keys").await.status, 303, "it is good for the code alone");
    let wrong = send_form(&pending, "/sign-in/code", &[("code", "000000"), ("next", "/models")]);
    shows(&wrong.await, 401, "The code is wrong");
    let foreign = pending.with("origin", "https://evil.example").request("POST", "/sign-in/code");
    assert_eq!(Caller::try_send(foreign).await.unwrap().status, 403);
    let code = enrolled.code();
    let fields = [("code", &*code), ("next", "//evil.example")];
    let done = send_form(&pending, "/sign-in/code", &fields).await;
    assert_eq!((done.status, done.header("location")), (303, "/"), "{}", done.text);
    assert_eq!(stranger.with("cookie", &cookie(&done)).get("/models").await.status, 200);
    // The cookie from before the code has ended: the password comes first again.
    let late = send_form(&pending, "/sign-in/code", &[("code", &code), ("next", "/keys")]).await;
    assert_eq!((late.status, late.header("location")), (303, "/sign-in?next=%2Fkeys"));
}

async fn forms_of_other_sites_are_refused(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let form = "email=a&password=b&name=stolen&project=1";
    for path in ["/sign-in", "/sign-out", "/keys", "/keys/ak_0000000000000001/revoke", "/safety"] {
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
        ] {
            let request = owner.with(name, value).request("POST", path);
            let kind = "application/x-www-form-urlencoded";
            let request = request.header("content-type", kind).body(form);
            let reply = crate::harness::Caller::try_send(request).await.unwrap();
            assert_eq!(reply.status, 403, "{path} {name}");
        }
    }
    let page = owner.get("/keys").await;
    assert!(page.status == 200 && !page.text.contains("stolen"));
    // Pages are shown in no frame, and run nothing but their own file.
    let policy = page.header("content-security-policy");
    for part in
        ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'"]
    {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"));
    assert_eq!(page.header("x-frame-options"), "DENY");
    assert_eq!(page.header("cache-control"), "no-store");
}

async fn a_gateway_without_a_console_has_no_pages(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_CONSOLE", "false").start().await;
    for path in ["/", "/sign-in", "/traces", "/keys"] {
        assert_eq!(browser(&server).get(path).await.status, 404, "{path}");
    }
    server.owner().await.get("/api/v1/projects").await.ok(200);
}
