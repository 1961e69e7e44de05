//! Decisions that are awaited on event loops.

use std::cell::Cell;

use counters::{Bounds, Counters, Failure, Reserved};
use domain::ids::{KeyId, ProjectId};
use domain::money::Usd;
use domain::time::{Clock, Timestamp};
use redis::Value;
use tokio::runtime::{Builder, Runtime};

use crate::servers::{Redis, beat, is_there, quiet, until};

const PROJECT: ProjectId = ProjectId(7);
const KEY: KeyId = KeyId(0xaa);
const BOUNDS: Bounds =
    Bounds { project: PROJECT, key: KEY, reset_at: None, cap: Some(Usd(1_000_000)), budget: None };

async fn reserved_on(event_loop: &Runtime, node: &Counters) -> Result<bool, Failure> {
    let node = node.clone();
    let reserving = async move { node.reserve(&BOUNDS, Usd(1)).await };
    let reserved = event_loop.spawn(reserving).await.unwrap()?;
    Ok(matches!(reserved, Reserved::Granted(..)))
}

/// The ids of the connections to a server but for that which asks, the newest last.
async fn clients(redis: &Redis) -> Vec<u64> {
    let text = match redis.servers[0].ask(&["CLIENT", "LIST"]).await {
        Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
        Value::VerbatimString { text, .. } => text,
        other => panic!("{other:?}"),
    };
    let others = text.lines().filter(|line| !line.contains("cmd=client|list"));
    let id = |line: &str| line.strip_prefix("id=")?.split(' ').next()?.parse().ok();
    let mut ids: Vec<u64> = others.filter_map(id).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn an_event_loop_has_a_connection_of_its_own_and_no_reservation_is_lost_with_it() {
    if !is_there() {
        return;
    }
    let redis = Redis::alone().await;
    let node = quiet(&redis.url, 1, &Clock::fixed(Timestamp(1_700_000_000_000_000))).await;
    let generation = node.join(PROJECT).await.unwrap();
    node.open_project(PROJECT, &generation, false, &[KEY]).await.unwrap();
    until("the keeper's is the only one", async || clients(&redis).await.len() == 1).await;
    let event_loop = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();

    let granted = Cell::new(0);
    let reserves = async || {
        let reserved = reserved_on(&event_loop, &node).await;
        granted.set(granted.get() + i64::from(reserved == Ok(true)));
        reserved
    };
    assert_eq!(reserves().await, Ok(true));
    until("the loop has its own", async || clients(&redis).await.len() == 2).await;
    until("decisions go over it", async || {
        let Some(own) = clients(&redis).await.get(1).copied() else { return false };
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
