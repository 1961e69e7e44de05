//! Decisions that are awaited on event loops.

use std::cell::Cell;

use counters::{Bounds, Counters, Failure, Reserved};
use domain::ids::ProjectId;
use domain::money::Usd;
use domain::time::{Clock, Timestamp};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::servers::{BOUNDS, KEY, PROJECT, Redis, beat, is_there, quiet, text, until};

/// There is room for all that the tests reserve.
const ROOMY: Bounds = Bounds { cap: Some(Usd(1_000_000)), budget: None, ..BOUNDS };
/// A project whose keys Redis refuses to use.
const REFUSED: ProjectId = ProjectId(8);

async fn reserved_on(event_loop: &Runtime, node: &Counters) -> Result<bool, Failure> {
    let node = node.clone();
    let reserving = async move { node.reserve(&ROOMY, Usd(1)).await };
    let reserved = event_loop.spawn(reserving).await.unwrap()?;
    Ok(matches!(reserved, Reserved::Granted(..)))
}

/// Reserves for projects, all in the same turn of an event loop. Returns how many were granted, and how many failed
/// because of the server.
async fn reserved_together(
    event_loop: &Runtime,
    node: &Counters,
    projects: Vec<ProjectId>,
) -> (usize, usize) {
    let node = node.clone();
    let reserving = async move {
        let mut calls = JoinSet::new();
        for project in projects {
            let node = node.clone();
            calls.spawn(async move { node.reserve(&Bounds { project, ..ROOMY }, Usd(1)).await });
        }
        calls.join_all().await
    };
    let reserved = event_loop.spawn(reserving).await.unwrap();
    let granted = reserved.iter().filter(|reserved| matches!(reserved, Ok(Reserved::Granted(..))));
    let failed = reserved.iter().filter(|reserved| matches!(reserved, Err(Failure::Away(_))));
    (granted.count(), failed.count())
}

/// A node at a Redis, where it is installed, with a project that is built, and an event loop with a connection of its own.
async fn node_and_loop() -> Option<(Redis, Counters, Runtime)> {
    if !is_there() {
        return None;
    }
    let redis = Redis::alone().await;
    let node = quiet(&redis.url, 1, &Clock::fixed(Timestamp(1_700_000_000_000_000))).await;
    let generation = node.join(PROJECT).await.unwrap();
    node.open_project(PROJECT, &generation, false, &[KEY]).await.unwrap();
    until("the keeper's is the only one", async || clients(&redis).await.len() == 1).await;
    let event_loop = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    until("decisions go over the loop's own", async || {
        assert_eq!(reserved_on(&event_loop, &node).await, Ok(true));
        clients(&redis).await.get(1).is_some_and(|(_, line)| line.contains("cmd=fcall"))
    })
    .await;
    Some((redis, node, event_loop))
}

/// The connections to a server but for that which asks, the newest last: their ids, and what the server lists of them.
async fn clients(redis: &Redis) -> Vec<(u64, String)> {
    let text = text(redis.servers[0].ask(&["CLIENT", "LIST"]).await);
    let others = text.lines().filter(|line| !line.contains("cmd=client|list"));
    let id = |line: &str| line.strip_prefix("id=")?.split(' ').next()?.parse().ok();
    let mut all: Vec<(u64, String)> =
        others.filter_map(|line| Some((id(line)?, line.to_owned()))).collect();
    all.sort_unstable();
    all
}

#[tokio::test]
async fn an_event_loop_has_a_connection_of_its_own_and_no_reservation_is_lost_with_it() {
    let Some((redis, node, event_loop)) = node_and_loop().await else { return };

    let granted = Cell::new(i64::try_from(node.held()).unwrap());
    let reserves = async || {
        let reserved = reserved_on(&event_loop, &node).await;
        granted.set(granted.get() + i64::from(reserved == Ok(true)));
        reserved
    };
    until("decisions go over it", async || {
        let all = clients(&redis).await;
        let Some((own, _)) = all.get(1) else { return false };
        redis.servers[0].ask(&["CLIENT", "KILL", "ID", &own.to_string()]).await;
        // Over the keeper's it would be granted.
        let is_refused = reserves().await.is_err();
        until("the loop has its own again", async || {
            beat(&node, PROJECT).await;
            reserves().await == Ok(true) && clients(&redis).await.len() == 2
        })
        .await;
        is_refused
    })
    .await;

    until("what is in doubt is given back", async || {
        beat(&node, PROJECT).await;
        node.held() == usize::try_from(granted.get()).unwrap()
    })
    .await;
    let figures = node.look(PROJECT, &[KEY]).await.unwrap();
    assert_eq!(figures.keys[0].reserved, Usd(granted.get()));
    node.close().await;
    event_loop.shutdown_background();
}

#[tokio::test]
async fn a_decision_that_redis_refuses_fails_alone() {
    let Some((redis, node, event_loop)) = node_and_loop().await else { return };
    let keys = format!("~sluice:test:{{p{}}}*", PROJECT.0);
    redis.servers[0].ask(&["ACL", "SETUSER", "default", "resetkeys", &keys]).await;
    let projects = vec![PROJECT, REFUSED, PROJECT, REFUSED, PROJECT];
    assert_eq!(reserved_together(&event_loop, &node, projects).await, (3, 2));
    // The connection stays.
    assert_eq!(reserved_on(&event_loop, &node).await, Ok(true));
    until("no connection is made anew", async || clients(&redis).await.len() == 2).await;
    node.close().await;
    event_loop.shutdown_background();
}
