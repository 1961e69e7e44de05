//! `sluice replay`: a suite of traces as a regression test.

use std::fs::File;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::run;
use crate::harness::{Answer, Backend, KEY, Mock, Server, settings};

crate::on_every_backend!(
    a_suite_passes_or_fails,
    what_cannot_be_replayed_fails,
    what_is_paid_for_is_reported,
    a_replay_that_does_not_end_is_given_up,
    whom_the_calls_are_for_is_named,
);

fn printed(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

async fn command(server: &Server, args: &[&str]) -> Output {
    let mut all = vec!["replay"];
    all.extend(args);
    server.cli(&all, &[("SLUICE_API_KEY", KEY)]).await
}

async fn a_suite_passes_or_fails(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("The weather is fine today.")).await;
    let other = Mock::always(Answer::text("I cannot help with that.")).await;
    mock.register(&owner, "old").await;
    let twice = json!({"is_public": false, "input_cost_per_1k": 0.3, "output_cost_per_1k": 1.2});
    mock.register_with(&owner, "same", twice).await;
    other.register(&owner, "other").await;
    let (first, second) = (key.trace().await, key.trace().await);
    for trace in [&first, &second] {
        run(&key, trace, "old", "How is the weather?").await;
    }
    let suite = server.data().join("suite.txt");
    std::fs::write(&suite, format!("# Weather\n{first} fine weather\n\n{second}\n")).unwrap();
    let suite = suite.to_str().unwrap();
    let report = server.data().join("report.xml");
    let report = report.to_str().unwrap();

    let fine = ["--suite", suite, "--model", "same", "--fail-if", "similarity<0.9"];
    let passed = command(&server, &fine).await;
    let (out, err) = printed(&passed);
    assert!(passed.status.success(), "{out}{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    assert!(
        lines[0].starts_with(&format!("ok   fine weather ({first}): cost +100.0 %, ")),
        "{out}"
    );
    assert!(lines[0].contains("similarity 1.00 (least 1.00)"), "{out}");
    assert!(lines[1].starts_with(&format!("ok   {second}: ")), "{out}");
    assert_eq!(err, "", "a bar is for terminals");

    let dear = [&first, "--model", "same", "--fail-if", "cost>+50%", "--junit", report];
    let failed = command(&server, &dear).await;
    let (out, err) = printed(&failed);
    assert_eq!(failed.status.code(), Some(1));
    assert!(out.contains("cost>+50%: it is +100.0 %"), "{out}");
    assert!(err.contains("1 of 1 replays failed"), "{err}");
    let xml = std::fs::read_to_string(report).unwrap();
    assert!(xml.contains("tests=\"1\" failures=\"1\""), "{xml}");
    assert!(xml.contains("cost&gt;+50%: it is +100.0 %"), "{xml}");

    let compared = [&second, "--compare", "old,other", "--fail-if", "similarity<0.5"];
    let failed = command(&server, &compared).await;
    let (out, _) = printed(&failed);
    assert_eq!(failed.status.code(), Some(1));
    let words: Vec<&str> = out.lines().filter_map(|line| line.get(..4)).collect();
    assert_eq!(words, ["ok  ", "FAIL", "    "], "{out}");
    assert!(out.contains(&format!("{second} on other: ")), "{out}");
}

async fn what_cannot_be_replayed_fails(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let bad = Mock::always(Answer::json(400, &json!({"error": {"message": "No."}}))).await;
    bad.register(&owner, "bad").await;
    Mock::always(Answer::text("Yes.")).await.register(&owner, "good").await;
    let trace = key.trace().await;
    run(&key, &trace, "good", "Hello.").await;
    let unknown = "0199a7a4-0000-7000-8000-000000000000";
    let report = server.data().join("report.xml");
    let report = report.to_str().unwrap();
    let args = [unknown, &trace, "--model", "good", "--fail-if", "cost>-200%", "--junit", report];
    let failed = command(&server, &args).await;
    let (out, err) = printed(&failed);
    assert_eq!(failed.status.code(), Some(1), "a condition goes before trouble: {out}");
    assert!(out.contains("Trace not found or not owned by this customer"), "{out}");
    assert!(out.contains(&format!("FAIL {trace}: cost ")), "the others are replayed: {out}");
    assert!(err.contains("2 of 2 replays failed"), "{err}");
    let xml = std::fs::read_to_string(report).unwrap();
    assert!(xml.contains("tests=\"2\" failures=\"1\" errors=\"1\""), "{xml}");
    assert!(xml.contains("<error message=\"Trace not found"), "{xml}");
    // A call that fails was not measured.
    let failed = command(&server, &[&trace, "--model", "bad"]).await;
    let (out, _) = printed(&failed);
    assert_eq!(failed.status.code(), Some(2));
    assert!(out.contains("The provider refused the request (400)"), "{out}");
    let ended = async |args: &[&str], env: &[(&str, &str)]| -> (Option<i32>, String) {
        let output = server.cli(args, env).await;
        (output.status.code(), printed(&output).1)
    };
    let (code, err) = ended(&["replay", &trace], &[]).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("set SLUICE_API_KEY"), "{err}");
    let wrong = [("SLUICE_API_KEY", "ak_00000000000000ff.nonsense")];
    let args = ["replay", &trace, &trace, "--junit", report];
    let (code, err) = ended(&args, &wrong).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("the gateway answered 401: Unauthorized"), "{err}");
    let xml = std::fs::read_to_string(report).unwrap();
    assert!(xml.contains("tests=\"1\" failures=\"0\" errors=\"1\""), "it stops there: {xml}");
    let key = [("SLUICE_API_KEY", KEY)];
    let nobody = format!("http://127.0.0.1:{}", crate::harness::free_port());
    let (code, err) = ended(&["replay", &trace, "--url", &nobody], &key).await;
    assert_eq!(code, Some(2));
    assert!(err.contains("the gateway does not answer"), "{err}");
    for wrong in [
        &["replay"][..],
        &["replay", &trace, "--fail-if", "cost"],
        &["replay", &trace, "--model", "good", "--compare", "good"],
        &["replay", "--suite", "no-such-file", "--model", "good"],
    ] {
        assert_eq!(ended(wrong, &key).await.0, Some(2), "{wrong:?}");
    }
    assert!(key_is_active(&owner).await);
}

async fn what_is_paid_for_is_reported(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "good").await;
    let (first, second) = (key.trace().await, key.trace().await);
    for trace in [&first, &second] {
        run(&key, trace, "good", "Hello.").await;
    }
    let made = mock.begun();
    let failed = command(&server, &[&first, "--junit", "no-such-folder/report.xml"]).await;
    let (out, err) = printed(&failed);
    assert_eq!((failed.status.code(), &*out), (Some(2), ""), "{err}");
    assert!(err.contains("no-such-folder/report.xml cannot be written"), "{err}");
    assert_eq!(mock.begun(), made, "nothing was called");
    // An output that nobody reads keeps nothing from the report.
    let report = server.data().join("report.xml");
    let mut unread =
        server.command(&["replay", &first, &second, "--junit", report.to_str().unwrap()]);
    unread.env("SLUICE_API_KEY", KEY).stdin(Stdio::null()).stderr(Stdio::piped());
    unread.stdout(File::options().write(true).open("/dev/full").unwrap());
    let unread = tokio::task::spawn_blocking(move || unread.output().unwrap()).await.unwrap();
    let (_, err) = printed(&unread);
    assert_eq!(unread.status.code(), Some(2), "{err}");
    assert!(err.contains("the output cannot be written"), "{err}");
    let xml = std::fs::read_to_string(report).unwrap();
    assert!(xml.contains("tests=\"2\" failures=\"0\" errors=\"0\""), "{xml}");
    assert_eq!(mock.begun(), made + 2);
}

async fn a_replay_that_does_not_end_is_given_up(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    Mock::always(Answer::text("Yes.")).await.register(&owner, "quick").await;
    let slow = Mock::start(Duration::from_secs(8), None, |_| Answer::text("Yes.")).await;
    slow.register(&owner, "slow").await;
    let trace = key.trace().await;
    run(&key, &trace, "quick", "Hello.").await;
    let late = command(&server, &[&trace, "--model", "slow", "--timeout", "2"]).await;
    let (out, err) = printed(&late);
    assert_eq!(late.status.code(), Some(2), "{out}{err}");
    assert!(out.contains("the replay is not over after 2 s"), "{out}");
    assert!(err.contains("1 of 1 replays failed"), "{err}");
}

async fn key_is_active(owner: &crate::harness::Caller) -> bool {
    let keys: Value = owner.get("/api/v1/keys").await.ok(200);
    keys.as_array().unwrap().iter().all(|key| key["status"] == "active")
}

async fn whom_the_calls_are_for_is_named(backend: Backend) {
    let server = Server::unlimited(&backend).await;
    let (key, owner) = (server.key(), server.owner().await);
    let mock = Mock::always(Answer::text("Yes.")).await;
    mock.register(&owner, "mock").await;
    let trace = key.trace().await;
    run(&key, &trace, "mock", "Hello.").await;
    settings(&owner, 1, json!({"attributes": {"required": ["user", "session", "tag:suite"]}}))
        .await;
    let refused = command(&server, &[&trace]).await;
    assert_eq!(refused.status.code(), Some(2));
    let (out, _) = printed(&refused);
    assert!(out.contains("Missing required attributes: user, session, tag:suite"), "{out}");
    let named = [&trace, "--user", "ci", "--session", "run 7", "--tags", "suite=weather"];
    let passed = command(&server, &named).await;
    let (out, err) = printed(&passed);
    assert!(passed.status.success(), "{out}{err}");
    let found = key.get("/api/v1/traces?user=ci&session=run%207&tag[suite]=weather").await.ok(200);
    assert_eq!((found.as_array().unwrap().len(), &found[0]["status"]), (1, &json!("replay")));
}
