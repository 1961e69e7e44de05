//! One suite of behaviour for failures that one gateway counts in memory, and that two count in a Redis alone or in a
//! cluster; and what Redis may lose.

use counters::{Booking, Counters, Failure, OwnFailures, Settings};
use domain::failure::{FailureCount, FailureRule};
use domain::time::{Clock, MINUTE, SECOND, Timestamp};
use limits::{Failures, TooManyFailures};
use redis::Value;

use crate::servers::{Redis, is_there, quiet, settings, until};

const RULE: FailureRule = FailureRule { most: 6, window: 15 * MINUTE, watched: 100 };

/// An attempt is booked in several counts at once, so that all are in one slot.
const SPREAD: (&str, usize) = ("sluice:test-*:{failures}:*", 1);

/// The questions of a suite to counts of failures, on a clock that it sets.
trait Counts {
    /// Books an attempt. Fails with the seconds to wait.
    async fn book(&mut self, counts: &[FailureCount]) -> Result<Attempt, i64>;
    async fn take_back(&mut self, attempt: Attempt, forgives: bool);
    /// How many counts of a kind are kept.
    async fn watched(&mut self, kind: &'static str) -> usize;
    fn clock(&self) -> &Clock;
}

/// An attempt that is booked as a failure.
#[derive(Debug)]
struct Attempt {
    counts: Vec<FailureCount>,
    booking: u64,
    node: usize,
}

struct Memory {
    clock: Clock,
    failures: Failures,
    latest: u64,
}

impl Counts for Memory {
    async fn book(&mut self, counts: &[FailureCount]) -> Result<Attempt, i64> {
        self.latest += 1;
        let booked = self.failures.book(counts, self.latest, self.clock.now());
        booked.map_err(|TooManyFailures { wait }| wait / SECOND)?;
        Ok(Attempt { counts: counts.to_vec(), booking: self.latest, node: 0 })
    }

    async fn take_back(&mut self, attempt: Attempt, forgives: bool) {
        self.failures.take_back(&attempt.counts, attempt.booking);
        if forgives {
            self.failures.forget(&attempt.counts[0]);
        }
    }

    async fn watched(&mut self, kind: &'static str) -> usize {
        self.failures.watched(kind)
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Two nodes that count as one: each is asked in turn. Beside Redis each notes what it has booked itself.
struct Shared<'a> {
    redis: &'a Redis,
    settings: Settings,
    nodes: [(Counters, Failures); 2],
    latest: u64,
}

impl Shared<'_> {
    async fn try_book(
        &mut self,
        node: usize,
        counts: &[FailureCount],
    ) -> Result<(u64, Booking), Failure> {
        self.latest += 1;
        let now = self.clock().now();
        let (counters, failures) = &mut self.nodes[node];
        let own = counts.iter().map(|count| {
            let booked = failures.of(count, now).into_iter();
            let booked = booked.map(|(own, at)| (own, now.since(at))).collect();
            OwnFailures { count: *count, booked }
        });
        let own: Vec<_> = own.collect();
        let answer = counters.book_failure(&RULE, &own, self.latest).await?;
        assert_eq!(answer.forgiven.len(), counts.len());
        for (count, age) in counts.iter().zip(answer.forgiven) {
            if let Some(age) = age {
                failures.forget_until(count, now.minus_micros(age));
            }
        }
        if answer.booking == Booking::Booked {
            failures.note(counts, self.latest, now);
        }
        Ok((self.latest, answer.booking))
    }

    async fn book_at(&mut self, node: usize, counts: &[FailureCount]) -> Result<Attempt, i64> {
        match self.try_book(node, counts).await.unwrap() {
            (booking, Booking::Booked) => Ok(Attempt { counts: counts.to_vec(), booking, node }),
            (_, Booking::Full { wait }) => Err(wait / SECOND),
        }
    }

    /// Has a node ask whether Redis is well until it is: a connection that is lost is made anew.
    async fn beat(&self, node: usize) {
        let counters = &self.nodes[node].0;
        until("Redis is reached", async || {
            counters.beat().await;
            counters.reaches_failures()
        })
        .await;
    }
}

impl Counts for Shared<'_> {
    async fn book(&mut self, counts: &[FailureCount]) -> Result<Attempt, i64> {
        self.book_at((self.latest % 2) as usize, counts).await
    }

    async fn take_back(&mut self, Attempt { counts, booking, node }: Attempt, forgives: bool) {
        let (counters, failures) = &mut self.nodes[node];
        failures.take_back(&counts, booking);
        if forgives {
            failures.forget(&counts[0]);
        }
        counters.take_back_failure(&RULE, &counts, booking, forgives).await.unwrap();
    }

    async fn watched(&mut self, kind: &'static str) -> usize {
        let base = format!("sluice:{}:{{failures}}", self.settings.installation);
        let (mut most, mut sizes) = (0, Vec::new());
        for (command, key) in
            [("ZCARD", format!("{base}:z:{kind}")), ("HLEN", format!("{base}:{kind}"))]
        {
            for server in &self.redis.servers {
                // Others of a cluster have other slots.
                if let Ok(Value::Int(size)) = server.try_ask(&[command, &key]).await {
                    most = size as usize;
                    sizes.push(size);
                }
            }
        }
        assert!(sizes.len() == 2 && sizes[0] == sizes[1], "{sizes:?}");
        most
    }

    fn clock(&self) -> &Clock {
        &self.settings.clock
    }
}

fn start() -> Timestamp {
    Timestamp::parse("2026-11-15T12:00:00Z").unwrap()
}

fn memory() -> Memory {
    Memory { clock: Clock::fixed(start()), failures: Failures::new(RULE), latest: 0 }
}

async fn shared(redis: &Redis, number: i64) -> Shared<'_> {
    let mut settings = settings(&redis.url, 1, &Clock::fixed(start()));
    settings.installation = format!("test-{number}");
    let other = Settings { node: domain::ids::NodeId(2), ..settings.clone() };
    let open =
        async |settings: Settings| (Counters::quiet(settings).await.unwrap(), Failures::new(RULE));
    let nodes = [open(settings.clone()).await, open(other).await];
    Shared { redis, settings, nodes, latest: 0 }
}

fn pass(counts: &impl Counts, seconds: i64) {
    counts.clock().set(Timestamp(counts.clock().now().0 + seconds * SECOND));
}

fn count(kind: &'static str, number: u64) -> FailureCount {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&number.to_le_bytes());
    FailureCount { kind, name }
}

fn account(number: u64) -> FailureCount {
    count("account", number)
}

fn network(number: u64) -> FailureCount {
    count("network", number)
}

async fn the_seventh_try_has_to_wait(mut counts: impl Counts) {
    for _ in 0..6 {
        counts.book(&[account(1), network(1)]).await.unwrap();
        pass(&counts, 60);
    }
    for _ in 0..3 {
        let waits = counts.book(&[account(1), network(2)]).await.err();
        assert_eq!(waits, Some(540), "and one that is refused is not counted");
    }
    assert_eq!(counts.book(&[account(2), network(1)]).await.err(), Some(540));
    counts.book(&[account(2), network(2)]).await.unwrap();
    pass(&counts, 539);
    assert_eq!(counts.book(&[account(1), network(2)]).await.err(), Some(1));
    pass(&counts, 1);
    counts.book(&[account(1), network(2)]).await.unwrap();
    assert_eq!(counts.book(&[account(1), network(3)]).await.err(), Some(60));
}

async fn the_first_full_count_tells_the_wait(mut counts: impl Counts) {
    for _ in 0..6 {
        counts.book(&[account(1)]).await.unwrap();
    }
    pass(&counts, 60);
    for _ in 0..6 {
        counts.book(&[network(1)]).await.unwrap();
    }
    assert_eq!(counts.book(&[account(1), network(1)]).await.err(), Some(840));
    assert_eq!(counts.book(&[network(1), account(1)]).await.err(), Some(900));
}

async fn an_attempt_that_is_taken_back_is_no_failure(mut counts: impl Counts) {
    let both = [account(1), network(1)];
    for _ in 0..20 {
        let first = counts.book(&both).await.unwrap();
        let then = counts.book(&both).await.unwrap();
        counts.take_back(first, false).await;
        counts.take_back(then, false).await;
    }
    let mut booked = Vec::new();
    for _ in 0..6 {
        booked.push(counts.book(&both).await.unwrap());
    }
    assert!(counts.book(&both).await.is_err(), "attempts at the same time have no more room");
    counts.take_back(booked.remove(3), false).await;
    counts.book(&both).await.unwrap();
    assert!(counts.book(&both).await.is_err(), "it makes room for one");
}

async fn a_success_forgives_the_account_and_one_try_of_the_network(mut counts: impl Counts) {
    let both = [account(1), network(1)];
    for _ in 0..5 {
        counts.book(&both).await.unwrap();
        pass(&counts, 1);
    }
    let right = counts.book(&both).await.unwrap();
    counts.take_back(right, true).await;
    pass(&counts, 1);
    counts.book(&both).await.unwrap();
    assert_eq!(counts.book(&both).await.err(), Some(894), "the network has failed six times");
    for _ in 0..5 {
        counts.book(&[account(1), network(2)]).await.unwrap();
    }
    assert!(counts.book(&[account(1), network(3)]).await.is_err());
}

async fn a_clock_that_went_back_locks_nobody_out_for_long(mut counts: impl Counts) {
    pass(&counts, 365 * 24 * 3600);
    for _ in 0..6 {
        counts.book(&[account(1)]).await.unwrap();
    }
    counts.clock().set(start());
    assert_eq!(counts.book(&[account(1)]).await.err(), Some(900));
    pass(&counts, 15 * 60);
    counts.book(&[account(1)]).await.unwrap();
}

async fn a_flood_hides_nobody(mut counts: impl Counts) {
    for _ in 0..6 {
        counts.book(&[account(1)]).await.unwrap();
    }
    for number in 0..3 * RULE.watched as u64 {
        pass(&counts, 1);
        counts.book(&[count("stranger", number)]).await.unwrap();
    }
    assert!(counts.watched("stranger").await <= RULE.watched);
    assert!(counts.book(&[account(1)]).await.is_err(), "an account is remembered");
    for _ in 0..6 {
        counts.book(&[count("stranger", 7777)]).await.unwrap();
    }
    assert!(counts.book(&[count("stranger", 7777)]).await.is_err(), "so is who comes now");
    pass(&counts, 15 * 60);
    counts.book(&[account(1)]).await.unwrap();
}

on_all!(
    the_seventh_try_has_to_wait,
    the_first_full_count_tells_the_wait,
    an_attempt_that_is_taken_back_is_no_failure,
    a_success_forgives_the_account_and_one_try_of_the_network,
    a_clock_that_went_back_locks_nobody_out_for_long,
    a_flood_hides_nobody,
);

#[tokio::test]
async fn a_redis_that_has_lost_all_learns_it_from_the_nodes() {
    if !is_there() {
        return;
    }
    let redis = Redis::alone().await;
    let mut counts = shared(&redis, 1).await;
    for node in [0, 0, 0, 1, 1] {
        counts.book_at(node, &[account(1)]).await.unwrap();
        pass(&counts, 1);
    }
    redis.flush().await;
    counts.book_at(0, &[account(1)]).await.unwrap();
    counts.book_at(1, &[account(1)]).await.unwrap_err();
    // A failure that was forgiven at one node does not come back from another, while Redis knows it.
    pass(&counts, 15 * 60);
    for node in [0, 1, 0, 1, 0] {
        counts.book_at(node, &[account(1)]).await.unwrap();
        pass(&counts, 1);
    }
    let right = counts.book_at(1, &[account(1)]).await.unwrap();
    counts.take_back(right, true).await;
    pass(&counts, 1);
    for node in [0, 1, 0, 1, 0, 1] {
        counts.book_at(node, &[account(1)]).await.unwrap();
    }
    counts.book_at(0, &[account(1)]).await.unwrap_err();
}

#[tokio::test]
async fn a_node_that_has_heard_of_it_teaches_no_failure_that_another_has_forgiven() {
    if !is_there() {
        return;
    }
    let redis = Redis::alone().await;
    let mut counts = shared(&redis, 1).await;
    for hears_of_it in [false, true] {
        pass(&counts, 15 * 60);
        for _ in 0..3 {
            counts.book_at(0, &[account(1)]).await.unwrap();
            pass(&counts, 1);
        }
        let right = counts.book_at(1, &[account(1)]).await.unwrap();
        counts.take_back(right, true).await;
        pass(&counts, 1);
        if hears_of_it {
            counts.book_at(0, &[account(1)]).await.unwrap();
        }
        redis.flush().await;
        // Without it Redis learns the three of before again.
        let left = if hears_of_it { 5 } else { 3 };
        for _ in 0..left {
            counts.book_at(0, &[account(1)]).await.unwrap();
        }
        counts.book_at(0, &[account(1)]).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_success_that_redis_could_not_be_told_of_forgives_what_was_before_it_once_it_can() {
    if !is_there() {
        return;
    }
    let redis = Redis::alone().await;
    let mut counts = shared(&redis, 1).await;
    let both = [account(1), network(1)];
    for _ in 0..3 {
        counts.book_at(0, &both).await.unwrap();
        pass(&counts, 1);
    }
    let right = counts.book_at(1, &both).await.unwrap();
    // All connections are lost.
    redis.servers[0].ask(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    counts.take_back(right, true).await;
    pass(&counts, 1);
    counts.beat(0).await;
    counts.book_at(0, &both).await.unwrap();
    pass(&counts, 1);
    counts.beat(1).await;
    for address in 2..7 {
        counts.book_at(0, &[account(1), network(address)]).await.unwrap();
    }
    counts.book_at(1, &[account(1), network(7)]).await.unwrap_err();
    // The network has failed four times.
    for number in 2..4 {
        counts.book_at(1, &[account(number), network(1)]).await.unwrap();
    }
    counts.book_at(1, &[account(4), network(1)]).await.unwrap_err();
}

#[tokio::test]
async fn an_attempt_that_arrives_late_is_not_booked() {
    if !is_there() {
        return;
    }
    let redis = Redis::alone().await;
    let [one, other] = [
        quiet(&redis.url, 1, &Clock::system()).await,
        quiet(&redis.url, 2, &Clock::system()).await,
    ];
    let own = [OwnFailures { count: account(1), booked: Vec::new() }];
    redis.servers[0].ask(&["CLIENT", "PAUSE", "1000", "ALL"]).await;
    let late = one.book_failure(&RULE, &own, 1).await;
    assert!(matches!(late, Err(Failure::Away(_))), "{late:?}");
    // It is answered once the server has done what came before.
    until("it answers", async || redis.servers[0].try_ask(&["PING"]).await.is_ok()).await;
    let kept = redis.servers[0].ask(&["EXISTS", "sluice:test:{failures}:account"]).await;
    assert_eq!(kept, Value::Int(0));
    until("it is booked", async || {
        other.beat().await;
        other.book_failure(&RULE, &own, 1).await.is_ok()
    })
    .await;
    let kept = redis.servers[0].ask(&["EXISTS", "sluice:test:{failures}:account"]).await;
    assert_eq!(kept, Value::Int(1), "that is where it would be");
}

#[tokio::test]
async fn what_is_kept_is_bounded_in_time_and_says_nothing_of_whom_it_is() {
    if !is_there() {
        return;
    }
    let redis = Redis::alone().await;
    let mut counts = shared(&redis, 1).await;
    counts.book(&[account(1), network(1)]).await.unwrap();
    let Value::Array(keys) = redis.servers[0].ask(&["KEYS", "*{failures}*"]).await else {
        panic!("there are keys");
    };
    assert_eq!(keys.len(), 4, "{keys:?}");
    for key in keys {
        let key = String::from_utf8(match key {
            Value::BulkString(key) => key,
            other => panic!("{other:?}"),
        });
        let Value::Int(left) = redis.servers[0].ask(&["TTL", &key.unwrap()]).await else {
            panic!("it has a time to live");
        };
        assert!((900..=960).contains(&left), "{left}");
    }
    // Every count that is over goes with the next of its kind.
    pass(&counts, 15 * 60);
    counts.book(&[account(2)]).await.unwrap();
    assert_eq!(counts.watched("account").await, 1);
}
