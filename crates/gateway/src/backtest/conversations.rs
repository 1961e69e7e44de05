//! Conversations in which the gateway runs MCP tools: the request of the caller that each later round belongs
//! to.

use std::collections::{HashMap, VecDeque};

use domain::ids::StepId;
use domain::step::{Step, StepKind};
use domain::time::Timestamp;

use crate::tools::mcp::ROUNDS_TIMEOUT;

/// A conversation takes no longer than this, with all that goes on until its last step is recorded.
const LONGEST: std::time::Duration = ROUNDS_TIMEOUT.saturating_mul(2);

/// The steps of conversations, in the order in which they ended. Those that no later round can follow are
/// forgotten.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    /// By the step of a tool that of the answer which asked for it; by that of a later round the first.
    links: HashMap<StepId, StepId>,
    order: VecDeque<(Timestamp, StepId)>,
}

impl Conversations {
    /// Notes the steps of tools among the next steps, of which the first ended at a time. Requests among them
    /// may follow any of these.
    pub(super) fn note(&mut self, since: Timestamp, steps: &[Step]) {
        while let Some((at, old)) = self.order.front().copied()
            && at.plus(LONGEST) < since
        {
            self.links.remove(&old);
            self.order.pop_front();
        }
        for step in steps.iter().filter(|step| step.kind == StepKind::ToolCall) {
            if let Some(run) = step.parent {
                self.link(step.id, run, step.finished_at);
            }
        }
    }

    /// The first step of the conversation of a round that follows the step of a tool.
    pub(super) fn first(&mut self, round: StepId, tool: StepId, ended: Timestamp) -> StepId {
        let run = self.links.get(&tool).copied().unwrap_or(tool);
        let first = self.links.get(&run).copied().unwrap_or(run);
        self.link(round, first, ended);
        first
    }

    fn link(&mut self, step: StepId, earlier: StepId, ended: Timestamp) {
        self.links.insert(step, earlier);
        self.order.push_back((ended, step));
    }
}
