//! The bytes of answers that projects keep for requests with an `Idempotency-Key`, within a bound.
//!
//! The database is asked for the sum of a project once a minute, since other nodes keep answers too and old ones go,
//! and by one request at a time. What this node adds meanwhile is added to what the sum says, which may not have it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use domain::ids::{KeyId, ProjectId};
use domain::time::{HOUR, MINUTE, Timestamp};

use crate::lock::lock;

/// The most bytes of answers that a project keeps, sealed.
const MOST_KEPT_OF_PROJECT: u64 = 1 << 30;
/// The most bytes of these that are for one key.
pub(crate) const MOST_KEPT_OF_KEY: u64 = MOST_KEPT_OF_PROJECT / 4;
/// A sum is taken anew after this time, in microseconds, also if it has failed.
const SUM_FOR: i64 = MINUTE;
/// A project whose last sum was so long ago is forgotten.
const REMEMBERED_FOR: i64 = HOUR;

/// The bytes of answers that projects keep, as far as this node knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptBytes(Arc<Mutex<HashMap<ProjectId, Kept>>>);

#[derive(Debug, Default)]
struct Kept {
    of_key: HashMap<KeyId, u64>,
    /// The sum of these.
    bytes: u64,
    /// Added since the last sum began.
    added: HashMap<KeyId, u64>,
    /// The beginning of the last sum, whatever became of it.
    summed_at: Option<Timestamp>,
    /// The beginning of the last sum that succeeded, or of the figures where none has for long.
    known_at: Option<Timestamp>,
    is_being_summed: bool,
}

/// A sum that is being taken. Dropped without [`Summing::note`], it has failed: the figures of before hold on.
#[derive(Debug)]
pub(crate) struct Summing {
    kept: KeptBytes,
    project: ProjectId,
}

impl Kept {
    fn add(&mut self, key: KeyId, more: u64) {
        *self.of_key.entry(key).or_default() += more;
        self.bytes = self.bytes.saturating_add(more);
    }
}

impl KeptBytes {
    /// Begins to sum up what a project keeps, unless another does or that was done a moment ago.
    pub(crate) fn begin_sum(&self, project: ProjectId, now: Timestamp) -> Option<Summing> {
        let projects = &mut *lock(&self.0);
        // A clock that went back makes no sum valid for longer.
        let is_within = |kept: &Kept, time: i64| {
            kept.summed_at.is_some_and(|at| at <= now && now.since(at) < time)
        };
        let kept = projects.entry(project).or_default();
        if kept.is_being_summed || is_within(kept, SUM_FOR) {
            return None;
        }
        // Figures that only grow, because no sum succeeds, would in the end keep every answer out.
        if !kept.known_at.is_some_and(|at| at <= now && now.since(at) < REMEMBERED_FOR) {
            kept.of_key.clear();
            kept.bytes = 0;
            kept.known_at = Some(now);
        }
        kept.is_being_summed = true;
        kept.summed_at = Some(now);
        kept.added.clear();
        projects.retain(|_, kept| kept.is_being_summed || is_within(kept, REMEMBERED_FOR));
        Some(Summing { kept: self.clone(), project })
    }

    /// Adds the bytes of an answer to those that a project keeps. False if there are too many, of the project or of
    /// the key: it is not kept.
    pub(crate) fn add(&self, project: ProjectId, key: KeyId, more: u64) -> bool {
        let projects = &mut *lock(&self.0);
        let kept = projects.entry(project).or_default();
        let of_key = kept.of_key.get(&key).copied().unwrap_or(0);
        let has_room = kept.bytes.saturating_add(more) <= MOST_KEPT_OF_PROJECT
            && of_key.saturating_add(more) <= MOST_KEPT_OF_KEY;
        if has_room {
            kept.add(key, more);
            if kept.is_being_summed {
                *kept.added.entry(key).or_default() += more;
            }
        }
        has_room
    }

    /// The bytes that a project keeps.
    #[cfg(test)]
    pub(crate) fn of_project(&self, project: ProjectId) -> u64 {
        lock(&self.0).get(&project).map_or(0, |kept| kept.bytes)
    }
}

impl Summing {
    /// Takes over the sums of the keys of the project.
    pub(crate) fn note(self, of_keys: &[(KeyId, u64)]) {
        let projects = &mut *lock(&self.kept.0);
        let Some(kept) = projects.get_mut(&self.project) else { return };
        kept.of_key.clear();
        kept.bytes = 0;
        kept.known_at = kept.summed_at;
        let added = std::mem::take(&mut kept.added);
        for (key, bytes) in of_keys.iter().copied().chain(added) {
            kept.add(key, bytes);
        }
    }
}

impl Drop for Summing {
    fn drop(&mut self) {
        if let Some(kept) = lock(&self.kept.0).get_mut(&self.project) {
            kept.is_being_summed = false;
            kept.added.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROJECT: ProjectId = ProjectId(1);
    const KEY: KeyId = KeyId(1);

    fn at(micros: i64) -> Timestamp {
        Timestamp(1_000 * HOUR + micros)
    }

    #[test]
    fn a_project_keeps_answers_up_to_a_bound() {
        let kept = KeptBytes::default();
        let quarters = [2, 3, 4].map(|key| (KeyId(key), MOST_KEPT_OF_KEY));
        kept.begin_sum(PROJECT, at(0)).unwrap().note(&quarters);
        assert!(kept.add(PROJECT, KEY, MOST_KEPT_OF_KEY - 10));
        assert!(!kept.add(PROJECT, KeyId(5), 11));
        assert!(kept.add(PROJECT, KeyId(5), 10));
        assert!(!kept.add(PROJECT, KEY, 1), "the project is full");
        assert_eq!(kept.of_project(PROJECT), MOST_KEPT_OF_PROJECT);
        assert!(kept.add(ProjectId(2), KEY, 1), "another is not");
    }

    #[test]
    fn one_key_leaves_room_for_the_others() {
        let kept = KeptBytes::default();
        assert!(kept.add(PROJECT, KEY, MOST_KEPT_OF_KEY));
        assert!(!kept.add(PROJECT, KEY, 1));
        assert!(kept.add(PROJECT, KeyId(2), MOST_KEPT_OF_KEY));
    }

    #[test]
    fn one_sums_up_at_a_time_and_once_a_minute() {
        let kept = KeptBytes::default();
        let sum = kept.begin_sum(PROJECT, at(0)).unwrap();
        assert!(kept.begin_sum(PROJECT, at(2 * MINUTE)).is_none(), "another does");
        assert!(kept.begin_sum(ProjectId(2), at(0)).is_some(), "for another project");
        sum.note(&[(KEY, 7)]);
        assert!(kept.begin_sum(PROJECT, at(MINUTE - 1)).is_none());
        assert!(kept.begin_sum(PROJECT, at(-1)).is_some(), "a clock went back");
        assert!(kept.begin_sum(PROJECT, at(MINUTE)).is_some());
        drop(kept.begin_sum(ProjectId(3), at(2 * HOUR)));
        assert_eq!(lock(&kept.0).len(), 1, "nothing is remembered for ever");
    }

    #[test]
    fn a_sum_that_fails_is_not_asked_for_again_at_once_and_the_old_one_holds() {
        let kept = KeptBytes::default();
        kept.begin_sum(PROJECT, at(0)).unwrap().note(&[(KEY, MOST_KEPT_OF_KEY - 5)]);
        drop(kept.begin_sum(PROJECT, at(MINUTE)).unwrap());
        assert!(kept.begin_sum(PROJECT, at(2 * MINUTE - 1)).is_none());
        assert!(!kept.add(PROJECT, KEY, 6));
        assert!(kept.add(PROJECT, KEY, 5));
        assert!(kept.begin_sum(PROJECT, at(2 * MINUTE)).is_some());
    }

    #[test]
    fn figures_begin_anew_where_no_sum_succeeds_for_long() {
        let kept = KeptBytes::default();
        kept.begin_sum(PROJECT, at(0)).unwrap().note(&[(KEY, MOST_KEPT_OF_KEY)]);
        drop(kept.begin_sum(PROJECT, at(REMEMBERED_FOR - 1)).unwrap());
        assert!(!kept.add(PROJECT, KEY, 1));
        drop(kept.begin_sum(PROJECT, at(REMEMBERED_FOR + MINUTE)).unwrap());
        assert!(kept.add(PROJECT, KEY, MOST_KEPT_OF_KEY));
        assert!(!kept.add(PROJECT, KEY, 1), "what is added since counts");
    }

    #[test]
    fn answers_that_are_kept_during_a_sum_are_added_to_it() {
        let kept = KeptBytes::default();
        kept.begin_sum(PROJECT, at(0)).unwrap().note(&[(KEY, 100)]);
        assert!(kept.add(PROJECT, KEY, 10));
        let sum = kept.begin_sum(PROJECT, at(MINUTE)).unwrap();
        assert!(kept.add(PROJECT, KEY, 5));
        assert!(kept.add(PROJECT, KeyId(2), 6));
        assert_eq!(kept.of_project(PROJECT), 121, "by the old figure meanwhile");
        sum.note(&[(KEY, 50)]);
        assert_eq!(kept.of_project(PROJECT), 61);
        assert!(!kept.add(PROJECT, KEY, MOST_KEPT_OF_KEY - 54));
        assert!(kept.add(PROJECT, KEY, MOST_KEPT_OF_KEY - 55));
    }
}
