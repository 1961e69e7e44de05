//! The truth that a simulation keeps: the spend, the calls that run, what bounds them, and the news that Redis lacks.

use std::collections::BTreeMap;

use counters::{Bounds, Counters, Generation, HoldId, Request, Reserved, Spend};
use domain::ids::{KeyId, NodeId, ProjectId};
use domain::money::Usd;
use domain::time::{Clock, HOUR, SECOND, Timestamp};

use crate::servers::{Redis, quiet};

pub const PROJECTS: [ProjectId; 2] = [ProjectId(1), ProjectId(2)];
pub const KEYS: [KeyId; 2] = [KeyId(0xa), KeyId(0xb)];
const CAP: Usd = Usd(1_000);
const BUDGET: Usd = Usd(20_000);

/// A small generator: the same numbers for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// The bounds of keys and projects, and the last resets of keys: as they are, or as a node knows them.
#[derive(Clone)]
pub struct Known {
    pub caps: [Option<Usd>; 4],
    pub budgets: [Option<Usd>; 2],
    pub resets: [Option<Timestamp>; 4],
}

/// A node, which learns of changes some time after they were made.
pub struct Node {
    pub id: NodeId,
    pub counters: Counters,
    pub knows: Known,
}

impl Node {
    /// The bounds of a key, as far as the node knows them.
    pub fn bounds(&self, place: usize) -> Bounds {
        Bounds {
            project: project(place),
            key: KEYS[place % 2],
            reset_at: self.knows.resets[place],
            cap: self.knows.caps[place],
            budget: self.knows.budgets[place / 2],
        }
    }
}

/// A call that runs.
pub struct Running {
    /// The place of its key.
    pub place: usize,
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

/// The ledger as it was read.
pub struct ReadLedger {
    pub entries: Vec<Entry>,
    /// The resets of keys, before which nothing counts.
    pub resets: [Option<Timestamp>; 4],
    /// Those that the node knew of.
    pub known: [Option<Timestamp>; 4],
}

/// A project that a node builds anew, and how far it is.
pub struct Rebuild {
    pub node: usize,
    pub project: ProjectId,
    pub generation: Generation,
    pub ledger: Option<ReadLedger>,
    /// Calls of nodes that are gone which the ledger has and Redis has not been told of.
    pub uncounted: Vec<Entry>,
    pub is_raised: bool,
}

pub struct World {
    pub redis: Redis,
    pub clock: Clock,
    pub random: Random,
    pub nodes: Vec<Node>,
    /// The bounds and resets that hold, whether or not a node knows them.
    pub holds: Known,
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
    pub changed: u64,
    /// Caps and budgets that came or went.
    pub toggled: u64,
}

/// The project of a key by its place.
pub fn project(place: usize) -> ProjectId {
    PROJECTS[place / 2]
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
            holds: Known { caps: [Some(CAP); 4], budgets: [Some(BUDGET); 2], resets: [None; 4] },
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
            changed: 0,
            toggled: 0,
        };
        for _ in 0..3 {
            world.add_node().await;
        }
        world
    }

    pub async fn add_node(&mut self) {
        let node = self.next_node;
        self.next_node += 1;
        let counters = quiet(&self.redis.url, node, &self.clock).await;
        self.nodes.push(Node { id: NodeId(node), counters, knows: self.holds.clone() });
    }

    /// A cap or a budget that is there goes up or down, or a key is reset, at a node; the others learn it later.
    pub fn change(&mut self) {
        let (node, place) =
            (self.random.below(self.nodes.len() as u64) as usize, self.random.below(4));
        let (place, now) = (place as usize, self.clock.now());
        match self.random.below(4) {
            0 => self.holds.resets[place] = Some(now),
            1 => {
                let budget = Usd(5_000 + self.random.below(30_000).cast_signed());
                let budgets = &mut self.holds.budgets[place / 2];
                *budgets = budgets.map(|_| budget);
            }
            _ => {
                let cap = Usd(self.random.below(2_000).cast_signed());
                let caps = &mut self.holds.caps[place];
                *caps = caps.map(|_| cap);
            }
        }
        self.nodes[node].knows = self.holds.clone();
        self.changed += 1;
    }

    /// The cap of a key comes or goes, at all nodes at once.
    pub fn set_cap(&mut self, place: usize, cap: Option<Usd>) {
        self.holds.caps[place] = cap;
        self.nodes.iter_mut().for_each(|node| node.knows.caps[place] = cap);
    }

    /// The budget of a project likewise.
    pub fn set_budget(&mut self, place: usize, budget: Option<Usd>) {
        self.holds.budgets[place / 2] = budget;
        self.nodes.iter_mut().for_each(|node| node.knows.budgets[place / 2] = budget);
    }

    /// All that may be bounded is bounded from now on.
    pub fn bound_all(&mut self) {
        for place in 0..4 {
            if self.holds.caps[place].is_none() {
                self.set_cap(place, Some(CAP));
            }
            if self.holds.budgets[place / 2].is_none() {
                self.set_budget(place, Some(BUDGET));
            }
        }
    }

    /// A cap that is there goes, or one that is not comes; or a budget.
    pub fn toggle(&mut self, place: usize) {
        if self.random.below(2) == 0 {
            let cap = self.holds.caps[place];
            self.set_cap(place, if cap.is_some() { None } else { Some(CAP) });
        } else {
            let budget = self.holds.budgets[place / 2];
            self.set_budget(place, if budget.is_some() { None } else { Some(BUDGET) });
        }
        self.toggled += 1;
    }

    /// Whether an amount that was spent counts since the last reset of its key. Redis counts by seconds, and forgets
    /// that of the reset.
    fn counts_since_reset(&self, (of, at, _): &Entry) -> bool {
        self.holds.resets[*of].is_none_or(|reset| at.unix_seconds() > reset.unix_seconds())
    }

    /// What was truly spent, and what calls may still cost: by a key in the hour, and by its project in the month.
    pub fn truth(&self, key: usize) -> (Usd, Usd) {
        let now = self.clock.now();
        let oldest = now.unix_seconds() - HOUR / SECOND;
        let unstored = self.ended.iter().filter(|ended| !ended.is_stored);
        let unstored = unstored.map(|ended| (ended.call.place, ended.at, ended.cost));
        let left = self.left.iter().filter_map(|(of, cost, at)| Some((*of, (*at)?, *cost)));
        let spent: Vec<Entry> = self.ledger.iter().copied().chain(unstored).chain(left).collect();
        let runs = self.running.iter().map(|call| (call.place, call.amount));
        let left = self.left.iter().filter(|(.., at)| at.is_none());
        let runs: Vec<_> = runs.chain(left.map(|(of, amount, _)| (*of, *amount))).collect();
        let of_hour = spent.iter().filter(|(of, at, _)| *of == key && at.unix_seconds() >= oldest);
        let of_hour = of_hour.filter(|entry| self.counts_since_reset(entry));
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
    pub fn seconds(&self, ledger: &ReadLedger, key: usize) -> Vec<(i64, Usd)> {
        let mut seconds: BTreeMap<i64, Usd> = BTreeMap::new();
        // The database leaves out what was before the last reset, to the microsecond.
        let counts = |at: Timestamp| ledger.resets[key].is_none_or(|reset| at >= reset);
        let its = ledger.entries.iter().filter(|(of, at, _)| *of == key && counts(*at));
        for (_, at, cost) in its {
            *seconds.entry(at.unix_seconds()).or_default() += *cost;
        }
        let oldest = self.clock.now().unix_seconds() - HOUR / SECOND;
        seconds.into_iter().filter(|(second, _)| *second >= oldest).collect()
    }

    /// Whether the calls of every key may spend, or are refused for what was spent.
    pub async fn are_open(&self) -> bool {
        let (spend, is_counted) = (Spend::Checked, false);
        let request = Request { loops: None, per_hour: None, is_counted, spend };
        let node = &self.nodes[0];
        for place in 0..4 {
            if node.counters.gate(&node.bounds(place), request).await.is_err() {
                return false;
            }
        }
        true
    }

    /// A key that is reset may spend all of its cap at once, however often that was changed.
    pub async fn free_all(&mut self) {
        self.clock.set(Timestamp(self.clock.now().0 + 2 * SECOND));
        for place in 0..4 {
            self.holds.resets[place] = Some(self.clock.now());
            self.holds.budgets[place / 2] = Some(Usd(i64::MAX / 2));
            self.nodes[0].knows = self.holds.clone();
            let bounds = self.nodes[0].bounds(place);
            let cap = bounds.cap.unwrap();
            let whole = self.nodes[0].counters.reserve(&bounds, cap).await.unwrap();
            let Reserved::Granted(hold, _) = whole else {
                panic!("{whole:?} of {cap} after a reset");
            };
            self.nodes[0].counters.release(bounds.project, &[hold]).await.unwrap();
        }
    }
}
