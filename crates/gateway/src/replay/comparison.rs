//! How a replay compares with its source: pure functions over their steps.

use std::collections::HashMap;

use domain::grade::Assessment;
use domain::ids::StepId;
use domain::money::Usd;
use domain::step::{Step, StepKind, StepStatus};
use domain::time::millis;
use domain::trace::Trace;

use crate::replay::result::{ReplayedStep, Skip, TraceSummary};

/// A call of the source as the replay plans it, and the reason if no step records it.
#[derive(Clone, Debug)]
pub(super) struct PlannedCall {
    /// The model that repeats it.
    pub(super) model: String,
    /// The reason why it is not made.
    pub(super) skipped: Option<Skip>,
    /// The reason why it failed, if no step records it.
    pub(super) error: Option<String>,
}

/// The error of a call that has left, and whose end is not recorded.
const NOT_RECORDED: &str = "The end of this call is not recorded";

/// The figures of a trace.
pub(super) fn summary(trace: &Trace, steps: &[Step], assessment: &Assessment) -> TraceSummary {
    let pause = assessment.baselines.pause;
    let figures = grading::figures_in_turns(trace.created_at, steps, None, pause);
    let purged = trace.purged.map_or(Usd::ZERO, |purged| purged.cost);
    let mut models_used: Vec<String> = Vec::new();
    for call in steps.iter().filter_map(|step| step.call.as_ref()).filter(|call| !call.shadow) {
        if !models_used.contains(&call.model) {
            models_used.push(call.model.clone());
        }
    }
    TraceSummary {
        total_cost: steps.iter().map(Step::cost).sum::<Usd>() + purged,
        grades: assessment.grades,
        total_latency_ms: figures.total_latency_ms,
        models_used,
    }
}

/// The records of calls in a replay, by the step of the source that each repeats. Replays of earlier
/// versions have shadow calls, which repeat none.
pub(super) fn records(steps: &[Step]) -> HashMap<StepId, &Step> {
    let of_calls = steps
        .iter()
        .filter(|step| matches!(step.kind, StepKind::Run | StepKind::Blocked) && !step.is_shadow());
    of_calls.filter_map(|step| Some((step.source?, step))).collect()
}

/// A call of the source compared with its repetition. Their similarity is not known here.
pub(super) fn replayed_step(
    source: &Step,
    record: Option<&Step>,
    planned: Option<&PlannedCall>,
) -> ReplayedStep {
    let mut replayed = ReplayedStep { source: source.id.0, ..ReplayedStep::default() };
    if let Some(PlannedCall { model, skipped, error }) = planned {
        (replayed.model, replayed.skipped, replayed.error) =
            (model.clone(), *skipped, error.clone());
    }
    let Some(record) = record else {
        if replayed.skipped.is_none() && replayed.error.is_none() {
            replayed.error = Some(NOT_RECORDED.to_owned());
        }
        return replayed;
    };
    replayed.step = Some(record.id);
    replayed.blocked.clone_from(&record.reason);
    if record.error.is_some() {
        replayed.error.clone_from(&record.error);
    }
    if let Some(call) = &record.call {
        replayed.model.clone_from(&call.model);
        replayed.cost = Some(call.cost);
        replayed.latency_ms = Some(millis(record.latency()));
    }
    replayed
}

/// A call of the source that is not repeated, whatever its model.
pub(super) fn unrepeated_step(source: &Step) -> ReplayedStep {
    let model = source.call.as_ref().map(|call| call.model.clone()).unwrap_or_default();
    let skipped = Some(Skip::NotRepeatable);
    ReplayedStep { source: source.id.0, model, skipped, ..ReplayedStep::default() }
}

/// Whether a call was answered.
pub(super) fn is_answered(record: &Step) -> bool {
    record.kind == StepKind::Run && record.status == StepStatus::Completed
}

/// The changes of cost and time in percent, over the calls of the source that were answered again.
pub(super) fn changes<'s>(
    pairs: impl Iterator<Item = (&'s Step, &'s Step)>,
) -> (Option<f64>, Option<f64>) {
    let (mut cost, mut latency) = ((0_i128, 0_i128), (0_i128, 0_i128));
    let mut is_empty = true;
    for (source, record) in pairs {
        is_empty = false;
        cost.0 += i128::from(source.cost().0);
        cost.1 += i128::from(record.cost().0);
        latency.0 += i128::from(source.latency());
        latency.1 += i128::from(record.latency());
    }
    let change = |(before, after): (i128, i128)| match (before, after) {
        _ if is_empty => None,
        (0, 0) => Some(0.0),
        (0, _) => None,
        (before, after) => Some((after - before) as f64 / before as f64 * 100.0),
    };
    (change(cost), change(latency))
}

#[cfg(test)]
mod tests {
    use domain::model::Provider;
    use domain::step::{ApiEndpoint, Call};
    use domain::time::Timestamp;

    use super::*;
    use crate::testing::step;

    fn run(id: i64, source: Option<i64>, cost: i64, took: i64) -> Step {
        let call = Call { cost: Usd(cost), ..Call::of(format!("m{id}"), Provider::Openai) };
        Step {
            id: StepId(id),
            source: source.map(StepId),
            api_endpoint: ApiEndpoint::Replay,
            started_at: Timestamp(0),
            finished_at: Timestamp(took),
            ..step(StepKind::Run, Some(call))
        }
    }

    #[test]
    fn changes_are_those_of_the_calls_that_were_answered_again() {
        let change = |pairs: &[(i64, i64)]| {
            let steps: Vec<_> = pairs
                .iter()
                .map(|&(before, after)| {
                    (run(1, None, before, before), run(2, Some(1), after, after))
                })
                .collect();
            let (cost, latency) = changes(steps.iter().map(|(source, record)| (source, record)));
            assert_eq!(cost, latency);
            cost
        };
        assert_eq!(change(&[]), None);
        assert_eq!(change(&[(0, 0)]), Some(0.0));
        assert_eq!(change(&[(0, 5)]), None, "nothing is no base for a share");
        assert_eq!(change(&[(100, 50)]), Some(-50.0));
        assert_eq!(change(&[(100, 50), (100, 250)]), Some(50.0));
        assert_eq!(change(&[(8, 0)]), Some(-100.0));
    }

    #[test]
    fn a_record_counts_before_what_was_planned() {
        let source = run(1, None, 5, 5);
        let planned = |skipped, error: Option<&str>| PlannedCall {
            model: "planned".to_owned(),
            skipped,
            error: error.map(str::to_owned),
        };
        let skipped = planned(Some(Skip::Secure), None);
        let left_out = replayed_step(&source, None, Some(&skipped));
        assert_eq!((left_out.source, left_out.model.as_str()), (1, "planned"));
        assert_eq!((left_out.skipped, left_out.cost), (Some(Skip::Secure), None));
        let mut record = run(2, Some(1), 7, 3_000);
        record.error = Some("The provider failed (500)".to_owned());
        let failed = planned(None, Some("Provider request failed"));
        let found = replayed_step(&source, Some(&record), Some(&failed));
        assert_eq!((found.step, found.model.as_str()), (Some(StepId(2)), "m2"));
        assert_eq!((found.cost, found.latency_ms), (Some(Usd(7)), Some(3.0)));
        assert_eq!(found.error.as_deref(), Some("The provider failed (500)"));
        let lost = replayed_step(&source, None, Some(&planned(None, None)));
        assert_eq!(lost.error.as_deref(), Some(NOT_RECORDED));
        let unsent = replayed_step(&source, None, Some(&failed));
        assert_eq!(unsent.error.as_deref(), Some("Provider request failed"));
    }
}
