//! The page of people, and the pages that one-time links lead to.

use serde_json::json;

use super::{browser, owner, send_form, shows, signed_in};
use crate::harness::{Backend, OWNER, Server};
use crate::session::roles::{USER_PASSWORD, user};
use crate::session::second_factor::enrol;

crate::on_every_backend!(
    from_the_invitation_to_the_first_page,
    a_password_is_reset_by_a_link,
    every_way_in_of_somebody_is_ended,
    people_are_changed_and_removed,
    an_owner_resets_a_second_factor,
    members_see_their_own_buttons_alone,
    a_service_token_is_made_shown_once_and_revoked
);

const PASSWORD: &str = "a-long-password-1";

/// The path of the link that a page shows.
fn link(page: &str, base: &str) -> String {
    let (_, rest) = page.split_once("id=\"link\">").unwrap_or_else(|| panic!("no link in {page}"));
    rest.split('<').next().unwrap().strip_prefix(base).unwrap().to_owned()
}

async fn from_the_invitation_to_the_first_page(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    shows(&owner.get("/people").await, 200, "None is open");
    let fields = [("email", "ada@example.org"), ("role", "member"), ("projects", "1")];
    let made = send_form(&owner, "/people", &fields).await;
    shows(&made, 201, "The invitation of ada@example.org");
    let link = link(&made.text, &server.any.base);
    let again = owner.get("/people").await;
    shows(&again, 200, "Withdraw the invitation of ada@example.org");
    assert!(!again.text.contains("token="), "the link is shown once");

    // Looking at the link uses nothing up.
    let ada = browser(&server);
    for _ in 0..3 {
        let page = ada.get(&link).await;
        shows(&page, 200, "ada@example.org");
        assert!(page.header("referrer-policy").contains("same-origin"));
    }
    let token = link.split_once("token=").unwrap().1;
    let accept = |password| [("token", token), ("name", "Ada <b>"), ("password", password)];
    let weak = send_form(&ada, "/invitation", &accept("short")).await;
    shows(&weak, 422, "Password must have 8 to 1024 characters");
    assert!(weak.text.contains("Ada &#60;b&#62;"), "the name is kept, as text");
    let elsewhere = ada.with("origin", "https://evil.example");
    assert_eq!(elsewhere.send("POST", "/invitation", None).await.status, 403);
    let done = send_form(&ada, "/invitation", &accept(PASSWORD)).await;
    assert_eq!((done.status, done.header("location")), (303, "/"), "{}", done.text);
    let ada = ada.with("cookie", done.header("set-cookie").split(';').next().unwrap());
    shows(&ada.get("/keys").await, 200, "Name of a new key");
    assert_eq!(ada.get("/people").await.status, 403);
    assert!(!ada.get("/").await.text.contains("/people"));
    shows(&browser(&server).get(&link).await, 422, "The link is not good");
    shows(&owner.get("/people").await, 200, "Ada &#60;b&#62;");
}

async fn a_password_is_reset_by_a_link(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    user(&server, "member", &["1"]).await;
    let made = send_form(&owner, "/people/2/password-link", &[]).await;
    shows(&made, 201, "A link to a new password");
    let link = link(&made.text, &server.any.base);
    let visitor = browser(&server);
    shows(&visitor.get(&link).await, 200, "member@example.org");
    let token = link.split_once("token=").unwrap().1;
    let set = [("token", token), ("password", PASSWORD)];
    let done = send_form(&visitor, "/new-password", &set).await;
    shows(&done, 200, "The password is set");
    assert!(done.headers.get("set-cookie").is_none());
    shows(&send_form(&visitor, "/new-password", &set).await, 422, "The link is not good");
    signed_in(&server, "member@example.org", PASSWORD).await;
    shows(&send_form(&owner, "/people/1/password-link", &[]).await, 422, "Your own password");
    // There is no mail server. The address is kept, as text.
    let asked = send_form(&visitor, "/forgotten", &[("email", "ada@example.org\"<b>")]).await;
    shows(&asked, 422, "No mail server is configured");
    shows(&asked, 422, "autocomplete=\"username\" value=\"ada@example.org&#34;&#60;b&#62;\"");
}

async fn every_way_in_of_somebody_is_ended(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    user(&server, "member", &["1"]).await;
    user(&server, "admin", &[]).await;
    let form = "/people/2/reset";
    shows(&owner.get("/people").await, 200, form);
    let admin = signed_in(&server, "admin@example.org", USER_PASSWORD).await;
    assert!(!admin.get("/people").await.text.contains(form), "it is for owners");
    assert_eq!(send_form(&admin, form, &[]).await.status, 403);
    let member = signed_in(&server, "member@example.org", USER_PASSWORD).await;
    assert_eq!(member.get("/keys").await.status, 200);
    let ended = send_form(&owner, form, &[]).await;
    shows(&ended, 201, "id=\"link\">");
    assert_eq!(member.get("/keys").await.status, 303, "the session has ended");
    server.login("member@example.org", USER_PASSWORD).await.ok(401);
    // The link is the one way in.
    let link = link(&ended.text, &server.any.base);
    let token = link.split_once("token=").unwrap().1;
    let set = [("token", token), ("password", PASSWORD)];
    shows(&send_form(&browser(&server), "/new-password", &set).await, 200, "The password is set");
    signed_in(&server, "member@example.org", PASSWORD).await;
    shows(&send_form(&owner, "/people/1/reset", &[]).await, 422, "Your own ways in");
}

async fn people_are_changed_and_removed(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    user(&server, "member", &["1"]).await;
    let change = |role, projects| [("role", role), ("projects", projects)];
    let changed = send_form(&owner, "/people/2?project=1", &change("viewer", "1")).await;
    let shown = "/people?project=1&done=person_changed";
    assert_eq!((changed.status, changed.header("location")), (303, shown));
    shows(&owner.get(shown).await, 200, "Role and projects are saved");
    let people = server.owner().await.get("/api/v1/users").await.ok(200);
    assert_eq!((&people[1]["role"], &people[1]["projects"]), (&json!("viewer"), &json!([1])));
    // A field that is as the page had it says nothing: somebody else may have changed it meanwhile.
    let stale =
        [("role", "member"), ("old_role", "member"), ("projects", ""), ("old_projects", "1")];
    assert_eq!(send_form(&owner, "/people/2?project=1", &stale).await.status, 303);
    let people = server.owner().await.get("/api/v1/users").await.ok(200);
    assert_eq!((&people[1]["role"], &people[1]["projects"]), (&json!("viewer"), &json!([])));
    // Nor does one of a form that was refused, and is sent again with what was wrong mended.
    let stale =
        [("role", "admin"), ("old_role", "admin"), ("projects", "one"), ("old_projects", "9")];
    let refused = send_form(&owner, "/people/2?project=1", &stale).await;
    let old = "name=\"old_role\" value=\"admin\"><input type=\"hidden\" name=\"old_projects\" value=\"9\"";
    shows(&refused, 422, old);
    for (path, fields, sentence) in [
        ("/people/2", change("viewer", "one"), "Projects are numbers"),
        ("/people/2", change("viewer", "9"), "There is no project 9"),
        ("/people/1", change("viewer", ""), "The last owner cannot be demoted"),
    ] {
        shows(&send_form(&owner, path, &fields).await, 422, sentence);
    }
    shows(
        &send_form(&owner, "/people/1/remove", &[]).await,
        422,
        "The last owner cannot be removed",
    );
    assert_eq!(send_form(&owner, "/people/2/remove", &[]).await.status, 303);
    assert!(!owner.get("/people").await.text.contains("member@example.org"));
    for (email, role) in [("second@example.org", "owner"), ("third@example.org", "member")] {
        let fields = [("email", email), ("role", role)];
        shows(&send_form(&owner, "/people", &fields).await, 201, email);
    }
    shows(&owner.get("/people").await, 200, "Withdraw the invitation of second@example.org");
    user(&server, "admin", &[]).await;
    let admin = signed_in(&server, "admin@example.org", USER_PASSWORD).await;
    let page = admin.get("/people").await.text;
    let may_withdraw = |email| page.contains(&format!("Withdraw the invitation of {email}"));
    assert!(page.contains("second@example.org") && !may_withdraw("second@example.org"), "{page}");
    assert!(may_withdraw("third@example.org"), "{page}");
    assert!(page.contains(OWNER) && !page.contains(&format!("Remove {OWNER}")));
    assert!(!page.contains(">owner</option>") && !page.contains("/password-link"));
}

async fn an_owner_resets_a_second_factor(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    let path = "/people/2/factors/remove";
    let member = user(&server, "member", &["1"]).await;
    assert!(!owner.get("/people").await.text.contains("/factors/remove"), "nobody has one");
    enrol(member, USER_PASSWORD).await;
    shows(&owner.get("/people").await, 200, "Reset the second factor of member@example.org");
    user(&server, "admin", &[]).await;
    let admin = signed_in(&server, "admin@example.org", USER_PASSWORD).await;
    assert!(!admin.get("/people").await.text.contains("/factors/remove"));
    assert_eq!(send_form(&admin, path, &[]).await.status, 403);
    let reset = send_form(&owner, path, &[]).await;
    let shown = "/people?project=1&done=factors_reset";
    assert_eq!((reset.status, reset.header("location")), (303, shown), "{}", reset.text);
    shows(&owner.get(shown).await, 200, "The second factors are removed");
    signed_in(&server, "member@example.org", USER_PASSWORD).await;
    let events = server.owner().await.get("/api/v1/audit-events?event=mfa_disabled").await.ok(200);
    assert_eq!(events[0]["metadata"]["email"], "member@example.org");
}

async fn members_see_their_own_buttons_alone(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    user(&server, "member", &["1"]).await;
    let member = signed_in(&server, "member@example.org", USER_PASSWORD).await;
    let make = |name| [("name", name), ("project", "1")];
    send_form(&owner, "/keys", &make("theirs")).await;
    assert_eq!(send_form(&member, "/keys", &make("mine")).await.status, 201);
    let page = member.get("/keys").await.text;
    assert!(page.contains("Rotate mine") && page.contains("Revoke theirs"));
    assert!(!page.contains("Rotate theirs") && !page.contains("Most per hour"));
    let api = server.owner().await;
    let rules = json!({"self_service": {"max_hourly_limit": 1}});
    crate::harness::settings(&api, 1, rules).await;
    let page = member.get("/keys").await.text;
    assert!(page.contains("Revoke mine") && !page.contains("Revoke theirs"));
    assert!(page.contains("the highest allowed"));
    let keys = api.get("/api/v1/keys").await.ok(200);
    let id = |name: &str| {
        let found = keys.as_array().unwrap().iter().find(|key| key["name"] == name);
        found.unwrap()["id"].as_str().unwrap().to_owned()
    };
    let rotate = format!("/keys/{}/rotate?project=1", id("mine"));
    let rotated = send_form(&member, &rotate, &[("overlap_seconds", "3600")]).await;
    shows(&rotated, 201, "id=\"secret\">ak_");
    let wrong = send_form(&member, &rotate, &[("overlap_seconds", "x")]).await;
    shows(&wrong, 422, "overlap_seconds must be a whole number");
    let theirs = format!("/keys/{}/rotate?project=1", id("theirs"));
    shows(&send_form(&member, &theirs, &[]).await, 403, "Forbidden");
}

async fn a_service_token_is_made_shown_once_and_revoked(backend: Backend) {
    const PATH: &str = "/people/tokens";
    let server = Server::start(&backend).await;
    let owner = owner(&server).await;
    shows(&owner.get("/people").await, 200, "/people/tokens");
    shows(&owner.get(PATH).await, 200, "No service token yet");
    let fields = [
        ("name", "Nightly <b>"),
        ("role", "member"),
        ("projects", "1"),
        ("days", "30"),
        ("password", crate::harness::PASSWORD),
    ];
    let made = send_form(&owner, PATH, &fields).await;
    shows(&made, 201, "Copy the secret now");
    let (_, rest) = made.text.split_once("id=\"secret\">").unwrap();
    let raw = rest.split('<').next().unwrap().to_owned();
    let program = server.any.with("authorization", &format!("Bearer {raw}"));
    program.get("/api/v1/projects/1").await.ok(200);
    let page = owner.get(PATH).await;
    shows(&page, 200, "Nightly &#60;b&#62;");
    assert!(page.text.contains("member 1") && page.text.contains(OWNER), "{}", page.text);
    assert!(!page.text.contains(&raw) && page.text.contains(&raw[raw.len() - 4..]));
    for (field, value, sentence) in [
        ("days", "soon", "number of days"),
        ("projects", "one", "Projects are numbers"),
        ("role", "owner", "must be one of admin, member, viewer"),
        ("days", "never", "number of days"),
        ("password", "wrong-password", "The password is wrong"),
    ] {
        let refused = fields.map(|(name, given)| (name, if name == field { value } else { given }));
        shows(&send_form(&owner, PATH, &refused).await, 422, sentence);
    }
    let id = raw.split('.').next().unwrap();
    let revoke = format!("{PATH}/{id}/revoke");
    let revoked = send_form(&owner, &revoke, &[]).await;
    assert_eq!(
        (revoked.status, revoked.header("location")),
        (303, "/people/tokens?project=1&done=token_revoked")
    );
    program.get("/api/v1/projects/1").await.ok(401);
    user(&server, "member", &["1"]).await;
    let member = signed_in(&server, "member@example.org", USER_PASSWORD).await;
    assert_eq!(member.get(PATH).await.status, 403);
    assert_eq!(send_form(&member, PATH, &fields).await.status, 403);
}
