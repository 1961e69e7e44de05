//! The times of tools over a period, compared with a plain computation over all steps.

use domain::ids::{ProjectId, StepId};
use domain::step::{ApiEndpoint, Step, StepKind, ToolUse};
use domain::time::{HOUR, Timestamp};
use store::Store;

use crate::support::{Dice, NOW, databases, project, run, seeds, trace, trace_id};

/// A call of a model whose parent is a step, and that began so many microseconds after a time.
fn call(id: i64, parent: Option<i64>, began: Timestamp, dice: &mut Dice) -> Step {
    let mut step = run(ProjectId(0), trace_id(1), StepId(id));
    step.parent = parent.map(StepId);
    (step.source, step.api_endpoint) = (None, ApiEndpoint::Chat);
    step.started_at = began;
    step.finished_at = began.minus_micros(-(dice.next(3_000_000) as i64));
    let call = step.call.as_mut().unwrap();
    call.shadow = dice.next(6) == 0;
    let calls = dice.next(4) as u32;
    let fingerprints = Vec::new();
    call.tools = (calls > 0).then_some(ToolUse { calls, fidelity: 1.0, fingerprints });
    step
}

/// Rounds of tools by the dice, in the hours before `NOW`: run here with a time of their own, or waited for
/// until the first of their follow-ups, if there is any.
fn thrown(dice: &mut Dice, project: ProjectId, first_id: i64) -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 0..60 {
        let id = first_id + round * 10;
        let asked = call(id, None, NOW.minus_micros(dice.next(6 * HOUR as u64) as i64), dice);
        let mut tools =
            Step { id: StepId(id + 1), kind: StepKind::ToolCall, call: None, ..asked.clone() };
        tools.parent = Some(asked.id);
        tools.started_at = asked.finished_at;
        let own = if dice.next(2) == 0 { dice.next(9_000_000) as i64 } else { 0 };
        tools.finished_at = tools.started_at.minus_micros(-own);
        for follow_up in 0..dice.next(3) as i64 {
            let began = tools.finished_at.minus_micros(-(dice.next(20_000_000) as i64));
            steps.push(call(id + 2 + follow_up, Some(id + 1), began, dice));
        }
        steps.extend([asked, tools]);
    }
    steps.into_iter().map(|step| Step { project, ..step }).collect()
}

/// Fails unless the times are those of the steps that ended in a period.
async fn assert_equal(
    store: &Store,
    project: ProjectId,
    steps: &[Step],
    (from, to): (Timestamp, Timestamp),
    case: &str,
) {
    let ended = || steps.iter().filter(|step| (from..to).contains(&step.finished_at));
    let waited_for = |tools: &&Step| tools.kind == StepKind::ToolCall;
    let took = |tools: &Step| {
        let follow_ups = steps.iter().filter(|step| step.parent == Some(tools.id));
        let wait = || Some(follow_ups.map(|step| step.started_at).min()?.since(tools.finished_at));
        if tools.latency() > 0 { Some(tools.latency()) } else { wait() }
    };
    let mut times: Vec<i64> = ended().filter(waited_for).filter_map(took).collect();
    times.sort_unstable();
    let calls = ended().filter_map(|step| step.call.as_ref()).filter(|call| !call.shadow);
    let calls: u32 = calls.filter_map(|call| Some(call.tools.as_ref()?.calls)).sum();
    let found = store.tool_times(project, from, to).await.unwrap();
    assert_eq!((found.calls, found.rounds), (i64::from(calls), times.len() as i64), "{case}");
    let rank = (times.len() as f64 * 0.95).ceil() as usize;
    assert_eq!(found.p95, rank.checked_sub(1).map(|at| times[at]), "{case}");
    let mean = times.iter().sum::<i64>() as f64 / times.len() as f64;
    match found.mean {
        Some(found) => assert!((found - mean).abs() < 1e-3, "{case}: {found} for {mean}"),
        None => assert!(times.is_empty(), "{case}"),
    }
}

#[tokio::test]
async fn times_of_tools_are_those_of_a_plain_computation() {
    for database in databases().await {
        let store = database.open().await;
        for seed in seeds(8) {
            let (project, _) = project(&store).await;
            store.writer().trace(trace(project, u128::from(seed))).await.unwrap();
            let mut dice = Dice(seed);
            let steps = thrown(&mut dice, project, 10_000 * (1 + seed as i64));
            let steps: Vec<Step> = steps
                .into_iter()
                .map(|step| Step { trace: trace_id(u128::from(seed)), ..step })
                .collect();
            for step in &steps {
                store.writer().step(step.clone(), None).await.unwrap();
            }
            let hours = |hours: i64| NOW.minus_micros(hours * HOUR);
            for period in [
                (hours(9), hours(-9)),
                (hours(4), hours(2)),
                (hours(1), hours(0)),
                (hours(9), hours(8)),
            ] {
                let case = format!("{}, seed {seed}, {} to {}", database.kind, period.0, period.1);
                assert_equal(&store, project, &steps, period, &case).await;
            }
        }
        store.close().await;
    }
}
