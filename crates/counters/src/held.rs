//! The reservations of this node, so that they can be added again when Redis has lost them, and the calls that were
//! settled there and that the ledger may not have yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::ids::{KeyId, ProjectId};
use domain::money::Usd;
use domain::time::Timestamp;

use crate::decide::Bounds;

/// A call that was settled and that the ledger has not taken by now is not there, or was never said to be.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);
/// A command that had no answer has no effect after this, whatever the clocks of the servers say.
const DOUBT_TIME: Duration = Duration::from_millis(100);

/// A reservation.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) key: KeyId,
    /// The amount reserved; the cost once it is settled.
    pub(crate) amount: Usd,
    pub(crate) state: State,
    /// Whether a settlement of the call has left, so that Redis may count it.
    is_sent: bool,
    /// Whether the ledger has the call.
    is_stored: bool,
}

/// The state of a reservation.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// A call holds it.
    Held,
    /// Nobody holds it since then, and whether Redis does is not known.
    Doubtful(Instant),
    /// Its cost counts in Redis, and the ledger may not have it.
    Settled(Settlement),
}

/// The end of a call.
#[derive(Clone, Debug)]
pub(crate) struct Settlement {
    pub(crate) bounds: Bounds,
    /// The time of its end by the ledger, and by the clock of this machine.
    pub(crate) ended: Timestamp,
    pub(crate) at: Instant,
    /// The generation of the project in which its cost counts. `None` once that was lost: then the cost is reserved.
    pub(crate) generation: Option<String>,
}

/// All reservations of this node by project and number.
#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<HashMap<ProjectId, BTreeMap<u64, Held>>>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProjectId, BTreeMap<u64, Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, project: ProjectId, number: u64, key: KeyId, amount: Usd) {
        let held = Held { key, amount, state: State::Held, is_sent: false, is_stored: false };
        self.lock().entry(project).or_default().insert(number, held);
    }

    pub(crate) fn remove(&self, project: ProjectId, numbers: &[u64]) {
        let mut all = self.lock();
        let Some(of_project) = all.get_mut(&project) else { return };
        for number in numbers {
            of_project.remove(number);
        }
        if of_project.is_empty() {
            all.remove(&project);
        }
    }

    /// Notes that nobody holds these any more, and that Redis may.
    pub(crate) fn doubt(&self, project: ProjectId, numbers: &[u64]) {
        let mut all = self.lock();
        let Some(of_project) = all.get_mut(&project) else { return };
        for number in numbers {
            if let Some(held) = of_project.get_mut(number) {
                held.state = State::Doubtful(Instant::now());
            }
        }
    }

    /// Notes that a settlement of a call leaves. Returns whether it is the first, and the ledger does not have the call
    /// as far as is known: then nothing counts it yet, whether or not Redis still has its reservations.
    pub(crate) fn leaves(&self, project: ProjectId, numbers: &[u64]) -> bool {
        let mut all = self.lock();
        let Some(of_project) = all.get_mut(&project) else { return false };
        let mut is_first = true;
        for number in numbers {
            is_first &= of_project.get_mut(number).is_some_and(Held::leaves);
        }
        is_first
    }

    /// Notes that a call was settled: the first of its reservations stands for its cost from now on, until the ledger
    /// has it. One that is not known here changes nothing, unless nothing was reserved for the call.
    pub(crate) fn settle(&self, numbers: &[u64], is_new: bool, cost: Usd, settlement: Settlement) {
        let project = settlement.bounds.project;
        let Some((first, others)) = numbers.split_first() else { return };
        {
            let mut all = self.lock();
            let of_project = all.entry(project).or_default();
            let is_stored = numbers
                .iter()
                .any(|number| of_project.get(number).is_some_and(|held| held.is_stored));
            if is_stored || cost <= Usd::ZERO {
                of_project.remove(first);
            } else if is_new || of_project.contains_key(first) {
                let (key, state) = (settlement.bounds.key, State::Settled(settlement));
                let held = Held { key, amount: cost, state, is_sent: true, is_stored };
                of_project.insert(*first, held);
            }
        }
        self.remove(project, others);
        self.remove(project, &[]);
    }

    /// Notes that the ledger has a call.
    pub(crate) fn stored(&self, project: ProjectId, numbers: &[u64]) {
        let mut all = self.lock();
        let Some(of_project) = all.get_mut(&project) else { return };
        for number in numbers {
            if let Some(held) = of_project.get_mut(number) {
                held.is_stored = true;
            }
        }
        of_project.retain(|_, held| !held.is_done());
        if of_project.is_empty() {
            all.remove(&project);
        }
    }

    /// Forgets the calls that have ended so long ago that the ledger has them, if it ever will.
    pub(crate) fn sweep(&self) {
        let mut all = self.lock();
        for of_project in all.values_mut() {
            of_project.retain(|_, held| !held.is_done());
        }
        all.retain(|_, of_project| !of_project.is_empty());
    }

    /// The projects with reservations.
    pub(crate) fn projects(&self) -> Vec<ProjectId> {
        self.lock().keys().copied().collect()
    }

    /// The reservations of a project that somebody holds, and the calls that were settled.
    pub(crate) fn of_project(&self, project: ProjectId) -> Vec<(u64, Held)> {
        let all = self.lock();
        let of_project = all.get(&project).into_iter().flatten();
        of_project
            .filter(|(_, held)| !matches!(held.state, State::Doubtful(_)))
            .map(|(number, held)| (*number, held.clone()))
            .collect()
    }

    /// Notes that the settled calls among these are reserved again, unless they count in this generation.
    pub(crate) fn joined(&self, project: ProjectId, numbers: &[u64], current: &str) {
        let mut all = self.lock();
        let Some(of_project) = all.get_mut(&project) else { return };
        for number in numbers {
            if let Some(Held { state: State::Settled(settlement), .. }) = of_project.get_mut(number)
                && settlement.generation.as_deref() != Some(current)
            {
                settlement.generation = None;
            }
        }
    }

    /// The calls whose settlement was lost, with their costs.
    pub(crate) fn unsettled(&self) -> Vec<(u64, Usd, Settlement)> {
        let all = self.lock();
        let held = all.values().flatten();
        held.filter_map(|(number, held)| match &held.state {
            State::Settled(settlement) if settlement.generation.is_none() => {
                Some((*number, held.amount, settlement.clone()))
            }
            _ => None,
        })
        .collect()
    }

    /// The reservations that nobody holds and that Redis may have, by project.
    pub(crate) fn doubtful(&self) -> Vec<(ProjectId, Vec<u64>)> {
        let all = self.lock();
        let of_project = all.iter().map(|(project, held)| {
            let doubtful = held.iter().filter(|(_, held)| match held.state {
                State::Doubtful(since) => since.elapsed() >= DOUBT_TIME,
                _ => false,
            });
            (*project, doubtful.map(|(number, _)| *number).collect::<Vec<_>>())
        });
        of_project.filter(|(_, numbers)| !numbers.is_empty()).collect()
    }

    /// How many there are, settled calls left out.
    pub(crate) fn count(&self) -> usize {
        let all = self.lock();
        let held = all.values().flat_map(BTreeMap::values);
        held.filter(|held| !matches!(held.state, State::Settled(_))).count()
    }
}

impl Held {
    /// Like [`Table::leaves`].
    fn leaves(&mut self) -> bool {
        let has_left = std::mem::replace(&mut self.is_sent, true);
        matches!(self.state, State::Held) && !has_left && !self.is_stored
    }

    /// Whether it is settled in Redis and in the ledger, as far as can be known.
    fn is_done(&self) -> bool {
        match &self.state {
            State::Settled(settlement) => {
                settlement.generation.is_some()
                    && (self.is_stored || settlement.at.elapsed() >= STORE_TIMEOUT)
            }
            _ => false,
        }
    }

    /// The generation in which its cost counts; empty if it is reserved, and a plus if that is for a call that the
    /// ledger has.
    pub(crate) fn generation(&self) -> &str {
        let generation = match &self.state {
            State::Settled(settlement) => settlement.generation.as_deref(),
            _ => None,
        };
        generation.unwrap_or(if self.is_stored { "+" } else { "" })
    }
}

impl Settlement {
    /// Whether the ledger has had its time to take the call.
    pub(crate) fn is_old(&self) -> bool {
        self.at.elapsed() >= STORE_TIMEOUT
    }
}
