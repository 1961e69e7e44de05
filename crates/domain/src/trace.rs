//! Traces: one unit of work each.

use serde_json::Value;

use crate::grade::Assessment;
use crate::ids::{KeyId, ProjectId, TraceId};
use crate::money::Usd;
use crate::tier::words;
use crate::time::Timestamp;

words!(
    /// The stage of a trace in its life.
    TraceStatus {
        /// Open for steps.
        Pending = "pending",
        /// Done and graded.
        Completed = "completed",
        /// Made by a replay.
        Replay = "replay",
        /// Left open and idle for too long.
        Failed = "failed",
    }
);

/// A trace as it is stored, without its steps.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its id.
    pub id: TraceId,
    /// The project that owns it.
    pub project: ProjectId,
    /// The key that opened it.
    pub key: Option<KeyId>,
    /// The stage in its life.
    pub status: TraceStatus,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was completed.
    pub completed_at: Option<Timestamp>,
    /// The caller's own JSON object.
    pub metadata: Option<Value>,
    /// The revenue of the work, for the margin.
    pub revenue: Option<Usd>,
    /// Its grades, once completed.
    pub assessment: Option<Assessment>,
    /// How its agent worked, once completed.
    pub work: Option<AgentWork>,
    /// The kept data of its deleted steps; `None` while it has them all.
    pub purged: Option<Purged>,
}

/// How the agent of a trace worked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgentWork {
    /// The probability that it was stuck, 0 to 1.
    pub stall_probability: f64,
    /// The fit of its tool calls to the tools, 0 to 1.
    pub tool_fidelity: f64,
}

impl AgentWork {
    /// Whether it is flagged as likely stalled.
    pub fn is_stalled(self) -> bool {
        self.stall_probability > 0.7
    }

    /// Whether it is flagged for calls of tools that there are not.
    pub fn invents_calls(self) -> bool {
        self.tool_fidelity < 0.8
    }
}

/// The data that a trace keeps of its steps whose retention is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// The cost of these steps.
    pub cost: Usd,
    /// Whether any held personal data.
    pub pii: bool,
    /// Whether any held an injection.
    pub injection: bool,
    /// Whether any held a credential.
    pub secret: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_flagged_beyond_the_bounds_and_not_at_them() {
        let flags = |stall_probability, tool_fidelity| {
            let work = AgentWork { stall_probability, tool_fidelity };
            (work.is_stalled(), work.invents_calls())
        };
        assert_eq!(flags(0.7, 0.8), (false, false));
        assert_eq!(flags(0.71, 1.0), (true, false));
        assert_eq!(flags(0.0, 0.79), (false, true));
    }
}
