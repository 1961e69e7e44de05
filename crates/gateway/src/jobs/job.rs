//! The interface of a job.

use std::time::Duration;

use crate::error::Result;
use crate::gateway::Gateway;

/// Work that runs now and then.
pub(crate) trait Job: Send + 'static {
    /// Its name in logs.
    const NAME: &'static str;

    /// The time between two runs.
    fn period(&self, gateway: &Gateway) -> Duration;

    /// Runs once. A failure is logged, and the next run is not affected.
    fn run(&mut self, gateway: &Gateway) -> impl Future<Output = Result<()>> + Send;
}

/// Logs the failure of a job, or of a part of one.
pub(crate) fn log_failure(name: &'static str, done: Result<()>) {
    if let Err(error) = done {
        tracing::warn!(what = name, error = error.cause(), "background work failed");
    }
}
