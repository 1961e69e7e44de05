//! Counters that are lost are noticed before anything is spent.

use std::time::{Duration, Instant};

use counters::{Admission, Bounds, Counters, DECISION_TIMEOUT, Failure, Request, Reserved, Spend};
use domain::ids::NodeId;
use domain::money::Usd;
use domain::time::{Clock, HOUR, SECOND, Timestamp};

use crate::servers::{BOUNDS, KEY, PROJECT, Redis, Server, is_there, open, quiet, until};

/// The bound that docs/fleet.md promises: the tests below measure by the constant.
const _: () = assert!(DECISION_TIMEOUT.as_millis() == 50);

async fn build(node: &Counters) {
    let generation = node.join(PROJECT).await.unwrap();
    node.open_project(PROJECT, &generation, true, &[KEY]).await.unwrap();
}

async fn reserve(node: &Counters, amount: i64) -> Result<bool, Failure> {
    let reserved = node.reserve(&BOUNDS, Usd(amount)).await?;
    Ok(matches!(reserved, Reserved::Granted(..)))
}

async fn reserved(node: &Counters) -> Usd {
    node.look(PROJECT, &[KEY]).await.unwrap().keys[0].reserved
}

#[tokio::test]
async fn what_is_flushed_is_built_from_the_reservations_of_all_nodes_and_the_ledger() {
    if !is_there() {
        return;
    }
    let (redis, clock) = (Redis::alone().await, Clock::system());
    let [one, other] = [quiet(&redis.url, 1, &clock).await, quiet(&redis.url, 2, &clock).await];
    assert_eq!(reserve(&one, 1).await, Err(Failure::Lost), "nothing was built yet");
    build(&one).await;
    assert_eq!(reserve(&one, 3).await, Ok(true));
    assert_eq!(reserve(&other, 4).await, Ok(true));
    redis.flush().await;
    assert_eq!(reserve(&one, 1).await, Err(Failure::Lost));
    one.beat().await;
    let generation = one.join(PROJECT).await.unwrap();
    assert_eq!(reserve(&one, 1).await, Err(Failure::Lost), "it is not open yet");
    assert_eq!(one.rejoined(PROJECT).await.unwrap(), [NodeId(1)], "the other has still to come");
    other.beat().await;
    let mut nodes = one.rejoined(PROJECT).await.unwrap();
    nodes.sort_unstable();
    assert_eq!(nodes, [NodeId(1), NodeId(2)]);
    let now = Clock::system().now();
    one.raise_hour(PROJECT, Some(&generation), KEY, None, &[(now.unix_seconds(), Usd(2))])
        .await
        .unwrap();
    one.raise_month(PROJECT, Some(&generation), now, Usd(90)).await.unwrap();
    one.open_project(PROJECT, &generation, true, &[KEY]).await.unwrap();
    assert_eq!(reserve(&other, 2).await, Ok(false), "3 and 4 are reserved, 2 spent");
    assert_eq!(reserve(&other, 1).await, Ok(true));
    let figures = one.look(PROJECT, &[KEY]).await.unwrap();
    assert_eq!((figures.spent, figures.reserved), (Usd(90), Usd(8)));
    // The reservations of a node that is gone are given back by its number.
    let mut owners = one.owners(PROJECT).await.unwrap();
    owners.sort_unstable();
    assert_eq!(owners, [NodeId(1), NodeId(2)]);
    assert_eq!(one.forget(PROJECT, NodeId(2)).await, Ok(2));
    assert_eq!(reserved(&one).await, Usd(3));
}

#[tokio::test]
async fn a_restart_is_noticed_with_and_without_what_was_on_disk() {
    if !is_there() {
        return;
    }
    for keeps in ["yes", "no"] {
        let mut server = Server::start(&["--appendonly", keeps]).await;
        let node = open(&server.url(), 1).await.unwrap();
        build(&node).await;
        assert_eq!(reserve(&node, 3).await, Ok(true));
        server.kill();
        until("it is noticed", async || node.check().is_err()).await;
        assert!(matches!(reserve(&node, 1).await, Err(Failure::Away(_))));
        server.restart().await;
        until("it is reached again", async || node.check().is_ok()).await;
        assert_eq!(reserve(&node, 1).await, Err(Failure::Lost), "appendonly {keeps}");
        build(&node).await;
        assert_eq!(reserve(&node, 8).await, Ok(false));
        assert_eq!(reserve(&node, 7).await, Ok(true), "what is doubtful was given back");
        node.close().await;
    }
}

#[tokio::test]
async fn functions_that_are_gone_are_loaded_again() {
    if !is_there() {
        return;
    }
    let redis = Redis::alone().await;
    let node = open(&redis.url, 1).await.unwrap();
    build(&node).await;
    redis.servers[0].ask(&["FUNCTION", "FLUSH"]).await;
    until("they are there", async || reserve(&node, 0).await == Ok(true)).await;
    node.close().await;
}

#[tokio::test]
async fn a_decision_that_is_made_too_late_has_no_effect() {
    if !is_there() {
        return;
    }
    let redis = Redis::alone().await;
    let node = open(&redis.url, 1).await.unwrap();
    build(&node).await;
    let Reserved::Granted(hold, _) = node.reserve(&BOUNDS, Usd(2)).await.unwrap() else {
        panic!("it is granted");
    };
    redis.servers[0].signal("-STOP");
    let began = Instant::now();
    let failed = reserve(&node, 3).await.unwrap_err();
    // Some time for a busy machine.
    assert!(
        began.elapsed() < DECISION_TIMEOUT + Duration::from_millis(200),
        "{:?}",
        began.elapsed()
    );
    assert!(matches!(failed, Failure::Away(_)), "{failed}");
    let ended = Clock::system().now();
    let settled = node.settle(&BOUNDS, &[hold], Usd(2), ended, Duration::ZERO).await;
    assert!(settled.is_err());
    until("it is noticed", async || node.check().is_err()).await;
    redis.servers[0].signal("-CONT");
    until("it is reached again", async || node.check().is_ok()).await;
    until("what is doubtful is given back", async || reserved(&node).await == Usd(2)).await;
    assert_eq!(node.held(), 1, "the call that is not settled");
    let spent = async || node.look(PROJECT, &[KEY]).await.unwrap().spent;
    assert_eq!(spent().await, Usd::ZERO);
    for _ in 0..2 {
        let settled = node.settle(&BOUNDS, &[hold], Usd(2), ended, Duration::ZERO).await;
        assert_eq!(settled.unwrap().hour_spent, Usd(2));
    }
    assert_eq!((spent().await, reserved(&node).await, node.held()), (Usd(2), Usd::ZERO, 0));
    node.close().await;
}

#[tokio::test]
async fn a_caller_that_gives_up_leaves_no_reservation() {
    if !is_there() {
        return;
    }
    let redis = Redis::alone().await;
    let node = open(&redis.url, 1).await.unwrap();
    build(&node).await;
    for micros in [0, 20, 50, 100, 200, 400] {
        let asked = node.reserve(&BOUNDS, Usd(3));
        if let Ok(Ok(Reserved::Granted(hold, _))) =
            tokio::time::timeout(Duration::from_micros(micros), asked).await
        {
            node.release(PROJECT, &[hold]).await.unwrap();
        }
    }
    until("all is given back", async || node.held() == 0 && reserved(&node).await == Usd::ZERO)
        .await;
    node.close().await;
}

#[tokio::test]
async fn a_replica_that_takes_over_is_built_anew() {
    if !is_there() {
        return;
    }
    let mut master = Server::start(&["--appendonly", "no"]).await;
    let replica = Server::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]).await;
    until("they are in step", async || {
        let info = format!("{:?}", replica.ask(&["INFO", "replication"]).await);
        info.contains("master_link_status:up")
    })
    .await;
    let sentinel = Server::sentinel(master.port).await;
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    until("it knows the replica", async || {
        let known = format!("{:?}", sentinel.ask(&["SENTINEL", "REPLICAS", "main"]).await);
        known.contains(&replica.port.to_string())
    })
    .await;
    let node = open(&url, 1).await.unwrap();
    build(&node).await;
    assert_eq!(reserve(&node, 3).await, Ok(true));
    // The replica does not hear of this.
    replica.signal("-STOP");
    assert_eq!(reserve(&node, 4).await, Ok(true));
    master.kill();
    replica.signal("-CONT");
    until("the replica is asked", async || reserve(&node, 1).await == Err(Failure::Lost)).await;
    node.join(PROJECT).await.unwrap();
    assert_eq!(reserved(&node).await, Usd(7), "what the replica did not know");
    node.close().await;
}

#[tokio::test]
async fn what_is_lost_while_it_is_built_cannot_be_opened() {
    if !is_there() {
        return;
    }
    let (redis, clock) = (Redis::alone().await, Clock::system());
    let [one, other] = [quiet(&redis.url, 1, &clock).await, quiet(&redis.url, 2, &clock).await];
    let stale = one.join(PROJECT).await.unwrap();
    redis.flush().await;
    // The run of the server is the same, and no node has asked it since.
    assert!(one.is_current(PROJECT, &stale), "no loss is known");
    let generation = other.join(PROJECT).await.unwrap();
    let now = Clock::system().now();
    let lost = Err(Failure::Lost);
    let spent = [(now.unix_seconds(), Usd(2))];
    assert_eq!(one.raise_hour(PROJECT, Some(&stale), KEY, None, &spent).await, lost);
    assert_eq!(one.raise_month(PROJECT, Some(&stale), now, Usd(2)).await, lost);
    assert_eq!(one.open_project(PROJECT, &stale, true, &[KEY]).await, Err(Failure::Lost));
    other.open_project(PROJECT, &generation, true, &[KEY]).await.unwrap();
    assert_eq!(reserve(&other, 1).await, Ok(true));
    one.beat().await;
    assert!(!one.is_current(PROJECT, &stale), "it is to be joined again");
}

#[tokio::test]
async fn what_a_server_remembers_of_before_a_restart_reserves_nothing() {
    if !is_there() {
        return;
    }
    let mut server = Server::start(&["--appendonly", "no"]).await;
    let [one, other] =
        [open(&server.url(), 1).await.unwrap(), open(&server.url(), 2).await.unwrap()];
    build(&one).await;
    let Reserved::Granted(hold, _) = other.reserve(&BOUNDS, Usd(6)).await.unwrap() else {
        panic!("it is granted");
    };
    server.ask(&["SAVE"]).await;
    other.release(PROJECT, &[hold]).await.unwrap();
    server.kill();
    server.restart().await;
    until("it is asked again", async || reserve(&one, 1).await == Err(Failure::Lost)).await;
    build(&one).await;
    assert_eq!(reserved(&one).await, Usd::ZERO);
    assert_eq!(reserve(&one, 10).await, Ok(true));
    one.close().await;
    other.close().await;
}

#[tokio::test]
async fn a_settled_call_counts_after_a_loss_until_the_ledger_has_it() {
    if !is_there() {
        return;
    }
    for is_stored in [false, true] {
        let (redis, clock) = (Redis::alone().await, Clock::system());
        let node = quiet(&redis.url, 1, &clock).await;
        build(&node).await;
        let Reserved::Granted(hold, _) = node.reserve(&BOUNDS, Usd(9)).await.unwrap() else {
            panic!("it is granted");
        };
        let ended = clock.now();
        node.settle(&BOUNDS, &[hold], Usd(7), ended, Duration::ZERO).await.unwrap();
        if is_stored {
            node.stored(PROJECT, &[hold]);
        }
        redis.flush().await;
        node.beat().await;
        build(&node).await;
        let free = if is_stored { 10 } else { 3 };
        assert_eq!(reserve(&node, free + 1).await, Ok(false));
        node.beat().await;
        let figures = node.look(PROJECT, &[KEY]).await.unwrap();
        let spent = if is_stored { Usd::ZERO } else { Usd(7) };
        assert_eq!(
            (figures.spent, figures.keys[0].spent, figures.reserved),
            (spent, spent, Usd::ZERO)
        );
        assert_eq!(reserve(&node, free).await, Ok(true));
    }
}

#[tokio::test]
async fn a_look_at_requests_leaves_their_count_right() {
    if !is_there() {
        return;
    }
    let redis = Redis::alone().await;
    let clock = Clock::fixed(Clock::system().now());
    let node = quiet(&redis.url, 1, &clock).await;
    let unbounded = Bounds { cap: None, budget: None, ..BOUNDS };
    let (per_hour, spend) = (Some(3), Spend::None);
    let request = Request { loops: None, per_hour, is_counted: true, spend };
    let later = |micros| clock.set(Timestamp(clock.now().0 + micros));
    for _ in 0..2 {
        node.gate(&unbounded, request).await.unwrap();
    }
    later(HOUR / 2);
    node.gate(&unbounded, request).await.unwrap();
    later(HOUR / 2 + SECOND);
    assert_eq!(node.look(PROJECT, &[KEY]).await.unwrap().keys[0].requests, 1);
    let gate = node.gate(&unbounded, request).await.unwrap();
    assert_eq!((gate.admission, gate.requests), (Admission::Admitted, 2));
}
