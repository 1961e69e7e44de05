//! A node that loses the database for a while.

use std::net::SocketAddr;

use serde_json::json;

use crate::harness::{Cable, Caller, Mock, Node, Server, parts, until};
use crate::nodes::shared;

/// The connections that hold locks of nodes.
const NODES: &str = "
    SELECT count(DISTINCT pid) FROM pg_locks
    WHERE locktype = 'advisory' AND classid = CAST(x'736c7569' AS INT) AND objsubid = 2 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// A server, and the cable over which a node reaches its database.
async fn fleet() -> Option<(Server, Cable, String, Mock)> {
    let (server, mock) = shared().await?;
    let url = server.database_url().to_owned();
    let (host, port, user) = parts(&url);
    let address: SocketAddr = format!("{host}:{port}").parse().unwrap();
    let cable = Cable::to(address).await;
    let (_, database) = url.rsplit_once('/').unwrap();
    let url = format!("postgres://{user}@127.0.0.1:{}/{database}", cable.port());
    Some((server, cable, url, mock))
}

async fn is_ready(node: &Node, status: u16) {
    let what = format!("/ready answers {status}");
    until(&what, async || (node.ready().await == status).then_some(())).await;
}

fn call(key: &Caller, trace: &str) -> tokio::task::JoinHandle<crate::harness::Reply> {
    let (key, body) = (key.clone(), json!({"trace_id": trace, "model": "mock", "input": "Well?"}));
    tokio::spawn(async move { key.post("/api/v1/runs", &body).await })
}

/// The runs of a trace: their ids and states.
async fn runs(server: &Server, trace: &str) -> Vec<(i64, String)> {
    let detail = server.key().detail(trace).await;
    let steps = detail["steps"].as_array().unwrap().iter();
    let run = |step: &serde_json::Value| {
        (step["id"].as_i64().unwrap(), step["status"].as_str().unwrap().to_owned())
    };
    steps.filter(|step| step["type"] == "run").map(run).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_off_is_not_ready_and_comes_back() {
    let Some((server, cable, url, _mock)) = fleet().await else { return };
    let node = Node::start(&server, &[("SLUICE_DATABASE_URL", &url)]).await;
    is_ready(&node, 200).await;
    let trace = server.key().trace().await;
    for round in 1..=4_usize {
        if round % 2 == 0 {
            cable.silence();
        } else {
            cable.cut();
        }
        is_ready(&node, 503).await;
        // The others do not notice.
        call(&server.key(), &trace).await.unwrap().ok(200);
        cable.mend();
        is_ready(&node, 200).await;
        call(&node.key(), &trace).await.unwrap().ok(200);
        let found = runs(&server, &trace).await;
        assert_eq!(found.len(), 2 * round, "{found:?}");
        assert!(found.iter().all(|(_, status)| status == "completed"), "{found:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_ends_while_its_node_is_cut_off_is_recorded_once() {
    let Some((server, cable, url, mock)) = fleet().await else { return };
    let strict = json!({"project": {"settings": {"limits": {"strict": true}}}});
    server.owner().await.patch("/api/v1/projects/1", &strict).await.ok(200);
    let node = Node::start(&server, &[("SLUICE_DATABASE_URL", &url)]).await;
    let trace = node.key().trace().await;
    mock.hold();
    let calls: Vec<_> = (0..8).map(|_| call(&node.key(), &trace)).collect();
    until("the calls are with the provider", async || (mock.begun() == 8).then_some(())).await;
    cable.cut();
    is_ready(&node, 503).await;
    // Another node takes it for gone: its lock is free.
    until("its calls are settled", async || {
        (server.sql("SELECT count(*) FROM open_calls") == "0").then_some(())
    })
    .await;
    mock.release();
    for call in calls {
        let reply = call.await.unwrap();
        assert!(reply.status >= 500, "no answer leaves that is not recorded: {}", reply.text);
    }
    cable.mend();
    is_ready(&node, 200).await;
    let settled = runs(&server, &trace).await;
    assert_eq!(settled.len(), 8, "{settled:?}");
    assert!(settled.iter().all(|(_, status)| status == "failed"), "{settled:?}");
    // It goes on as the node that it was, and what it begins now is its own.
    until("each node has its own lock", async || (server.sql(NODES) == "2").then_some(())).await;
    for _ in 0..4 {
        call(&node.key(), &trace).await.unwrap().ok(200);
    }
    let found = runs(&server, &trace).await;
    assert_eq!(found[..8], settled[..], "nothing is recorded twice");
    assert_eq!(found.len(), 12, "nothing is lost");
    assert!(found[8..].iter().all(|(_, status)| status == "completed"), "{found:?}");
    assert!(!node.log().contains("lost to another process"), "{}", node.log());
}
