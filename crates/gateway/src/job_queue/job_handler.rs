//! The interface of a kind of job.

use domain::job::JobKind;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::job_queue::queued;
use crate::job_queue::running::RunningJob;

/// The handler of a kind of job.
pub(crate) trait JobHandler: 'static {
    /// The kind.
    const KIND: JobKind;
    /// The most jobs of the kind that one node runs at a time.
    const AT_ONCE: usize;

    /// Does a job, or the rest of one that another node began.
    fn run(job: &RunningJob) -> impl Future<Output = JobOutcome> + Send;
}

/// The outcome of one run of a job. Results are JSON of the kind.
#[derive(Debug)]
pub(crate) enum JobOutcome {
    /// It is done.
    Completed(String),
    /// It cannot be done.
    Failed {
        /// The reason, as a sentence for the one who requested the job.
        error: String,
        /// The result of the parts that were completed.
        result: Option<String>,
    },
    /// It has parts left: the node is about to stop, or lost the job to another.
    Interrupted,
}

impl JobOutcome {
    /// The outcome of a run that ends with a result, with an error, or with neither: then it has parts left.
    pub(crate) fn of(kind: JobKind, end: Result<Option<impl Serialize>>) -> Self {
        let result = match end {
            Ok(None) => return Self::Interrupted,
            Ok(Some(result)) => queued::to_json(&result),
            Err(error) => Err(error),
        };
        match result {
            Ok(result) => Self::Completed(result),
            Err(error) => Self::Failed { error: reason(kind, error), result: None },
        }
    }
}

/// The reason why a job failed, for the one who requested it. An internal error is logged: its message
/// does not have the cause.
pub(crate) fn reason(kind: JobKind, error: Error) -> String {
    let reason = error.to_string();
    if matches!(error, Error::Internal(_)) {
        tracing::error!(kind = kind.as_str(), error = error.cause(), "a job met a fault");
    }
    reason
}
