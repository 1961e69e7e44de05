//! The truth that a simulation keeps: the spend, the calls that run, and the news that Redis lacks.

use std::collections::BTreeMap;

use counters::{Bounds, Counters, Generation, HoldId};
use domain::ids::{KeyId, NodeId, ProjectId};
use domain::money::Usd;
use domain::time::{Clock, HOUR, SECOND, Timestamp};

use crate::servers::{Redis, quiet};

pub const PROJECTS: [ProjectId; 2] = [ProjectId(1), ProjectId(2)];
pub const KEYS: [KeyId; 2] = [KeyId(0xa), KeyId(0xb)];
pub const CAP: Usd = Usd(1_000);
pub const BUDGET: Usd = Usd(20_000);

/// A small generator: the same numbers for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A call that runs.
pub struct Running {
    pub bounds: Bounds,
    pub hold: HoldId,
    pub amount: Usd,
    pub node: usize,
}

/// A call that has ended.
pub struct Ended {
    pub call: Running,
    pub cost: Usd,
    pub at: Timestamp,
    pub is_settled: bool,
    pub is_stored: bool,
}

/// The cost of a call in the ledger: the place of its key, the time, the cost.
pub type Entry = (usize, Timestamp, Usd);

/// A project that a node builds anew, and how far it is.
pub struct Rebuild {
    pub node: usize,
    pub project: ProjectId,
    pub generation: Generation,
    pub ledger: Option<Vec<Entry>>,
    /// Calls of nodes that are gone which the ledger has and Redis has not been told of.
    pub uncounted: Vec<Entry>,
    pub is_raised: bool,
}

pub struct World {
    pub redis: Redis,
    pub clock: Clock,
    pub random: Random,
    pub nodes: Vec<(NodeId, Counters)>,
    pub next_node: i64,
    pub ledger: Vec<Entry>,
    pub running: Vec<Running>,
    /// Calls that Redis was not told of, or that the ledger does not have.
    pub ended: Vec<Ended>,
    pub rebuilds: Vec<Rebuild>,
    /// Nodes that have crashed.
    pub gone: Vec<NodeId>,
    /// The calls that they had; those that had ended with the time, as nothing takes longer than moments to be stored.
    pub left: Vec<(usize, Usd, Option<Timestamp>)>,
    pub uncounted: Vec<Entry>,
    pub granted: u64,
    pub lost: u64,
    pub opened: u64,
}

pub fn bounds(place: usize) -> Bounds {
    Bounds {
        project: PROJECTS[place / 2],
        key: KEYS[place % 2],
        reset_at: None,
        cap: Some(CAP),
        budget: Some(BUDGET),
    }
}

pub fn place(bounds: &Bounds) -> usize {
    let project = PROJECTS.iter().position(|project| *project == bounds.project).unwrap();
    project * 2 + KEYS.iter().position(|key| *key == bounds.key).unwrap()
}

impl World {
    pub async fn new(seed: u64) -> Self {
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
            ended: Vec::new(),
            rebuilds: Vec::new(),
            gone: Vec::new(),
            left: Vec::new(),
            uncounted: Vec::new(),
            granted: 0,
            lost: 0,
            opened: 0,
        };
        for _ in 0..3 {
            world.add_node().await;
        }
        world
    }

    pub async fn add_node(&mut self) {
        let node = self.next_node;
        self.next_node += 1;
        self.nodes.push((NodeId(node), quiet(&self.redis.url, node, &self.clock).await));
    }

    /// What was truly spent, and what calls may still cost: by a key in the hour, and by its project in the month.
    pub fn truth(&self, key: usize) -> (Usd, Usd) {
        let now = self.clock.now();
        let oldest = now.unix_seconds() - HOUR / SECOND;
        let unstored = self.ended.iter().filter(|ended| !ended.is_stored);
        let unstored = unstored.map(|ended| (place(&ended.call.bounds), ended.at, ended.cost));
        let left = self.left.iter().filter_map(|(of, cost, at)| Some((*of, (*at)?, *cost)));
        let spent: Vec<Entry> = self.ledger.iter().copied().chain(unstored).chain(left).collect();
        let runs = self.running.iter().map(|call| (place(&call.bounds), call.amount));
        let left = self.left.iter().filter(|(.., at)| at.is_none());
        let runs: Vec<_> = runs.chain(left.map(|(of, amount, _)| (*of, *amount))).collect();
        let of_hour = spent.iter().filter(|(of, at, _)| *of == key && at.unix_seconds() >= oldest);
        let of_key = runs.iter().filter(|(of, _)| *of == key);
        let hour = of_hour.map(|(.., cost)| *cost).chain(of_key.map(|(_, amount)| *amount)).sum();
        let of_month = spent
            .iter()
            .filter(|(of, at, _)| of / 2 == key / 2 && at.month_start() == now.month_start());
        let of_project = runs.iter().filter(|(of, _)| of / 2 == key / 2);
        let month =
            of_month.map(|(.., cost)| *cost).chain(of_project.map(|(_, amount)| *amount)).sum();
        (hour, month)
    }

    /// The spend of a key by second.
    pub fn seconds(&self, ledger: &[Entry], key: usize) -> Vec<(i64, Usd)> {
        let mut seconds: BTreeMap<i64, Usd> = BTreeMap::new();
        for (_, at, cost) in ledger.iter().filter(|(of, ..)| *of == key) {
            *seconds.entry(at.unix_seconds()).or_default() += *cost;
        }
        let oldest = self.clock.now().unix_seconds() - HOUR / SECOND;
        seconds.into_iter().filter(|(second, _)| *second >= oldest).collect()
    }
}
