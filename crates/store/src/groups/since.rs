//! The steps of projects that are in no row and have come, counted by every dimension and kept until their hour is
//! summed: a page that is kept up to date reads only the steps that have come since.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ids::ProjectId;

use super::alike::ByValue;
use super::bounded::Bounded;

/// The values by dimension that are kept, of all projects: some 10 MiB.
const MOST_VALUES: usize = 50_000;

/// Steps that ended from a time on and before another, in microseconds.
#[derive(Debug)]
pub(super) struct CountedSteps {
    pub(super) from: i64,
    pub(super) until: i64,
    pub(super) values: ByValue,
}

/// The counted steps of the projects that were asked about last.
#[derive(Debug)]
pub(crate) struct KeptSteps(Mutex<Bounded<ProjectId, Arc<CountedSteps>>>);

impl Default for KeptSteps {
    fn default() -> Self {
        Self(Mutex::new(Bounded::new(MOST_VALUES)))
    }
}

impl KeptSteps {
    /// The steps of a project from a time on, as far as they are kept and ended before another; none if none are.
    /// All steps before `settled` have come: a clock that has gone back since leaves none.
    pub(super) fn get(
        &self,
        project: ProjectId,
        (from, until): (i64, i64),
        settled: i64,
    ) -> Arc<CountedSteps> {
        let mut all = self.lock();
        if all.get(&project).is_some_and(|kept| kept.until > settled.max(kept.from)) {
            all.remove(&project);
        }
        let fits = |kept: &&Arc<CountedSteps>| kept.from == from && kept.until <= until;
        let kept = all.get(&project).filter(fits).cloned();
        kept.unwrap_or_else(|| {
            Arc::new(CountedSteps { from, until: from, values: ByValue::default() })
        })
    }

    /// Keeps the steps of a project, unless as many are kept.
    pub(super) fn keep(&self, project: ProjectId, counted: Arc<CountedSteps>) {
        let mut all = self.lock();
        let are_kept =
            |kept: &Arc<CountedSteps>| kept.from == counted.from && kept.until >= counted.until;
        if !all.get(&project).is_some_and(are_kept) {
            let values = counted.values.0.len();
            all.insert(project, counted, values);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Bounded<ProjectId, Arc<CountedSteps>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(until: i64, values: usize) -> Arc<CountedSteps> {
        let value = |at: usize| (("user".to_owned(), at.to_string()), [1; 7]);
        let values = ByValue((0..values).map(value).collect());
        Arc::new(CountedSteps { from: 100, until, values })
    }

    #[test]
    fn steps_of_a_clock_that_has_gone_back_are_counted_anew() {
        let (kept, project) = (KeptSteps::default(), ProjectId(1));
        kept.keep(project, counted(500, 3));
        assert_eq!(kept.get(project, (100, 600), 600).until, 500);
        assert_eq!(kept.get(project, (100, 300), 600).until, 100, "an earlier end");
        assert_eq!(kept.get(project, (200, 600), 600).until, 200, "another hour");
        assert_eq!(kept.get(project, (100, 600), 600).until, 500);
        assert_eq!(kept.get(project, (100, 300), 300).until, 100);
        assert_eq!(kept.get(project, (100, 600), 600).until, 100, "they are kept no longer");
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
        kept.keep(ProjectId(4), counted(500, MOST_VALUES + 1));
        assert_eq!([1, 2, 3, 4].map(until), [100; 4]);
        assert_eq!(kept.lock().size(), 0);
    }
}
