//! A job that this node runs: its progress, and the moment when it has to end.

use std::time::Duration;

use domain::job::{Job, Progress};

use crate::bounded_read::write_again;
use crate::capacity::body_memory::{BodyCharge, BodyOwner};
use crate::error::{Error, Result};
use crate::gateway::Gateway;

/// A call that is open when the gateway stops may take this long to end, once no request is open.
const STOP_GRACE_TIME: Duration = Duration::from_secs(5);
/// The most waits of one part for memory, of up to a second each; the last failure ends the job.
const MEMORY_ATTEMPTS: u32 = 60;

/// A job that this node runs, and that counts as one until it is dropped.
#[derive(Debug)]
pub(crate) struct RunningJob {
    pub(crate) gateway: Gateway,
    pub(crate) job: Job,
}

impl RunningJob {
    pub(crate) fn new(gateway: Gateway, job: Job) -> Self {
        gateway.running_jobs.add(&job);
        Self { gateway, job }
    }

    /// Writes the progress before the next part of the job. Returns false if there must be no next part: the
    /// node is about to stop, or lost the job to another.
    pub(crate) async fn checkpoint(&self, progress: Progress) -> Result<bool> {
        // A second write of the same progress changes nothing.
        let note = || self.gateway.store.note_job_progress(&self.job, progress);
        let noted = self.gateway.winding_down.run_until_cancelled(write_again(note)).await;
        self.note(progress);
        noted.unwrap_or(Ok(false))
    }

    /// Shows in the metrics how far it is.
    pub(crate) fn note(&self, progress: Progress) {
        self.gateway.running_jobs.note(&self.job, progress);
    }

    /// Pauses before work is tried again. Returns false if the node is about to stop.
    pub(crate) async fn pause(&self, pause: Duration) -> bool {
        let pause = tokio::time::sleep(pause);
        self.gateway.winding_down.run_until_cancelled(pause).await.is_some()
    }

    /// Does work that takes long. `None` if the gateway stops meanwhile: then the work is dropped.
    pub(crate) async fn until_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.stop_deadline() => None,
        }
    }

    /// Waits for the memory that a content takes. `None` if there must be no next part.
    pub(crate) async fn memory(&self, bytes: usize) -> Result<Option<BodyCharge>> {
        let mut charge = self.empty_charge().await?;
        Ok(self.raise(&mut charge, bytes).await?.then_some(charge))
    }

    /// A charge of the job's project that holds nothing yet.
    pub(crate) async fn empty_charge(&self) -> Result<BodyCharge> {
        self.gateway.body_memory.charge(BodyOwner::Project(self.job.project), 0).await
    }

    /// Waits until a charge holds as many bytes as this. Returns false if there must be no next part.
    pub(crate) async fn raise(&self, charge: &mut BodyCharge, bytes: usize) -> Result<bool> {
        // The last attempt follows the loop.
        for _ in 1..MEMORY_ATTEMPTS {
            match charge.raise(bytes).await {
                Ok(()) => return Ok(true),
                Err(Error::Busy { .. }) if !self.gateway.winding_down.is_cancelled() => {}
                Err(Error::Busy { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        charge.raise(bytes).await.map(|()| true)
    }

    /// Waits until work has to be dropped, so that the gateway can stop.
    async fn stop_deadline(&self) {
        self.gateway.stopping.cancelled().await;
        tokio::time::sleep(STOP_GRACE_TIME).await;
        // By this token, which is one for the whole gateway, a dropped call records that the stop ended it and
        // not a caller who hung up. No request is open by now, so only calls of jobs are concerned.
        self.gateway.cut_off.cancel();
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        self.gateway.running_jobs.remove(&self.job);
    }
}
