//! The graph of steps: their parents and follow-ups.

use std::collections::HashMap;

use domain::ids::StepId;
use domain::step::{Step, StepKind};

/// The most tool calls on one line of parents; 0 when no model asked for a tool.
pub(crate) fn chain_depth(steps: &[Step]) -> usize {
    let by_id: HashMap<StepId, &Step> = steps.iter().map(|step| (step.id, step)).collect();
    let mut depths: HashMap<StepId, usize> = HashMap::new();
    for step in steps {
        // Parents come first in a healthy trace; clocks of two nodes may disagree, so climb.
        let mut line = Vec::new();
        let mut next = Some(step);
        while let Some(at) = next {
            // No line is longer than the trace, unless its parents form a ring.
            if depths.contains_key(&at.id) || line.len() > steps.len() {
                break;
            }
            line.push(at);
            next = at.parent.and_then(|parent| by_id.get(&parent).copied());
        }
        for at in line.into_iter().rev() {
            let above = at.parent.and_then(|parent| depths.get(&parent)).copied().unwrap_or(0);
            depths.entry(at.id).or_insert(above + usize::from(at.kind == StepKind::ToolCall));
        }
    }
    depths.into_values().max().unwrap_or(0)
}

/// Microseconds spent on tools: their own time if the gateway ran them, plus the wait until a follow-up
/// carried their results. `None` when no model asked for a tool.
pub(crate) fn tool_overhead(steps: &[Step]) -> Option<i64> {
    let mut follow_ups: HashMap<StepId, &Step> = HashMap::new();
    for step in steps.iter().filter(|step| step.kind == StepKind::Run) {
        if let Some(parent) = step.parent {
            follow_ups.entry(parent).or_insert(step);
        }
    }
    let calls = steps.iter().filter(|step| step.kind == StepKind::ToolCall);
    let spent = calls.map(|call| {
        let follow_up = follow_ups.get(&call.id);
        let wait = follow_up.map_or(0, |next| next.started_at.since(call.finished_at));
        call.latency().saturating_add(wait)
    });
    spent.reduce(i64::saturating_add)
}
