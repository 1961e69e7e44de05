//! The reservations of this node, so that they can be added again when Redis has lost them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use domain::ids::{KeyId, ProjectId};
use domain::money::Usd;

/// A reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) key: KeyId,
    pub(crate) amount: Usd,
    /// Nobody holds it any more, and whether Redis does is not known.
    pub(crate) is_doubtful: bool,
}

/// All reservations of this node by project and number.
#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<HashMap<ProjectId, BTreeMap<u64, Held>>>);

impl Table {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProjectId, BTreeMap<u64, Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, project: ProjectId, number: u64, key: KeyId, amount: Usd) {
        let held = Held { key, amount, is_doubtful: false };
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
                held.is_doubtful = true;
            }
        }
    }

    /// The projects with reservations.
    pub(crate) fn projects(&self) -> Vec<ProjectId> {
        self.lock().keys().copied().collect()
    }

    /// The reservations of a project that somebody holds.
    pub(crate) fn of_project(&self, project: ProjectId) -> Vec<(u64, Held)> {
        let all = self.lock();
        let of_project = all.get(&project).into_iter().flatten();
        of_project
            .filter(|(_, held)| !held.is_doubtful)
            .map(|(number, held)| (*number, *held))
            .collect()
    }

    /// The reservations that nobody holds and that Redis may have, by project.
    pub(crate) fn doubtful(&self) -> Vec<(ProjectId, Vec<u64>)> {
        let all = self.lock();
        let of_project = all.iter().map(|(project, held)| {
            let doubtful = held.iter().filter(|(_, held)| held.is_doubtful);
            (*project, doubtful.map(|(number, _)| *number).collect::<Vec<_>>())
        });
        of_project.filter(|(_, numbers)| !numbers.is_empty()).collect()
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().values().map(BTreeMap::len).sum()
    }
}
