//! The end of steps whose retention is over.

use domain::job::{JobKind, Progress};

use crate::error::Result;
use crate::job_queue::job_handler::{JobHandler, JobOutcome};
use crate::job_queue::running::RunningJob;

/// The most slices of steps that one job deletes: more hours are summed before the next one.
const MOST_SLICES: usize = 200;

/// Deletes steps that are in all sums.
pub(super) struct Retention;

impl JobHandler for Retention {
    const KIND: JobKind = JobKind::Retention;
    const AT_ONCE: usize = 1;

    async fn run(job: &RunningJob) -> JobOutcome {
        JobOutcome::of(Self::KIND, Box::pin(purge(job)).await)
    }
}

/// Deletes slice by slice. Returns the number of steps; `None` if the gateway stops before the last one.
async fn purge(job: &RunningJob) -> Result<Option<u64>> {
    let now = job.gateway.clock.now();
    let mut deleted = 0;
    for _ in 0..MOST_SLICES {
        // The number of steps that are left is not known.
        if !job.checkpoint(Progress { done: deleted, total: deleted }).await? {
            return Ok(None);
        }
        let slice = job.gateway.store.purge_steps(now).await?;
        if slice == 0 {
            break;
        }
        deleted += slice;
    }
    Ok(Some(deleted))
}
