//! The steps of projects that are in no row and have surely all come, counted by every dimension and kept until their
//! hour is summed: a page that is kept up to date reads only what has come since.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::ids::ProjectId;
use hashlink::LruCache;

use super::alike::ByValue;

/// The projects whose steps are kept, those that were asked about last.
const PROJECTS: usize = 16;
/// Counts with more values by dimension than these are not kept: some 2 MiB.
const MOST_VALUES: usize = 20_000;

/// Steps that ended from a time on and before another, in microseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct CountedSteps {
    pub(super) from: i64,
    pub(super) until: i64,
    pub(super) values: ByValue,
}

/// The counted steps of projects.
#[derive(Debug)]
pub(crate) struct KeptSteps(Mutex<LruCache<ProjectId, Arc<CountedSteps>>>);

impl Default for KeptSteps {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(PROJECTS)))
    }
}

impl KeptSteps {
    /// The steps of a project from a time on, as far as they are kept and ended before another; none if none are.
    pub(super) fn get(&self, project: ProjectId, from: i64, until: i64) -> Arc<CountedSteps> {
        let fits = |kept: &&Arc<CountedSteps>| kept.from == from && kept.until <= until;
        let kept = self.lock().get(&project).filter(fits).cloned();
        kept.unwrap_or_else(|| {
            Arc::new(CountedSteps { from, until: from, values: ByValue::default() })
        })
    }

    /// Keeps the steps of a project, unless they are too many or as many are kept.
    pub(super) fn keep(&self, project: ProjectId, counted: Arc<CountedSteps>) {
        let mut all = self.lock();
        let are_kept =
            |kept: &Arc<CountedSteps>| kept.from == counted.from && kept.until >= counted.until;
        if counted.values.0.len() <= MOST_VALUES && !all.get(&project).is_some_and(are_kept) {
            all.insert(project, counted);
        }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<ProjectId, Arc<CountedSteps>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
