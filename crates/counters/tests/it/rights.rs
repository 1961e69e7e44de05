//! The rights that docs/fleet.md gives to a user of Redis' access control: all that a gateway needs, and no more.

use std::collections::BTreeSet;
use std::time::Duration;

use counters::{Admission, Booking, Bounds, Counters, Failure, HoldId, OwnFailures, Reserved};
use domain::failure::{FailureCount, FailureRule};
use domain::ids::NodeId;
use domain::money::Usd;
use domain::time::{Clock, MINUTE};
use redis::Value;

use crate::servers::{BOUNDS, KEY, PROJECT, REQUEST, Redis, beat, is_there, quiet, settings};

const DOCUMENT: &str = include_str!("../../../../docs/fleet.md");
/// The functions: the commands that they call need the rights of whoever calls the function.
const FUNCTIONS: [&str; 2] =
    [include_str!("../../src/counters.lua"), include_str!("../../src/failures.lua")];
/// The commands that a gateway sends to every Redis itself.
const SENT: [&str; 4] = ["fcall", "function|list", "function|load", "info"];

const RULE: FailureRule = FailureRule { most: 2, window: 15 * MINUTE, watched: 100 };
const ACCOUNT: FailureCount = FailureCount { kind: "account", name: [7; 16] };

/// The rules of the user in the document: at every Redis, those that a database other than 0 needs besides, those that a
/// cluster does, and those that keep it from other installations.
fn documented() -> [Vec<&'static str>; 4] {
    let lines = DOCUMENT.lines().filter_map(|line| line.strip_prefix("ACL SETUSER sluice "));
    let found: Vec<Vec<&str>> = lines.map(|rules| rules.split_whitespace().collect()).collect();
    <[Vec<&str>; 4]>::try_from(found)
        .unwrap_or_else(|found| panic!("docs/fleet.md has other rules: {found:?}"))
}

/// Gives the user these rules at every server.
async fn allow(redis: &Redis, rules: &[&str]) {
    let command = [&["ACL", "SETUSER", "sluice"][..], rules].concat();
    for server in &redis.servers {
        server.ask(&command).await;
    }
}

/// The URL of a Redis with the user and its password.
fn as_user(redis: &Redis, rules: &[&str]) -> String {
    let password = rules.iter().find_map(|rule| rule.strip_prefix('>')).unwrap();
    redis.url.replacen("://", &format!("://sluice:{password}@"), 1)
}

/// Whether a gateway may start with a URL.
async fn may_start(url: &str) -> bool {
    Counters::quiet(settings(url, 1, &Clock::system())).await.is_ok()
}

async fn reserve(node: &Counters, amount: i64) -> HoldId {
    match node.reserve(&BOUNDS, Usd(amount)).await.unwrap() {
        Reserved::Granted(hold, _) => hold,
        Reserved::Full(figures) => panic!("{amount} does not fit beside {figures:?}"),
    }
}

/// Builds the counters from a ledger in which this was spent just now.
async fn build(node: &Counters, clock: &Clock, spent: Usd) {
    let (generation, now) = (node.join(PROJECT).await.unwrap(), clock.now());
    let seconds = [(now.unix_seconds(), spent)];
    node.raise_hour(PROJECT, Some(&generation), KEY, None, &seconds).await.unwrap();
    node.raise_month(PROJECT, Some(&generation), now, spent).await.unwrap();
    node.open_project(PROJECT, &generation, true, &[KEY]).await.unwrap();
}

/// Has two gateways do all that gateways do at a Redis, which loses its counters meanwhile.
async fn do_all(redis: &Redis, url: &str) {
    // Fixed, so that no decision is late on a busy machine.
    let clock = Clock::fixed(Clock::system().now());
    let [one, other] = [quiet(url, 1, &clock).await, quiet(url, 2, &clock).await];
    for node in [&one, &other] {
        beat(node, PROJECT).await;
    }
    build(&one, &clock, Usd::ZERO).await;
    for node in [&one, &other] {
        let gate = node.gate(&BOUNDS, REQUEST).await.unwrap();
        assert_eq!(gate.admission, Admission::Admitted);
    }
    let (called, given_up) = (reserve(&one, 4).await, reserve(&one, 1).await);
    reserve(&other, 5).await;
    let settled = one.settle(&BOUNDS, &[called], Usd(2), clock.now(), Duration::ZERO).await;
    assert_eq!(settled.unwrap().hour_spent, Usd(2));
    one.stored(PROJECT, &[called]);
    one.release(PROJECT, &[given_up]).await.unwrap();

    redis.flush().await;
    assert_eq!(one.gate(&BOUNDS, REQUEST).await, Err(Failure::Lost));
    for node in [&one, &other] {
        beat(node, PROJECT).await;
    }
    let mut joined = one.rejoined(PROJECT).await.unwrap();
    joined.sort_unstable();
    assert_eq!(joined, [NodeId(1), NodeId(2)]);
    build(&one, &clock, Usd(2)).await;
    assert_eq!(one.gate(&BOUNDS, REQUEST).await.unwrap().admission, Admission::Admitted);
    let figures = one.look(PROJECT, &[KEY]).await.unwrap();
    assert_eq!((figures.spent, figures.reserved), (Usd(2), Usd(5)));
    assert_eq!(one.owners(PROJECT).await.unwrap(), [NodeId(2)]);
    assert_eq!(one.forget(PROJECT, NodeId(2)).await, Ok(1));
    let reset = Bounds { reset_at: Some(clock.now()), ..BOUNDS };
    one.gate(&reset, REQUEST).await.unwrap();
    assert_eq!(one.look(PROJECT, &[KEY]).await.unwrap().keys[0].spent, Usd::ZERO);

    let own = [OwnFailures { count: ACCOUNT, booked: Vec::new() }];
    let book = async |node: &Counters, booking: u64| {
        node.book_failure(&RULE, &own, booking).await.unwrap().booking
    };
    assert_eq!(book(&one, 1).await, Booking::Booked);
    assert_eq!(book(&other, 1).await, Booking::Booked);
    assert!(matches!(book(&one, 2).await, Booking::Full { .. }));
    other.take_back_failure(&RULE, &[ACCOUNT], 1, true).await.unwrap();
    assert_eq!(book(&one, 2).await, Booking::Booked);
}

#[test]
fn every_command_of_the_functions_is_allowed_and_no_other() {
    let called = FUNCTIONS.into_iter().flat_map(|source| source.split("call('").skip(1));
    let called = called.filter_map(|rest| rest.split('\'').next()).map(str::to_lowercase);
    let needed: BTreeSet<String> = called.chain(SENT.map(str::to_owned)).collect();
    assert!(
        needed.contains("hmget") && needed.contains("zcard"),
        "both files are read: {needed:?}"
    );
    let [rules, ..] = documented();
    let allowed = rules.iter().filter_map(|rule| rule.strip_prefix('+'));
    let allowed: BTreeSet<String> = allowed.map(str::to_owned).collect();
    assert_eq!(allowed, needed, "docs/fleet.md and the functions");
}

#[tokio::test]
async fn a_user_with_these_rights_does_all_that_a_gateway_does() {
    if !is_there() {
        return;
    }
    let [rules, of_database, _, of_installation] = documented();
    let redis = Redis::alone().await;
    allow(&redis, &rules).await;
    let url = as_user(&redis, &rules);
    do_all(&redis, &url).await;
    for (is_allowed, command) in [
        (true, "HGET sluice:a:{p1}:s e"),
        (false, "HGET others field"),
        (false, "KEYS sluice:*"),
        (false, "FLUSHALL"),
        (false, "FUNCTION FLUSH"),
        (false, "CONFIG GET maxmemory"),
        (false, "ACL LIST"),
    ] {
        let words = "ACL DRYRUN sluice".split(' ').chain(command.split(' '));
        let answer = redis.servers[0].ask(&words.collect::<Vec<_>>()).await;
        assert_eq!(answer == Value::Okay, is_allowed, "{command}: {answer:?}");
    }
    let numbered = format!("{url}/3");
    assert!(!may_start(&numbered).await, "it may not choose a database");
    allow(&redis, &of_database).await;
    let own: Vec<String> =
        of_installation.iter().map(|rule| rule.replace("<installation>", "test")).collect();
    allow(&redis, &own.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let others = ["ACL", "DRYRUN", "sluice", "HGET", "sluice:a:{p1}:s", "e"];
    let answer = redis.servers[0].ask(&others).await;
    assert_ne!(answer, Value::Okay, "the key of another installation");
    do_all(&redis, &numbered).await;
}

#[tokio::test]
async fn a_user_of_a_cluster_needs_two_rights_more() {
    if !is_there() {
        return;
    }
    let [rules, _, of_cluster, _] = documented();
    let redis = Redis::cluster().await;
    allow(&redis, &rules).await;
    let url = as_user(&redis, &rules);
    assert!(!may_start(&url).await, "it may not ask for slots");
    allow(&redis, &of_cluster).await;
    do_all(&redis, &url).await;
}
