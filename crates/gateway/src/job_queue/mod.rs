//! Jobs that a request has asked for, and that go on after it: a queue in the database, and one runner a
//! kind on each node.
//!
//! A job belongs to one node while it runs, and waits again when that stops or is gone. A kind of job is a
//! type that implements [`Work`]; it does its job in parts, and finds out from what is stored which of
//! them an earlier node has done.

mod runner;
mod running;

use domain::job::JobKind;

pub(crate) use runner::serve;
pub(crate) use running::RunningJob;

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
