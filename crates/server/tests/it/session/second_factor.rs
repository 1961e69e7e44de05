//! The second factor at sign-in, and what its owner does with it.

use serde_json::{Value, json};
use totp_rs::{Builder, Totp};

use crate::harness::{Backend, Caller, OWNER, PASSWORD, Reply, Server, Setup};
use crate::keys::authentication::unauthorized;
use crate::session::roles::{USER_PASSWORD, user};

crate::on_every_backend!(
    from_the_password_to_the_session,
    a_pending_cookie_is_good_for_two_endpoints,
    seven_wrong_codes,
    recovery_codes_are_used_once_and_replaced,
    setting_up_takes_the_password_and_a_code,
    removing_takes_both,
    an_owner_resets_others,
    the_command_line_lets_a_locked_out_owner_in,
    secrets_are_sealed_and_rotate
);

/// An authenticator. Codes of now and of the next step can be had: however the clock moves on meanwhile, they
/// are good.
pub struct Authenticator(Totp);

impl Authenticator {
    pub fn new(secret: &str) -> Self {
        let secret = totp_rs::Secret::try_from_base32(secret).unwrap();
        Self(Builder::new().with_secret(secret).build().unwrap())
    }

    /// The code that activates it.
    pub fn first_code(&self) -> String {
        self.at(now())
    }

    /// A code that has not been used.
    pub fn code(&self) -> String {
        self.at(now() + 30)
    }

    fn at(&self, seconds: u64) -> String {
        self.0.generate(seconds).to_string()
    }
}

/// Somebody with an authenticator.
pub struct Enrolled {
    pub caller: Caller,
    authenticator: Authenticator,
    secret: String,
    recovery_codes: Vec<String>,
}

impl Enrolled {
    /// A code that has not been used.
    pub fn code(&self) -> String {
        self.authenticator.code()
    }
}

/// Sets up an authenticator for a session.
pub async fn enrol(caller: Caller, password: &str) -> Enrolled {
    let offered = caller.post("/api/v1/session/mfa/totp", &json!({"password": password})).await;
    let secret = offered.ok(200)["secret"].as_str().unwrap().to_owned();
    let authenticator = Authenticator::new(&secret);
    let code = authenticator.first_code();
    let done = caller.post("/api/v1/session/mfa/totp/confirm", &json!({"code": code})).await;
    let codes = done.ok(200)["recovery_codes"].as_array().unwrap().clone();
    let recovery_codes = codes.iter().map(|code| code.as_str().unwrap().to_owned()).collect();
    Enrolled { caller, authenticator, secret, recovery_codes }
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// The caller with the cookie that an answer set.
pub fn with_cookie(server: &Server, reply: &Reply) -> Caller {
    server.any.with("cookie", reply.header("set-cookie").split(';').next().unwrap())
}

pub async fn verify(caller: &Caller, code: &str) -> Reply {
    caller.post("/api/v1/session/mfa", &json!({"code": code})).await
}

pub async fn events(caller: &Caller, kind: &str) -> Vec<Value> {
    let events = caller.get(&format!("/api/v1/audit-events?event={kind}")).await.ok(200);
    events.as_array().unwrap().clone()
}

async fn from_the_password_to_the_session(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_PUBLIC_URL", "https://a.example").start().await;
    let owner = enrol(server.owner().await, PASSWORD).await;
    let login = server.login(OWNER, PASSWORD).await;
    login.is(200, &json!({"mfa_required": true}));
    let cookie = login.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=600", "Secure"] {
        assert!(cookie.split("; ").any(|found| found == part), "{cookie}");
    }
    let pending = with_cookie(&server, &login);
    verify(&pending, "000000").await.is(401, &unauthorized());
    let code = owner.code();
    let foreign = pending.with("origin", "https://evil.example");
    verify(&foreign, &code).await.is(403, &json!({"error": "Forbidden"}));
    let done = verify(&pending, &code).await;
    let who = done.ok(200);
    assert_eq!((&who["user"]["email"], &who["user"]["mfa_enabled"]), (&json!(OWNER), &json!(true)));
    assert!(done.header("set-cookie").contains("Max-Age=2592000"), "{done:?}");
    let fresh = with_cookie(&server, &done);
    assert_eq!(fresh.get("/api/v1/session").await.ok(200), who);
    fresh.get("/api/v1/projects").await.ok(200);
    // The cookie from before the code ends with it, and gains nothing.
    pending.get("/api/v1/session").await.is(401, &unauthorized());
    pending.get("/api/v1/projects").await.is(401, &json!({"error": "Invalid token"}));
    verify(&pending, &owner.recovery_codes[0]).await.is(401, &unauthorized());
    let again = with_cookie(&server, &server.login(OWNER, PASSWORD).await);
    verify(&again, &code).await.is(401, &unauthorized());
    let [first] = &events(&fresh, "mfa_verified").await[..] else { panic!("one sign-in") };
    assert_eq!((&first["actor"], &first["metadata"]), (&json!(OWNER), &json!({"method": "totp"})));
    assert_eq!(events(&fresh, "mfa_failed").await.len(), 2);
    assert_eq!(events(&fresh, "login_success").await.len(), 2, "the first, and the whole one");
}

async fn a_pending_cookie_is_good_for_two_endpoints(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = enrol(server.owner().await, PASSWORD).await;
    let pending = with_cookie(&server, &server.login(OWNER, PASSWORD).await);
    let document = server.any.get("/api/v1/openapi.json").await.ok(200);
    let mut tried = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let by_session = operation["security"].to_string().contains("session");
            let is_own =
                matches!((path.as_str(), method.as_str()), ("/api/v1/session/mfa", "post"))
                    || matches!((path.as_str(), method.as_str()), ("/api/v1/session", "delete"));
            if !by_session || is_own {
                continue;
            }
            let path = path.replace(['{', '}'], "");
            let reply = pending.send(&method.to_uppercase(), &path, Some(b"{}".to_vec())).await;
            reply.is(401, &unauthorized());
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried}");
    assert_eq!(pending.get("/api/v1/session").await.status, 401);
    let out = pending.delete("/api/v1/session").await;
    out.ok(204);
    verify(&pending, &owner.recovery_codes[0]).await.is(401, &unauthorized());
    // A session that is signed in is none that awaits a code.
    verify(&owner.caller, &owner.recovery_codes[0]).await.is(401, &unauthorized());
    verify(&server.any, &owner.recovery_codes[0]).await.is(401, &unauthorized());
}

async fn seven_wrong_codes(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = enrol(server.owner().await, PASSWORD).await;
    for wrong in ["", "12345", "0000-0000-0000-0000", "abcdef", "000000"] {
        // Each with a cookie of its own: the right password gives back no try.
        let pending = with_cookie(&server, &server.login(OWNER, PASSWORD).await);
        verify(&pending, wrong).await.is(401, &unauthorized());
    }
    let pending = with_cookie(&server, &server.login(OWNER, PASSWORD).await);
    verify(&pending, "000000").await.is(401, &unauthorized());
    let throttled = verify(&pending, &owner.recovery_codes[0]).await;
    assert_eq!(throttled.status, 429, "{}", throttled.text);
    let wait: u64 = throttled.header("retry-after").parse().unwrap();
    assert!((1..=900).contains(&wait), "{wait}");
    assert_eq!(server.login(OWNER, PASSWORD).await.status, 429);
    assert_eq!(events(&owner.caller, "mfa_failed").await.len(), 6);
}

async fn recovery_codes_are_used_once_and_replaced(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = enrol(server.owner().await, PASSWORD).await;
    let codes = &owner.recovery_codes;
    assert_eq!(codes.len(), 10);
    let sign_in = async |code: &str| {
        let pending = with_cookie(&server, &server.login(OWNER, PASSWORD).await);
        verify(&pending, code).await
    };
    sign_in(&codes[0]).await.ok(200);
    sign_in(&codes[0]).await.is(401, &unauthorized());
    sign_in(&codes[1].to_uppercase().replace('-', " ")).await.ok(200);
    let used = events(&owner.caller, "mfa_verified").await;
    assert_eq!(used[0]["metadata"], json!({"method": "recovery_code", "recovery_codes_left": 8}));
    let path = "/api/v1/session/mfa/recovery-codes";
    owner.caller.post(path, &json!({"code": codes[0]})).await.invalid("The code is wrong");
    let new = owner.caller.post(path, &json!({"code": codes[2]})).await.ok(200);
    let new = new["recovery_codes"].as_array().unwrap();
    assert_eq!(new.len(), 10);
    sign_in(&codes[3]).await.is(401, &unauthorized());
    sign_in(new[0].as_str().unwrap()).await.ok(200);
    let changed = events(&owner.caller, "mfa_enabled").await;
    assert_eq!(changed[0]["metadata"]["method"], "recovery_codes");
    let stored = server.stored();
    for code in codes {
        for form in [code.clone(), code.replace('-', "")] {
            assert!(!stored.windows(form.len()).any(|bytes| bytes == form.as_bytes()), "{form}");
        }
    }
}

async fn setting_up_takes_the_password_and_a_code(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let elsewhere = server.owner().await;
    let path = "/api/v1/session/mfa/totp";
    let confirm = "/api/v1/session/mfa/totp/confirm";
    let early = owner.post(confirm, &json!({"code": "000000"})).await;
    early.says(422, "No authenticator is being set up");
    let wrong = json!({"password": "wrong-password-1"});
    owner.post(path, &wrong).await.invalid("The password is wrong");
    let missing = owner.post(path, &json!({})).await;
    missing.is(400, &json!({"error": "Missing required parameter: password"}));
    let foreign = owner.with("origin", "https://evil.example");
    let right = json!({"password": PASSWORD});
    foreign.post(path, &right).await.is(403, &json!({"error": "Forbidden"}));
    let offered = owner.post(path, &right).await.ok(200);
    let secret = offered["secret"].as_str().unwrap();
    let uri = offered["otpauth_uri"].as_str().unwrap();
    assert!(uri.starts_with("otpauth://totp/Sluice:owner%40localhost?"), "{uri}");
    assert!(uri.contains(&format!("secret={secret}")) && uri.contains("issuer=Sluice"), "{uri}");
    // It is not active yet: neither does it get in anybody's way.
    owner.post(confirm, &json!({"code": "00000a"})).await.invalid("The code is wrong");
    let whoami = owner.get("/api/v1/session").await.ok(200);
    assert_eq!(whoami["user"]["mfa_enabled"], false);
    let enrolled = enrol(owner, PASSWORD).await;
    assert_ne!(enrolled.secret, secret, "each offer has a secret of its own");
    let whoami = enrolled.caller.get("/api/v1/session").await.ok(200);
    assert_eq!(whoami["user"]["mfa_enabled"], true);
    elsewhere.get("/api/v1/session").await.is(401, &unauthorized());
    let again = enrolled.caller.post(path, &json!({"password": PASSWORD})).await;
    again.says(422, "An authenticator is set up already");
    let code = json!({"code": enrolled.code()});
    let again = enrolled.caller.post(confirm, &code).await;
    again.says(422, "No authenticator is being set up");
    assert_eq!(events(&enrolled.caller, "mfa_enabled").await.len(), 1);
    assert!(!server.log().contains(&enrolled.secret));
}

async fn removing_takes_both(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = enrol(server.owner().await, PASSWORD).await;
    let remove = async |password: &str, code: &str| {
        let body = json!({"password": password, "code": code}).to_string().into_bytes();
        owner.caller.send("DELETE", "/api/v1/session/mfa", Some(body)).await
    };
    let wrong = "The password or the code is wrong";
    remove("wrong-password-1", &owner.recovery_codes[0]).await.invalid(wrong);
    remove(PASSWORD, "000000").await.invalid(wrong);
    let require = |is: bool| json!({"settings": {"security": {"require_mfa": is}}});
    owner.caller.patch("/api/v1/organization", &require(true)).await.ok(200);
    remove(PASSWORD, &owner.recovery_codes[0]).await.says(422, "requires a second factor");
    owner.caller.patch("/api/v1/organization", &require(false)).await.ok(200);
    remove(PASSWORD, &owner.recovery_codes[0]).await.ok(204);
    assert_eq!(events(&owner.caller, "mfa_disabled").await.len(), 1);
    let who = server.login(OWNER, PASSWORD).await.ok(200);
    assert_eq!(who["user"]["mfa_enabled"], false);
    // A new one is another one.
    let again = enrol(owner.caller.clone(), PASSWORD).await;
    assert_ne!(again.secret, owner.secret);
    let pending = with_cookie(&server, &server.login(OWNER, PASSWORD).await);
    verify(&pending, &owner.recovery_codes[1]).await.is(401, &unauthorized());
}

async fn an_owner_resets_others(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let member = enrol(user(&server, "member", &[]).await, USER_PASSWORD).await;
    let id = member.caller.get("/api/v1/session").await.ok(200)["user"]["id"].clone();
    let path = format!("/api/v1/users/{id}/mfa");
    for other in [&admin, &member.caller] {
        other.delete(&path).await.is(403, &json!({"error": "Forbidden"}));
    }
    owner.with("origin", "https://evil.example").delete(&path).await.ok(403);
    for unknown in ["999999", "0", "-1", "x"] {
        let reply = owner.delete(&format!("/api/v1/users/{unknown}/mfa")).await;
        reply.is(404, &json!({"error": "Not found"}));
    }
    let own = owner.get("/api/v1/session").await.ok(200)["user"]["id"].clone();
    owner.delete(&format!("/api/v1/users/{own}/mfa")).await.says(422, "Your own");
    owner.delete(&path).await.ok(204);
    member.caller.get("/api/v1/session").await.is(401, &unauthorized());
    let who = server.login("member@example.org", USER_PASSWORD).await.ok(200);
    assert_eq!(who["user"]["mfa_enabled"], false);
    let [reset] = &events(&owner, "mfa_disabled").await[..] else { panic!("one reset") };
    assert_eq!((&reset["actor"], &reset["target_type"]), (&json!(OWNER), &json!("user")));
    assert_eq!(reset["target_id"], id.to_string());
}

async fn the_command_line_lets_a_locked_out_owner_in(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = enrol(server.owner().await, PASSWORD).await;
    let done = server.cli(&["user", "reset-mfa", "Owner@localhost"], &[]).await;
    assert!(done.status.success(), "{done:?}");
    assert!(!String::from_utf8_lossy(&done.stdout).contains("Password"), "{done:?}");
    owner.caller.get("/api/v1/session").await.is(401, &unauthorized());
    let again = server.owner().await;
    assert_eq!(events(&again, "mfa_disabled").await[0]["actor"], "cli");
    let nobody = server.cli(&["user", "reset-mfa", "nobody@example.org"], &[]).await;
    assert!(!nobody.status.success(), "{nobody:?}");
}

async fn secrets_are_sealed_and_rotate(backend: Backend) {
    let mut server = Server::start(&backend).await;
    let owner = enrol(server.owner().await, PASSWORD).await;
    server.stop().await;
    let stored = server.stored();
    let bytes = totp_rs::Secret::try_from_base32(&owner.secret).unwrap();
    for form in [owner.secret.as_bytes(), bytes.as_bytes()] {
        assert!(!stored.windows(form.len()).any(|bytes| bytes == form));
    }
    let new = "a1".repeat(32);
    let env = [("SLUICE_NEW_MASTER_KEY", new.as_str())];
    let rotated = server.cli(&["rotate-master-key"], if server.on_sqlite() { &[] } else { &env });
    assert!(rotated.await.status.success());
    if !server.on_sqlite() {
        server = server.with_env("SLUICE_MASTER_KEY", &new);
    }
    server.up().await;
    for code in [&owner.code(), &owner.recovery_codes[0]] {
        let pending = with_cookie(&server, &server.login(OWNER, PASSWORD).await);
        verify(&pending, code).await.ok(200);
    }
}
