//! The steps of projects that are in no row, counted by every dimension and kept until their hour is summed: a page
//! that is kept up to date reads each step once.
//!
//! ```text
//! hour | values: complete | recent parts: nearly complete | the last seconds, read each time | now
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ids::ProjectId;
use domain::time::{SECOND, Timestamp};

use super::alike::ByValue;
use super::bounded::Bounded;

/// The values by dimension that are kept, of all projects: some 10 MiB.
const MOST_VALUES: usize = 50_000;
/// Parts that follow each other are one as long as they are not longer than this, in microseconds.
const LONGEST_JOINED: i64 = 15 * SECOND;

/// How far the steps on disk are complete, by the time at which they ended.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// Before this, all are there.
    pub complete: Timestamp,
    /// Before this, nearly all are: a part that others come to is counted anew.
    pub nearly: Timestamp,
}

/// Steps that ended from a time on and before another, in microseconds, to which others may come.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    pub(super) from: i64,
    pub(super) until: i64,
    /// How many there were, with those that count in no group.
    pub(super) steps: i64,
    pub(super) values: Arc<ByValue>,
}

/// Steps that ended from a time on, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct CountedSteps {
    from: i64,
    /// The end of those that are complete.
    until: i64,
    /// Those, counted.
    values: Arc<ByValue>,
    /// Those that ended later, in parts that follow each other.
    pub(super) recent: Vec<Recent>,
}

impl CountedSteps {
    fn none(from: i64) -> Self {
        Self { from, until: from, values: Arc::default(), recent: Vec::new() }
    }

    /// The end of all that are counted.
    pub(super) fn end(&self) -> i64 {
        self.recent.last().map_or(self.until, |part| part.until)
    }

    /// Adds steps that ended from the end on and before a time, and are complete.
    pub(super) fn add(&mut self, until: i64, values: &ByValue) {
        Arc::make_mut(&mut self.values).add_all(values);
        self.until = until;
    }

    /// Adds steps that ended from the end on, to which others may come.
    pub(super) fn add_recent(&mut self, part: Recent) {
        match self.recent.last_mut() {
            Some(last) if part.until - last.from <= LONGEST_JOINED => {
                last.until = part.until;
                last.steps += part.steps;
                Arc::make_mut(&mut last.values).add_all(&part.values);
            }
            _ => self.recent.push(part),
        }
    }

    /// Adds the parts that ended before a time to the steps that are complete.
    pub(super) fn settle(&mut self, complete: i64) {
        let settled = self.recent.partition_point(|part| part.until <= complete);
        for part in self.recent.drain(..settled).collect::<Vec<_>>() {
            self.add(part.until, &part.values);
        }
    }

    /// All that are counted, together with others.
    pub(super) fn with(&self, others: &ByValue) -> ByValue {
        let mut sum = ByValue::clone(&self.values);
        self.recent.iter().for_each(|part| sum.add_all(&part.values));
        sum.add_all(others);
        sum
    }

    /// How many values they have.
    fn size(&self) -> usize {
        let recent = self.recent.iter().map(|part| part.values.0.len());
        self.values.0.len() + recent.sum::<usize>()
    }
}

/// The counted steps of the projects that were asked about last.
#[derive(Debug)]
pub(crate) struct KeptSteps(Mutex<Bounded<ProjectId, CountedSteps>>);

impl Default for KeptSteps {
    fn default() -> Self {
        Self(Mutex::new(Bounded::new(MOST_VALUES)))
    }
}

impl KeptSteps {
    /// The steps of a project from a time on, as far as they are kept and ended before another; none if none are.
    /// Steps that ended before `complete` are complete: a clock that has gone back since leaves none.
    pub(super) fn get(
        &self,
        project: ProjectId,
        (from, end): (i64, i64),
        complete: i64,
    ) -> CountedSteps {
        let mut all = self.lock();
        if all.get(&project).is_some_and(|kept| kept.until > complete.max(kept.from)) {
            all.remove(&project);
        }
        let fits = |kept: &&CountedSteps| kept.from == from && kept.until <= end;
        let Some(kept) = all.get(&project).filter(fits) else { return CountedSteps::none(from) };
        let mut counted = kept.clone();
        counted.recent.retain(|part| part.until <= end);
        counted
    }

    /// Keeps the steps of a project, unless later ones are kept. None at all, as of a question about a period that is
    /// over, are not kept either.
    pub(super) fn keep(&self, project: ProjectId, counted: CountedSteps) {
        if counted.end() == counted.from {
            return;
        }
        let mut all = self.lock();
        let are_later =
            |kept: &CountedSteps| kept.from == counted.from && kept.end() > counted.end();
        if !all.get(&project).is_some_and(are_later) {
            let size = counted.size();
            all.insert(project, counted, size);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Bounded<ProjectId, CountedSteps>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(number: usize) -> ByValue {
        let value = |at: usize| (("user".to_owned(), at.to_string()), [1; 7]);
        ByValue((0..number).map(value).collect())
    }

    fn counted(until: i64, number: usize) -> CountedSteps {
        CountedSteps { from: 100, until, values: Arc::new(values(number)), recent: Vec::new() }
    }

    fn recent(from: i64, until: i64) -> Recent {
        Recent { from, until, steps: 1, values: Arc::new(values(1)) }
    }

    #[test]
    fn steps_of_a_clock_that_has_gone_back_are_counted_anew() {
        let (kept, project) = (KeptSteps::default(), ProjectId(1));
        let until = |times, complete| kept.get(project, times, complete).until;
        kept.keep(project, counted(500, 3));
        assert_eq!(until((100, 600), 600), 500);
        assert_eq!(until((100, 300), 600), 100, "an earlier end");
        assert_eq!(until((200, 600), 600), 200, "another hour");
        kept.keep(project, CountedSteps::none(200));
        assert_eq!(until((100, 600), 600), 500);
        assert_eq!(until((100, 300), 300), 100);
        assert_eq!(until((100, 600), 600), 100, "they are kept no longer");
        assert_eq!(kept.lock().size(), 0);
    }

    #[test]
    fn the_steps_that_were_asked_about_longest_ago_make_room() {
        let kept = KeptSteps::default();
        for id in 1..=2 {
            kept.keep(ProjectId(id), counted(500, MOST_VALUES / 2));
        }
        // It takes its own place.
        kept.keep(ProjectId(2), counted(501, MOST_VALUES / 2));
        kept.keep(ProjectId(2), counted(400, 1));
        let until = |id| kept.get(ProjectId(id), (100, 600), 600).until;
        assert_eq!([1, 2].map(until), [500, 501]);
        kept.keep(ProjectId(3), counted(500, 1));
        assert_eq!([1, 2, 3].map(until), [100, 501, 500]);
        let mut with_recent = counted(500, MOST_VALUES);
        with_recent.add_recent(recent(500, 501));
        kept.keep(ProjectId(4), with_recent);
        assert_eq!([1, 2, 3, 4].map(until), [100; 4]);
        assert_eq!(kept.lock().size(), 0);
    }

    #[test]
    fn parts_are_joined_while_they_are_short_and_settle_as_a_whole() {
        let mut counted = counted(SECOND, 1);
        for second in 1..=40 {
            counted.add_recent(recent(second * SECOND, (second + 1) * SECOND));
        }
        let ends: Vec<i64> = counted.recent.iter().map(|part| part.until / SECOND).collect();
        assert_eq!(ends, [16, 31, 41]);
        let steps: Vec<i64> = counted.recent.iter().map(|part| part.steps).collect();
        assert_eq!(steps, [15, 15, 10]);
        let sum = |values: &ByValue| values.0[&("user".to_owned(), "0".to_owned())][0];
        let all = |counted: &CountedSteps| sum(&counted.with(&values(1)));
        assert_eq!(all(&counted), 42);
        counted.settle(31 * SECOND - 1);
        assert_eq!((counted.until / SECOND, counted.recent.len()), (16, 2));
        counted.settle(31 * SECOND);
        assert_eq!((counted.until / SECOND, sum(&counted.values)), (31, 31));
        assert_eq!((all(&counted), counted.end() / SECOND), (42, 41));

        // A question about an earlier end has the parts before it.
        let (kept, project) = (KeptSteps::default(), ProjectId(1));
        kept.keep(project, counted.clone());
        let got = |end: i64| kept.get(project, (100, end * SECOND), 35 * SECOND).end() / SECOND;
        assert_eq!([41, 40].map(got), [41, 31]);
        counted.recent.clear();
        kept.keep(project, counted);
        assert_eq!(got(41), 41, "later ones are kept");
    }
}
