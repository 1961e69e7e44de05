//! Random interleavings of everything that can happen to counters: nodes that ask, settle, give back, crash, and a
//! Redis that loses everything, on one thread and a clock that the test sets. The functions run in a real Redis;
//! an oracle knows what was truly spent and what truly runs.

use std::collections::BTreeMap;
use std::time::Duration;

use counters::{Bounds, Counters, Failure, HoldId, Reserved};
use domain::ids::{KeyId, NodeId, ProjectId};
use domain::money::Usd;
use domain::time::{Clock, HOUR, SECOND, Timestamp};

use crate::servers::{Redis, is_there, quiet};

const PROJECTS: [ProjectId; 2] = [ProjectId(1), ProjectId(2)];
const KEYS: [KeyId; 2] = [KeyId(0xa), KeyId(0xb)];
const CAP: Usd = Usd(1_000);
const BUDGET: Usd = Usd::MOST;

/// A small generator: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A call that runs, or whose end Redis has not heard of.
struct Running {
    bounds: Bounds,
    hold: HoldId,
    amount: Usd,
    node: usize,
}

struct World {
    redis: Redis,
    clock: Clock,
    random: Random,
    nodes: Vec<(NodeId, Counters)>,
    next_node: i64,
    /// What was spent: the key's place, the second, the cost.
    ledger: Vec<(usize, i64, Usd)>,
    running: Vec<Running>,
    /// Calls that have ended and are in the ledger, and whose reservations Redis still has.
    owed: Vec<Running>,
    /// Nodes that have crashed, with the calls that they had.
    gone: Vec<(NodeId, Vec<Running>)>,
    granted: u64,
    lost: u64,
}

fn bounds(place: usize) -> Bounds {
    Bounds {
        project: PROJECTS[place / 2],
        key: KEYS[place % 2],
        reset_at: None,
        cap: Some(CAP),
        budget: Some(BUDGET),
    }
}

fn place(bounds: &Bounds) -> usize {
    let project = PROJECTS.iter().position(|project| *project == bounds.project).unwrap();
    project * 2 + KEYS.iter().position(|key| *key == bounds.key).unwrap()
}

impl World {
    async fn new(seed: u64) -> Self {
        let redis = Redis::alone().await;
        let clock = Clock::fixed(Timestamp::parse("2026-11-15T12:00:00Z").unwrap());
        let mut world = Self {
            redis,
            clock,
            random: Random(seed),
            nodes: Vec::new(),
            next_node: 1,
            ledger: Vec::new(),
            running: Vec::new(),
            owed: Vec::new(),
            gone: Vec::new(),
            granted: 0,
            lost: 0,
        };
        for _ in 0..3 {
            world.add_node().await;
        }
        world
    }

    async fn add_node(&mut self) {
        let node = self.next_node;
        self.next_node += 1;
        self.nodes.push((NodeId(node), quiet(&self.redis.url, node, &self.clock).await));
    }

    /// What was truly spent with a key in the hour, and what calls of it may still cost.
    fn truth(&self, key: usize) -> Usd {
        let oldest = self.clock.now().unix_seconds() - HOUR / SECOND;
        let spent = self.ledger.iter().filter(|(of, second, _)| *of == key && *second >= oldest);
        let runs = self.running.iter().chain(self.gone.iter().flat_map(|(_, calls)| calls));
        let runs = runs.filter(|call| place(&call.bounds) == key).map(|call| call.amount);
        spent.map(|(_, _, cost)| *cost).chain(runs).sum()
    }

    fn pick(&mut self) -> usize {
        self.random.below(self.nodes.len() as u64) as usize
    }

    async fn step(&mut self) {
        match self.random.below(100) {
            0..40 => self.reserve().await,
            40..70 => self.settle().await,
            70..78 => self.release().await,
            78..90 => {
                let micros = self.random.below(30 * SECOND.unsigned_abs()).cast_signed();
                self.clock.set(Timestamp(self.clock.now().0 + micros));
                let oldest = self.clock.now().unix_seconds() - HOUR / SECOND;
                self.ledger.retain(|(_, second, _)| *second >= oldest);
            }
            90..95 => {
                let node = self.pick();
                self.nodes[node].1.beat().await;
            }
            95..97 => self.pay().await,
            97 => self.take_over().await,
            98 if self.random.below(4) == 0 => self.crash().await,
            99 if self.random.below(4) == 0 => self.redis.flush().await,
            _ => {}
        }
    }

    async fn reserve(&mut self) {
        let node = self.pick();
        let key = self.random.below(4) as usize;
        let amount = Usd(self.random.below(400).cast_signed());
        match self.nodes[node].1.reserve(&bounds(key), amount).await {
            Ok(Reserved::Granted(hold, _)) => {
                self.granted += 1;
                self.running.push(Running { bounds: bounds(key), hold, amount, node });
                let truth = self.truth(key);
                assert!(truth <= CAP, "{truth} may be spent of {CAP}");
            }
            Ok(Reserved::Full(_)) => {}
            Err(Failure::Lost) => {
                self.lost += 1;
                self.rebuild(node, bounds(key).project).await;
            }
            Err(away) => panic!("{away}"),
        }
    }

    fn take_running(&mut self) -> Option<Running> {
        let count = self.running.len() as u64;
        (count > 0).then(|| {
            let place = self.random.below(count) as usize;
            self.running.swap_remove(place)
        })
    }

    async fn settle(&mut self) {
        let Some(call) = self.take_running() else { return };
        let cost = Usd(self.random.below(call.amount.0.unsigned_abs() + 1).cast_signed());
        let now = self.clock.now();
        let counters = self.nodes[call.node].1.clone();
        let settled = counters.settle(&call.bounds, &[call.hold], cost, now, Duration::ZERO).await;
        self.ledger.push((place(&call.bounds), now.unix_seconds(), cost));
        match settled {
            Ok(_) if self.random.below(10) == 0 => {
                // The answer was lost.
                let holds = [call.hold];
                let again = counters.settle(&call.bounds, &holds, cost, now, Duration::ZERO);
                let _ = again.await;
            }
            Ok(_) => {}
            Err(_) => self.owed.push(call),
        }
    }

    async fn release(&mut self) {
        let Some(call) = self.take_running() else { return };
        let counters = &self.nodes[call.node].1;
        counters.release(call.bounds.project, &[call.hold]).await.unwrap();
    }

    fn seconds(&self, key: usize) -> Vec<(i64, Usd)> {
        let mut seconds: BTreeMap<i64, Usd> = BTreeMap::new();
        for (_, second, cost) in self.ledger.iter().filter(|(of, ..)| *of == key) {
            *seconds.entry(*second).or_default() += *cost;
        }
        let oldest = self.clock.now().unix_seconds() - HOUR / SECOND;
        seconds.into_iter().filter(|(second, _)| *second >= oldest).collect()
    }

    async fn raise(&self, counters: &Counters, project: ProjectId) {
        let mut month = Usd::ZERO;
        for key in (0..4).filter(|key| bounds(*key).project == project) {
            let seconds = self.seconds(key);
            counters.raise_hour(project, bounds(key).key, None, &seconds).await.unwrap();
            month += self.ledger.iter().filter(|(of, ..)| *of == key).map(|(.., cost)| *cost).sum();
        }
        counters.raise_month(project, self.clock.now(), month).await.unwrap();
    }

    /// As a gateway does it, once all that live have added what they hold.
    async fn rebuild(&self, node: usize, project: ProjectId) {
        let counters = &self.nodes[node].1;
        counters.join(project).await.unwrap();
        let joined = counters.rejoined(project).await.unwrap();
        // Calls of nodes that are gone are recorded before.
        if !self.gone.is_empty() || !self.nodes.iter().all(|(node, _)| joined.contains(node)) {
            return;
        }
        self.raise(counters, project).await;
        counters.open_project(project, true, &KEYS).await.unwrap();
    }

    async fn pay(&mut self) {
        for call in std::mem::take(&mut self.owed) {
            let counters = &self.nodes[call.node].1;
            self.raise(counters, call.bounds.project).await;
            counters.release(call.bounds.project, &[call.hold]).await.unwrap();
        }
    }

    async fn crash(&mut self) {
        let at = self.pick();
        let (node, _) = self.nodes.remove(at);
        let (its, others) = self.running.drain(..).partition(|call| call.node == at);
        self.running = others;
        self.gone.push((node, its));
        self.owed.retain(|call| call.node != at);
        for call in self.running.iter_mut().chain(&mut self.owed) {
            call.node -= usize::from(call.node > at);
        }
        self.add_node().await;
    }

    async fn take_over(&mut self) {
        let now = self.clock.now().unix_seconds();
        for (node, calls) in std::mem::take(&mut self.gone) {
            for call in calls {
                let cost = Usd(self.random.below(call.amount.0.unsigned_abs() + 1).cast_signed());
                self.ledger.push((place(&call.bounds), now, cost));
            }
            for project in PROJECTS {
                let counters = &self.nodes[0].1;
                self.raise(counters, project).await;
                counters.forget(project, node).await.unwrap();
            }
        }
    }

    /// Ends everything: nothing may stay reserved.
    async fn end(&mut self) {
        while !self.running.is_empty() {
            self.settle().await;
        }
        self.take_over().await;
        self.pay().await;
        for round in 0..2 {
            for node in 0..self.nodes.len() {
                self.nodes[node].1.beat().await;
            }
            for project in PROJECTS.into_iter().filter(|_| round == 0) {
                self.rebuild(0, project).await;
            }
        }
        for project in PROJECTS {
            let figures = self.nodes[0].1.look(project, &KEYS).await.unwrap();
            assert_eq!(figures.reserved, Usd::ZERO, "{figures:?}");
            for (place, key) in figures.keys.iter().enumerate() {
                let key_place =
                    PROJECTS.iter().position(|each| *each == project).unwrap() * 2 + place;
                assert_eq!(key.reserved, Usd::ZERO);
                assert!(key.spent >= self.truth(key_place), "never less than the ledger");
            }
        }
        assert!(self.nodes.iter().all(|(_, counters)| counters.held() == 0));
    }
}

async fn simulate(seed: u64, steps: u64) {
    println!("seed {seed}, {steps} steps");
    let mut world = World::new(seed).await;
    for _ in 0..steps {
        world.step().await;
    }
    world.end().await;
    println!("granted {}, lost {}", world.granted, world.lost);
    assert!(world.granted > steps / 20 && world.lost > 0, "too little happened");
}

fn seed() -> u64 {
    let given = std::env::var("SLUICE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| Clock::system().now().0.unsigned_abs())
}

#[tokio::test]
async fn nothing_is_overspent_and_nothing_stays_reserved() {
    if is_there() {
        simulate(seed(), 100_000).await;
    }
}

#[tokio::test]
#[ignore = "it takes minutes"]
async fn a_million_steps() {
    simulate(seed(), 1_000_000).await;
}
