//! Exports, and the check that nothing was changed.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Backend, Server};
use crate::models::registry::project;

crate::on_every_backend!(
    an_export_has_every_event_with_its_place,
    what_is_missing_or_changed_in_a_file_is_named,
    what_is_missing_in_the_database_is_named,
);

const EXPORT: &str = "/api/v1/audit-events/export";

/// A server with events of three nodes: two of its own runs, and a command between them.
async fn with_events(backend: &Backend) -> Server {
    let mut server = Server::start(backend).await;
    let change = project(json!({"description": "ü", "settings": {"monthly_budget": 0.1}}));
    server.owner().await.patch("/api/v1/projects/1", &change).await.ok(200);
    // A request that is refused at the perimeter, whose event is counted up.
    for _ in 0..3 {
        server.with_key("ak_0000000000000000.x").get("/api/v1/traces").await;
    }
    assert!(server.cli(&["key", "create"], &[]).await.status.success());
    server.restart().await;
    let owner = server.owner().await;
    owner.post("/api/v1/keys", &json!({"name": "k", "project_id": 1})).await.ok(201);
    server
}

/// The report of a check of the database, or of lines, and whether all is well.
async fn verify(server: &Server, lines: Option<&[&str]>, more: &[&str]) -> (bool, String) {
    let file = server.data().join("audit.jsonl");
    let mut args = vec!["audit", "verify"];
    if let Some(lines) = lines {
        fs::write(&file, lines.join("\n")).unwrap();
        args.push(file.to_str().unwrap());
    }
    args.extend(more);
    let done = server.cli(&args, &[]).await;
    assert!(done.status.success() || done.status.code() == Some(1), "{done:?}");
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(text).unwrap())
}

async fn an_export_has_every_event_with_its_place(backend: Backend) {
    let server = with_events(&backend).await;
    let owner = server.owner().await;
    let file = owner.get(EXPORT).await;
    assert_eq!(file.status, 200, "{}", file.text);
    assert_eq!(file.header("content-type"), "application/x-ndjson");
    assert_eq!(file.header("content-disposition"), "attachment; filename=\"sluice-audit.jsonl\"");
    let lines: Vec<&str> = file.text.lines().collect();
    let parsed: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut listed = owner.get("/api/v1/audit-events").await.ok(200);
    listed.as_array_mut().unwrap().reverse();
    let listed = listed.as_array().unwrap();
    assert_eq!(parsed.len(), listed.len());
    for (line, event) in parsed.iter().zip(listed) {
        for (name, value) in event.as_object().unwrap() {
            let (name, whole) = (name.as_str(), value.as_str().unwrap_or_default());
            match name {
                // An export is exact to the microsecond.
                "occurred_at" => assert_eq!(line[name].as_str().unwrap()[..23], whole[..23]),
                _ => assert_eq!(&line[name], value, "{name} of {event}"),
            }
        }
        assert_eq!(line["org_id"], 1);
        assert_eq!(line["hash"].as_str().unwrap().len(), 64);
    }
    let last = parsed.last().unwrap();
    assert_eq!(
        (&last["event"], &last["actor"]),
        (&json!("audit_exported"), &json!("owner@localhost"))
    );
    let blocked = parsed.iter().find(|line| line["event"] == "perimeter_block").unwrap();
    assert_eq!(blocked["metadata"]["count"], 3, "it is up to date");

    let (is_whole, said) = verify(&server, None, &[]).await;
    let last = format!(
        "Last link: node {}, link {}, hash {}",
        last["node"],
        last["link"],
        last["hash"].as_str().unwrap()
    );
    let counts = format!("{} chained (chains: 3), 0 not chained.", lines.len());
    let expected = format!("{counts}\n{last}\nThe audit log is whole.\n");
    assert_eq!((is_whole, said), (true, expected.clone()));
    assert_eq!(verify(&server, Some(&lines), &[]).await, (true, expected));

    // An export with filters is on record with them, and is sound as far as it goes.
    let some = owner.get(&format!("{EXPORT}?event=key_created&from=2020-01-01")).await.text;
    let some: Vec<&str> = some.lines().collect();
    assert_eq!(some.len(), 2, "{some:?}");
    let (is_whole, said) = verify(&server, Some(&some), &[]).await;
    assert!(!is_whole && said.contains("BROKEN"), "{said}");
    let (is_whole, said) = verify(&server, Some(&some), &["--filtered"]).await;
    assert!(is_whole, "{said}");
    let changed = some[0].replace("key_created", "key_updated");
    let (is_whole, said) = verify(&server, Some(&[&changed, some[1]]), &["--filtered"]).await;
    assert!(!is_whole && said.contains("its hash does not fit"), "{said}");
    let record = owner.get("/api/v1/audit-events?event=audit_exported&limit=1").await.ok(200);
    let filters = json!({"from": "2020-01-01T00:00:00.000000Z", "event": "key_created"});
    assert_eq!(record[0]["metadata"], filters);
}

async fn what_is_missing_or_changed_in_a_file_is_named(backend: Backend) {
    let server = with_events(&backend).await;
    let file = server.owner().await.get(EXPORT).await.text;
    let lines: Vec<&str> = file.lines().collect();
    let node = |line: &str| serde_json::from_str::<Value>(line).unwrap()["node"].as_i64().unwrap();
    let first = node(lines[0]);
    let without = |gone: &dyn Fn(usize, &str) -> bool| -> Vec<&str> {
        let kept = lines.iter().enumerate().filter(|(at, line)| !gone(*at, line));
        kept.map(|(_, line)| *line).collect()
    };
    let other = lines[1].replace("owner@localhost", "admin@localhost");
    let mut changed = lines.clone();
    changed[1] = &other;
    let mut swapped = lines.clone();
    swapped.swap(0, 1);
    let second = node(lines[3]);
    assert_ne!(first, second);
    for (lines, said) in [
        (changed, format!("node {first}, link 2: its hash does not fit")),
        (without(&|at, _| at == 1), format!("node {first}, link 2: the event is missing")),
        (swapped, format!("node {first}, link 1: the event is missing")),
        (
            without(&|_, line| node(line) == first),
            format!(
                "node {second}, link 1: when it was written, there was a chain that is missing now"
            ),
        ),
    ] {
        let (is_whole, found) = verify(&server, Some(&lines), &[]).await;
        assert!(!is_whole && found.contains(&format!("BROKEN {said}")), "{said}: {found}");
        let place = said.split(':').next().unwrap();
        assert!(found.ends_with(&format!("it breaks first at {place}\n")), "{found}");
    }
    let (is_whole, said) = verify(&server, Some(&[lines[0], "{}"]), &[]).await;
    assert!(!is_whole && said.contains("line 2 is no exported event: missing field"), "{said}");
    let none = server.cli(&["audit", "verify", "missing.jsonl"], &[]).await;
    assert!(String::from_utf8_lossy(&none.stderr).contains("missing.jsonl cannot be read"));
}

async fn what_is_missing_in_the_database_is_named(backend: Backend) {
    let server = with_events(&backend).await;
    if server.on_sqlite() {
        // Nothing here writes to it but the gateway; the tests of the store do.
        return;
    }
    let node = server.sql("SELECT min(node) FROM audit_events");
    server.sql(&format!("DELETE FROM audit_events WHERE node = {node} AND link = 2"));
    let (is_whole, said) = verify(&server, None, &[]).await;
    assert!(!is_whole, "{said}");
    assert!(said.contains(&format!("BROKEN node {node}, link 2: the event is missing")), "{said}");
    assert!(said.ends_with(&format!("it breaks first at node {node}, link 2\n")), "{said}");
}
