//! The sessions of a user, listed and ended one by one.

use serde_json::{Value, json};

use crate::harness::{Backend, OWNER, PASSWORD, Setup};
use crate::keys::authentication::unauthorized;
use crate::session::roles::user;

crate::on_every_backend!(a_user_sees_and_ends_their_own_sessions);

async fn a_user_sees_and_ends_their_own_sessions(backend: Backend) {
    let server = Setup::new(&backend).env("SLUICE_TRUSTED_PROXIES", "127.0.0.1/32").start().await;
    let here = server.owner().await;
    let phone = server.any.with("x-forwarded-for", "2001:db8::7").with("user-agent", "Phone/1.0");
    let body = json!({"email": OWNER, "password": PASSWORD});
    let login = phone.post("/api/v1/session", &body).await;
    let cookie = login.header("set-cookie").split(';').next().unwrap().to_owned();
    let phone = phone.with("cookie", &cookie);
    let other = user(&server, "admin", &[]).await;

    let list = async || here.get("/api/v1/session/all").await.ok(200).as_array().unwrap().clone();
    let sessions = list().await;
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    let of = |current: bool| sessions.iter().find(|one| one["current"] == current).unwrap();
    let (own, theirs) = (of(true), of(false));
    assert_eq!(
        (&theirs["address"], &theirs["user_agent"]),
        (&json!("2001:db8::7"), &json!("Phone/1.0"))
    );
    for session in [own, theirs] {
        let id = session["id"].as_str().unwrap();
        assert!(id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
        assert!(session["created_at"].is_string() && session["last_seen_at"].is_string());
        assert!(!cookie.contains(id), "it is no part of the token");
    }
    let path = |id: &Value| format!("/api/v1/session/all/{}", id.as_str().unwrap());
    let theirs = path(&theirs["id"]);
    let gone = json!({"error": "Not found"});
    other.delete(&theirs).await.is(404, &gone);
    let signed = theirs.replace("/all/", "/all/+");
    for unknown in [&*signed, "/api/v1/session/all/0000000000000000", "/api/v1/session/all/x"] {
        here.delete(unknown).await.is(404, &gone);
    }
    here.with("origin", "https://evil.example").delete(&theirs).await.ok(403);
    phone.get("/api/v1/projects").await.ok(200);
    here.delete(&theirs).await.ok(204);
    phone.get("/api/v1/projects").await.is(401, &json!({"error": "Invalid token"}));
    here.delete(&theirs).await.is(404, &gone);
    assert_eq!(list().await.len(), 1);
    let events = here.get("/api/v1/audit-events?event=session_revoked").await.ok(200);
    assert_eq!(events.as_array().unwrap().len(), 1);
    assert_eq!(events[0]["target_id"], theirs.rsplit('/').next().unwrap());
    here.delete(&path(&own["id"])).await.ok(204);
    here.get("/api/v1/session").await.is(401, &unauthorized());
}
