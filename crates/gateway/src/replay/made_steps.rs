//! The steps that a replay has so far, and their parents.

use std::collections::HashMap;

use domain::ids::StepId;
use domain::step::{Step, StepKind};
use store::Start;

/// The steps of a replay so far, by the steps of the source that they repeat or copy.
#[derive(Debug, Default)]
pub(super) struct MadeSteps {
    pub(super) by_source: HashMap<StepId, StepId>,
    /// The steps of the tools that a call asks for, by the step of the source that the call repeats.
    tools: HashMap<StepId, StepId>,
}

impl MadeSteps {
    /// The steps of a trace, and its calls whose end is not recorded: each of these has left, and is paid for.
    pub(super) fn of(steps: &[Step], open: &[Start]) -> Self {
        let steps = steps.iter().filter(|step| !step.is_shadow());
        let sources: HashMap<StepId, StepId> =
            steps.clone().filter_map(|step| Some((step.id, step.source?))).collect();
        let tools = steps.filter(|step| step.kind == StepKind::ToolCall);
        let tools = tools.filter_map(|step| Some((*sources.get(&step.parent?)?, step.id)));
        let open = open.iter().filter(|start| !start.shadow);
        let begun = open.filter_map(|start| Some((start.source?, start.step)));
        let ended = sources.iter().map(|(step, source)| (*source, *step));
        Self { tools: tools.collect(), by_source: begun.chain(ended).collect() }
    }

    pub(super) fn note(&mut self, source: StepId, step: StepId, tools: Option<StepId>) {
        self.by_source.insert(source, step);
        self.tools.extend(tools.map(|tools| (source, tools)));
    }

    /// The parent of a step in the replay: the copy of its nearest ancestor in the source that has one.
    pub(super) fn parent(&self, step: &Step, steps: &[Step]) -> Option<StepId> {
        let mut parent = step.parent;
        // A step has fewer ancestors than the trace has steps.
        for _ in 0..steps.len() {
            let source = parent?;
            if let Some(made) = self.by_source.get(&source) {
                return Some(*made);
            }
            let source = steps.iter().find(|step| step.id == source)?;
            if source.kind == StepKind::ToolCall
                && let Some(tools) = source.parent.and_then(|run| self.tools.get(&run))
            {
                return Some(*tools);
            }
            parent = source.parent;
        }
        None
    }
}
