//! Jobs: work that goes on after the request that has asked for it, and survives the process that runs it.

use crate::ids::{JobId, KeyId, ProjectId};
use crate::tier::words;
use crate::time::Timestamp;

words!(
    /// The kind of work of a job.
    JobKind {
        /// Sends the calls of a trace again.
        Replay = "replay",
        /// Writes the steps or the costs of a project to a file.
        Export = "export",
        /// Judges the recorded requests of a period by draft settings.
        Backtest = "backtest",
        /// Computes the insights of a project anew.
        Insights = "insights",
        /// Deletes the steps whose retention is over.
        Retention = "retention",
    }
);

impl JobKind {
    /// Whether people ask for jobs of this kind; the gateway queues the others by itself.
    pub fn is_asked_for(self) -> bool {
        match self {
            Self::Replay | Self::Export | Self::Backtest => true,
            Self::Insights | Self::Retention => false,
        }
    }
}

words!(
    /// The stage of a job in its life.
    JobState {
        /// Waits for a node to run it.
        Queued = "queued",
        /// A node runs it.
        Running = "running",
        /// Done; it has a result.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
    }
);

impl JobState {
    /// Whether it changes no more.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }
}

/// A job as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    pub kind: JobKind,
    /// The project that it belongs to.
    pub project: ProjectId,
    /// The key that has asked for it, if one has.
    pub key: Option<KeyId>,
    /// What was asked for, as JSON of its kind.
    pub payload: String,
    /// The stage in its life.
    pub state: JobState,
    /// How far it has come.
    pub progress: Progress,
    /// How often a node has begun to run it.
    pub runs: u64,
    /// How many of these runs ended with their node, and not at a stop.
    pub losses: u64,
    /// Its result, as JSON of its kind. One that has failed may have what was done.
    pub result: Option<String>,
    /// Why it has failed.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was run first.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
}

/// The parts of a job that are done, and how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Parts that are done.
    pub done: u64,
    /// All parts; 0 until they are counted.
    pub total: u64,
}
