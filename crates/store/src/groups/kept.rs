//! What the rows of a period come to, kept for the next question about it.
//!
//! A project may have a million sessions in a month: their sums take a second, and change only when an hour
//! is over. The dearest groups are kept, and joined with the steps since; those of the latest questions are
//! summed again when an hour is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::ProjectId;
use domain::money::Usd;
use hashlink::LruCache;

use super::{Dimension, GroupRow, Grouped};

/// The questions whose rows are kept: with [`most`] groups of 250 bytes each they take 8 MB at the most.
const QUESTIONS: usize = 16;

/// The most groups of the steps since that are joined here.
pub(super) const MOST_SINCE: usize = 50_000;

/// The groups to keep where so many are told apart: the steps since change the order of those near the end.
pub(super) fn most(shown: usize) -> usize {
    shown * 2
}

/// A question about rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question {
    pub(super) project: ProjectId,
    pub(super) dimension: Dimension,
    /// The first hour, and that after the last one.
    pub(super) hours: (i64, i64),
    /// The groups that are told apart.
    pub(super) most: usize,
}

/// What the rows of a period come to.
#[derive(Debug)]
pub(super) struct SummedHours {
    /// The dearest groups with a value, dearest first.
    pub(super) groups: Vec<GroupRow>,
    /// Whether there are no others.
    pub(super) are_all: bool,
    /// Calls without a value.
    pub(super) without: GroupRow,
    /// All usage.
    pub(super) total: GroupRow,
}

impl SummedHours {
    /// The usage of the rows and of the steps since, with the dearest `most` groups told apart. `None` if a
    /// group that is not kept may be one of those.
    pub(super) fn joined(&self, since: Vec<GroupRow>, most: usize) -> Option<Grouped> {
        let mut known: HashMap<&str, GroupRow> =
            self.groups.iter().map(|group| (&*group.value, group.clone())).collect();
        let (mut without, mut total) = (self.without.clone(), self.total.clone());
        let mut unknown = Vec::new();
        for more in &since {
            total = total.with(more);
            if more.value.is_empty() {
                without = without.with(more);
            } else if let Some(group) = known.get_mut(&*more.value) {
                *group = group.with(more);
            } else if self.are_all {
                known.insert(&more.value, more.clone());
            } else {
                unknown.push(more.cost());
            }
        }
        let mut groups: Vec<GroupRow> = known.into_values().collect();
        groups.sort_by(|one, other| {
            other.cost().cmp(&one.cost()).then_with(|| one.value.cmp(&other.value))
        });
        groups.truncate(most);
        // A group that is not kept cost at most what the last one that is kept has.
        let least_kept = self.groups.last().map_or(Usd::ZERO, GroupRow::cost);
        let least_shown = groups.last().map_or(Usd::ZERO, GroupRow::cost);
        let may_be_shown = |since: &Usd| since.0.saturating_add(least_kept.0) >= least_shown.0;
        if unknown.iter().any(may_be_shown) {
            return None;
        }
        Some(Grouped::of(groups, without, total))
    }
}

/// What is kept for a question.
#[derive(Debug)]
pub(super) struct Kept {
    summed: Arc<SummedHours>,
    is_latest: bool,
    is_asked: bool,
}

impl Kept {
    /// Rows up to the latest ones or up to an earlier hour, which a caller asks for or may ask for.
    pub(super) fn new(summed: SummedHours, is_latest: bool, is_asked: bool) -> Self {
        Self { summed: Arc::new(summed), is_latest, is_asked }
    }
}

/// The rows of the latest questions.
#[derive(Clone, Debug)]
pub(crate) struct KeptSums(Arc<Mutex<LruCache<Question, Kept>>>);

impl Default for KeptSums {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(LruCache::new(QUESTIONS))))
    }
}

impl KeptSums {
    /// The rows of a question, if they still have this total. Rows change only when a clock was ahead.
    pub(super) fn get(&self, question: &Question, total: &GroupRow) -> Option<Arc<SummedHours>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.get_mut(question).filter(|kept| kept.summed.total == *total)?;
        kept.is_asked = true;
        Some(kept.summed.clone())
    }

    pub(super) fn keep(&self, question: Question, kept: Kept) -> Arc<SummedHours> {
        let summed = kept.summed.clone();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(question, kept);
        summed
    }

    /// Forgets the questions of a project whose rows were the latest before this hour, and returns those
    /// that callers have asked and that have more groups than are kept.
    pub(super) fn take_outdated(&self, project: ProjectId, until: i64) -> Vec<Question> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut renewed = Vec::new();
        all.retain(|question, kept| {
            let is_outdated =
                question.project == project && kept.is_latest && question.hours.1 < until;
            if is_outdated && kept.is_asked && !kept.summed.are_all {
                renewed.push(question.clone());
            }
            !is_outdated
        });
        renewed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(value: &str, nanos: i64) -> GroupRow {
        GroupRow { value: value.to_owned(), requests: 1, nanos, ..GroupRow::default() }
    }

    fn total(groups: &[GroupRow]) -> GroupRow {
        groups.iter().fold(GroupRow::default(), |total, group| total.with(group))
    }

    /// The values and costs of the groups that are shown, and the cost of the rest.
    fn shown(grouped: &Grouped) -> (Vec<(&str, i64)>, i64) {
        let groups = grouped.groups.iter().map(|group| (&*group.value, group.cost().0)).collect();
        (groups, grouped.rest.cost().0)
    }

    #[test]
    fn steps_since_change_the_order_and_the_rest() {
        let all = [group("a", 90), group("b", 80), group("c", 70), group("d", 60), group("e", 5)];
        let summed = SummedHours {
            groups: all[..4].to_vec(),
            are_all: false,
            without: GroupRow::default(),
            total: total(&all),
        };
        // One that is not kept has cost up to 60 before: 19 more are too few, 20 could be as much as "b".
        let grouped = summed.joined(vec![group("c", 15), group("e", 19), group("", 7)], 2);
        let grouped = grouped.unwrap();
        assert_eq!(shown(&grouped), (vec![("a", 90), ("c", 85)], 80 + 60 + 5 + 19));
        assert_eq!((grouped.without.cost(), grouped.total.requests), (Usd(7), 8));
        assert_eq!(summed.joined(vec![group("e", 20)], 2), None);
        assert_eq!(summed.joined(vec![group("new", 20)], 2), None);
    }

    #[test]
    fn groups_that_are_all_kept_are_joined_by_new_ones() {
        let all = [group("b", 80), group("a", 80)];
        let summed = SummedHours {
            groups: all.to_vec(),
            are_all: true,
            without: group("", 3),
            total: total(&all).with(&group("", 3)),
        };
        let grouped = summed.joined(vec![group("new", 81)], 2).unwrap();
        assert_eq!(shown(&grouped), (vec![("new", 81), ("a", 80)], 80));
        assert_eq!((grouped.without.cost(), grouped.total.cost()), (Usd(3), Usd(244)));
    }

    #[test]
    fn rows_that_have_changed_are_read_again() {
        let kept = KeptSums::default();
        let question =
            Question { project: ProjectId(1), dimension: Dimension::Model, hours: (1, 9), most: 2 };
        kept.keep(question.clone(), Kept::new(some(5, true), true, true));
        assert!(kept.get(&question, &group("", 5)).is_some());
        assert!(kept.get(&question, &group("", 6)).is_none());
    }

    /// The rows of no group, or of more than are kept.
    fn some(nanos: i64, are_all: bool) -> SummedHours {
        let (groups, without) = (Vec::new(), GroupRow::default());
        SummedHours { groups, are_all, without, total: group("", nanos) }
    }

    #[test]
    fn what_is_asked_of_many_groups_is_renewed_when_an_hour_is_over() {
        let kept = KeptSums::default();
        let question = |project: i64, from: i64, until: i64| Question {
            project: ProjectId(project),
            dimension: Dimension::Model,
            hours: (from, until),
            most: 2,
        };
        for (question, are_all, is_latest, is_asked) in [
            (question(1, 1, 9), false, true, true),
            (question(1, 2, 9), true, true, true),
            (question(1, 3, 9), false, true, false),
            (question(1, 4, 8), false, false, true),
            (question(2, 1, 9), false, true, true),
        ] {
            kept.keep(question, Kept::new(some(5, are_all), is_latest, is_asked));
        }
        assert_eq!(kept.take_outdated(ProjectId(1), 9), []);
        // One that is renewed and asked for is renewed again.
        assert!(kept.get(&question(1, 3, 9), &group("", 5)).is_some());
        let mut renewed = kept.take_outdated(ProjectId(1), 10);
        renewed.sort_by_key(|question| question.hours);
        assert_eq!(renewed, [question(1, 1, 9), question(1, 3, 9)]);
        let is_kept = |question: Question| kept.get(&question, &group("", 5)).is_some();
        assert!(!is_kept(question(1, 1, 9)) && !is_kept(question(1, 2, 9)));
        assert!(is_kept(question(1, 4, 8)) && is_kept(question(2, 1, 9)));
    }
}
