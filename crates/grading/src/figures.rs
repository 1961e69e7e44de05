//! The figures of a trace that its detail page shows.

use domain::step::Step;
use domain::time::{Timestamp, millis};

use crate::turns::turns;
use crate::{graph, stall};

/// Figures of one trace.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFigures {
    /// From the creation of the trace to the end of its last step.
    pub total_latency_ms: f64,
    /// Median step latency; 0 without steps.
    pub latency_p50: f64,
    /// 95th percentile of step latencies; 0 without steps.
    pub latency_p95: f64,
    /// 99th percentile of step latencies; 0 without steps.
    pub latency_p99: f64,
    /// All steps, shadow calls included.
    pub step_count: usize,
    /// Tool calls on the longest line of parents.
    pub chain_depth: usize,
    /// Time spent on tools; `None` when there were none.
    pub tool_overhead_ms: Option<f64>,
    /// Probability that the work goes round in circles, 0 to 1.
    pub stall_probability: f64,
    /// Whether tools were called as they were declared, 0 to 1; 1.0 without calls.
    pub tool_fidelity_score: f64,
    /// The mean similarity of the answers of shadow calls to those beside them; `None` without any.
    pub shadow_score: Option<f64>,
    /// Whether any step held personal data.
    pub pii_detected: bool,
    /// Whether any step held an injection.
    pub injection_attempt: bool,
    /// Whether any step held a credential.
    pub secret_leaked: bool,
}

/// Computes the figures of a trace from its steps, given in the order of (`started_at`, id).
///
/// Shadow calls count as steps and nothing else: nobody waited for them. `typical_gap_ms` is the
/// project's median time between two steps, if known.
pub fn figures(created_at: Timestamp, steps: &[Step], typical_gap_ms: Option<f64>) -> TraceFigures {
    let waited_for = || steps.iter().filter(|step| !step.is_shadow());
    let mut latencies: Vec<f64> = waited_for().map(|step| millis(step.latency())).collect();
    latencies.sort_by(f64::total_cmp);
    let latency = |p| percentile(&latencies, p).unwrap_or(0.0);
    let end = waited_for().map(|step| step.finished_at).max().unwrap_or(created_at);
    let any = |found: fn(&Step) -> bool| steps.iter().any(found);
    TraceFigures {
        total_latency_ms: millis(end.since(created_at)),
        latency_p50: latency(50.0),
        latency_p95: latency(95.0),
        latency_p99: latency(99.0),
        step_count: steps.len(),
        chain_depth: graph::chain_depth(steps),
        tool_overhead_ms: graph::tool_overhead(steps).map(millis),
        stall_probability: stall::probability(steps, typical_gap_ms),
        tool_fidelity_score: tool_fidelity(steps),
        shadow_score: shadow_score(steps),
        pii_detected: any(|step| step.security.pii),
        injection_attempt: any(|step| step.security.injection),
        secret_leaked: any(|step| step.security.secret),
    }
}

/// Computes the figures of a trace like [`figures`]; of one that the calls of a session share, with the
/// pauses that part its turns (in microseconds) left out, and with the stall of its worst turn.
pub fn figures_in_turns(
    created_at: Timestamp,
    steps: &[Step],
    typical_gap_ms: Option<f64>,
    pause: Option<i64>,
) -> TraceFigures {
    let mut all = figures(created_at, steps, typical_gap_ms);
    let turns = turns(steps, pause);
    if turns.len() < 2 {
        return all;
    }
    let of_turn = |turn: &&[Step]| {
        let began = turn.first().map_or(created_at, |step| step.started_at);
        figures(began, turn, typical_gap_ms)
    };
    let each: Vec<TraceFigures> = turns.iter().map(of_turn).collect();
    all.total_latency_ms = each.iter().map(|turn| turn.total_latency_ms).sum();
    all.stall_probability = each.iter().map(|turn| turn.stall_probability).fold(0.0, f64::max);
    all
}

/// The mean over all tool calls.
fn tool_fidelity(steps: &[Step]) -> f64 {
    let used = || steps.iter().filter_map(|step| step.call.as_ref()?.tools.as_ref());
    let calls: f64 = used().map(|tools| f64::from(tools.calls)).sum();
    let sum: f64 = used().map(|tools| f64::from(tools.calls) * tools.fidelity).sum();
    if calls > 0.0 { sum / calls } else { 1.0 }
}

/// The mean over the shadow calls that were answered.
fn shadow_score(steps: &[Step]) -> Option<f64> {
    let calls = steps.iter().filter_map(|step| step.call.as_ref());
    let scores: Vec<f64> = calls.filter_map(|call| call.similarity).collect();
    (!scores.is_empty()).then(|| scores.iter().sum::<f64>() / scores.len() as f64)
}

/// Returns the nearest-rank percentile of sorted values, `p` from 0 to 100; `None` without values.
pub fn percentile(sorted_ms: &[f64], p: f64) -> Option<f64> {
    let rank = (p.clamp(0.0, 100.0) / 100.0 * sorted_ms.len() as f64).ceil() as usize;
    sorted_ms.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests;
