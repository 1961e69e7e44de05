//! Passkeys: added, signed in by, refused, removed.

use serde_json::{Value, json};

use crate::harness::{Backend, Caller, Device, OWNER, PASSWORD, Reply, Server, Setup};
use crate::keys::authentication::unauthorized;
use crate::session::roles::{USER_PASSWORD, user};
use crate::session::second_factor::{enrol, events, verify, with_cookie};

crate::on_every_backend!(
    from_the_offer_to_the_session,
    an_answer_that_does_not_fit_signs_nobody_in,
    an_answer_is_good_once,
    a_counter_that_goes_back_is_refused,
    a_passkey_that_does_not_fit_is_not_added,
    twenty_passkeys_with_names,
    the_last_factor_goes_by_its_owner_alone,
    a_passkey_is_one_factor_of_several,
    passkeys_need_an_address,
    seven_wrong_answers,
    wrong_passwords_of_strangers_hold_up_no_passkey
);

const PUBLIC: &str = "https://ai.example:8443/gateway";
const ORIGIN: &str = "https://ai.example:8443";
const PASSKEYS: &str = "/api/v1/session/passkeys";
const SIGN_IN: &str = "/api/v1/session/passkey";

async fn start(backend: &Backend) -> Server {
    let setup = Setup::new(backend).env("SLUICE_TRUSTED_PROXIES", "127.0.0.1/32");
    setup.env("SLUICE_PUBLIC_URL", PUBLIC).start().await
}

fn device() -> Device {
    Device::new(ORIGIN, "ai.example")
}

/// A false claim of a device.
type Change = fn(&mut Device);

/// Options for a browser, with the caller who has the cookie that belongs to them.
pub struct Offer {
    options: Value,
    caller: Caller,
}

impl Offer {
    fn of(caller: &Caller, cookie: &str, reply: &Reply) -> Self {
        let state = reply.header("set-cookie").split(';').next().unwrap();
        let cookie =
            if cookie.is_empty() { state.to_owned() } else { format!("{cookie}; {state}") };
        Self { options: reply.ok(200), caller: caller.with("cookie", &cookie) }
    }
}

/// The cookie that a caller sends.
fn cookie_of(caller: &Caller) -> String {
    let request = caller.request("GET", "/").build().unwrap();
    let cookie = request.headers().get("cookie");
    cookie.map(|cookie| cookie.to_str().unwrap().to_owned()).unwrap_or_default()
}

async fn offer(caller: &Caller, password: &str) -> Offer {
    let path = format!("{PASSKEYS}/offer");
    let offered = caller.post(&path, &json!({"password": password})).await;
    Offer::of(caller, &cookie_of(caller), &offered)
}

async fn add(offer: &Offer, name: &str, credential: &Value) -> Reply {
    offer.caller.post(PASSKEYS, &json!({"name": name, "credential": credential})).await
}

/// Adds a passkey from a page of an origin, and returns its device.
pub async fn added(caller: &Caller, password: &str, origin: &'static str, name: &str) -> Device {
    added_to(caller, password, Device::new(origin, "ai.example"), name).await
}

/// Adds the passkey of a device.
pub async fn added_to(caller: &Caller, password: &str, mut device: Device, name: &str) -> Device {
    let offer = offer(caller, password).await;
    let credential = device.register(&offer.options);
    add(&offer, name, &credential).await.ok(200);
    device
}

async fn challenge(caller: &Caller) -> Offer {
    let offered = caller.post(&format!("{SIGN_IN}/challenge"), &json!({})).await;
    Offer::of(caller, &cookie_of(caller), &offered)
}

/// A challenge, and what a device answers to it.
pub async fn answered(caller: &Caller, device: &mut Device) -> (Offer, Value) {
    let offer = challenge(caller).await;
    let credential = device.sign(&offer.options);
    (offer, credential)
}

pub async fn answer(offer: &Offer, credential: &Value) -> Reply {
    offer.caller.post(SIGN_IN, &json!({"credential": credential})).await
}

/// Signs in by a device, as a new browser.
pub async fn sign_in(caller: &Caller, device: &mut Device) -> Reply {
    let (offer, credential) = answered(caller, device).await;
    answer(&offer, &credential).await
}

/// Has a passkey of a device made, which is still to be added: by whom, and the credential.
pub async fn offered(caller: &Caller, password: &str, device: &mut Device) -> (Caller, Value) {
    let offer = offer(caller, password).await;
    let credential = device.register(&offer.options);
    (offer.caller, credential)
}

/// Answers one challenge of a device twice. The second outcome.
pub async fn sign_in_twice(caller: &Caller, device: &mut Device) -> Reply {
    let (offer, credential) = answered(caller, device).await;
    answer(&offer, &credential).await;
    answer(&offer, &credential).await
}

/// A stranger from a network of their own.
fn from(server: &Server, network: u8) -> Caller {
    server.any.with("x-forwarded-for", &format!("192.0.2.{network}"))
}

async fn from_the_offer_to_the_session(backend: Backend) {
    let server = start(&backend).await;
    let (owner, elsewhere) = (server.owner().await, server.owner().await);
    let path = format!("{PASSKEYS}/offer");
    owner.post(&path, &json!({"password": "wrong"})).await.invalid("The password is wrong");
    let offered = owner.post(&path, &json!({"password": PASSWORD})).await;
    let asked = &offered.ok(200)["publicKey"];
    assert_eq!(asked["rp"], json!({"name": "Sluice", "id": "ai.example"}));
    assert_eq!(asked["user"]["name"], OWNER);
    assert_eq!((&asked["attestation"], &asked["excludeCredentials"]), (&json!("none"), &json!([])));
    let selection = &asked["authenticatorSelection"];
    assert_eq!(
        (&selection["residentKey"], &selection["userVerification"]),
        (&json!("required"), &json!("required"))
    );
    let cookie = offered.header("set-cookie");
    for part in ["HttpOnly", "SameSite=Strict", "Path=/api/v1/session", "Max-Age=300", "Secure"] {
        assert!(cookie.split("; ").any(|found| found == part), "{cookie}");
    }
    assert!(cookie.len() < 4_096, "{}", cookie.len());
    let (mut device, offer) = (device(), offer(&owner, PASSWORD).await);
    let credential = device.register(&offer.options);
    let added = add(&offer, " My laptop ", &credential).await;
    assert!(added.header("set-cookie").contains("sluice_passkey=; "), "it is used up");
    let added = added.ok(200);
    assert_eq!((&added["name"], &added["last_used_at"]), (&json!("My laptop"), &Value::Null));
    let codes = added["recovery_codes"].as_array().unwrap();
    assert_eq!(codes.len(), 10);
    elsewhere.get("/api/v1/session").await.is(401, &unauthorized());
    let listed = owner.get(PASSKEYS).await.ok(200);
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &added["id"]));
    let again = owner.post(&path, &json!({"password": PASSWORD})).await.ok(200);
    assert_eq!(again["publicKey"]["excludeCredentials"][0]["id"], credential["rawId"]);

    // The password alone is not enough.
    let login = server.login(OWNER, PASSWORD).await;
    login.is(200, &json!({"mfa_required": true}));
    let pending = with_cookie(&server, &login);
    pending.get("/api/v1/projects").await.is(401, &unauthorized());
    let done = sign_in(&pending, &mut device).await;
    let who = done.ok(200);
    assert_eq!((&who["user"]["email"], &who["user"]["mfa_enabled"]), (&json!(OWNER), &json!(true)));
    let fresh = with_cookie(&server, &done);
    fresh.get("/api/v1/projects").await.ok(200);
    verify(&pending, codes[0].as_str().unwrap()).await.is(401, &unauthorized());
    // Nor does it need one.
    sign_in(&from(&server, 1), &mut device).await.ok(200);
    let pending = with_cookie(&server, &server.login(OWNER, PASSWORD).await);
    verify(&pending, codes[0].as_str().unwrap()).await.ok(200);
    assert!(fresh.get(PASSKEYS).await.ok(200)[0]["last_used_at"].is_string());

    let [enabled] = &events(&owner, "mfa_enabled").await[..] else { panic!("once") };
    assert_eq!(enabled["metadata"], json!({"method": "passkey"}));
    let [row] = &events(&owner, "passkey_added").await[..] else { panic!("one") };
    assert_eq!(
        (&row["target_id"], &row["metadata"]),
        (&added["id"], &json!({"name": "My laptop"}))
    );
    let verified = events(&owner, "mfa_verified").await;
    let by = json!({"method": "passkey", "passkey": added["id"]});
    assert_eq!((verified.len(), &verified[1]["metadata"]), (3, &by));
    let logins = events(&owner, "login_success").await;
    assert_eq!(logins[1]["metadata"], json!({"method": "passkey", "email": OWNER}));
}

async fn an_answer_that_does_not_fit_signs_nobody_in(backend: Backend) {
    let server = start(&backend).await;
    let owner = server.owner().await;
    let other = user(&server, "member", &[]).await;
    let mut theirs = added(&other, USER_PASSWORD, ORIGIN, "Laptop").await;
    let mut device = added(&owner, PASSWORD, ORIGIN, "Laptop").await;
    let mut network = 0;
    let mut reasons = Vec::new();
    let changes: [(Change, &str); 6] = [
        (|device| device.origin = "https://evil.example", "verification"),
        (|device| device.origin = "https://ai.example", "verification"),
        (|device| device.rp_id = "evil.example", "verification"),
        (|device| device.verifies_user = false, "verification"),
        (|device| device.user = json!("AAAAAAAAAAAAAAAAAAAAAA"), "unknown_passkey"),
        (|device| device.id = vec![7; 32], "unknown_passkey"),
    ];
    for (change, reason) in changes {
        network += 1;
        let caller = from(&server, network);
        let kept = (device.origin, device.rp_id, device.user.clone(), device.id.clone());
        change(&mut device);
        sign_in(&caller, &mut device).await.is(401, &unauthorized());
        (device.origin, device.rp_id, device.user, device.id) = kept;
        device.verifies_user = true;
        reasons.push(reason);
        sign_in(&caller, &mut device).await.ok(200);
    }
    let caller = from(&server, 100);
    // Another challenge than the one that the cookie holds, the cookie of an offer, none at all, a made-up one.
    let (asked, held) = (challenge(&caller).await, challenge(&caller).await);
    let credential = device.sign(&asked.options);
    answer(&held, &credential).await.is(401, &unauthorized());
    let registration = offer(&owner, PASSWORD).await;
    answer(&registration, &device.sign(&registration.options)).await.is(401, &unauthorized());
    sign_in(&caller, &mut device).await.ok(200);
    for cookie in ["x=y".to_owned(), "sluice_passkey=AAAA".to_owned()] {
        let caller = caller.with("cookie", &cookie);
        let held = Offer { options: challenge(&caller).await.options, caller };
        answer(&held, &device.sign(&held.options)).await.is(401, &unauthorized());
    }
    sign_in(&caller, &mut device).await.ok(200);
    // The signature of another key.
    let asked = challenge(&caller).await;
    let mut mixed = device.sign(&asked.options);
    mixed["response"]["signature"] = theirs.sign(&asked.options)["response"]["signature"].clone();
    answer(&asked, &mixed).await.is(401, &unauthorized());
    reasons.extend(["verification", "challenge", "challenge", "challenge", "verification"]);
    // Values that are no credential at all, and pages of others.
    for credential in [json!(5), json!({}), json!({"id": "x"})] {
        assert_eq!(answer(&asked, &credential).await.status, 400, "{credential}");
    }
    let long = json!({"id": "x".repeat(20_000)});
    assert_eq!(answer(&asked, &long).await.status, 413);
    let evil = caller.with("origin", "https://evil.example");
    for path in [SIGN_IN.to_owned(), format!("{SIGN_IN}/challenge")] {
        evil.post(&path, &json!({})).await.is(403, &json!({"error": "Forbidden"}));
    }
    let failed = events(&owner, "login_failed").await;
    let mut found: Vec<_> = failed.iter().map(|row| row["metadata"]["reason"].clone()).collect();
    found.reverse();
    assert_eq!(json!(found), json!(reasons));
    assert_eq!(failed[0]["actor"], OWNER);
}

async fn an_answer_is_good_once(backend: Backend) {
    let server = start(&backend).await;
    let owner = server.owner().await;
    let mut device = added(&owner, PASSWORD, ORIGIN, "Laptop").await;
    // A passkey that is on several devices counts nothing: the counter does not give the copy away.
    device.counts = false;
    let asked = challenge(&server.any).await;
    let credential = device.sign(&asked.options);
    let both = tokio::join!(answer(&asked, &credential), answer(&asked, &credential));
    let mut statuses = [both.0.status, both.1.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 401]);
    answer(&asked, &credential).await.is(401, &unauthorized());
    let failed = events(&owner, "login_failed").await;
    assert!(failed.iter().all(|row| row["metadata"]["reason"] == "challenge"), "{failed:?}");
    sign_in(&server.any, &mut device).await.ok(200);
}

async fn a_counter_that_goes_back_is_refused(backend: Backend) {
    let server = start(&backend).await;
    let owner = server.owner().await;
    let mut device = added(&owner, PASSWORD, ORIGIN, "Laptop").await;
    sign_in(&server.any, &mut device).await.ok(200);
    sign_in(&server.any, &mut device).await.ok(200);
    for before in [0, 1] {
        device.counter = before;
        sign_in(&server.any, &mut device).await.is(401, &unauthorized());
    }
    sign_in(&server.any, &mut device).await.ok(200);
    let failed = events(&owner, "mfa_failed").await;
    assert_eq!(failed.len(), 2);
    assert_eq!(failed[0]["metadata"], json!({"method": "passkey", "reason": "counter"}));
}

async fn a_passkey_that_does_not_fit_is_not_added(backend: Backend) {
    let server = start(&backend).await;
    let owner = server.owner().await;
    let other = user(&server, "member", &[]).await;
    let fits = "The passkey does not fit what was asked for: try again";
    let asked = "The passkey was asked for too long ago, or for another account: try again";
    let changes: [Change; 3] = [
        |device| device.origin = "https://evil.example",
        |device| device.rp_id = "evil.example",
        |device| device.verifies_user = false,
    ];
    for change in changes {
        let (mut device, offer) = (device(), offer(&owner, PASSWORD).await);
        change(&mut device);
        let credential = device.register(&offer.options);
        add(&offer, "x", &credential).await.invalid(fits);
    }
    let (first, second) = (offer(&owner, PASSWORD).await, offer(&owner, PASSWORD).await);
    let mut device = device();
    let credential = device.register(&first.options);
    add(&second, "x", &credential).await.invalid(fits);
    // Without the state, with that of a sign-in, with that of another user.
    let mine = offer(&other, USER_PASSWORD).await;
    let stolen = format!("{}; {}", cookie_of(&other), state_of(&first));
    for caller in [owner.clone(), challenge(&owner).await.caller, other.with("cookie", &stolen)] {
        let held = Offer { options: Value::Null, caller };
        add(&held, "x", &credential).await.invalid(asked);
    }
    let evil = first.caller.with("origin", "https://evil.example");
    let held = Offer { options: Value::Null, caller: evil };
    assert_eq!(add(&held, "x", &credential).await.status, 403);
    assert_eq!(add(&first, "x", &json!({"id": 5})).await.status, 400);
    assert_eq!(events(&owner, "mfa_enabled").await.len(), 0);
    add(&first, "x", &credential).await.ok(200);
    // Once more, and by somebody else.
    let known = "The passkey is registered already";
    add(&first, "x", &credential).await.invalid(known);
    let credential = device.register(&mine.options);
    add(&mine, "x", &credential).await.invalid(known);
    assert_eq!(owner.get(PASSKEYS).await.ok(200).as_array().unwrap().len(), 1);
    other.get(PASSKEYS).await.is(200, &json!([]));
}

/// The cookie of an offer alone.
fn state_of(offer: &Offer) -> String {
    let cookie = cookie_of(&offer.caller);
    cookie.split("; ").find(|pair| pair.starts_with("sluice_passkey=")).unwrap().to_owned()
}

async fn twenty_passkeys_with_names(backend: Backend) {
    let server = start(&backend).await;
    let owner = server.owner().await;
    for name in ["", "  ", "a\nb", &"x".repeat(101)] {
        let (mut device, offer) = (device(), offer(&owner, PASSWORD).await);
        let credential = device.register(&offer.options);
        add(&offer, name, &credential).await.invalid("Name must have 1 to 100 characters");
    }
    let mut last = offer(&owner, PASSWORD).await;
    for number in 0..20 {
        let mut device = device();
        let name = format!("{number}{}", "é".repeat(90));
        let credential = device.register(&last.options);
        let codes = add(&last, &name, &credential).await.ok(200)["recovery_codes"].clone();
        assert_eq!(codes.is_array(), number == 0);
        if number < 19 {
            last = offer(&owner, PASSWORD).await;
        }
    }
    let full = "An account has 20 passkeys at most: remove one first";
    let path = format!("{PASSKEYS}/offer");
    owner.post(&path, &json!({"password": PASSWORD})).await.invalid(full);
    assert_eq!(owner.get(PASSKEYS).await.ok(200).as_array().unwrap().len(), 20);
}

async fn the_last_factor_goes_by_its_owner_alone(backend: Backend) {
    let server = start(&backend).await;
    let owner = server.owner().await;
    let member = user(&server, "member", &[]).await;
    let mut device = added(&member, USER_PASSWORD, ORIGIN, "Laptop").await;
    added(&member, USER_PASSWORD, ORIGIN, "Laptop").await;
    let listed = member.get(PASSKEYS).await.ok(200);
    let path = |at: usize| format!("{PASSKEYS}/{}", listed[at]["id"].as_str().unwrap());
    let remove = async |caller: &Caller, path: &str, password: &str| {
        let body = json!({"password": password}).to_string().into_bytes();
        caller.send("DELETE", path, Some(body)).await
    };
    remove(&member, &path(0), "wrong").await.invalid("The password is wrong");
    let gone = json!({"error": "Not found"});
    remove(&owner, &path(0), PASSWORD).await.is(404, &gone);
    for unknown in ["0000000000000000", "x"] {
        remove(&member, &format!("{PASSKEYS}/{unknown}"), USER_PASSWORD).await.is(404, &gone);
    }
    let rule = |on: bool| json!({"settings": {"security": {"require_mfa": on}}});
    let admin = enrol(owner, PASSWORD).await.caller;
    admin.patch("/api/v1/organization", &rule(true)).await.ok(200);
    remove(&member, &path(1), USER_PASSWORD).await.ok(204);
    remove(&member, &path(0), USER_PASSWORD).await.says(422, "this is your last");
    sign_in(&server.any, &mut device).await.ok(200);
    admin.patch("/api/v1/organization", &rule(false)).await.ok(200);
    remove(&member, &path(0), USER_PASSWORD).await.ok(204);
    assert_eq!(member.get("/api/v1/session").await.ok(200)["user"]["mfa_enabled"], false);
    sign_in(&server.any, &mut device).await.is(401, &unauthorized());
    server.session("member@example.org", USER_PASSWORD).await;
    assert_eq!(events(&admin, "passkey_removed").await.len(), 2);
    let [row] = &events(&admin, "mfa_disabled").await[..] else { panic!("one") };
    assert_eq!(row["metadata"], json!({"method": "passkey"}));

    // An owner takes the passkeys of somebody who has lost them.
    let mut device = added(&member, USER_PASSWORD, ORIGIN, "Laptop").await;
    admin.delete("/api/v1/users/2/mfa").await.ok(204);
    sign_in(&server.any, &mut device).await.is(401, &unauthorized());
    let member = server.session("member@example.org", USER_PASSWORD).await;
    member.get(PASSKEYS).await.is(200, &json!([]));
    let removed = &events(&admin, "passkey_removed").await[0];
    assert_eq!(removed["actor"], OWNER);
    assert_eq!(removed["metadata"], json!({"email": "member@example.org", "name": "Laptop"}));
}

async fn a_passkey_is_one_factor_of_several(backend: Backend) {
    let server = start(&backend).await;
    let enrolled = enrol(server.owner().await, PASSWORD).await;
    let owner = &enrolled.caller;
    let mut device = device();
    let asked = offer(owner, PASSWORD).await;
    let credential = device.register(&asked.options);
    let added = add(&asked, "x", &credential).await.ok(200);
    assert_eq!(added["recovery_codes"], Value::Null, "those of before are good");
    let id = added["id"].as_str().unwrap();
    let body = json!({"password": PASSWORD}).to_string().into_bytes();
    owner.send("DELETE", &format!("{PASSKEYS}/{id}"), Some(body)).await.ok(204);
    server.login(OWNER, PASSWORD).await.is(200, &json!({"mfa_required": true}));
    assert_eq!(events(owner, "mfa_disabled").await.len(), 0);
    // All go with the authenticator, by password and code.
    let mut device = self::added(owner, PASSWORD, ORIGIN, "Laptop").await;
    let both = json!({"password": PASSWORD, "code": enrolled.code()}).to_string().into_bytes();
    owner.send("DELETE", "/api/v1/session/mfa", Some(both)).await.ok(204);
    owner.get(PASSKEYS).await.is(200, &json!([]));
    sign_in(&server.any, &mut device).await.is(401, &unauthorized());
}

async fn passkeys_need_an_address(backend: Backend) {
    let sentence = "with a host name: set public_url";
    let path = format!("{SIGN_IN}/challenge");
    let server = Setup::new(&backend).env("SLUICE_PUBLIC_URL", "http://127.0.0.1").start().await;
    server.any.post(&path, &json!({})).await.says(422, sentence);
    drop(server);
    let server = Server::start(&backend).await;
    let owner = server.owner().await;
    for host in ["127.0.0.1:8080", "ai.example", "localhost.evil.example", "localhost@evil.example"]
    {
        let stranger = server.any.with("host", host);
        stranger.post(&path, &json!({})).await.says(422, sentence);
        let (owner, offer) = (owner.with("host", host), format!("{PASSKEYS}/offer"));
        owner.post(&offer, &json!({"password": PASSWORD})).await.says(422, sentence);
    }
    let here = owner.with("host", "localhost:18080");
    let mut device = Device::new("http://localhost:18080", "localhost");
    let asked = offer(&here, PASSWORD).await;
    assert_eq!(asked.options["publicKey"]["rp"]["id"], "localhost");
    let credential = device.register(&asked.options);
    add(&asked, "x", &credential).await.ok(200);
    let stranger = server.any.with("host", "localhost:18080");
    sign_in(&stranger, &mut device).await.ok(200);
    device.origin = "http://localhost.evil.example:18080";
    sign_in(&stranger, &mut device).await.is(401, &unauthorized());
}

async fn seven_wrong_answers(backend: Backend) {
    let server = start(&backend).await;
    let owner = server.owner().await;
    let mut device = added(&owner, PASSWORD, ORIGIN, "Laptop").await;
    let mut copy = Device::new(ORIGIN, "ai.example");
    (copy.id, copy.user) = (device.id.clone(), device.user.clone());
    for network in 0..6 {
        sign_in(&from(&server, network), &mut copy).await.is(401, &unauthorized());
    }
    let wait = sign_in(&from(&server, 6), &mut copy).await;
    assert_eq!(wait.status, 429, "{}", wait.text);
    assert!(!wait.header("retry-after").is_empty());
    // The owner's own network has a count of its own.
    let caller = server.any.clone();
    sign_in(&caller, &mut device).await.ok(200);
    for _ in 0..6 {
        copy.id = vec![7; 32];
        sign_in(&from(&server, 50), &mut copy).await.is(401, &unauthorized());
    }
    assert_eq!(sign_in(&from(&server, 50), &mut copy).await.status, 429);
}

async fn wrong_passwords_of_strangers_hold_up_no_passkey(backend: Backend) {
    let server = start(&backend).await;
    let owner = server.owner().await;
    let mut device = added(&owner, PASSWORD, ORIGIN, "Laptop").await;
    let wrong = json!({"email": OWNER, "password": "wrong-password"});
    for network in 0..6 {
        from(&server, network).post("/api/v1/session", &wrong).await.ok(401);
    }
    from(&server, 6).post("/api/v1/session", &wrong).await.ok(429);
    sign_in(&from(&server, 7), &mut device).await.ok(200);
    // An address that has failed as often waits, whatever it comes with.
    for _ in 0..6 {
        let stranger = json!({"email": "nobody@example.org", "password": "wrong-password"});
        from(&server, 8).post("/api/v1/session", &stranger).await.ok(401);
    }
    assert_eq!(sign_in(&from(&server, 8), &mut device).await.status, 429);
}
