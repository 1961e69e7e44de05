//! One suite of behaviour for what one gateway counts in memory, a Redis alone, and a cluster.

use std::time::Duration;

use counters::{Admission, Bounds, Counters, HoldId, Request, Reserved, Spend};
use domain::ids::{KeyId, ProjectId};
use domain::money::Usd;
use domain::settings::Limits;
use domain::time::{Clock, HOUR, SECOND, Timestamp};
use limits::{KeyWindows, MonthSpend, RateExceeded};

use crate::servers::{Redis, is_there, quiet};

/// Every test has a project of its own.
const SPREAD: (&str, usize) = ("sluice:test:{p*", 3);

/// What a suite asks of counters of one key and its project, on a clock that it sets.
trait Counts {
    async fn gate(&mut self, limits: &Limits, spend: Spend) -> Admission;
    /// The requests that are left of the hour, and the seconds until there is one more. Nothing is counted.
    async fn left(&mut self, limits: &Limits) -> (u64, u64);
    async fn reserve(&mut self, amount: Usd) -> bool;
    /// Settles the oldest reservation.
    async fn settle(&mut self, cost: Usd) -> Usd;
    /// Gives the oldest reservation back.
    async fn release(&mut self);
    async fn reset(&mut self);
    async fn bound(&mut self, cap: Option<Usd>, budget: Option<Usd>);
    fn clock(&self) -> &Clock;
}

struct Memory {
    clock: Clock,
    windows: KeyWindows,
    month: MonthSpend,
    cap: Option<Usd>,
    budget: Option<Usd>,
    held: Vec<Usd>,
}

impl Counts for Memory {
    async fn gate(&mut self, limits: &Limits, spend: Spend) -> Admission {
        let now = self.clock.now();
        self.windows.set_limits(limits);
        if self.windows.record_attempt(now) {
            return Admission::Loop;
        }
        if let Err(RateExceeded { retry_after }) = self.windows.admit(now) {
            return Admission::RateExceeded { retry_after };
        }
        match spend {
            Spend::Checked if self.budget.is_some_and(|all| self.month.total(now) >= all) => {
                Admission::BudgetSpent
            }
            Spend::Checked if self.cap.is_some_and(|all| self.windows.spent(now) >= all) => {
                Admission::CapSpent
            }
            Spend::None | Spend::Checked => Admission::Admitted,
        }
    }

    async fn left(&mut self, limits: &Limits) -> (u64, u64) {
        self.windows.set_limits(limits);
        let quota = self.windows.quota(self.clock.now()).unwrap();
        (quota.remaining, quota.reset)
    }

    async fn reserve(&mut self, amount: Usd) -> bool {
        let now = self.clock.now();
        let month = self.month.total(now) + self.month.set_aside.total();
        let hour = self.windows.spent(now) + self.windows.set_aside.total();
        let fits = self.budget.is_none_or(|all| month + amount <= all)
            && self.cap.is_none_or(|all| hour + amount <= all);
        if fits {
            self.month.set_aside.add(amount);
            self.windows.set_aside.add(amount);
            self.held.push(amount);
        }
        fits
    }

    async fn settle(&mut self, cost: Usd) -> Usd {
        self.release().await;
        self.month.add(self.clock.now(), cost);
        self.windows.settle(self.clock.now(), cost)
    }

    async fn release(&mut self) {
        let amount = self.held.remove(0);
        self.month.set_aside.give_back(amount);
        self.windows.set_aside.give_back(amount);
    }

    async fn reset(&mut self) {
        self.windows.reset();
    }

    async fn bound(&mut self, cap: Option<Usd>, budget: Option<Usd>) {
        (self.cap, self.budget) = (cap, budget);
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Two nodes that count as one: each is asked in turn.
struct Shared {
    clock: Clock,
    nodes: [Counters; 2],
    asked: usize,
    bounds: Bounds,
    held: Vec<(usize, HoldId)>,
}

impl Shared {
    fn next(&mut self) -> (usize, Counters) {
        self.asked += 1;
        let node = self.asked % 2;
        (node, self.nodes[node].clone())
    }
}

impl Counts for Shared {
    async fn gate(&mut self, limits: &Limits, spend: Spend) -> Admission {
        let window = limits.loop_window_seconds.cast_signed() * SECOND;
        let loops = limits.loop_requests.map(|limit| (limit, window));
        let per_hour = limits.requests_per_hour;
        let request = Request { loops, per_hour, is_counted: true, spend };
        self.next().1.gate(&self.bounds, request).await.unwrap().admission
    }

    async fn left(&mut self, limits: &Limits) -> (u64, u64) {
        let per_hour = limits.requests_per_hour;
        let request = Request { loops: None, per_hour, is_counted: false, spend: Spend::None };
        let gate = self.next().1.gate(&self.bounds, request).await.unwrap();
        assert_eq!(gate.admission, Admission::Admitted, "it is not judged");
        (per_hour.unwrap() - gate.requests, gate.reset)
    }

    async fn reserve(&mut self, amount: Usd) -> bool {
        let (node, counters) = self.next();
        match counters.reserve(&self.bounds, amount).await.unwrap() {
            Reserved::Granted(hold, _) => {
                self.held.push((node, hold));
                true
            }
            Reserved::Full(_) => false,
        }
    }

    async fn settle(&mut self, cost: Usd) -> Usd {
        let (node, hold) = self.held.remove(0);
        let (counters, now) = (&self.nodes[node], self.clock.now());
        let settled = counters.settle(&self.bounds, &[hold], cost, now, Duration::ZERO).await;
        let settled = settled.unwrap();
        // The answer may have been lost on the way.
        let again = counters.settle(&self.bounds, &[hold], cost, now, Duration::ZERO).await;
        assert_eq!(again.unwrap(), settled, "a call counts once");
        settled.hour_spent
    }

    async fn release(&mut self) {
        let (node, hold) = self.held.remove(0);
        for _ in 0..2 {
            self.nodes[node].release(self.bounds.project, &[hold]).await.unwrap();
        }
    }

    async fn reset(&mut self) {
        self.bounds.reset_at = Some(self.clock.now());
    }

    async fn bound(&mut self, cap: Option<Usd>, budget: Option<Usd>) {
        (self.bounds.cap, self.bounds.budget) = (cap, budget);
        let project = self.bounds.project;
        let generation = self.nodes[0].join(project).await.unwrap();
        self.nodes[0].open_project(project, &generation, true, &[self.bounds.key]).await.unwrap();
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}

fn start() -> Timestamp {
    Timestamp::parse("2026-11-15T12:00:00Z").unwrap()
}

fn memory() -> Memory {
    Memory {
        clock: Clock::fixed(start()),
        windows: KeyWindows::new(&Limits::default()),
        month: MonthSpend::default(),
        cap: None,
        budget: None,
        held: Vec::new(),
    }
}

async fn shared(redis: &Redis, project: i64) -> Shared {
    let clock = Clock::fixed(start());
    let nodes = [quiet(&redis.url, 1, &clock).await, quiet(&redis.url, 2, &clock).await];
    let bounds = Bounds {
        project: ProjectId(project),
        key: KeyId(0xaa),
        reset_at: None,
        cap: None,
        budget: None,
    };
    Shared { clock, nodes, asked: 0, bounds, held: Vec::new() }
}

fn none() -> Limits {
    Limits { requests_per_hour: None, loop_requests: None, ..Limits::default() }
}

fn pass(counts: &impl Counts, micros: i64) {
    counts.clock().set(Timestamp(counts.clock().now().0 + micros));
}

async fn the_51st_request_in_ten_seconds_is_a_loop(mut counts: impl Counts) {
    let limits = Limits { requests_per_hour: None, ..Limits::default() };
    for _ in 0..50 {
        assert_eq!(counts.gate(&limits, Spend::None).await, Admission::Admitted);
        pass(&counts, SECOND / 10);
    }
    for _ in 0..60 {
        assert_eq!(counts.gate(&limits, Spend::None).await, Admission::Loop);
    }
    counts.reset().await;
    pass(&counts, 1);
    assert_eq!(counts.gate(&limits, Spend::None).await, Admission::Admitted);
    // Fifty in every ten seconds are none.
    for _ in 0..200 {
        pass(&counts, SECOND / 5);
        assert_eq!(counts.gate(&limits, Spend::None).await, Admission::Admitted);
    }
}

async fn the_1001st_request_in_an_hour_is_refused(mut counts: impl Counts) {
    let limits = Limits { loop_requests: None, ..Limits::default() };
    for _ in 0..1000 {
        assert_eq!(counts.gate(&limits, Spend::None).await, Admission::Admitted);
        pass(&counts, SECOND);
    }
    let refused = Admission::RateExceeded { retry_after: 2_600 };
    assert_eq!(counts.gate(&limits, Spend::None).await, refused, "the first leaves in 2,600 s");
    pass(&counts, 2_600 * SECOND - 1);
    let refused = Admission::RateExceeded { retry_after: 1 };
    assert_eq!(counts.gate(&limits, Spend::None).await, refused, "a refused one does not count");
    pass(&counts, 1);
    assert_eq!(counts.gate(&limits, Spend::None).await, Admission::Admitted);
    assert_eq!(counts.gate(&limits, Spend::None).await, refused);
    // A new limit holds for what was counted.
    let lower = Limits { requests_per_hour: Some(10), ..limits.clone() };
    let Admission::RateExceeded { retry_after } = counts.gate(&lower, Spend::None).await else {
        panic!("it is refused");
    };
    assert_eq!(retry_after, 991);
}

async fn what_is_left_is_told_and_counts_nothing(mut counts: impl Counts) {
    let limits = Limits { requests_per_hour: Some(3), loop_requests: Some(4), ..Limits::default() };
    assert_eq!(counts.left(&limits).await, (3, 0));
    for left in [2, 1, 0] {
        assert_eq!(counts.gate(&limits, Spend::None).await, Admission::Admitted);
        pass(&counts, 1_000_000);
        for _ in 0..2 {
            assert_eq!(counts.left(&limits).await, (left, 3_597 + left));
        }
    }
    // A request that is a loop counts no more than one that is too many.
    assert!(matches!(counts.gate(&limits, Spend::None).await, Admission::RateExceeded { .. }));
    assert_eq!(counts.gate(&limits, Spend::None).await, Admission::Loop);
    assert_eq!(counts.left(&limits).await, (0, 3_597));
    pass(&counts, HOUR - 3 * SECOND);
    assert_eq!(counts.left(&limits).await, (1, 1));
    let higher = Limits { loop_requests: None, ..limits };
    assert_eq!(counts.gate(&higher, Spend::None).await, Admission::Admitted);
    assert_eq!(counts.left(&higher).await, (0, 1));
}

async fn a_huge_limit_takes_little_memory_and_is_exact_but_for_a_second(mut counts: impl Counts) {
    let limits =
        Limits { loop_requests: None, requests_per_hour: Some(10_010), ..Limits::default() };
    for _ in 0..10_010 {
        assert_eq!(counts.gate(&limits, Spend::None).await, Admission::Admitted);
        pass(&counts, 1_000);
    }
    assert!(matches!(counts.gate(&limits, Spend::None).await, Admission::RateExceeded { .. }));
    pass(&counts, HOUR - 20 * SECOND);
    assert!(matches!(counts.gate(&limits, Spend::None).await, Admission::RateExceeded { .. }));
    pass(&counts, 21 * SECOND);
    assert_eq!(counts.gate(&limits, Spend::None).await, Admission::Admitted);
}

async fn a_cap_holds_for_what_is_spent_and_reserved(mut counts: impl Counts) {
    // More than the doubles of Lua hold exactly.
    for unit in [1, 800_000_000_000_000_003] {
        let cap = Usd(unit * 10);
        counts.bound(Some(cap), None).await;
        assert!(counts.reserve(Usd(unit * 4)).await);
        assert!(counts.reserve(Usd(unit * 6)).await);
        assert!(!counts.reserve(Usd(1)).await, "all of it is reserved");
        assert_eq!(counts.gate(&none(), Spend::Checked).await, Admission::Admitted);
        assert_eq!(counts.settle(Usd(unit)).await, Usd(unit));
        assert!(!counts.reserve(Usd(unit * 3 + 1)).await);
        assert!(counts.reserve(Usd(unit * 3)).await);
        counts.release().await;
        assert!(counts.reserve(Usd(unit * 6)).await);
        pass(&counts, SECOND);
        assert_eq!(counts.settle(Usd(unit * 3)).await, Usd(unit * 4));
        assert_eq!(counts.settle(Usd(unit * 6)).await, Usd(unit * 10));
        assert_eq!(counts.gate(&none(), Spend::Checked).await, Admission::CapSpent);
        assert_eq!(counts.gate(&none(), Spend::None).await, Admission::Admitted);
        // The first amount leaves the hour before the others.
        pass(&counts, HOUR);
        assert_eq!(counts.gate(&none(), Spend::Checked).await, Admission::Admitted);
        assert!(!counts.reserve(Usd(unit + 1)).await);
        assert!(counts.reserve(Usd(unit)).await);
        counts.release().await;
        pass(&counts, SECOND);
        assert!(counts.reserve(cap).await);
        counts.release().await;
    }
}

async fn a_reset_is_a_fresh_start(mut counts: impl Counts) {
    counts.bound(Some(Usd(10)), None).await;
    assert!(counts.reserve(Usd(4)).await);
    assert!(counts.reserve(Usd(6)).await);
    counts.settle(Usd(4)).await;
    counts.reset().await;
    assert_eq!(counts.gate(&none(), Spend::Checked).await, Admission::Admitted);
    assert!(counts.reserve(Usd(4)).await, "what runs stays reserved");
    assert!(!counts.reserve(Usd(1)).await);
    pass(&counts, SECOND);
    assert_eq!(counts.settle(Usd(6)).await, Usd(6));
    assert_eq!(counts.settle(Usd(4)).await, Usd(10));
    assert_eq!(counts.gate(&none(), Spend::Checked).await, Admission::CapSpent);
}

async fn a_budget_holds_for_a_calendar_month(mut counts: impl Counts) {
    counts.bound(None, Some(Usd(10))).await;
    assert!(counts.reserve(Usd(10)).await);
    assert!(!counts.reserve(Usd(1)).await);
    counts.settle(Usd(10)).await;
    assert_eq!(counts.gate(&none(), Spend::Checked).await, Admission::BudgetSpent);
    let at = |text: &str| Timestamp::parse(text).unwrap();
    counts.clock().set(at("2026-11-30T23:59:59.999Z"));
    assert_eq!(counts.gate(&none(), Spend::Checked).await, Admission::BudgetSpent);
    for month in ["2026-12-01", "2027-01-31T23:59:59Z", "2027-02-01", "2028-02-29", "2028-03-01"] {
        counts.clock().set(at(month));
        // The server forgets a project that nobody has asked about for two days.
        counts.bound(None, Some(Usd(10))).await;
        assert_eq!(counts.gate(&none(), Spend::Checked).await, Admission::Admitted, "{month}");
        assert!(counts.reserve(Usd(7)).await);
        counts.settle(Usd(7)).await;
        assert!(!counts.reserve(Usd(4)).await, "{month}");
    }
    // A clock that steps over the end of a month and back frees nothing.
    counts.clock().set(at("2028-02-29T23:00:00Z"));
    assert!(!counts.reserve(Usd(4)).await);
}

on_all!(
    the_51st_request_in_ten_seconds_is_a_loop,
    the_1001st_request_in_an_hour_is_refused,
    what_is_left_is_told_and_counts_nothing,
    a_huge_limit_takes_little_memory_and_is_exact_but_for_a_second,
    a_cap_holds_for_what_is_spent_and_reserved,
    a_reset_is_a_fresh_start,
    a_budget_holds_for_a_calendar_month,
);
