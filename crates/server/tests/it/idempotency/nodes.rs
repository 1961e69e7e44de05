//! Two gateways over one PostgreSQL.

use std::process::{Child, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{CHAT, HEADER, WAIT, is_again, is_refused, priced};
use crate::harness::{Answer, Backend, Caller, Server, Setup, free_port, until};

crate::on_every_backend!(
    two_nodes_call_once,
    whoever_waits_for_another_node_is_told_so,
    a_node_that_dies_leaves_no_second_call,
);

/// A second gateway over the database of a first. It dies with this value.
struct Node {
    child: Child,
    base: String,
}

impl Node {
    async fn beside(server: &Server) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let mut command = server.command(&[]);
        command.env("SLUICE_LISTEN", &address).stdout(Stdio::null()).stderr(Stdio::null());
        let node = Self { child: command.spawn().unwrap(), base: format!("http://{address}") };
        let there = node.seen_by(&server.any);
        until("the other node serves", async || {
            Caller::try_send(there.request("GET", "/up")).await.ok()
        })
        .await;
        node
    }

    /// The same caller, at this node.
    fn seen_by(&self, caller: &Caller) -> Caller {
        let mut caller = caller.clone();
        caller.base.clone_from(&self.base);
        caller
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn shared(backend: &Backend) -> Option<Server> {
    if matches!(backend, Backend::Sqlite) {
        return None;
    }
    let setup = Setup::new(backend).env("SLUICE_ALLOW_INEXACT_LIMITS", "true");
    let server = setup.env("SLUICE_EGRESS_ALLOW", "127.0.0.1").start().await;
    server.lift_limits().await;
    Some(server)
}

fn ask(streams: bool) -> Value {
    json!({"model": "mock", "stream": streams, "messages": [{"role": "user", "content": "Hello."}]})
}

async fn two_nodes_call_once(backend: Backend) {
    let Some(server) = shared(&backend).await else { return };
    let (key, mock) = priced(&server, Answer::text("Once.")).await;
    let other = Node::beside(&server).await;
    for round in 0..10 {
        let streams = round % 2 == 1;
        let key = key.with(HEADER, &round.to_string());
        mock.hold();
        let mut asking = JoinSet::new();
        for number in 0..8 {
            let key = if number % 2 == 0 { key.clone() } else { other.seen_by(&key) };
            asking.spawn(async move { key.post(CHAT, &ask(streams)).await });
        }
        until("one calls", async || (mock.begun() > round).then_some(())).await;
        let refused = other.seen_by(&key).post(CHAT, &ask(!streams)).await;
        is_refused(&refused, CHAT, 422, "idempotency_key_reused");
        mock.release();
        let replies = asking.join_all().await;
        let (first, again): (Vec<_>, Vec<_>) =
            replies.iter().partition(|reply| reply.header("idempotency-replayed").is_empty());
        assert_eq!((first.len(), again.len(), mock.begun()), (1, 7, round + 1));
        for again in &again {
            is_again(again, first[0]);
        }
        is_again(&other.seen_by(&key).post(CHAT, &ask(streams)).await, first[0]);
    }
}

async fn whoever_waits_for_another_node_is_told_so(backend: Backend) {
    let Some(server) = shared(&backend).await else { return };
    let (key, mock) = priced(&server, Answer::text("At last.")).await;
    let other = Node::beside(&server).await;
    let key = key.with(HEADER, "one");
    mock.hold();
    let first = tokio::spawn({
        let key = key.clone();
        async move { key.post(CHAT, &ask(false)).await }
    });
    until("the call is made", async || (mock.begun() == 1).then_some(())).await;
    let late = other.seen_by(&key);
    let body = ask(false);
    let post = async || {
        let asked = Instant::now();
        (late.post(CHAT, &body).await, asked.elapsed())
    };
    let (one, two) = tokio::join!(post(), post());
    for (reply, waited) in [one, two] {
        assert!(WAIT.contains(&waited), "{waited:?}");
        is_refused(&reply, CHAT, 409, "idempotency_key_in_use");
        assert_eq!(reply.header("x-should-retry"), "false");
    }
    mock.release();
    let first = first.await.unwrap();
    is_again(&late.post(CHAT, &ask(false)).await, &first);
    assert_eq!(mock.begun(), 1);
}

async fn a_node_that_dies_leaves_no_second_call(backend: Backend) {
    let Some(server) = shared(&backend).await else { return };
    let (key, mock) = priced(&server, Answer::text("Too late.")).await;
    let dies = Node::beside(&server).await;
    let key = key.with(HEADER, "one");
    mock.hold();
    let asks = dies.seen_by(&key);
    let asking = tokio::spawn(async move {
        let request = asks.request("POST", CHAT).header("content-type", "application/json");
        Caller::try_send(request.body(ask(false).to_string())).await.is_err()
    });
    until("the call is made", async || (mock.begun() == 1).then_some(())).await;
    let waits = tokio::spawn({
        let key = key.clone();
        async move { key.post(CHAT, &ask(false)).await }
    });
    drop(dies);
    assert!(asking.await.unwrap(), "there was no answer");
    mock.release();
    // A node that starts settles what those before it have left, so that nobody waits for the next sweep.
    let third = Node::beside(&server).await;
    let reply = third.seen_by(&key).post(CHAT, &ask(false)).await;
    let said = is_refused(&reply, CHAT, 409, "idempotency_outcome_unknown");
    assert!(said.contains("may have been called"), "{said}");
    is_refused(&waits.await.unwrap(), CHAT, 409, "idempotency_outcome_unknown");
    assert_eq!(mock.begun(), 1);
    third.seen_by(&key).with(HEADER, "two").post(CHAT, &ask(false)).await.ok(200);
}
