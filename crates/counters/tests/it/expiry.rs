//! Counters that are not used any more go by themselves, and none goes while it counts.

use std::collections::BTreeMap;
use std::time::Duration;

use counters::{Counters, Reserved};
use domain::money::Usd;
use domain::time::{Clock, MINUTE, SECOND, Timestamp};
use redis::Value;

use crate::servers::{BOUNDS, KEY, PROJECT, REQUEST, Redis, is_there, quiet};

/// The seconds for which each is kept at the least: for as long as its windows, or what it bounds.
const KEPT: [(&str, i64); 8] = [
    (":a:", 10),
    (":h:", 3_600),
    (":k:", 3_600),
    (":o", 3_600),
    (":q:", 3_600),
    (":r", 3_600),
    (":s", 3_600),
    (":z:", 3_600),
];

/// The counters of the project, by the ends of their names.
fn names() -> impl Iterator<Item = (&'static str, String)> {
    KEPT.iter().map(|(name, _)| {
        let of_key = if name.ends_with(':') { KEY.to_string() } else { String::new() };
        (*name, format!("sluice:test:{{p{}}}{name}{of_key}", PROJECT.0))
    })
}

/// The seconds after which they go.
async fn expiries(redis: &Redis) -> BTreeMap<&'static str, i64> {
    let mut found = BTreeMap::new();
    for (name, key) in names() {
        let Value::Int(seconds) = redis.servers[0].ask(&["TTL", &key]).await else {
            panic!("no number")
        };
        found.insert(name, seconds);
    }
    found
}

/// A request, a call that ends, and one that goes on.
async fn call(node: &Counters, clock: &Clock) {
    node.gate(&BOUNDS, REQUEST).await.unwrap();
    for ends in [true, false] {
        let Reserved::Granted(hold, _) = node.reserve(&BOUNDS, Usd(1)).await.unwrap() else {
            panic!("there is room")
        };
        if ends {
            let settled = node.settle(&BOUNDS, &[hold], Usd(1), clock.now(), Duration::ZERO).await;
            assert!(settled.is_ok());
        }
    }
}

#[tokio::test]
async fn all_that_counts_is_kept_for_as_long_and_goes_some_time_later() {
    const LONGEST: i64 = 7 * 86_400;
    if !is_there() {
        return;
    }
    // A whole minute.
    let clock = Clock::fixed(Timestamp(1_700_000_040 * SECOND));
    let redis = Redis::alone().await;
    let node = quiet(&redis.url, 1, &clock).await;
    let generation = node.join(PROJECT).await.unwrap();
    node.open_project(PROJECT, &generation, true, &[KEY]).await.unwrap();
    for minutes in 0..3 {
        clock.set(Timestamp(1_700_000_040 * SECOND + minutes * MINUTE));
        call(&node, &clock).await;
        let found = expiries(&redis).await;
        for (name, least) in KEPT {
            assert!((least..LONGEST).contains(&found[name]), "{name} in {found:?}");
        }
        for (_, key) in names() {
            redis.servers[0].ask(&["EXPIRE", &key, "5"]).await;
        }
    }
}
