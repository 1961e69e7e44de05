//! The sums of the rows of a period, kept for the next question about it.
//!
//! A project may have a million sessions in a month: their sums take a second, and change only when an hour
//! is over. The dearest groups are kept, and joined with the steps since; so are those that the steps since may make
//! the dearest, once they are looked up.

use std::collections::{HashMap, HashSet};
use std::mem::size_of;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ids::ProjectId;
use domain::money::Usd;

use super::bounded::Bounded;
use super::{Dimension, GroupRow, Grouped};

/// The memory for the rows of questions, in bytes: those of 45 questions with [`most`] groups and
/// [`MOST_CANDIDATES`], whose values have 36 characters.
const MEMORY: usize = 16 * 1024 * 1024;

/// The most groups of the steps since that are joined here.
pub(super) const MOST_SINCE: usize = 50_000;

/// The most groups that a question looks up because they may be among the dearest, and the most that are kept of
/// those.
pub(super) const MOST_CANDIDATES: usize = 500;

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

/// The sums of the rows of a period.
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
    /// The memory that it takes, in bytes.
    fn bytes(&self) -> usize {
        let of_group = |group: &GroupRow| size_of::<GroupRow>() + group.value.len();
        size_of::<Self>() + self.groups.iter().map(of_group).sum::<usize>()
    }

    /// The values of the steps since that are not kept and may be among the dearest `most`: a group that is
    /// not kept has cost at most what the last one that is kept has.
    pub(super) fn candidates(&self, since: &[GroupRow], most: usize) -> Vec<String> {
        if self.are_all {
            return Vec::new();
        }
        let cost_of = |at: usize| self.groups.get(at).map_or(Usd::ZERO, GroupRow::cost);
        // Steps since only raise it.
        let least_shown = cost_of(most.saturating_sub(1));
        let least_kept = cost_of(self.groups.len().saturating_sub(1));
        let kept: HashSet<&str> = self.groups.iter().map(|group| &*group.value).collect();
        let may_be_shown = |more: &&GroupRow| {
            !more.value.is_empty()
                && !kept.contains(&*more.value)
                && more.cost().0.saturating_add(least_kept.0) >= least_shown.0
        };
        since.iter().filter(may_be_shown).map(|more| more.value.clone()).collect()
    }

    /// The usage of the rows and of the steps since, with the dearest `most` groups told apart. `exact` is
    /// the usage of each of the [candidates](Self::candidates) in the rows.
    pub(super) fn joined(
        &self,
        since: Vec<GroupRow>,
        exact: Vec<GroupRow>,
        most: usize,
    ) -> Grouped {
        let kept = self.groups.iter().cloned().chain(exact);
        let mut known: HashMap<String, GroupRow> =
            kept.map(|group| (group.value.clone(), group)).collect();
        let (mut without, mut total) = (self.without.clone(), self.total.clone());
        for more in since {
            total = total.with(&more);
            if more.value.is_empty() {
                without = without.with(&more);
            } else if let Some(group) = known.get_mut(&more.value) {
                *group = group.with(&more);
            } else if self.are_all {
                known.insert(more.value.clone(), more);
            }
        }
        let mut groups: Vec<GroupRow> = known.into_values().collect();
        groups.sort_by(|one, other| {
            other.cost().cmp(&one.cost()).then_with(|| one.value.cmp(&other.value))
        });
        groups.truncate(most);
        Grouped::of(groups, without, total)
    }
}

/// The rows that are kept of a question.
#[derive(Clone, Debug)]
pub(super) struct KeptRows {
    pub(super) summed: Arc<SummedHours>,
    /// Others than its dearest groups, by value: those that were looked up, which the next question is likely to need.
    looked_up: Arc<HashMap<String, GroupRow>>,
}

impl KeptRows {
    /// The memory that they take, in bytes.
    fn bytes(&self) -> usize {
        let of_group = |value: &String| size_of::<(String, GroupRow)>() + 2 * value.len();
        self.summed.bytes() + self.looked_up.keys().map(of_group).sum::<usize>()
    }

    /// The groups of those values that were looked up before, and the other values.
    pub(super) fn known(&self, values: Vec<String>) -> (Vec<GroupRow>, Vec<String>) {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for value in values {
            match self.looked_up.get(&value) {
                Some(group) => known.push(group.clone()),
                None => unknown.push(value),
            }
        }
        (known, unknown)
    }
}

/// The rows of the latest questions.
#[derive(Debug)]
pub(crate) struct KeptSums(Mutex<Bounded<Question, KeptRows>>);

impl Default for KeptSums {
    fn default() -> Self {
        Self(Mutex::new(Bounded::new(MEMORY)))
    }
}

impl KeptSums {
    /// The rows of a question, if they still have this total. Rows change only when a clock was ahead.
    pub(super) fn get(&self, question: &Question, total: &GroupRow) -> Option<KeptRows> {
        self.lock().get(question).filter(|kept| kept.summed.total == *total).cloned()
    }

    /// Keeps the rows of a question, unless it has none.
    pub(super) fn keep(&self, question: Question, summed: SummedHours) -> KeptRows {
        let kept = KeptRows { summed: Arc::new(summed), looked_up: Arc::default() };
        if !kept.summed.total.is_empty() {
            let bytes = kept.bytes();
            self.lock().insert(question, kept.clone(), bytes);
        }
        kept
    }

    /// Keeps groups that were looked up for a question beside its other rows, if those still have this total.
    pub(super) fn add(&self, question: Question, total: &GroupRow, looked_up: &[GroupRow]) {
        let mut all = self.lock();
        let kept = all.get(&question).filter(|kept| kept.summed.total == *total);
        let Some(mut kept) = kept.cloned() else { return };
        let room = MOST_CANDIDATES.saturating_sub(kept.looked_up.len()).min(looked_up.len());
        if room > 0 {
            let more = looked_up[..room].iter().map(|group| (group.value.clone(), group.clone()));
            Arc::make_mut(&mut kept.looked_up).extend(more);
            let bytes = kept.bytes();
            all.insert(question, kept, bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Bounded<Question, KeptRows>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        // One that is not kept has cost up to 60 before: with 19 more it is not as dear as "b", with 20 it
        // may be.
        let since = vec![group("c", 15), group("e", 19), group("", 7)];
        assert_eq!(summed.candidates(&since, 2), Vec::<String>::new());
        let grouped = summed.joined(since, Vec::new(), 2);
        assert_eq!(shown(&grouped), (vec![("a", 90), ("c", 85)], 80 + 60 + 5 + 19));
        assert_eq!((grouped.without.cost(), grouped.total.requests), (Usd(7), 8));
        // The earlier cost is looked up, and is nothing for one that is new.
        let since = vec![group("e", 86), group("new", 90)];
        assert_eq!(summed.candidates(&since, 2), ["e", "new"]);
        let new = GroupRow { value: "new".to_owned(), ..GroupRow::default() };
        let grouped = summed.joined(since, vec![group("e", 5), new], 2);
        assert_eq!(shown(&grouped), (vec![("e", 91), ("a", 90)], 90 + 80 + 70 + 60));
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
        let grouped = summed.joined(vec![group("new", 81)], Vec::new(), 2);
        assert_eq!(shown(&grouped), (vec![("new", 81), ("a", 80)], 80));
        assert_eq!((grouped.without.cost(), grouped.total.cost()), (Usd(3), Usd(244)));
    }

    #[test]
    fn rows_that_have_changed_are_read_again() {
        let kept = KeptSums::default();
        let question =
            Question { project: ProjectId(1), dimension: Dimension::Model, hours: (1, 9), most: 2 };
        let summed = SummedHours {
            groups: Vec::new(),
            are_all: true,
            without: GroupRow::default(),
            total: group("", 5),
        };
        kept.keep(question.clone(), summed);
        assert!(kept.get(&question, &group("", 5)).is_some());
        assert!(kept.get(&question, &group("", 6)).is_none());
    }

    #[test]
    fn groups_that_were_looked_up_are_kept_with_the_rows_up_to_a_number() {
        let kept = KeptSums::default();
        let question =
            Question { project: ProjectId(1), dimension: Dimension::Model, hours: (1, 9), most: 2 };
        let summed = |total| SummedHours {
            groups: Vec::new(),
            are_all: false,
            without: GroupRow::default(),
            total: group("", total),
        };
        let known = |values: &[&str]| {
            let rows = kept.get(&question, &group("", 5)).unwrap();
            rows.known(values.iter().map(|value| (*value).to_owned()).collect())
        };
        kept.add(question.clone(), &group("", 5), &[group("a", 1)]);
        kept.keep(question.clone(), summed(5));
        // Rows of another total are other rows.
        kept.add(question.clone(), &group("", 4), &[group("a", 1)]);
        assert_eq!(known(&["a"]), (Vec::new(), vec!["a".to_owned()]));
        kept.add(question.clone(), &group("", 5), &[group("a", 1)]);
        assert_eq!(known(&["b", "a"]), (vec![group("a", 1)], vec!["b".to_owned()]));
        let small = kept.lock().size();
        let many: Vec<GroupRow> =
            (0..MOST_CANDIDATES).map(|number| group(&number.to_string(), 1)).collect();
        kept.add(question.clone(), &group("", 5), &many);
        let large = kept.lock().size();
        assert!(large - small > (MOST_CANDIDATES - 1) * size_of::<GroupRow>());
        let last = (MOST_CANDIDATES - 1).to_string();
        assert_eq!(known(&["a", "0", &last]), (vec![group("a", 1), group("0", 1)], vec![last]));
        kept.add(question.clone(), &group("", 5), &many);
        assert_eq!(kept.lock().size(), large);
        kept.keep(question.clone(), summed(5));
        assert_eq!(known(&["a"]), (Vec::new(), vec!["a".to_owned()]));
    }

    #[test]
    fn the_rows_of_the_oldest_question_make_room() {
        let kept = KeptSums::default();
        let question = |from| Question {
            project: ProjectId(1),
            dimension: Dimension::Model,
            hours: (from, 9),
            most: 2,
        };
        let large = |bytes| SummedHours {
            groups: vec![group(&"v".repeat(bytes), 5)],
            are_all: true,
            without: GroupRow::default(),
            total: group("", 5),
        };
        kept.keep(question(1), large(MEMORY / 3));
        kept.keep(question(2), large(MEMORY / 3));
        // It takes its own place.
        kept.keep(question(2), large(MEMORY / 3));
        assert!(kept.get(&question(1), &group("", 5)).is_some());
        kept.keep(question(3), large(MEMORY / 3));
        let has = |from| kept.get(&question(from), &group("", 5)).is_some();
        assert_eq!([1, 2, 3].map(has), [true, false, true], "it was asked longest ago");
        kept.keep(question(4), large(MEMORY));
        assert_eq!([1, 2, 3, 4].map(has), [false; 4]);
        assert_eq!(kept.lock().size(), 0);
    }
}
