//! The page of the user's own account.

use serde_json::json;

use super::{browser, owner, send_form, shows, signed_in};
use crate::harness::{Backend, Caller, Mailbox, OWNER, PASSWORD, Reply, Server, Setup};
use crate::session::passkeys::added;
use crate::session::roles::{USER_PASSWORD, user};
use crate::session::second_factor::Authenticator;

crate::on_every_backend!(
    an_authenticator_is_set_up_and_removed,
    whoever_must_enrol_is_led_to_the_page,
    a_password_is_changed,
    an_address_is_verified_from_the_page,
    sessions_are_seen_and_ended,
    passkeys_are_listed_and_removed,
    forms_of_other_sites_change_nothing
);

const PUBLIC: &str = "http://sluice.example:8080";

/// The text of the element with an id.
#[track_caller]
fn text<'a>(page: &'a Reply, id: &str) -> &'a str {
    let begin = format!("id=\"{id}\">");
    let (_, rest) = page.text.split_once(&begin).unwrap_or_else(|| panic!("no {id}"));
    rest.split('<').next().unwrap().trim()
}

/// Sets up an authenticator by the forms of the page.
async fn set_up(caller: &Caller, password: &str) -> (Authenticator, Vec<String>) {
    let offered = send_form(caller, "/account/authenticator", &[("password", password)]).await;
    shows(&offered, 200, "<svg class=\"qr\"");
    let secret = text(&offered, "totp-secret").to_owned();
    assert!(offered.text.contains(&format!("secret={secret}&#38;issuer=Sluice")));
    let authenticator = Authenticator::new(&secret);
    let uri = format!("otpauth://totp/Sluice:x?secret={secret}");
    let wrong = [("code", "000000"), ("secret", &*secret), ("uri", &*uri)];
    let again = send_form(caller, "/account/authenticator/confirm", &wrong).await;
    shows(&again, 422, "The code is wrong");
    assert_eq!(text(&again, "totp-secret"), secret, "it need not be set up anew");
    let code = authenticator.first_code();
    let done = send_form(caller, "/account/authenticator/confirm", &[("code", &code)]).await;
    shows(&done, 201, "10 of them are left");
    let codes: Vec<String> = text(&done, "codes").lines().map(str::to_owned).collect();
    assert_eq!(codes.len(), 10, "{codes:?}");
    (authenticator, codes)
}

async fn an_authenticator_is_set_up_and_removed(backend: Backend) {
    let server = Server::start(&backend).await;
    user(&server, "viewer", &["1"]).await;
    let viewer = signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
    let page = viewer.get("/").await;
    shows(&page, 200, "href=\"/account?project=1\"");
    shows(&viewer.get("/account").await, 200, "Set up an authenticator");
    let wrong = send_form(&viewer, "/account/authenticator", &[("password", "wrong")]).await;
    shows(&wrong, 422, "The password is wrong");
    let (authenticator, codes) = set_up(&viewer, USER_PASSWORD).await;
    let page = viewer.get("/account").await;
    shows(&page, 200, "An authenticator is set up");
    assert!(!page.text.contains(&codes[0]) && !page.text.contains("id=\"totp-secret\""));

    let renewed = send_form(&viewer, "/account/recovery-codes", &[("code", &codes[1])]).await;
    shows(&renewed, 201, "Recovery codes");
    assert!(!renewed.text.contains(&codes[0]));
    let used = send_form(&viewer, "/account/recovery-codes", &[("code", &codes[2])]).await;
    shows(&used, 422, "The code is wrong");

    let code = authenticator.code();
    let remove = |password| [("password", password), ("code", &*code)];
    let wrong = send_form(&viewer, "/account/factors/remove", &remove("wrong")).await;
    shows(&wrong, 422, "The password or the code is wrong");
    let removed = send_form(&viewer, "/account/factors/remove", &remove(USER_PASSWORD)).await;
    let shown = "/account?project=1&done=factors_removed";
    assert_eq!((removed.status, removed.header("location")), (303, shown), "{}", removed.text);
    shows(&viewer.get(shown).await, 200, "your password alone signs in");
    signed_in(&server, "viewer@example.org", USER_PASSWORD).await;
}

async fn whoever_must_enrol_is_led_to_the_page(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    user(&server, "member", &["1"]).await;
    let rule = json!({"settings": {"security": {"require_mfa": true}}});
    server.owner().await.patch("/api/v1/organization", &rule).await.ok(200);
    for session in [&owner, &signed_in(&server, "member@example.org", USER_PASSWORD).await] {
        for path in ["/", "/traces", "/keys", "/people", "/live/overview"] {
            let led = session.get(path).await;
            assert_eq!((led.status, led.header("location")), (303, "/account"), "{path}");
        }
        let form = send_form(session, "/keys", &[("name", "x"), ("project", "1")]).await;
        assert_eq!((form.status, form.header("location")), (303, "/account"));
        let page = session.get("/account").await;
        shows(&page, 200, "Your organization requires a second factor: set one up here");
        assert!(!page.text.contains("<nav") && !page.text.contains("Default"), "{}", page.text);
    }
    let other = signed_in(&server, OWNER, PASSWORD).await;
    let (authenticator, _) = set_up(&owner, PASSWORD).await;
    shows(&owner.get("/keys").await, 200, "Name of a new key");
    assert_eq!(other.get("/account").await.header("location"), "/sign-in?next=%2Faccount");
    let page = owner.get("/account").await;
    shows(&page, 200, "an owner can reset yours");
    assert!(!page.text.contains("/account/factors/remove"));
    let code = authenticator.code();
    let remove = [("password", PASSWORD), ("code", &*code)];
    shows(
        &send_form(&owner, "/account/factors/remove", &remove).await,
        422,
        "Your organization requires a second factor",
    );
    // A user who may not go on can still leave.
    let member = signed_in(&server, "member@example.org", USER_PASSWORD).await;
    assert_eq!(send_form(&member, "/sign-out", &[]).await.header("location"), "/sign-in");
    assert_eq!(member.get("/account").await.header("location"), "/sign-in?next=%2Faccount");
}

async fn a_password_is_changed(backend: Backend) {
    let server = Server::start(&backend).await;
    let (here, elsewhere) = (owner(&server).await, owner(&server).await);
    let change = |old, new| [("old_password", old), ("new_password", new)];
    for (old, new, sentence) in [
        ("wrong", "another-password-1", "The password is wrong"),
        (PASSWORD, "short", "Password must have 8 to 1024 characters"),
    ] {
        shows(&send_form(&here, "/account/password", &change(old, new)).await, 422, sentence);
    }
    let form = change(PASSWORD, "another-password-1");
    let changed = send_form(&here, "/account/password?project=1", &form).await;
    let shown = "/account?project=1&done=password_changed";
    assert_eq!((changed.status, changed.header("location")), (303, shown));
    shows(&here.get(shown).await, 200, "your other sessions have ended");
    assert_eq!(elsewhere.get("/account").await.status, 303);
    signed_in(&server, OWNER, "another-password-1").await;
}

async fn an_address_is_verified_from_the_page(backend: Backend) {
    let server = Server::start(&backend).await;
    let page = owner(&server).await.get("/account").await;
    shows(&page, 200, "this gateway has no mail server");
    assert!(!page.text.contains("/account/verification"));

    let mailbox = Mailbox::start(0).await;
    let server = mailbox.configure(Setup::new(&backend), PUBLIC).start().await;
    let login = server.login(OWNER, PASSWORD).await;
    let cookie = login.header("set-cookie").split(';').next().unwrap();
    let here = browser(&server).with("cookie", cookie).with("origin", PUBLIC);
    shows(&here.get("/account").await, 200, "Not verified yet");
    let form = here.request("POST", "/account/verification");
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let sent = Caller::try_send(form).await.unwrap();
    assert!(sent.header("location").ends_with("done=letter_sent"), "{}", sent.text);
    let link = mailbox.next().await.link(PUBLIC);
    let token = json!({"token": link.split_once("token=").unwrap().1});
    here.post("/api/v1/verifications/use", &token).await.ok(204);
    shows(&here.get("/account").await, 200, "Verified <time");
}

async fn sessions_are_seen_and_ended(backend: Backend) {
    let server = Server::start(&backend).await;
    let here = owner(&server).await;
    let agent = browser(&server).with("user-agent", "<b>Phone</b>");
    let fields = [("email", OWNER), ("password", PASSWORD)];
    let phone = send_form(&agent, "/sign-in", &fields).await;
    let phone = agent.with("cookie", phone.header("set-cookie").split(';').next().unwrap());
    let page = here.get("/account").await;
    shows(&page, 200, "&#60;b&#62;Phone&#60;/b&#62;");
    assert_eq!(page.text.matches("this one").count(), 1);
    assert_eq!(page.text.matches("/revoke?project=1").count(), 1, "not the one that is shown");
    let (_, rest) = page.text.split_once("/account/sessions/").unwrap();
    let id = rest.split('/').next().unwrap();
    user(&server, "admin", &[]).await;
    let admin = signed_in(&server, "admin@example.org", USER_PASSWORD).await;
    let path = format!("/account/sessions/{id}/revoke");
    shows(&send_form(&admin, &path, &[]).await, 404, "Not found");
    assert_eq!(phone.get("/account").await.status, 200);
    let ended = send_form(&here, &path, &[]).await;
    assert!(ended.header("location").ends_with("done=session_ended"), "{}", ended.text);
    assert_eq!(phone.get("/account").await.status, 303);
}

async fn passkeys_are_listed_and_removed(backend: Backend) {
    let server = Server::start(&backend).await;
    let page = owner(&server).await.get("/account").await;
    shows(&page, 200, "This gateway can have none");
    assert!(!page.text.contains("data-passkey-new"));
    assert!(!browser(&server).get("/sign-in").await.text.contains("passkey"));

    let setup = Setup::new(&backend).env("SLUICE_PUBLIC_URL", "https://ai.example");
    let server = setup.start().await;
    shows(&browser(&server).get("/sign-in").await, 200, "data-passkey-sign-in");
    let api = server.owner().await;
    added(&api, PASSWORD, "https://ai.example", "Phone <b>").await;
    let login = server.login(OWNER, PASSWORD).await;
    let pending =
        browser(&server).with("cookie", login.header("set-cookie").split(';').next().unwrap());
    assert_eq!(pending.get("/account").await.header("location"), "/sign-in?next=%2Faccount");
    let cookie = api.request("GET", "/").build().unwrap().headers()["cookie"].clone();
    let own = browser(&server).with("cookie", cookie.to_str().unwrap());
    let own = own.with("origin", "https://ai.example");
    let page = own.get("/account").await;
    shows(&page, 200, "Phone &#60;b&#62;");
    shows(&page, 200, "Your passkeys are your second factor");
    let id = api.get("/api/v1/session/passkeys").await.ok(200)[0]["id"].clone();
    let path = format!("/account/passkeys/{}/remove", id.as_str().unwrap());
    let remove = async |password: &str| {
        let form = own.request("POST", &path).body(format!("password={password}"));
        let form = form.header("content-type", "application/x-www-form-urlencoded");
        Caller::try_send(form).await.unwrap()
    };
    shows(&remove("wrong").await, 422, "The password is wrong");
    let removed = remove(PASSWORD).await;
    assert!(removed.header("location").ends_with("done=passkey_removed"), "{}", removed.text);
    assert!(!own.get("/account").await.text.contains("Phone"));
}

async fn forms_of_other_sites_change_nothing(backend: Backend) {
    let server = Server::start(&backend).await;
    let evil = owner(&server).await.with("origin", "https://evil.example");
    for form in [
        "password",
        "authenticator",
        "authenticator/confirm",
        "recovery-codes",
        "factors/remove",
        "passkeys/0000000000000000/remove",
        "verification",
        "sessions/0000000000000000/revoke",
    ] {
        let refused = evil.send("POST", &format!("/account/{form}"), None).await;
        assert_eq!(refused.status, 403, "{form}");
    }
}
