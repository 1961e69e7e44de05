//! Jobs that wait for the database, or for memory, from one run to the next.

use std::sync::Mutex;

use domain::ids::JobId;
use domain::job::{Job, Progress};
use domain::time::Timestamp;
use hashlink::LruCache;

use crate::lock::lock;

/// The most jobs that are known; one that is forgotten waits anew.
const KNOWN: usize = 1_000;

/// The jobs that wait, each with the time since when it has come no further.
#[derive(Debug)]
pub(crate) struct JobWaits(Mutex<LruCache<JobId, (Timestamp, Progress)>>);

impl Default for JobWaits {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KNOWN)))
    }
}

impl JobWaits {
    /// Notes that a run of a job has to wait. Returns for how long runs have come no further than this one had
    /// when it began, in microseconds.
    pub(crate) fn note(&self, job: &Job, now: Timestamp) -> i64 {
        let mut known = lock(&self.0);
        let since = match known.get(&job.id) {
            Some((since, progress)) if *progress == job.progress => *since,
            _ => now,
        };
        known.insert(job.id, (since, job.progress));
        now.since(since)
    }
}
