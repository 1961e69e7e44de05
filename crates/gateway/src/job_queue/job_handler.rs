//! The interface of a kind of job.

use domain::job::JobKind;

use crate::job_queue::running::RunningJob;

/// The work of a kind of job.
pub(crate) trait Work: 'static {
    /// The kind.
    const KIND: JobKind;
    /// The most jobs of the kind that one node runs at a time.
    const AT_ONCE: usize;

    /// Does a job, or the rest of one that another node has begun.
    fn run(job: &RunningJob) -> impl Future<Output = Ended> + Send;
}

/// How the run of a job has ended. Results are JSON of the kind.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It is done.
    Completed(String),
    /// It cannot be done.
    Failed {
        /// Why, as a sentence for the one who has asked for it.
        error: String,
        /// What was done.
        result: Option<String>,
    },
    /// It has parts left: the node is about to stop, or has it no more.
    Interrupted,
}
