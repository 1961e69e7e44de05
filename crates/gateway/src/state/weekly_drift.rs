//! The drift of the last seven days, kept for the next visitor of a page.

use std::sync::{Arc, Mutex, PoisonError};

use domain::ids::ProjectId;
use domain::time::{MINUTE, Timestamp};
use grading::DriftReport;
use hashlink::LruCache;

/// The projects whose drift is kept.
const KEPT: usize = 256;

/// The latest drift over seven days of the projects that are looked at: two times 20,000 steps are read for one.
#[derive(Debug)]
pub(crate) struct WeeklyDrift(Mutex<LruCache<ProjectId, KeptDrift>>);

/// The time at which the answers were compared, and what was found.
type KeptDrift = (Timestamp, Arc<Vec<DriftReport>>);

impl Default for WeeklyDrift {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KEPT)))
    }
}

impl WeeklyDrift {
    /// What was found within the last minute.
    pub(crate) fn get(&self, project: ProjectId, now: Timestamp) -> Option<Arc<Vec<DriftReport>>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, reports) = kept.get(&project)?;
        (0..MINUTE).contains(&now.since(*at)).then(|| reports.clone())
    }

    /// Keeps what was found now.
    pub(crate) fn keep(&self, project: ProjectId, now: Timestamp, reports: Arc<Vec<DriftReport>>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(project, (now, reports));
    }
}
