//! A job that this node runs: how far it is, and when it has to end.

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
    /// Notes how far it is, before its next part. False if there must be none: the node is about to stop,
    /// or has the job no more.
    pub(crate) async fn goes_on(&self, progress: Progress) -> Result<bool> {
        if self.gateway.winding_down.is_cancelled() {
            return Ok(false);
        }
        Ok(self.gateway.store.note_job_progress(self.job.id, progress).await?)
    }

    /// Does work that takes long. `None` if the gateway stops meanwhile: then the work is dropped.
    pub(crate) async fn until_stop<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.cut_off() => None,
        }
    }

    /// Waits until work has to be dropped, so that the gateway can stop.
    async fn cut_off(&self) {
        self.gateway.stopping.cancelled().await;
        tokio::time::sleep(STOP_GRACE_TIME).await;
        // Calls that are dropped now are recorded as ended by the stop.
        self.gateway.cut_off.cancel();
    }
}
