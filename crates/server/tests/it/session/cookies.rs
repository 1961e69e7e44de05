//! The session in a browser: what other hosts of the domain can do to its cookies.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, OWNER, PASSWORD, Reply, Server, Setup, encode};
use crate::session::roles::{USER_PASSWORD, user};

crate::on_every_backend!(
    planted_cookies_of_any_path_are_overcome_by_one_sign_in,
    over_tls_planted_cookies_change_nothing,
    over_tls_a_planted_session_is_none,
    sessions_from_before_and_programs_go_on
);

const HOST: &str = "gate.example.org";
const PUBLIC: &str = "https://gate.example.org";
/// A page below several paths. There is no such trace.
const PAGE: &str = "/traces/7/steps/8";
const OWN: &str = "__Host-sluice_session_own";

/// A cookie as a browser keeps it.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    name: String,
    value: String,
    /// `None` of one that is for the host alone.
    domain: Option<String>,
    path: String,
}

impl Kept {
    /// Reads `Set-Cookie`. Returns whether it is to be removed, too.
    fn read(line: &str) -> (Self, bool) {
        let mut parts = line.split("; ");
        let (name, value) = parts.next().unwrap().split_once('=').unwrap();
        let of = |wanted: &str| {
            let mut attributes = line.split("; ").filter_map(|part| part.split_once('='));
            attributes.find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
        };
        let path = of("Path").unwrap();
        let kept =
            Self { name: name.to_owned(), value: value.to_owned(), domain: of("Domain"), path };
        (kept, of("Max-Age").as_deref() == Some("0"))
    }

    fn is_sent_to(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.path.as_str());
        rest.is_some_and(|rest| {
            rest.is_empty() || self.path.ends_with('/') || rest.starts_with('/')
        })
    }
}

/// A browser that keeps cookies by name, domain and path (RFC 6265), and follows no redirect by itself.
struct Browser {
    caller: Caller,
    cookies: Vec<Kept>,
}

impl Browser {
    /// One that has a gateway at `scheme://gate.example.org`, and says which page asks.
    fn of(server: &Server, scheme: &str) -> Self {
        let policy = reqwest::redirect::Policy::none();
        let client = reqwest::Client::builder().redirect(policy).no_proxy().build().unwrap();
        let caller = Caller::new(client, server.any.base.clone());
        let caller = caller.with("origin", &format!("{scheme}://{HOST}"));
        let caller =
            if scheme == "https" { caller.with("sec-fetch-site", "same-origin") } else { caller };
        Self { caller, cookies: Vec::new() }
    }

    /// Keeps a cookie that the gateway, or another host of the domain, sets.
    fn keep(&mut self, line: &str) {
        let (kept, is_removed) = Kept::read(line);
        let is_ours = |domain: &str| domain == HOST || HOST.ends_with(&format!(".{domain}"));
        if kept.domain.as_deref().is_some_and(|domain| !is_ours(domain)) {
            return;
        }
        let place =
            |cookie: &Kept| (cookie.name.clone(), cookie.domain.clone(), cookie.path.clone());
        self.cookies.retain(|known| place(known) != place(&kept));
        if !is_removed {
            self.cookies.push(kept);
        }
    }

    async fn send(&mut self, method: &str, address: &str, form: Option<String>) -> Reply {
        let path = address.split('?').next().unwrap();
        let sent = self.cookies.iter().filter(|cookie| cookie.is_sent_to(path));
        // Those of longer paths come first (RFC 6265), and what others set may be older than the own ones.
        let mut sent: Vec<_> = sent.collect();
        sent.sort_by_key(|cookie| (Reverse(cookie.path.len()), cookie.domain.is_none()));
        let sent = sent.iter();
        let sent: Vec<_> = sent.map(|cookie| format!("{}={}", cookie.name, cookie.value)).collect();
        let mut request = self.caller.request(method, address);
        if !sent.is_empty() {
            request = request.header("cookie", sent.join("; "));
        }
        if let Some(form) = form {
            let kind = "application/x-www-form-urlencoded";
            request = request.header("content-type", kind).body(form);
        }
        let reply = Caller::try_send(request).await.unwrap();
        for line in reply.headers.get_all("set-cookie") {
            self.keep(line.to_str().unwrap());
        }
        reply
    }

    async fn get(&mut self, address: &str) -> Reply {
        self.send("GET", address, None).await
    }

    /// Goes where a page leads.
    async fn visit(&mut self, address: &str) -> Reply {
        let mut reply = self.get(address).await;
        let mut hops = 0;
        while reply.status == 303 {
            hops += 1;
            assert!(hops < 5, "redirected for ever: {address}");
            reply = self.get(reply.header("location")).await;
        }
        reply
    }

    async fn sign_in(&mut self) -> Reply {
        let form = format!("email={}&password={PASSWORD}", encode(OWNER));
        let reply = self.send("POST", "/sign-in", Some(form)).await;
        assert_eq!(reply.status, 303, "{}", reply.text);
        reply
    }

    /// Whom the gateway takes its user for.
    async fn user(&mut self) -> Value {
        self.get("/api/v1/session").await.ok(200)["user"]["email"].clone()
    }
}

/// The token of somebody's session.
async fn token_of(server: &Server, email: &str) -> String {
    let login = server.login(email, USER_PASSWORD).await;
    login.ok(200);
    let (kept, _) = Kept::read(login.header("set-cookie"));
    kept.value
}

async fn planted_cookies_of_any_path_are_overcome_by_one_sign_in(backend: Backend) {
    let public = format!("http://{HOST}");
    let server = Setup::new(&backend).env("SLUICE_PUBLIC_URL", &public).start().await;
    let of_pages = ["/", "/traces", "/traces/", "/traces/7/", "/traces/7/steps/", PAGE];
    let of_api = ["/api", "/api/", "/api/v1", "/api/v1/session"];
    for path in of_pages.into_iter().chain(of_api) {
        for domain in ["", "; Domain=example.org", "; Domain=gate.example.org"] {
            let mut browser = Browser::of(&server, "http");
            browser.sign_in().await;
            if path != "/" || !domain.is_empty() {
                browser.keep(&format!("sluice_session=planted; Path={path}{domain}"));
            }
            let mut sign_ins = 0;
            loop {
                // A page that is there, or is not, is one of somebody who is signed in.
                let page = browser.visit(PAGE).await.status;
                let own = browser.get("/api/v1/session").await.status;
                if (page, own) == (404, 200) {
                    break;
                }
                assert_eq!(sign_ins, 0, "{path}{domain}: {page} {own} {:?}", browser.cookies);
                browser.sign_in().await;
                sign_ins += 1;
            }
        }
    }
    // A page that has seen several leads to a form, also if no other page sees them.
    let mut browser = Browser::of(&server, "http");
    browser.sign_in().await;
    let form = browser.get("/sign-in?next=%2Ftraces%2F7&sessions=several").await;
    assert_eq!(form.status, 200);
    assert!(form.text.contains("several sessions"), "{}", form.text);
    assert_eq!(browser.get("/sign-in?next=%2Ftraces").await.header("location"), "/traces");
}

async fn over_tls_planted_cookies_change_nothing(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_PUBLIC_URL", PUBLIC).start().await;
    user(&server, "viewer", &["1"]).await;
    let other = token_of(&server, "viewer@example.org").await;
    let mut browser = Browser::of(&server, "https");
    let entered = browser.sign_in().await;
    let lines = entered.headers.get_all("set-cookie").iter();
    let lines: Vec<_> = lines.map(|line| line.to_str().unwrap()).collect();
    let [_, own] = lines[..] else { panic!("{lines:?}") };
    assert!(own.starts_with(&format!("{OWN}=")), "{own}");
    for part in ["Path=/", "Secure", "HttpOnly", "SameSite=Lax"] {
        assert!(own.split("; ").any(|found| found == part), "{own}");
    }
    assert!(!own.contains("Domain"), "browsers would not take it: {own}");
    // Nor do those with letters beyond ASCII, which hide no other.
    browser.keep("name=Zo\u{eb}; Path=/; Domain=example.org");
    assert_eq!(browser.user().await, OWNER);
    browser.keep(&format!("\u{2000}{OWN}={}; Path=/; Domain=example.org", "0".repeat(64)));
    assert_eq!(browser.user().await, OWNER);
    for path in ["/", "/traces/", "/api", "/api/v1/session"] {
        browser.keep(&format!("sluice_session={other}; Path={path}; Domain=example.org"));
        assert_eq!(browser.user().await, OWNER, "{path}");
        assert_eq!(browser.get(PAGE).await.status, 404, "{path}");
    }
    // Nor do those of all paths and domains above, each of which looks like the own one and is sent before it.
    let paths = ["/", "/api", "/api/", "/api/v1", "/api/v1/", "/api/v1/session"];
    let places = paths.iter().flat_map(|path| [(path, "example.org"), (path, HOST)]);
    for (number, (path, domain)) in places.enumerate() {
        browser.keep(&format!("sluice_session=o{number:064x}; Path={path}; Domain={domain}"));
    }
    assert_eq!(browser.user().await, OWNER);
    // Signing out ends the own session, and leaves nothing of it.
    let own = browser.cookies.iter().find(|cookie| cookie.domain.is_none()).unwrap().clone();
    browser.send("POST", "/sign-out", None).await;
    assert!(
        browser.cookies.iter().all(|cookie| cookie.domain.is_some()),
        "{browser:?}",
        browser = browser.cookies
    );
    server
        .any
        .with("cookie", &format!("sluice_session={}", own.value))
        .get("/api/v1/session")
        .await
        .ok(401);
    browser.get("/api/v1/session").await.ok(401);
}

async fn over_tls_a_planted_session_is_none(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_PUBLIC_URL", PUBLIC).start().await;
    let owner = server.owner().await;
    user(&server, "viewer", &["1"]).await;
    let other = token_of(&server, "viewer@example.org").await;
    let mut browser = Browser::of(&server, "https");
    browser.keep(&format!("sluice_session={other}; Path=/; Domain=example.org"));
    assert_eq!(browser.get("/keys").await.header("location"), "/sign-in?next=%2Fkeys");
    browser.get("/api/v1/session").await.ok(401);
    browser.get("/api/v1/projects").await.is(401, &json!({"error": "Invalid token"}));
    // Nobody makes what belongs to it.
    browser.keep(&format!("{OWN}={}; Path=/", "0".repeat(64)));
    browser.get("/api/v1/session").await.ok(401);
    let events = owner.get("/api/v1/audit-events?event=perimeter_block").await.ok(200);
    let rows = events.as_array().unwrap().iter().map(|event| &event["metadata"]);
    let rows = rows.filter(|row| row["why"] == "unknown session");
    assert_eq!(rows.map(|row| row["count"].as_u64().unwrap()).sum::<u64>(), 4);
    // It keeps nobody from signing in.
    browser.sign_in().await;
    assert_eq!(browser.user().await, OWNER);
    assert_eq!(browser.get("/keys").await.status, 200);
    // The second cookie of another session does not make it one.
    browser.cookies.retain(|cookie| cookie.name == OWN || cookie.domain.is_some());
    browser.get("/api/v1/session").await.ok(401);
}

async fn sessions_from_before_and_programs_go_on(backend: Backend) {
    let mut server = Setup::new(&backend).prepare();
    server.up().await;
    let before = server.login(OWNER, PASSWORD).await;
    before.ok(200);
    assert_eq!(before.headers.get_all("set-cookie").iter().count(), 1, "without TLS there is one");
    server.stop().await;
    let mut server = server.with_env("SLUICE_PUBLIC_URL", PUBLIC);
    server.up().await;
    let mut browser = Browser::of(&server, "https");
    browser.keep(before.header("set-cookie"));
    assert_eq!(browser.user().await, OWNER);
    // A program keeps the cookie that it knows.
    let program = server.owner().await;
    assert_eq!(program.get("/api/v1/session").await.ok(200)["user"]["email"], OWNER);
    let out = program.delete("/api/v1/session").await;
    let removed = out.headers.get_all("set-cookie").iter();
    assert_eq!(removed.filter(|line| line.to_str().unwrap().contains("Max-Age=0")).count(), 2);
}
