//! The plan of a replay: the action for each step of the source, and the model of each repeated call.

use std::collections::HashMap;

use domain::ids::StepId;
use domain::step::{ApiEndpoint, Call, Step, StepKind, StepStatus};
use domain::time::Timestamp;

use crate::replay::overrides::Overrides;

/// The action of a replay for a step of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Repeat its call.
    Repeat,
    /// Copy it: it called no model.
    Copy,
    /// Do nothing.
    Skip,
}

/// The action for a step.
pub(super) fn action(step: &Step) -> Action {
    match step.kind {
        StepKind::Run if is_repeatable(step) => Action::Repeat,
        StepKind::Blocked | StepKind::Check | StepKind::Log => Action::Copy,
        StepKind::Run | StepKind::ToolCall => Action::Skip,
    }
}

/// Whether a run is a completed call that answers with text, and no shadow call.
fn is_repeatable(step: &Step) -> bool {
    let is_text_call = !matches!(step.api_endpoint, ApiEndpoint::Embeddings | ApiEndpoint::Images);
    is_completed_call(step) && is_text_call
}

/// Whether a step is a completed call, whatever it answers with, and no shadow call.
pub(super) fn is_completed_call(step: &Step) -> bool {
    let is_primary = step.call.as_ref().is_some_and(|call| !call.shadow);
    step.kind == StepKind::Run && step.status == StepStatus::Completed && is_primary
}

/// The model that repeats a call, by the name under which it is asked for.
pub(super) fn model<'a>(
    call: &'a Call,
    parallel_position: Option<usize>,
    target: Option<&'a str>,
    overrides: &'a Overrides,
) -> &'a str {
    let models = overrides.force_models.as_deref().filter(|models| !models.is_empty());
    match (parallel_position, models) {
        (Some(position), Some(models)) => &models[position % models.len()],
        _ => target.unwrap_or(&call.model),
    }
}

/// The positions of calls that ran in parallel: each among the calls of the same parent that overlapped with
/// it, directly or through others. A call that ran alone has none.
pub(super) fn parallel_positions(steps: &[Step]) -> HashMap<StepId, usize> {
    let mut of_parent: HashMap<Option<StepId>, Vec<&Step>> = HashMap::new();
    for step in steps.iter().filter(|step| action(step) == Action::Repeat) {
        of_parent.entry(step.parent).or_default().push(step);
    }
    let mut positions = HashMap::new();
    for siblings in of_parent.into_values() {
        // The steps are in the order of their begin.
        let mut group: Vec<StepId> = Vec::new();
        let mut end = Timestamp(i64::MIN);
        for step in siblings {
            if step.started_at >= end {
                note(&mut positions, &group);
                group.clear();
            }
            group.push(step.id);
            end = end.max(step.finished_at);
        }
        note(&mut positions, &group);
    }
    positions
}

fn note(positions: &mut HashMap<StepId, usize>, group: &[StepId]) {
    if group.len() > 1 {
        positions.extend(group.iter().enumerate().map(|(position, step)| (*step, position)));
    }
}

#[cfg(test)]
mod tests {
    use domain::model::Provider;

    use super::*;
    use crate::testing::step;

    fn run(id: i64, parent: Option<i64>, began: i64, ended: i64) -> Step {
        Step {
            id: StepId(id),
            parent: parent.map(StepId),
            started_at: Timestamp(began),
            finished_at: Timestamp(ended),
            ..step(StepKind::Run, Some(Call::of("own".to_owned(), Provider::Openai)))
        }
    }

    #[test]
    fn calls_that_ran_in_parallel_have_positions() {
        let steps = [
            run(1, None, 0, 10),
            // Three of one parent: the last overlaps with the second alone.
            run(2, Some(1), 10, 20),
            run(3, Some(1), 15, 40),
            run(4, Some(1), 30, 50),
            // Another parent's, at the same time.
            run(5, Some(2), 35, 45),
            // Two more, once those are over; they begin at once.
            run(6, Some(1), 50, 50),
            run(7, Some(1), 60, 70),
            run(8, Some(1), 60, 65),
        ];
        let positions = parallel_positions(&steps);
        let found: Vec<_> = (1..=8).map(|id| positions.get(&StepId(id)).copied()).collect();
        assert_eq!(found, [None, Some(0), Some(1), Some(2), None, None, Some(0), Some(1)]);
    }

    #[test]
    fn models_are_assigned_in_turn_to_calls_that_ran_in_parallel() {
        let call = Call::of("own".to_owned(), Provider::Openai);
        let names = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
        let overrides = Overrides { force_models: names(&["a", "b"]), ..Overrides::default() };
        for (position, target, expected) in [
            (None, None, "own"),
            (None, Some("c"), "c"),
            (Some(0), None, "a"),
            (Some(1), Some("c"), "b"),
            (Some(2), None, "a"),
        ] {
            assert_eq!(model(&call, position, target, &overrides), expected);
        }
        let none = Overrides::default();
        assert_eq!(model(&call, Some(1), None, &none), "own");
        assert_eq!(model(&call, Some(1), Some("c"), &none), "c");
    }

    #[test]
    fn only_answered_calls_are_made_again() {
        let step = run(1, None, 0, 1);
        assert_eq!(action(&step), Action::Repeat);
        let with = |change: fn(&mut Step)| {
            let mut step = step.clone();
            change(&mut step);
            action(&step)
        };
        assert_eq!(with(|step| step.status = StepStatus::Failed), Action::Skip);
        assert_eq!(with(|step| step.status = StepStatus::Cancelled), Action::Skip);
        assert_eq!(with(|step| step.api_endpoint = ApiEndpoint::Images), Action::Skip);
        assert_eq!(with(|step| step.api_endpoint = ApiEndpoint::Embeddings), Action::Skip);
        assert_eq!(with(|step| step.call.as_mut().unwrap().shadow = true), Action::Skip);
        assert_eq!(with(|step| step.kind = StepKind::ToolCall), Action::Skip);
        assert!(is_completed_call(&step));
        assert!(is_completed_call(&Step { api_endpoint: ApiEndpoint::Images, ..step.clone() }));
        assert!(!is_completed_call(&Step { status: StepStatus::Failed, ..step.clone() }));
        for kind in [StepKind::Blocked, StepKind::Check, StepKind::Log] {
            assert_eq!(action(&Step { kind, ..step.clone() }), Action::Copy);
        }
    }
}
