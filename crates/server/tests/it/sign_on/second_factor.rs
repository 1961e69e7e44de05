//! Second factors of users who come by an issuer.

use serde_json::json;

use super::resets::{Session, WAITING};
use super::{PROVIDERS, cookie, person, sign_on, signed_on, with_provider};
use crate::harness::{Backend, until};
use crate::session::second_factor::enrol;

crate::on_every_backend!(
    a_user_without_a_password_has_a_second_factor,
    the_factor_of_a_trusted_issuer_counts,
    a_factor_that_comes_while_its_provider_changes_signs_nobody_in
);

async fn a_user_without_a_password_has_a_second_factor(backend: Backend) {
    let (server, issuer, _) = with_provider(&backend).await;
    let owner = server.owner().await;
    let required = json!({"settings": {"security": {"require_mfa": true}}});
    owner.patch("/api/v1/organization", &required).await.ok(200);
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    let ann = signed_on(&server, &issuer).await;
    ann.get("/api/v1/projects").await.says(403, "requires a second factor");
    let enrolled = enrol(ann, "").await;
    enrolled.caller.get("/api/v1/projects").await.ok(200);
    // From now on the issuer alone is not enough.
    let reply = sign_on(&server, &issuer).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/sign-in/code?next=%2Ftraces"));
    let pending = server.any.with("cookie", &cookie(&reply, "sluice_session").unwrap());
    pending.get("/api/v1/projects").await.ok(401);
    let form = pending.get("/sign-in/code?next=/traces").await;
    assert!(form.text.contains("Code of your authenticator"), "{}", form.text);
    let code = json!({"code": enrolled.code()});
    let done = pending.post("/api/v1/session/mfa", &code).await;
    done.ok(200);
    let session = server.any.with("cookie", &cookie(&done, "sluice_session").unwrap());
    session.get("/api/v1/projects").await.ok(200);
    // It still is a session of the issuer's.
    let out = session.delete("/api/v1/session").await;
    assert!(out.header("x-sluice-end-session").starts_with(issuer.url()));
    // A first password is set without an old one, which from then on is asked for.
    let first = json!({"old_password": "", "new_password": "a-password-1"});
    enrolled.caller.post("/api/v1/session/password", &first).await.ok(204);
    let second = json!({"old_password": "", "new_password": "a-password-2"});
    let refused = enrolled.caller.post("/api/v1/session/password", &second).await;
    refused.says(422, "The password is wrong");
    server.login("ann@example.org", "a-password-1").await.is(200, &json!({"mfa_required": true}));
}

async fn the_factor_of_a_trusted_issuer_counts(backend: Backend) {
    let (server, issuer, made) = with_provider(&backend).await;
    let owner = server.owner().await;
    let required = json!({"settings": {"security": {"require_mfa": true}}});
    let mut ann = person("user-1", "ann@example.org", &["eng"]);
    ann["amr"] = json!(["pwd", "otp"]);
    issuer.says(&ann);
    let one = format!("{PROVIDERS}/{}", made["id"]);
    let trusts = |trusts: bool| json!({"trusts_factor": trusts});
    owner.patch(&one, &trusts(true)).await.ok(200);
    owner.patch("/api/v1/organization", &required).await.ok(200);
    let session = signed_on(&server, &issuer).await;
    session.get("/api/v1/projects").await.ok(200);
    let enrolled = enrol(session, "").await;
    signed_on(&server, &issuer).await.get("/api/v1/projects").await.ok(200);
    ann["amr"] = json!(["pwd"]);
    issuer.says(&ann);
    assert_eq!(sign_on(&server, &issuer).await.header("location"), "/sign-in/code?next=%2Ftraces");
    ann["amr"] = json!(["mfa"]);
    issuer.says(&ann);
    // Here the owner needs a factor of their own by now.
    let owner = enrol(server.owner().await, crate::harness::PASSWORD).await.caller;
    owner.patch(&one, &trusts(false)).await.ok(200);
    assert_eq!(sign_on(&server, &issuer).await.header("location"), "/sign-in/code?next=%2Ftraces");
    drop(enrolled);
}

async fn a_factor_that_comes_while_its_provider_changes_signs_nobody_in(backend: Backend) {
    let (server, issuer, made) = with_provider(&backend).await;
    if server.on_sqlite() {
        // It has one writer.
        return;
    }
    let owner = server.owner().await;
    issuer.says(&person("user-1", "ann@example.org", &["eng"]));
    let enrolled = enrol(signed_on(&server, &issuer).await, "").await;
    let reply = sign_on(&server, &issuer).await;
    let pending = server.any.with("cookie", &cookie(&reply, "sluice_session").unwrap());
    // Both wait for the organization: the provider's change first, then the code.
    let mut other = Session::begin(&server);
    other.row("BEGIN; SELECT id FROM organizations WHERE id = 1 FOR UPDATE;");
    let change = json!({"client_id": "another"});
    let one = format!("{PROVIDERS}/{}", made["id"]);
    let changing = tokio::spawn(async move { owner.patch(&one, &change).await });
    until("the change waits", async || (server.sql(WAITING) == "1").then_some(())).await;
    let code = json!({"code": enrolled.code()});
    let verifying = tokio::spawn(async move { pending.post("/api/v1/session/mfa", &code).await });
    until("the code waits", async || (server.sql(WAITING) == "2").then_some(())).await;
    other.end();
    changing.await.unwrap().ok(200);
    let verified = verifying.await.unwrap();
    verified.ok(401);
    assert_eq!(cookie(&verified, "sluice_session"), None);
    enrolled.caller.get("/api/v1/projects").await.ok(401);
}
