//! Providers, as owners change them, and passwords that are disabled.

use serde_json::{Value, json};

use super::issuer::{Issuer, SECRET};
use super::{
    PROVIDERS, browser, cookie, events, fields, person, server, sign_on, signed_on, with_provider,
};
use crate::harness::{Backend, Caller, OWNER, PASSWORD, Reply, Server, Setup};
use crate::keys::authentication::unauthorized;
use crate::session::roles::user;

crate::on_every_backend!(
    owners_add_change_and_remove_providers,
    what_is_no_provider_is_refused,
    without_passwords_there_is_another_way_in,
    owners_have_a_page_for_providers
);

async fn owners_add_change_and_remove_providers(backend: Backend) {
    let (server, issuer, made) = with_provider(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let id = made["id"].as_i64().unwrap();
    let one = format!("{PROVIDERS}/{id}");
    assert_eq!(made["has_client_secret"], true);
    assert_eq!(made["callback_path"], "/api/v1/sign-on/stub/callback");
    assert_eq!(made["scopes"], json!(["openid", "email", "profile"]));
    owner.get(PROVIDERS).await.is(200, &json!([made]));
    let change = json!({"name": "Work", "scopes": ["groups"], "trusts_factor": true});
    for (method, path) in
        [("GET", PROVIDERS), ("POST", PROVIDERS), ("PATCH", &*one), ("DELETE", &one)]
    {
        let reply = admin.send(method, path, Some(change.to_string().into_bytes())).await;
        reply.is(403, &json!({"error": "Forbidden"}));
        server.key().send(method, path, None).await.ok(401);
    }
    let changed = owner.patch(&one, &change).await.ok(200);
    assert_eq!((&changed["name"], &changed["trusts_factor"]), (&json!("Work"), &json!(true)));
    assert_eq!(changed["scopes"], json!(["openid", "groups"]));
    assert_eq!((&changed["has_client_secret"], &changed["slug"]), (&json!(true), &json!("stub")));
    // A secret goes to no other issuer than the one that it was meant for.
    let other = Issuer::start().await;
    let moved = owner.patch(&one, &json!({"issuer": other.url()})).await.ok(200);
    assert_eq!(moved["has_client_secret"], false);
    let back = json!({"issuer": issuer.url(), "client_secret": SECRET});
    assert_eq!(owner.patch(&one, &back).await.ok(200)["has_client_secret"], true);
    owner.patch(&format!("{PROVIDERS}/99"), &change).await.ok(404);
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    let ann = signed_on(&server, &issuer).await;
    owner.delete(&one).await.ok(204);
    owner.delete(&one).await.ok(404);
    assert_eq!(ann.get("/api/v1/session").await.status, 401, "her session came by it");
    for kind in ["created", "deleted"] {
        let [event] = &events(&server, &format!("sign_on_provider_{kind}")).await[..] else {
            panic!("one {kind}")
        };
        assert_eq!(event["target_id"], id.to_string());
        assert!(!event.to_string().contains(SECRET));
    }
    let updates = events(&server, "sign_on_provider_updated").await;
    assert_eq!(updates.len(), 3);
    assert_eq!(updates[0]["metadata"]["client_secret_changed"], true);
    assert_eq!(updates[2]["metadata"]["changes"]["name"], json!({"old": "Stub", "new": "Work"}));
    assert!(!updates[2].to_string().contains("client_secret_changed"));
}

async fn what_is_no_provider_is_refused(backend: Backend) {
    let nowhere = Setup::new(&backend).env("SLUICE_EGRESS_ALLOW", "127.0.0.1").start().await;
    let issuer = Issuer::start().await;
    let without = nowhere.owner().await.post(PROVIDERS, &fields(&issuer)).await;
    without.says(422, "needs public_url");
    drop(nowhere);
    let server = server(&backend).await;
    let owner = server.owner().await;
    let rule = |value: &str, role: &str, projects: Value| json!([{"claim_value": value, "role": role, "projects": projects}]);
    for (name, value, status, fault) in [
        ("slug", json!("a/b"), 422, "Slug must be"),
        ("slug", json!("x".repeat(33)), 422, "Slug must be"),
        ("slug", Value::Null, 422, "Slug must be"),
        ("name", json!(" "), 422, "Name can't be blank"),
        ("issuer", json!("not a url"), 422, "Issuer is not a valid URL"),
        ("issuer", json!("http://127.0.0.1:1/?a=b"), 422, "Issuer must not hold a query"),
        ("client_id", json!(""), 422, "Client id can't be blank"),
        ("client_secret", json!("a\nb"), 422, "Client secret must have"),
        ("scopes", json!(["a b"]), 422, "Scopes must be"),
        ("groups_claim", json!(""), 422, "Groups claim can't be blank"),
        ("rules", rule("eng", "owner", json!([])), 422, "owners are made by owners"),
        ("rules", rule("eng", "boss", json!([])), 422, "role must be one of"),
        ("rules", rule("", "member", json!([])), 422, "claim_value of a rule"),
        ("rules", rule("eng", "member", json!([99])), 422, "There is no project 99"),
        (
            "rules",
            json!(vec![json!({"claim_value": "a", "role": "viewer"}); 101]),
            422,
            "100 rules",
        ),
        ("rules", json!([{"claim": "eng", "role": "member"}]), 400, "unknown field"),
        ("secret", json!("x"), 400, "unknown field"),
    ] {
        let mut fields = fields(&issuer);
        fields[name] = value;
        owner.post(PROVIDERS, &fields).await.says(status, fault);
    }
    owner.post(PROVIDERS, &json!({})).await.says(422, "Slug must be");
    owner.get(PROVIDERS).await.is(200, &json!([]));
    owner.post(PROVIDERS, &fields(&issuer)).await.ok(200);
    owner.post(PROVIDERS, &fields(&issuer)).await.says(422, "Slug has already been taken");
}

async fn disable(caller: &Caller, disabled: bool) -> crate::harness::Reply {
    let security = json!({"disable_password_login": disabled});
    let change = json!({"settings": {"security": security}});
    caller.patch("/api/v1/organization", &change).await
}

/// The owner links their account to the issuer's user.
async fn link_owner(server: &Server, issuer: &Issuer) -> Caller {
    issuer.says(&person("boss", OWNER, &[]));
    let reply = sign_on(server, issuer).await;
    let owner = server.owner().await;
    let link = cookie(&reply, "sluice_link").unwrap();
    let session = server.login(OWNER, PASSWORD).await;
    let both = format!("{}; {link}", cookie(&session, "sluice_session").unwrap());
    let linking = server.any.with("cookie", &both);
    let password = json!({"password": PASSWORD});
    linking.post("/api/v1/session/identities", &password).await.ok(204);
    owner
}

async fn without_passwords_there_is_another_way_in(backend: Backend) {
    let (server, issuer, made) = with_provider(&backend).await;
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    disable(&owner, true).await.says(422, "needs an owner who is linked");
    link_owner(&server, &issuer).await;
    let invited = json!({"email": "new@example.org", "role": "member", "projects": []});
    let link = owner.post("/api/v1/invitations", &invited).await.ok(200)["link"].clone();
    let token = link.as_str().unwrap().split("token=").nth(1).unwrap().to_owned();
    disable(&owner, true).await.ok(200);
    // The right password and a wrong one are the same.
    for password in [PASSWORD, "wrong-password"] {
        server.login(OWNER, password).await.is(401, &unauthorized());
    }
    let failed = events_of(&owner, "login_failed").await;
    assert_eq!(failed[0]["metadata"]["reason"], "password_login_disabled");
    let accept = json!({"token": token, "name": "New", "password": "a-password-1"});
    let accepted = server.any.post("/api/v1/invitations/accept", &accept).await;
    accepted.says(422, "has disabled passwords");
    let page = browser(&server).get("/sign-in").await;
    assert!(page.text.contains("Sign in with Stub") && !page.text.contains(r#"type="password""#));
    // No admin undoes a decision of the owners.
    disable(&admin, false).await.is(403, &json!({"error": "Forbidden"}));
    // The last provider stays.
    let one = format!("{PROVIDERS}/{}", made["id"]);
    owner.delete(&one).await.says(422, "The last provider stays");
    owner.get(PROVIDERS).await.is(200, &json!([made]));
    // The owner comes by it, still an owner.
    let boss = signed_on(&server, &issuer).await;
    assert_eq!(boss.get("/api/v1/session").await.ok(200)["user"]["role"], "owner");
    // When no provider works any more, the machine has a way.
    for says in ["may sign in with passwords again", "with passwords already"] {
        let done = server.cli(&["organization", "allow-password-login"], &[]).await;
        assert!(done.status.success(), "{done:?}");
        let out = String::from_utf8(done.stdout).unwrap();
        assert!(out.contains(says), "{out}");
    }
    server.owner().await.delete(&one).await.ok(204);
    let updated = events_of(&server.owner().await, "organization_updated").await;
    assert_eq!(updated.len(), 2);
}

async fn events_of(caller: &Caller, kind: &str) -> Vec<Value> {
    let path = format!("/api/v1/audit-events?event={kind}");
    caller.get(&path).await.ok(200).as_array().unwrap().clone()
}

async fn owners_have_a_page_for_providers(backend: Backend) {
    let (server, issuer, made) = with_provider(&backend).await;
    let page = "/people/sign-on";
    let owner = server.owner().await;
    let admin = user(&server, "admin", &[]).await;
    let send = async |caller: &Caller, path: &str, fields: &[(&str, &str)]| {
        let own = caller.base.clone();
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = caller.with("origin", &own).request("POST", path);
        let kind = "application/x-www-form-urlencoded";
        let request = request.header("content-type", kind).body(form);
        Caller::try_send(request).await.unwrap()
    };
    let base = |page: &Reply| {
        let (_, rest) = page.text.split_once("name=\"base\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let shown = owner.get(page).await;
    let old = base(&shown);
    assert!(shown.text.contains("ops = admin\neng = member 1\n</textarea>"), "{}", shown.text);
    assert!(!shown.text.contains(SECRET));
    assert_eq!(admin.get(page).await.status, 403);
    let one = format!("{page}/{}", made["id"]);
    let fields = |name: &'static str, rules: &'static str| {
        [
            ("name", name),
            ("slug", "stub"),
            ("issuer", ""),
            ("client_id", super::CLIENT),
            ("client_secret", ""),
            ("scopes", "openid email"),
            ("groups_claim", "groups"),
            ("rules", rules),
            ("trusts_factor", "yes"),
        ]
    };
    let mut wrong = fields("\"><script>", "eng = member one").to_vec();
    wrong[2] = ("issuer", issuer.url());
    let refused = send(&owner, &one, &wrong).await;
    assert_eq!(refused.status, 422);
    assert!(refused.text.contains("A rule is a line") && refused.text.contains("eng = member one"));
    let beside = format!("<p class=\"fault\" id=\"rules-{}-fault\">A rule is a line", made["id"]);
    assert!(refused.text.contains(&beside), "{}", refused.text);
    assert!(!refused.text.contains("<script>\""), "{}", refused.text);
    wrong[1] = ("slug", "Not a slug");
    wrong.push(("base", &old));
    wrong[7] = ("rules", "");
    let refused = send(&owner, &one, &wrong).await;
    let beside = format!("<p class=\"fault\" id=\"slug-{}-fault\">Slug must be", made["id"]);
    assert!(refused.text.contains(&beside), "{}", refused.text);
    let mut right = fields("Work", "eng = viewer 1\r\n\r\nx=y = admin").to_vec();
    right[2] = ("issuer", issuer.url());
    // A page that a colleague has overtaken undoes nothing.
    owner.patch(&format!("{PROVIDERS}/{}", made["id"]), &json!({"name": "Other"})).await.ok(200);
    let shown = owner.get(page).await;
    let fresh = base(&shown);
    for base in [None, Some(("base", &*old))] {
        let form: Vec<_> = right.iter().copied().chain(base).collect();
        let refused = send(&owner, &one, &form).await;
        assert_eq!(refused.status, 409, "{}", refused.text);
        assert!(refused.text.contains("The provider has changed since this page was loaded"));
        assert!(refused.text.contains("value=\"Other\""), "{}", refused.text);
    }
    right.push(("base", &fresh));
    assert_eq!(send(&admin, &one, &right).await.status, 403);
    let saved = send(&owner, &one, &right).await;
    assert_eq!(saved.status, 200, "the page is shown again: {}", saved.text);
    let now = owner.get(PROVIDERS).await.ok(200);
    let rules = json!([{"claim_value": "eng", "role": "viewer", "projects": [1]},
        {"claim_value": "x=y", "role": "admin", "projects": []}]);
    assert_eq!((&now[0]["rules"], &now[0]["name"]), (&rules, &json!("Work")));
    assert_eq!(
        (&now[0]["has_client_secret"], &now[0]["trusts_factor"]),
        (&json!(true), &json!(true))
    );
    send(&owner, &format!("{one}/remove"), &[]).await;
    owner.get(PROVIDERS).await.is(200, &json!([]));
}
