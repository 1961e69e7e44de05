//! Two versions side by side: this one, on a schema that the next has changed.

use serde_json::json;

use crate::harness::{Backend, Caller, Node, Server, Setup, until};
use crate::nodes::shared;
use crate::startup::process::{complaint, printed};

/// Changes of the schema that the next version may make, and the one after it.
const EXPAND: &str = include_str!("../../../../store/tests/future/expand.sql");
const CONTRACT: &str = include_str!("../../../../store/tests/future/contract.sql");
/// The schema before the last migration.
const BEFORE_LAST: &str = "
    DROP TABLE detached_partitions;
    ALTER TABLE traces DROP COLUMN total_after;
    DELETE FROM _sqlx_migrations WHERE version = 37";

/// The whole life of a call, begun on one node and ended on another.
async fn life(one: &Caller, other: &Caller) {
    let trace = one.trace().await;
    for key in [one, other] {
        let body = json!({"trace_id": trace, "model": "mock", "input": "Well?"});
        assert_eq!(key.post("/api/v1/runs", &body).await.ok(200)["output"], "Served.");
    }
    let rated = json!({"trace_id": trace, "output": {"user_rating": 1.0}});
    one.post("/api/v1/logs", &rated).await.ok(200);
    let done = other.patch(&format!("/api/v1/traces/{trace}/complete"), &json!({})).await.ok(200);
    assert_eq!(done["status"], "completed");
    let steps = one.detail(&trace).await["steps"].clone();
    let steps = steps.as_array().unwrap().iter().filter(|step| step["type"] == "run");
    let outputs: Vec<_> = steps.map(|step| step["output"].as_str().unwrap().to_owned()).collect();
    assert_eq!(outputs, ["Served.", "Served."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_version_runs_beside_the_next_until_that_leaves_it_behind() {
    let Some((mut server, _mock)) = shared().await else { return };
    let check = async |server: &Server| server.cli(&["migrate", "--check"], &[]).await;
    let said = printed(&check(&server).await);
    assert!(
        said.starts_with("The schema is up to date (version ") && said.contains("may start"),
        "{said}"
    );

    server.sql(EXPAND);
    let said = printed(&check(&server).await);
    assert!(said.contains("newer") && said.contains("it may start"), "{said}");
    // A node that runs goes on, and one that starts now works too.
    let node = Node::start(&server, &[]).await;
    life(&server.key(), &node.key()).await;
    life(&node.key(), &server.key()).await;
    let owner = server.owner().await;
    let made = owner.post("/api/v1/keys", &json!({"name": "k", "project_id": 1})).await.ok(201);
    let raw = made["raw_key"].as_str().unwrap();
    until("the other node knows the key", async || {
        let key = node.any.with("authorization", &format!("Bearer {raw}"));
        (key.post("/api/v1/traces", &json!({})).await.status == 201).then_some(())
    })
    .await;
    assert_eq!(
        printed(&server.cli(&["migrate"], &[]).await).trim(),
        "The database schema is up to date."
    );
    printed(&server.cli(&["doctor"], &[]).await);
    server.stop().await;
    server.up().await;
    life(&server.key(), &node.key()).await;

    server.sql(CONTRACT);
    for ready in [node.ready().await, server.any.get("/ready").await.status] {
        assert_eq!(ready, 503);
    }
    assert!(node.log().contains("upgrade this node"), "{}", node.log());
    // Nobody is told to stop the nodes that serve.
    let said = complaint(&server.cli(&["migrate"], &[]).await);
    assert!(said.contains("start a newer version"), "{said}");
    drop(node);
    server.stop().await;
    for args in [&["serve"][..], &["migrate", "--check"], &["migrate"], &["key", "create"]] {
        let refused = server.cli(args, &[]).await;
        assert_eq!(refused.status.code(), Some(1));
        let said = complaint(&refused);
        assert!(said.contains("start a newer version"), "{args:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrations_are_applied_beside_gateways_that_run() {
    let Some((mut server, _mock)) = shared().await else { return };
    server.sql(BEFORE_LAST);
    for _ in 0..2 {
        let said = printed(&server.cli(&["migrate", "--check"], &[]).await);
        assert!(
            said.starts_with("1 migration is to be applied") && said.contains("go on"),
            "{said}"
        );
    }
    let said = printed(&server.cli(&["migrate"], &[]).await);
    assert_eq!(said, "1 migration was applied.\nThe database schema is up to date.\n");
    life(&server.key(), &server.key()).await;
    // A start applies them too.
    server.sql(BEFORE_LAST);
    let node = Node::start(&server, &[]).await;
    life(&server.key(), &node.key()).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_of_a_folder_makes_nothing() {
    let mut server = Setup::new(&Backend::Sqlite).prepare();
    let said = printed(&server.cli(&["migrate", "--check"], &[]).await);
    assert!(said.starts_with("The database is empty: this version may start"), "{said}");
    assert_eq!(std::fs::read_dir(server.data()).unwrap().count(), 0);
    server.up().await;
    let said = printed(&server.cli(&["migrate", "--check"], &[]).await);
    assert!(said.starts_with("The schema is up to date"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_wrong_master_key_migrates_nothing() {
    let Some((server, _mock)) = shared().await else { return };
    server.sql(BEFORE_LAST);
    let wrong = "b2".repeat(32);
    let output = server.cli(&["migrate"], &[("SLUICE_MASTER_KEY", wrong.as_str())]).await;
    let said = complaint(&output);
    assert!(said.contains("the master key does not fit"), "{said}");
    let said = printed(&server.cli(&["migrate", "--check"], &[]).await);
    assert!(said.starts_with("1 migration is to be applied"), "{said}");
}
