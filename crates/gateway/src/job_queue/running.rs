//! A job that this node runs: its progress, and the moment when it has to end.

use std::time::Duration;

use domain::job::{Job, Progress};

use crate::error::Result;
use crate::gateway::Gateway;

/// A call that is open when the gateway stops may take this long to end, once no request is open.
const STOP_GRACE_TIME: Duration = Duration::from_secs(5);

/// A job that this node runs.
#[derive(Debug)]
pub(crate) struct RunningJob {
    pub(crate) gateway: Gateway,
    pub(crate) job: Job,
}

impl RunningJob {
    /// Writes the progress before the next part of the job. Returns false if there must be no next part: the
    /// node is about to stop, or lost the job to another.
    pub(crate) async fn checkpoint(&self, progress: Progress) -> Result<bool> {
        if self.gateway.winding_down.is_cancelled() {
            return Ok(false);
        }
        Ok(self.gateway.store.note_job_progress(self.job.id, progress).await?)
    }

    /// Does work that takes long. `None` if the gateway stops meanwhile: then the work is dropped.
    pub(crate) async fn until_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.stop_deadline() => None,
        }
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
