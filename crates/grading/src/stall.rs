//! Probability that the work of a trace goes round in circles.

use std::collections::HashMap;

use domain::step::{Call, Step, StepKind};
use domain::time::millis;

use crate::graph;

/// Weights of a first, second, third, and fourth or later identical tool call.
const REPEATED_CALLS: [f64; 4] = [0.0, 0.15, 0.42, 0.75];
/// Weights of a first, second, third, and fourth or later identical answer.
const REPEATED_OUTPUTS: [f64; 4] = [0.0, 0.1, 0.25, 0.4];
/// A chain deeper than this that also repeats itself is a stall.
const DEEP_CHAIN_STEPS: usize = 5;
/// Floor of the probability of a stalled trace, above the 0.7 from which a trace is flagged.
const STALLED_PROBABILITY: f64 = 0.75;
/// Weight of each factor of ten between the usual gap of steps and the longest one.
const IDLE_WEIGHT: f64 = 0.15;
/// Gaps below this count as this long, so that they are no idleness.
const IDLE_MILLIS: f64 = 1000.0;

/// Returns the probability from 0 (a single clean run) to 1. The signs are taken as independent: the
/// probability is that of at least one being right, so that each can only raise it.
pub(crate) fn probability(steps: &[Step], typical_gap_ms: Option<f64>) -> f64 {
    let runs: Vec<&Step> =
        steps.iter().filter(|step| step.kind == StepKind::Run && !step.is_shadow()).collect();
    let tools = most_alike(&runs, |call| call.tools.iter().flat_map(|tools| &tools.fingerprints));
    let inputs = most_alike(&runs, |call| &call.input_fingerprint);
    let outputs = most_alike(&runs, |call| &call.output_fingerprint);
    let depth = graph::chain_depth(steps);
    let signs = [
        weight(&REPEATED_CALLS, tools.max(inputs)),
        weight(&REPEATED_OUTPUTS, outputs),
        0.4 * (depth as f64 / 12.0).min(1.0),
        growth(&runs),
        idleness(steps, typical_gap_ms),
    ];
    let clean: f64 = signs.iter().map(|sign| 1.0 - sign).product();
    let repeats = tools.max(inputs).max(outputs) > 1;
    let floor = if depth > DEEP_CHAIN_STEPS && repeats { STALLED_PROBABILITY } else { 0.0 };
    (1.0 - clean).max(floor)
}

/// Number of occurrences of the most frequent fingerprint.
fn most_alike<'a, P>(runs: &[&'a Step], fingerprints: impl Fn(&'a Call) -> P) -> usize
where
    P: IntoIterator<Item = &'a i64>,
{
    let mut times = HashMap::new();
    for print in runs.iter().filter_map(|step| step.call.as_ref()).flat_map(fingerprints) {
        *times.entry(print).or_insert(0) += 1;
    }
    times.into_values().max().unwrap_or(0)
}

fn weight(weights: &[f64; 4], times: usize) -> f64 {
    weights[times.saturating_sub(1).min(weights.len() - 1)]
}

/// Returns up to 0.3 when the last third of the runs took several times as long as the first.
fn growth(runs: &[&Step]) -> f64 {
    if runs.len() < 4 {
        return 0.0;
    }
    let third = runs.len().div_ceil(3);
    let mean =
        |part: &[&Step]| part.iter().map(|s| millis(s.latency())).sum::<f64>() / third as f64;
    let (first, last) = (mean(&runs[..third]), mean(&runs[runs.len() - third..]));
    // Below 100 ms a ratio is meaningless.
    0.1 * (last.max(100.0) / first.max(100.0)).log2().clamp(0.0, 3.0)
}

/// Returns up to 0.45 when the longest pause between steps is far beyond the project's usual one.
fn idleness(steps: &[Step], typical_gap_ms: Option<f64>) -> f64 {
    let Some(typical) = typical_gap_ms.filter(|gap| gap.is_finite() && *gap >= 0.0) else {
        return 0.0;
    };
    let mut end = None;
    let mut longest = 0.0f64;
    for step in steps.iter().filter(|step| !step.is_shadow()) {
        longest = longest.max(end.map_or(0.0, |end| millis(step.started_at.since(end))));
        end = end.max(Some(step.finished_at));
    }
    let times = longest.max(IDLE_MILLIS) / typical.max(IDLE_MILLIS);
    IDLE_WEIGHT * times.log10().clamp(0.0, 3.0)
}

#[cfg(test)]
mod tests;
