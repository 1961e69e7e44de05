//! Nodes that were taken for gone, so that others may have given back what they had reserved.

use std::time::Duration;

use counters::{Bounds, Counters, Failure, HoldId, Reserved};
use domain::ids::{NodeId, ProjectId};
use domain::money::Usd;
use domain::time::Clock;
use tokio::time::timeout;

use crate::servers::{BOUNDS, KEY, PROJECT, Redis, beat, is_there, quiet, text, until};

/// Two nodes at a Redis, where it is installed, that has the counters of the project. On a clock that stands still no
/// decision is late.
async fn two() -> Option<(Redis, Clock, [Counters; 2])> {
    if !is_there() {
        return None;
    }
    let (redis, clock) = (Redis::alone().await, Clock::fixed(Clock::system().now()));
    let nodes = [quiet(&redis.url, 1, &clock).await, quiet(&redis.url, 2, &clock).await];
    for node in &nodes {
        beat(node, PROJECT).await;
    }
    let generation = nodes[0].join(PROJECT).await.unwrap();
    nodes[0].open_project(PROJECT, &generation, true, &[KEY]).await.unwrap();
    Some((redis, clock, nodes))
}

async fn reserve(node: &Counters, bounds: &Bounds, amount: i64) -> Option<HoldId> {
    match node.reserve(bounds, Usd(amount)).await.unwrap() {
        Reserved::Granted(hold, _) => Some(hold),
        Reserved::Full(_) => None,
    }
}

/// Settles a call. Returns what is spent then.
async fn settle(
    node: &Counters,
    clock: &Clock,
    holds: &[HoldId],
    cost: i64,
) -> Result<Usd, Failure> {
    let settled = node.settle(&BOUNDS, holds, Usd(cost), clock.now(), Duration::ZERO).await?;
    assert_eq!(settled.month_spent, settled.hour_spent);
    Ok(settled.hour_spent)
}

async fn reserved(node: &Counters) -> Usd {
    node.look(PROJECT, &[KEY]).await.unwrap().keys[0].reserved
}

/// Beats until so much is reserved by all nodes.
async fn are_there(node: &Counters, all: i64) {
    until("what is held is reserved, each once", async || {
        beat(node, PROJECT).await;
        reserved(node).await == Usd(all)
    })
    .await;
}

/// Lets all connections use the keys of some patterns, and no others.
async fn allow(redis: &Redis, keys: &str) {
    let mut command = vec!["ACL", "SETUSER", "default", "resetkeys"];
    command.extend(keys.split(' '));
    redis.servers[0].ask(&command).await;
}

/// The times that reservations of a project were added: nothing else looks at all that it has.
async fn joins(redis: &Redis) -> String {
    let figures = text(redis.servers[0].ask(&["INFO", "commandstats"]).await);
    let calls = figures.lines().find_map(|line| line.strip_prefix("cmdstat_hkeys:calls="));
    calls.unwrap().split(',').next().unwrap().to_owned()
}

/// Has a node that was taken for gone add its reservations again.
async fn comes_back(node: &Counters, all: i64) {
    node.note_absence();
    are_there(node, all).await;
}

#[tokio::test]
async fn what_others_have_given_back_is_added_again_and_counts_once() {
    let Some((_redis, clock, [one, other])) = two().await else { return };
    let settle = async |hold: HoldId, cost: i64| settle(&one, &clock, &[hold], cost).await.unwrap();
    let ended = reserve(&one, &BOUNDS, 1).await.unwrap();
    assert_eq!(settle(ended, 1).await, Usd(1));
    let runs = reserve(&one, &BOUNDS, 6).await.unwrap();
    assert!(reserve(&other, &BOUNDS, 2).await.is_some());
    // The first node is taken for gone, and reaches Redis all the while.
    assert_eq!(other.forget(PROJECT, NodeId(1)).await, Ok(1));
    beat(&one, PROJECT).await;
    assert_eq!(reserved(&other).await, Usd(2), "the server has lost nothing");
    let meanwhile = reserve(&one, &BOUNDS, 1).await.unwrap();
    // 6 and 1 here, 2 there. The second time nothing was given back.
    for _ in 0..2 {
        comes_back(&one, 9).await;
    }
    assert_eq!(reserve(&other, &BOUNDS, 1).await, None, "1 is spent, and the call may cost 6");
    for _ in 0..2 {
        assert_eq!(settle(runs, 4).await, Usd(5), "a call counts once");
        assert_eq!(settle(ended, 1).await, Usd(5));
        // The ledger may not have it yet, and Redis counts it.
        comes_back(&one, 3).await;
    }
    assert_eq!(settle(meanwhile, 1).await, Usd(6));
    let figures = other.look(PROJECT, &[KEY]).await.unwrap();
    assert_eq!((figures.spent, figures.keys[0].spent, figures.reserved), (Usd(6), Usd(6), Usd(2)));
    assert_eq!(reserve(&other, &BOUNDS, 3).await, None);
    assert!(reserve(&other, &BOUNDS, 2).await.is_some());
}

#[tokio::test]
async fn what_ends_while_it_is_added_again_counts_once() {
    let Some((_redis, clock, [one, other])) = two().await else { return };
    let most = Some(Usd(1_000));
    let bounds = Bounds { cap: most, budget: most, ..BOUNDS };
    // A beat that is missed refuses decisions until the next one.
    let settle = async |hold: HoldId| {
        until("it is settled", async || {
            let settled = one.settle(&bounds, &[hold], Usd(2), clock.now(), Duration::ZERO).await;
            settled.is_ok()
        })
        .await;
    };
    for round in 1..=20 {
        let mut holds = Vec::new();
        for _ in 0..4 {
            holds.push(reserve(&one, &bounds, 9).await.unwrap());
        }
        if round % 2 == 0 {
            assert_eq!(other.forget(PROJECT, NodeId(1)).await, Ok(4));
            comes_back(&one, 4 * 9).await;
        }
        one.note_absence();
        let beats = beat(&one, PROJECT);
        tokio::join!(beats, settle(holds[0]), settle(holds[1]), settle(holds[2]));
        assert_eq!(reserved(&other).await, Usd(9), "round {round}");
        settle(holds[3]).await;
        let figures = other.look(PROJECT, &[KEY]).await.unwrap();
        assert_eq!(figures.spent, Usd(8 * round), "round {round}");
        assert_eq!((figures.reserved, one.held()), (Usd::ZERO, 0), "round {round}");
    }
}

#[tokio::test]
async fn calls_go_on_while_what_others_have_given_back_cannot_be_added_again() {
    /// The keys that beats need, and none of a project.
    const OF_BEATS: &str = "~sluice:test:{f*";
    let Some((redis, _, [one, other])) = two().await else { return };
    assert!(reserve(&one, &BOUNDS, 6).await.is_some());
    assert_eq!(other.forget(PROJECT, NodeId(1)).await, Ok(1));
    allow(&redis, OF_BEATS).await;
    one.note_absence();
    beat(&one, PROJECT).await;
    allow(&redis, "~*").await;
    assert_eq!(reserved(&one).await, Usd::ZERO, "it could not be added");
    // It is tried again without another absence.
    are_there(&one, 6).await;
    // After a loss it has to be there before a call is let in.
    redis.flush().await;
    allow(&redis, OF_BEATS).await;
    one.beat().await;
    assert!(!one.is_reached(PROJECT), "it is not added yet");
    allow(&redis, "~*").await;
    beat(&one, PROJECT).await;
    assert_eq!(reserved(&one).await, Usd(6));
}

#[tokio::test]
async fn a_project_that_cannot_be_added_again_keeps_no_other_from_it() {
    let Some((redis, _, [one, other])) = two().await else { return };
    let projects = [PROJECT, ProjectId(8)];
    let generation = one.join(projects[1]).await.unwrap();
    one.open_project(projects[1], &generation, true, &[KEY]).await.unwrap();
    for project in projects {
        assert!(reserve(&one, &Bounds { project, ..BOUNDS }, 6).await.is_some());
    }
    let is_reserved =
        async |project: ProjectId| other.look(project, &[KEY]).await.unwrap().reserved == Usd(6);
    // Either may be the first.
    for added in projects {
        for project in projects {
            assert_eq!(other.forget(project, NodeId(1)).await, Ok(1));
        }
        allow(&redis, &format!("~sluice:test:{{f* ~sluice:test:{{p{}}}*", added.0)).await;
        one.note_absence();
        until("it is added beside the other", async || {
            one.beat().await;
            is_reserved(added).await
        })
        .await;
        assert!(one.is_reached(added), "calls go on");
        let before = joins(&redis).await;
        for _ in 0..3 {
            one.beat().await;
        }
        assert_eq!(joins(&redis).await, before, "it is added once, and the other is refused");
        allow(&redis, "~*").await;
        until("both are there", async || {
            beat(&one, PROJECT).await;
            is_reserved(projects[0]).await && is_reserved(projects[1]).await
        })
        .await;
    }
}

#[tokio::test]
async fn what_ends_once_others_have_given_it_back_counts_once() {
    let Some((_redis, clock, [one, other])) = two().await else { return };
    let runs = reserve(&one, &BOUNDS, 1).await.unwrap();
    let mut attempts = Vec::new();
    for _ in 0..2 {
        attempts.push(reserve(&one, &BOUNDS, 3).await.unwrap());
    }
    let stored = reserve(&one, &BOUNDS, 2).await.unwrap();
    // The first node is taken for gone, and does not know it.
    assert_eq!(other.forget(PROJECT, NodeId(1)).await, Ok(4));
    for _ in 0..2 {
        assert_eq!(settle(&one, &clock, &attempts, 5).await, Ok(Usd(5)), "a call of two attempts");
    }
    // The ledger has the other one before Redis has it, and is read meanwhile.
    one.stored(PROJECT, &[stored]);
    let now = clock.now();
    other.raise_hour(PROJECT, None, KEY, None, &[(now.unix_seconds(), Usd(7))]).await.unwrap();
    other.raise_month(PROJECT, None, now, Usd(7)).await.unwrap();
    assert_eq!(settle(&one, &clock, &[stored], 2).await, Ok(Usd(7)), "the ledger stands for it");
    // A call that counts is not reserved besides.
    comes_back(&one, 1).await;
    assert_eq!(settle(&one, &clock, &attempts, 5).await, Ok(Usd(7)));
    assert_eq!(settle(&one, &clock, &[runs], 1).await, Ok(Usd(8)));
    let figures = other.look(PROJECT, &[KEY]).await.unwrap();
    assert_eq!((figures.spent, figures.keys[0].spent), (Usd(8), Usd(8)));
    assert_eq!((figures.reserved, one.held()), (Usd::ZERO, 0));
}

#[tokio::test]
async fn what_others_have_given_back_counts_once_redis_can_be_reached() {
    let Some((redis, clock, [one, other])) = two().await else { return };
    let call = reserve(&one, &BOUNDS, 6).await.unwrap();
    assert_eq!(other.forget(PROJECT, NodeId(1)).await, Ok(1));
    // A beat that fails keeps decisions from leaving.
    allow(&redis, "~sluice:test:{p*").await;
    one.beat().await;
    let settled = settle(&one, &clock, &[call], 4).await;
    assert!(matches!(settled, Err(Failure::Away(_))), "{settled:?}");
    allow(&redis, "~*").await;
    beat(&one, PROJECT).await;
    assert_eq!(reserved(&one).await, Usd::ZERO, "the node does not know what was given back");
    for _ in 0..2 {
        assert_eq!(settle(&one, &clock, &[call], 4).await, Ok(Usd(4)));
    }
}

#[tokio::test]
async fn what_counts_though_it_was_not_answered_counts_once() {
    let Some((redis, clock, [one, other])) = two().await else { return };
    let call = reserve(&one, &BOUNDS, 6).await.unwrap();
    assert_eq!(other.forget(PROJECT, NodeId(1)).await, Ok(1));
    redis.servers[0].signal("-STOP");
    let calls = [call];
    let settling = settle(&one, &clock, &calls, 4);
    let answered = timeout(Duration::from_millis(100), settling).await;
    assert!(answered.is_err(), "{answered:?}");
    redis.servers[0].signal("-CONT");
    until("the command that was given up has come", async || {
        other.look(PROJECT, &[KEY]).await.unwrap().spent == Usd(4)
    })
    .await;
    assert_eq!(settle(&one, &clock, &[call], 4).await, Ok(Usd(4)));
}
