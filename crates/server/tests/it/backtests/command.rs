//! `sluice backtest`: a file of settings, tested like any other change.

use std::process::Output;

use serde_json::{Value, json};

use crate::harness::{Answer, Backend, Mock, OWNER, PASSWORD, Server, settings};
use crate::session::second_factor::enrol;

crate::on_every_backend!(
    a_draft_passes_or_fails,
    what_cannot_be_judged_fails,
    a_token_does_where_a_person_has_a_second_factor
);

const CREDENTIALS: [(&str, &str); 2] =
    [("SLUICE_USER_EMAIL", OWNER), ("SLUICE_USER_PASSWORD", PASSWORD)];

fn printed(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Writes a draft, and gives the path of its file.
fn draft(server: &Server, name: &str, draft: &Value) -> String {
    let path = server.data().join(name);
    std::fs::write(&path, draft.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

async fn command(server: &Server, file: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let all = [&["backtest", "--project", "1", "--settings", file], args].concat();
    printed(&server.cli(&all, &CREDENTIALS).await)
}

async fn a_draft_passes_or_fails(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    settings(&owner, 1, json!({"routing_tiers": {"simple": "mock", "complex": "mock"}})).await;
    let trace = key.trace().await;
    for input in ["Hello.", "Say Bluebird.", "Good morning.", "Good night."] {
        key.execute(&trace, input).await.ok(200);
    }
    let same = draft(&server, "same.json", &json!({}));
    let (code, out, err) =
        command(&server, &same, &["--fail-if", "blocked>0", "--since", "1h"]).await;
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    assert!(
        out.starts_with(&format!("ok   {same} on project 1: 4 requests, 0 newly blocked,")),
        "{out}"
    );
    assert!(out.contains("cost $0.018000 -> $0.018000 (+0.0 %), savings $0.000000"), "{out}");

    let rule = json!({"safety": {"rules": [{"name": "bird", "pattern": "Bluebird"}]}});
    let strict = draft(&server, "strict.json", &rule);
    let report = server.data().join("report.xml");
    let args = ["--fail-if", "blocked>1%", "--junit", report.to_str().unwrap()];
    let (code, out, err) = command(&server, &strict, &args).await;
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("blocked>1%: it is 25.00 % (1 of 4)"), "{out}");
    assert!(err.contains("1 of 1 backtests failed"), "{err}");
    let xml = std::fs::read_to_string(&report).unwrap();
    assert!(
        xml.contains("<testsuite name=\"sluice backtest\" tests=\"1\" failures=\"1\""),
        "{xml}"
    );

    let (code, out, _) = command(&server, &strict, &["--json"]).await;
    assert_eq!(code, Some(0));
    let job: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(job["report"]["newly_blocked"][0]["type"], "bird");
    assert_eq!(mock.begun(), 4, "no model is called");
}

async fn a_token_does_where_a_person_has_a_second_factor(backend: Backend) {
    let server = Server::start(&backend).await;
    let owner = enrol(server.owner().await, PASSWORD).await.caller;
    let same = draft(&server, "same.json", &json!({}));
    let (code, out, err) = command(&server, &same, &[]).await;
    assert_eq!((code, &*out), (Some(2), ""), "{err}");
    assert!(
        err.contains("owner@localhost has a second factor") && err.contains("SLUICE_TOKEN"),
        "{err}"
    );
    // No list has sessions that wait for a factor.
    if !server.on_sqlite() {
        let waiting = server.sql("SELECT count(*) FROM sessions WHERE awaits_factor");
        assert_eq!(waiting, "0", "that of the command has ended");
    }

    let required = json!({"settings": {"security": {"require_mfa": true}}});
    owner.patch("/api/v1/organization", &required).await.ok(200);
    let all = ["backtest", "--project", "1", "--settings", &same];
    let ended = async |token: &str| {
        // A token goes before a person.
        let env = [CREDENTIALS[0], CREDENTIALS[1], ("SLUICE_TOKEN", token)];
        printed(&server.cli(&all, &env).await)
    };
    let made = async |role: &str| {
        let projects = if role == "admin" { json!([]) } else { json!([1]) };
        let new = json!({"password": PASSWORD, "name": "ci", "role": role, "projects": projects});
        let made = owner.post("/api/v1/service-tokens", &new).await.ok(201);
        made["token"].as_str().unwrap().to_owned()
    };
    let (code, out, err) = ended(&made("admin").await).await;
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    assert!(out.starts_with(&format!("ok   {same} on project 1: 0 requests,")), "{out}");
    let (code, _, err) = ended(&made("member").await).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("the gateway answered 403: Forbidden"), "{err}");
    let wrong = format!("{}x", made("admin").await);
    let (code, _, err) = ended(&wrong).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("the gateway answered 401: Invalid token"), "{err}");
    let (code, _, err) = ended(&format!("{wrong}\n")).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("SLUICE_TOKEN is no token"), "{err}");
    assert!(!err.contains(&wrong), "{err}");
}

async fn what_cannot_be_judged_fails(backend: Backend) {
    let server = Server::start(&backend).await;
    let bad = draft(&server, "bad.json", &json!({"safety": {"block_threshold": 2}}));
    let report = server.data().join("report.xml");
    let (code, out, _) = command(&server, &bad, &["--junit", report.to_str().unwrap()]).await;
    assert_eq!(code, Some(2));
    assert!(
        out.contains("settings.safety.block_threshold must be a number between 0 and 1"),
        "{out}"
    );
    let xml = std::fs::read_to_string(&report).unwrap();
    assert!(xml.contains("errors=\"1\"") && xml.contains("block_threshold"), "{xml}");

    let fine = draft(&server, "fine.json", &json!({}));
    let (code, out, _) = command(&server, &fine, &["--fail-if", "blocked>1%"]).await;
    assert_eq!(code, Some(1), "of no request there is no share: {out}");
    assert!(out.contains("blocked>1%: there is nothing to compare"), "{out}");

    let all = ["backtest", "--project", "1", "--settings", &fine];
    let ended = async |args: &[&str], env: &[(&str, &str)]| {
        let (code, _, err) = printed(&server.cli(args, env).await);
        (code, err)
    };
    let (code, err) = ended(&all, &[]).await;
    assert_eq!(code, Some(2));
    assert!(
        err.contains("set SLUICE_TOKEN to a service token, or set SLUICE_USER_EMAIL and"),
        "{err}"
    );
    let wrong = [CREDENTIALS[0], ("SLUICE_USER_PASSWORD", "nonsense")];
    let (code, err) = ended(&all, &wrong).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("refused to sign owner@localhost in (401): Unauthorized"), "{err}");
    assert!(err.contains("SLUICE_TOKEN"), "{err}");
    let nobody = format!("http://127.0.0.1:{}", crate::harness::free_port());
    let (code, err) = ended(&[&all[..], &["--url", &nobody]].concat(), &CREDENTIALS).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("the gateway does not answer"), "{err}");
    let list = draft(&server, "list.json", &json!([]));
    for wrong in [
        &["backtest"][..],
        &["backtest", "--project", "1", "--settings", "no-such-file"],
        &["backtest", "--project", "1", "--settings", &list],
        &["backtest", "--project", "one", "--settings", &fine],
        &["backtest", "--project", "1", "--settings", &fine, "--since", "yesterday"],
        &["backtest", "--project", "1", "--settings", &fine, "--fail-if", "blocked"],
    ] {
        assert_eq!(ended(wrong, &CREDENTIALS).await.0, Some(2), "{wrong:?}");
    }
    let elsewhere = ["backtest", "--project", "99", "--settings", &fine];
    assert_eq!(ended(&elsewhere, &CREDENTIALS).await.0, Some(2));
}
