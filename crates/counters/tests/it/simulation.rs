//! Random interleavings of everything that can happen to counters: nodes that ask, settle, store, give back, crash,
//! rebuild step by step, and learn late of caps and budgets that go up and down and of keys that are reset, caps and
//! budgets that come and go, and a Redis that loses everything or comes back as it was before, on one thread and a clock
//! that the test sets. The functions run in a real Redis; an oracle knows what was truly spent and what truly runs.

use std::time::Duration;

use counters::{Bounds, Failure, Reserved};
use domain::ids::ProjectId;
use domain::money::Usd;
use domain::time::{Clock, HOUR, SECOND, Timestamp};

use crate::servers::{is_there, until};
use crate::world::{Ended, Entry, KEYS, PROJECTS, ReadLedger, Rebuild, Running, World, project};

/// The ledger has a call by then, in microseconds: see docs/fleet.md about one that takes longer than half a minute.
const STORED_WITHIN: i64 = 20 * SECOND;

impl World {
    fn pick(&mut self) -> usize {
        self.random.below(self.nodes.len() as u64) as usize
    }

    fn one_of(&mut self, chances: u64) -> bool {
        self.random.below(chances) == 0
    }

    async fn step(&mut self) {
        match self.random.below(104) {
            0..34 => self.reserve().await,
            34..54 => self.settle().await,
            54..68 => self.store(),
            68..72 => self.release().await,
            72..80 => self.pass_time(),
            80..86 => {
                let node = self.pick();
                self.nodes[node].counters.beat().await;
            }
            86..93 => self.go_on().await,
            93..95 => self.pay().await,
            95 => self.take_over().await,
            96 => {
                let node = self.pick();
                let project = PROJECTS[self.random.below(2) as usize];
                let _ = self.nodes[node].counters.look(project, &KEYS).await;
            }
            97 if self.one_of(4) => self.crash().await,
            98 if self.one_of(4) => self.redis.flush().await,
            99 if self.one_of(8) => self.restart().await,
            100 if self.one_of(4) => self.toggle_one().await,
            100 => self.change(),
            101..104 => {
                let node = self.pick();
                self.nodes[node].knows = self.holds.clone();
            }
            _ => {}
        }
    }

    fn pass_time(&mut self) {
        let now = self.clock.now();
        let then = if self.one_of(200) {
            now.next_month_start()
        } else {
            Timestamp(now.0 + self.random.below(30 * SECOND.unsigned_abs()).cast_signed())
        };
        // From the last on: one that is stored may leave the list, and the last take its place.
        for at in (0..self.ended.len()).rev() {
            if then.since(self.ended[at].at) >= STORED_WITHIN {
                self.store_at(at);
            }
        }
        self.clock.set(then);
        let (now, hour) = (self.clock.now(), HOUR);
        let is_needed =
            |at: Timestamp| at.0 >= now.0 - 2 * hour || at.month_start() == now.month_start();
        self.ledger.retain(|(_, at, _)| is_needed(*at));
    }

    /// A restart: Redis comes back with what it had when it last wrote it down.
    async fn restart(&mut self) {
        if self.one_of(2) {
            self.redis.servers[0].ask(&["SAVE"]).await;
        } else {
            self.redis.servers[0].kill();
            self.redis.servers[0].restart().await;
        }
    }

    async fn reserve(&mut self) {
        let node = self.pick();
        let key = self.random.below(4) as usize;
        let amount = Usd(self.random.below(400).cast_signed());
        let bounds = self.nodes[node].bounds(key);
        match self.nodes[node].counters.reserve(&bounds, amount).await {
            Ok(Reserved::Granted(hold, _)) => {
                self.granted += 1;
                self.running.push(Running { place: key, hold, amount, node });
                let (hour, month) = self.truth(key);
                // A call that costs nothing is never refused.
                let is_within = |spent: Usd, most: Option<Usd>| {
                    amount == Usd::ZERO || most.is_none_or(|most| spent <= most)
                };
                let Bounds { cap, budget, .. } = bounds;
                assert!(is_within(hour, cap), "{hour} may be spent of {cap:?}");
                assert!(is_within(month, budget), "{month} may be spent of {budget:?}");
            }
            Ok(Reserved::Full(_)) => {}
            Err(Failure::Lost) => {
                self.lost += 1;
                self.begin(node, bounds.project).await;
            }
            Err(Failure::Away(_)) => self.nodes[node].counters.beat().await,
        }
    }

    fn take_running(&mut self) -> Option<Running> {
        let count = self.running.len() as u64;
        (count > 0).then(|| {
            let place = self.random.below(count) as usize;
            self.running.swap_remove(place)
        })
    }

    /// A call ends: Redis is told. The ledger has it later.
    async fn settle(&mut self) {
        let Some(call) = self.take_running() else { return };
        let cost = Usd(self.random.below(call.amount.0.unsigned_abs() + 1).cast_signed());
        let at = self.clock.now();
        let mut ended = Ended { call, cost, at, is_settled: false, is_stored: false };
        self.tell(&mut ended).await;
        if self.one_of(10) {
            // The answer was lost.
            self.tell(&mut ended).await;
        }
        self.ended.push(ended);
    }

    async fn tell(&self, ended: &mut Ended) {
        let node = &self.nodes[ended.call.node];
        let (counters, holds) = (&node.counters, [ended.call.hold]);
        let bounds = &node.bounds(ended.call.place);
        let since = Duration::from_micros((self.clock.now().0 - ended.at.0).unsigned_abs());
        let settled = counters.settle(bounds, &holds, ended.cost, ended.at, since).await;
        ended.is_settled |= settled.is_ok();
    }

    fn store(&mut self) {
        let count = self.ended.len() as u64;
        if count == 0 {
            return;
        }
        let at = self.random.below(count) as usize;
        self.store_at(at);
    }

    fn store_at(&mut self, at: usize) {
        let mut ended = self.ended.swap_remove(at);
        self.store_one(&mut ended);
        if !ended.is_settled {
            self.ended.push(ended);
        }
    }

    fn store_one(&mut self, ended: &mut Ended) {
        if !ended.is_stored {
            ended.is_stored = true;
            self.ledger.push((ended.call.place, ended.at, ended.cost));
            let counters = &self.nodes[ended.call.node].counters;
            counters.stored(project(ended.call.place), &[ended.call.hold]);
        }
    }

    /// A cap or a budget comes or goes while no call of the project runs and the ledger has all of them: what was
    /// spent without it is counted from the ledger alone. docs/fleet.md names the cases in which that is too late.
    async fn toggle_one(&mut self) {
        let place = self.random.below(4) as usize;
        if !self.is_settled(project(place)).await {
            return;
        }
        // A question that names no cap, or no budget, has Redis forget the sum: it has to be read from the ledger when
        // there is one again.
        let node = &self.nodes[0];
        match node.counters.reserve(&node.bounds(place), Usd::ZERO).await {
            // If this fails, the next beat does it.
            Ok(Reserved::Granted(hold, _)) => {
                let _ = node.counters.release(project(place), &[hold]).await;
            }
            Ok(Reserved::Full(_)) | Err(Failure::Lost) => {}
            Err(Failure::Away(_)) => return,
        }
        self.toggle(place);
    }

    /// Has all calls of a project end and be stored. False if something of it is still open.
    async fn is_settled(&mut self, of: ProjectId) -> bool {
        let is_its = |place: usize| project(place) == of;
        let is_open = self.rebuilds.iter().any(|rebuild| rebuild.project == of)
            || self.left.iter().any(|(place, ..)| is_its(*place))
            || self.uncounted.iter().any(|(place, ..)| is_its(*place));
        if is_open {
            return false;
        }
        let at = self.clock.now();
        let running: Vec<Running> =
            self.running.extract_if(.., |call| is_its(call.place)).collect();
        for call in running {
            let cost = Usd(self.random.below(call.amount.0.unsigned_abs() + 1).cast_signed());
            self.ended.push(Ended { call, cost, at, is_settled: false, is_stored: false });
        }
        let ended: Vec<Ended> =
            self.ended.extract_if(.., |ended| is_its(ended.call.place)).collect();
        let mut is_settled = true;
        for mut ended in ended {
            if !ended.is_settled {
                self.tell(&mut ended).await;
            }
            self.store_one(&mut ended);
            is_settled &= ended.is_settled;
            if !ended.is_settled {
                self.ended.push(ended);
            }
        }
        is_settled
    }

    async fn pay(&mut self) {
        for mut ended in std::mem::take(&mut self.ended) {
            if !ended.is_settled {
                self.tell(&mut ended).await;
            }
            if !(ended.is_settled && ended.is_stored) {
                self.ended.push(ended);
            }
        }
        self.count_lost().await;
    }

    async fn release(&mut self) {
        let Some(call) = self.take_running() else { return };
        // If this fails, the next beat does it.
        let counters = &self.nodes[call.node].counters;
        let _ = counters.release(project(call.place), &[call.hold]).await;
    }

    async fn raise(&self, rebuild: &Rebuild, ledger: &ReadLedger) -> Result<(), Failure> {
        let (counters, of) = (&self.nodes[rebuild.node].counters, rebuild.project);
        let generation = Some(&rebuild.generation);
        let month = self.clock.now();
        let mut spent = Usd::ZERO;
        for place in (0..4).filter(|place| project(*place) == of) {
            let (seconds, key) = (self.seconds(ledger, place), KEYS[place % 2]);
            counters.raise_hour(of, generation, key, ledger.known[place], &seconds).await?;
            let of_month = ledger
                .entries
                .iter()
                .filter(|(of, at, _)| *of == place && at.month_start() == month.month_start());
            spent += of_month.map(|(.., cost)| *cost).sum();
        }
        counters.raise_month(of, generation, month, spent).await
    }

    /// Begins to build a project, as a gateway does it.
    async fn begin(&mut self, node: usize, project: ProjectId) {
        if self.rebuilds.iter().any(|rebuild| (rebuild.node, rebuild.project) == (node, project)) {
            return;
        }
        if let Ok(generation) = self.nodes[node].counters.join(project).await {
            let (ledger, uncounted) = (None, Vec::new());
            self.rebuilds.push(Rebuild {
                node,
                project,
                generation,
                ledger,
                uncounted,
                is_raised: false,
            });
        }
    }

    /// A rebuild goes one step further.
    async fn go_on(&mut self) {
        let count = self.rebuilds.len() as u64;
        if count == 0 {
            return;
        }
        let at = self.random.below(count) as usize;
        let mut rebuild = self.rebuilds.swap_remove(at);
        match self.try_go_on(&mut rebuild).await {
            Some(true) => self.opened += 1,
            Some(false) => self.rebuilds.push(rebuild),
            None => self.uncounted.append(&mut rebuild.uncounted),
        }
    }

    /// Whether it is open, or `None` if it has to begin anew.
    async fn try_go_on(&mut self, rebuild: &mut Rebuild) -> Option<bool> {
        let counters = self.nodes[rebuild.node].counters.clone();
        let of = rebuild.project;
        let Some(ledger) = &rebuild.ledger else {
            let joined = counters.rejoined(of).await.ok()?;
            if !self.nodes.iter().all(|node| joined.contains(&node.id)) {
                return None;
            }
            self.record_left();
            let is_its = |(place, ..): &mut Entry| project(*place) == of;
            rebuild.uncounted = self.uncounted.extract_if(.., is_its).collect();
            rebuild.ledger = Some(ReadLedger {
                entries: self.ledger.clone(),
                resets: self.holds.resets,
                known: self.nodes[rebuild.node].knows.resets,
            });
            return Some(false);
        };
        if !rebuild.is_raised {
            self.raise(rebuild, ledger).await.ok()?;
            rebuild.is_raised = true;
            return Some(false);
        }
        let opened = counters.open_project(of, &rebuild.generation, true, &KEYS).await;
        if !opened.ok()? {
            self.uncounted.append(&mut rebuild.uncounted);
        }
        Some(true)
    }

    async fn crash(&mut self) {
        let at = self.pick();
        // What such a node owed is known from the ledger alone: see docs/fleet.md.
        if self.ended.iter().any(|ended| ended.call.node == at && !ended.is_settled) {
            return;
        }
        let node = self.nodes.remove(at);
        self.gone.push(node.id);
        for call in self.running.extract_if(.., |call| call.node == at) {
            self.left.push((call.place, call.amount, None));
        }
        let its = |ended: &mut Ended| ended.call.node == at;
        let ended: Vec<Ended> = self.ended.extract_if(.., its).collect();
        for ended in ended.into_iter().filter(|ended| !ended.is_stored) {
            self.left.push((ended.call.place, ended.cost, Some(ended.at)));
        }
        for mut rebuild in self.rebuilds.extract_if(.., |rebuild| rebuild.node == at) {
            self.uncounted.append(&mut rebuild.uncounted);
        }
        let running = self.running.iter_mut().map(|call| &mut call.node);
        let ended = self.ended.iter_mut().map(|ended| &mut ended.call.node);
        let rebuilds = self.rebuilds.iter_mut().map(|rebuild| &mut rebuild.node);
        for node in running.chain(ended).chain(rebuilds) {
            *node -= usize::from(*node > at);
        }
        self.add_node().await;
    }

    /// Records the calls of nodes that are gone.
    fn record_left(&mut self) {
        let now = self.clock.now();
        for (place, amount, at) in std::mem::take(&mut self.left) {
            let at = at.unwrap_or(now);
            let cost = Usd(self.random.below(amount.0.unsigned_abs() + 1).cast_signed());
            self.ledger.push((place, at, cost));
            self.uncounted.push((place, at, cost));
        }
    }

    async fn count_lost(&mut self) {
        let node = &self.nodes[0];
        let counters = &node.counters;
        for (key, at, cost) in std::mem::take(&mut self.uncounted) {
            let hold = [counters.without_reservation()];
            let since = Duration::from_micros((self.clock.now().0 - at.0).unsigned_abs());
            match counters.settle(&node.bounds(key), &hold, cost, at, since).await {
                Ok(_) => counters.stored(project(key), &hold),
                Err(_) => self.uncounted.push((key, at, cost)),
            }
        }
    }

    async fn take_over(&mut self) {
        self.record_left();
        self.count_lost().await;
        // A rebuild that fails has some to count.
        if !self.uncounted.is_empty() || !self.rebuilds.is_empty() {
            return;
        }
        for node in std::mem::take(&mut self.gone) {
            for project in PROJECTS {
                if self.nodes[0].counters.forget(project, node).await.is_err() {
                    self.gone.push(node);
                }
            }
        }
    }

    async fn beat(&self) {
        for node in &self.nodes {
            node.counters.beat().await;
        }
    }

    /// Whether Redis knows what bounds each key.
    async fn are_known(&self) -> bool {
        let node = &self.nodes[0];
        for place in 0..4 {
            match node.counters.reserve(&node.bounds(place), Usd::ZERO).await {
                Ok(Reserved::Granted(hold, _)) => {
                    let _ = node.counters.release(project(place), &[hold]).await;
                }
                Ok(Reserved::Full(_)) | Err(_) => return false,
            }
        }
        true
    }

    /// Ends everything: nothing may stay reserved.
    async fn end(&mut self) {
        while !self.running.is_empty() {
            self.settle().await;
        }
        while self.ended.iter().any(|ended| !ended.is_stored) {
            self.store();
        }
        while !self.rebuilds.is_empty() {
            self.go_on().await;
        }
        self.bound_all();
        until("all are open and nothing is held", async || {
            self.beat().await;
            for project in PROJECTS {
                self.begin(0, project).await;
            }
            while !self.rebuilds.is_empty() {
                self.go_on().await;
            }
            // Calls whose settlement was lost are settled again.
            self.beat().await;
            self.pay().await;
            while self.ended.iter().any(|ended| !ended.is_stored) {
                self.store();
            }
            self.take_over().await;
            // A call from before there was a cap may have been settled again just now.
            let are_known = self.are_known().await;
            let is_held = self.nodes.iter().any(|node| node.counters.held() > 0);
            self.are_open().await && are_known && self.gone.is_empty() && !is_held
        })
        .await;
        for project in PROJECTS {
            let figures = self.nodes[0].counters.look(project, &KEYS).await.unwrap();
            assert_eq!(figures.reserved, Usd::ZERO, "{figures:?}");
            for (place, key) in figures.keys.iter().enumerate() {
                let key_place =
                    PROJECTS.iter().position(|each| *each == project).unwrap() * 2 + place;
                let (hour, month) = self.truth(key_place);
                assert_eq!(key.reserved, Usd::ZERO);
                assert!(key.spent >= hour, "never less than the ledger");
                assert!(figures.spent >= month, "never less than the ledger");
            }
        }
        self.free_all().await;
    }
}

async fn simulate(seed: u64, steps: u64) {
    println!("seed {seed}, {steps} steps");
    let mut world = World::new(seed).await;
    for _ in 0..steps {
        world.step().await;
    }
    world.end().await;
    let World { granted, lost, opened, changed, toggled, .. } = world;
    println!(
        "granted {granted}, lost {lost}, opened {opened}, changed {changed}, toggled {toggled}"
    );
    assert!(granted > steps / 50 && opened > steps / 1_000, "too little happened");
    assert!(changed > steps / 500 && toggled > steps / 50_000, "too little was changed");
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
