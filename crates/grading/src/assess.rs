//! The letters of a trace.

use std::collections::{BTreeMap, HashMap};

use domain::grade::{Assessment, Baselines, Grade, GradeReason, Grades};
use domain::money::Usd;
use domain::step::{Call, Step, StepKind};

use crate::turns::turns;
use crate::verdict::{Verdict, judged, print, verdicts};
use crate::{graph, rating};

/// A deeper chain of tool calls counts as run away.
const MAX_CHAIN_DEPTH: usize = 5;
/// Number of identical calls that counts as a loop.
const LOOP_CALLS: usize = 3;
/// A mean user rating below this lowers the grade by one letter.
const POOR_RATING: f64 = 0.4;
/// The worst share, in percent, that still earns A, B, C and D.
const CUT_OFFS: [(i128, Grade); 4] =
    [(5, Grade::A), (20, Grade::B), (40, Grade::C), (70, Grade::D)];

/// Grades a trace by its steps, given in the order of (`started_at`, id).
///
/// In a trace that the calls of a session share, a call repeats another one of its turn only. Every call
/// of a run step counts for cost; shadow calls do not count for grades. A trace without
/// calls grades A.
pub fn assess(steps: &[Step], baselines: Baselines) -> Assessment {
    let turns = turns(steps, baselines.pause);
    let verdicts: Vec<Verdict> = turns.iter().flat_map(|turn| verdicts(turn, &baselines)).collect();
    let waste = letter(
        verdicts.iter().map(|v| v.avoidable.0).map(i128::from).sum(),
        verdicts.iter().map(|v| v.cost.0).map(i128::from).sum(),
    );
    let latency = letter(
        verdicts.iter().map(|v| i128::from(v.excess)).sum(),
        verdicts.iter().map(|v| i128::from(v.latency)).sum(),
    );
    let mut reasons = Vec::new();
    let identical = turns.iter().map(|turn| most_identical(turn)).max().unwrap_or(0);
    let overall = overall(waste, latency, steps, identical, &verdicts, &mut reasons);
    reasons.extend(verdicts.iter().flat_map(step_reasons));
    Assessment {
        grades: Grades { overall, waste, latency },
        total_cost: calls(steps).map(|call| call.cost).sum(),
        by_model: grouped(steps, |call| &call.model),
        by_infrastructure: grouped(steps, |call| &call.infrastructure),
        reasons,
        baselines,
    }
}

/// Whether a step has a part in grades and figures; any other step can arrive late and change nothing.
pub fn counts(step: &Step) -> bool {
    matches!(step.kind, StepKind::Run | StepKind::ToolCall) || step.user_rating.is_some()
}

/// The worse of the two shares, lowered further by signals that the shares do not show. (Waste above 40
/// %, calls that took twice their baseline in all, or the wrong tier throughout with waste above 70 %
/// already are a D or an F by the cut-offs.)
fn overall(
    waste: Grade,
    latency: Grade,
    steps: &[Step],
    identical: usize,
    verdicts: &[Verdict],
    reasons: &mut Vec<GradeReason>,
) -> Grade {
    let mut worst = waste.max(latency);
    let mut at_least = |grade: Grade, reason: Option<String>| {
        worst = worst.max(grade);
        reasons.extend(reason.map(|reason| GradeReason { step_id: None, reason }));
    };
    match verdicts.iter().filter(|verdict| !verdict.faults.is_empty()).count() {
        0 => {}
        1 => at_least(Grade::B, None),
        many => at_least(Grade::C, Some(format!("{many} steps are sub-optimal"))),
    }
    let depth = graph::chain_depth(steps);
    if depth > MAX_CHAIN_DEPTH {
        at_least(Grade::F, Some(format!("runaway chain: tool calls are nested {depth} deep")));
    }
    if identical >= LOOP_CALLS {
        at_least(Grade::F, Some(format!("likely loop: the same call was made {identical} times")));
    }
    match rating::average(steps).filter(|average| *average < POOR_RATING) {
        None => worst,
        Some(average) => {
            let reason = format!("users rated it {:.0} % on average", 100.0 * average);
            reasons.push(GradeReason { step_id: None, reason });
            worst.worsened()
        }
    }
}

/// The letter of a share, compared in integers so that a cut-off itself is exact.
fn letter(part: i128, whole: i128) -> Grade {
    let within = CUT_OFFS.iter().find(|(percent, _)| 100 * part <= percent * whole);
    within.map_or(Grade::F, |&(_, grade)| grade)
}

fn most_identical(steps: &[Step]) -> usize {
    let mut times = HashMap::new();
    for print in judged(steps).filter_map(|(_, call)| print(call)) {
        *times.entry(print).or_insert(0) += 1;
    }
    times.into_values().max().unwrap_or(0)
}

fn step_reasons(verdict: &Verdict) -> impl Iterator<Item = GradeReason> {
    let step_id = Some(verdict.step);
    verdict.faults.iter().map(move |fault| GradeReason { step_id, reason: fault.to_string() })
}

fn calls(steps: &[Step]) -> impl Iterator<Item = &Call> {
    let runs = steps.iter().filter(|step| step.kind == StepKind::Run);
    runs.filter_map(|step| step.call.as_ref())
}

/// Returns the cost by label, the highest first, equal ones by name.
fn grouped(steps: &[Step], label: impl Fn(&Call) -> &String) -> Vec<(String, Usd)> {
    let mut sums: BTreeMap<&String, Usd> = BTreeMap::new();
    for call in calls(steps) {
        *sums.entry(label(call)).or_default() += call.cost;
    }
    let mut sums: Vec<_> = sums.into_iter().map(|(label, cost)| (label.clone(), cost)).collect();
    sums.sort_by_key(|&(_, cost)| std::cmp::Reverse(cost));
    sums
}

#[cfg(test)]
mod tests;
