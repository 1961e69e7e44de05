//! Numbers of turns: the completed answers of the assistants endpoint in a trace, counted in the
//! commit that writes them. Two nodes cannot give a number twice, and neither a restart nor a purge
//! of steps makes it begin anew.

use std::collections::HashMap;

use domain::ids::StepId;
use domain::step::{ApiEndpoint, Step, StepKind, StepStatus};

use super::Write;

/// Adds turns to a trace, and returns how many it has then.
pub(super) const ADD: &str = "UPDATE traces SET turns = turns + $1 WHERE id = $2 RETURNING turns";

/// Whether a step is a turn.
pub(super) fn is_turn(step: &Step) -> bool {
    step.api_endpoint == ApiEndpoint::Assistants
        && step.kind == StepKind::Run
        && step.status == StepStatus::Completed
        && !step.call.as_ref().is_some_and(|call| call.shadow)
}

/// The numbers that a commit has given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers(HashMap<StepId, u64>);

impl Numbers {
    /// Records that a trace has `turns` turns now, of which these steps are the last. Without a
    /// number there is no such trace.
    pub(super) fn note(&mut self, steps: &[StepId], turns: Option<i64>) {
        let Some(turns) = turns else { return };
        let before = turns.unsigned_abs().saturating_sub(steps.len() as u64);
        self.0.extend(steps.iter().zip(before + 1..).map(|(step, number)| (*step, number)));
    }

    /// The turn number of a write, if it is a turn.
    pub(super) fn of(&self, write: &Write) -> Option<u64> {
        match write {
            Write::Step(step, ..) => self.0.get(&step.id).copied(),
            Write::Trace(_) | Write::Start(_) | Write::Withdraw(_) | Write::Stored(_) => None,
        }
    }
}
