//! The faults of one run step.

use std::collections::HashMap;
use std::fmt;

use domain::grade::{Baselines, TierBaseline};
use domain::ids::StepId;
use domain::money::{CachePrices, Prices, Usd};
use domain::step::{Call, Step, StepKind, StepStatus};
use domain::tier::Tier;
use domain::time::{SECOND, millis};

/// Number of samples from which a model's own p95 is a baseline.
const MIN_SAMPLES: u64 = 20;
/// Baseline for any answer of a model with fewer samples, in microseconds.
const BASE_LATENCY: i64 = 2 * SECOND;
/// Addition to that baseline for each token of the answer, in microseconds.
const LATENCY_PER_TOKEN: i64 = 30_000;

/// A run step that counts for grades, and its waste.
pub(crate) struct Verdict {
    pub(crate) step: StepId,
    pub(crate) cost: Usd,
    pub(crate) avoidable: Usd,
    pub(crate) latency: i64,
    pub(crate) excess: i64,
    pub(crate) faults: Vec<Fault>,
}

/// One way in which a step is sub-optimal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fault {
    /// A dearer model than the tier of its input calls for.
    Oversized { tier: Tier, used: String, right: String, times: f64 },
    /// The same call as an earlier one.
    Repeats(StepId),
    /// Failed, and cost something.
    PaidFailure(Usd),
    /// Took longer than its baseline.
    Slow { latency: i64, baseline: i64 },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oversized { tier, used, right, times } => write!(
                f,
                "{used} cost {times:.1} times what {right} would have, and the input reads as {tier}"
            ),
            Self::Repeats(earlier) => write!(f, "repeats the identical call of step {earlier}"),
            Self::PaidFailure(cost) => write!(f, "failed and still cost {cost}"),
            Self::Slow { latency, baseline } => write!(
                f,
                "took {:.0} ms; up to {:.0} ms would be usual",
                millis(*latency),
                millis(*baseline)
            ),
        }
    }
}

/// The run steps that count for grades: those with a call that was no shadow.
pub(crate) fn judged(steps: &[Step]) -> impl Iterator<Item = (&Step, &Call)> {
    let runs = steps.iter().filter(|step| step.kind == StepKind::Run);
    runs.filter_map(|step| Some((step, step.call.as_ref().filter(|call| !call.shadow)?)))
}

/// Judges every run step, in order.
pub(crate) fn verdicts(steps: &[Step], baselines: &Baselines) -> Vec<Verdict> {
    let mut earlier = HashMap::new();
    judged(steps)
        .map(|(step, call)| {
            let first = print(call).map(|print| *earlier.entry(print).or_insert(step.id));
            judge(step, call, first.filter(|&first| first != step.id), baselines)
        })
        .collect()
}

/// Returns the model and input fingerprint that make two calls identical.
pub(crate) fn print(call: &Call) -> Option<(&str, i64)> {
    Some((call.model.as_str(), call.input_fingerprint?))
}

fn judge(step: &Step, call: &Call, repeats: Option<StepId>, baselines: &Baselines) -> Verdict {
    let mut faults = Vec::new();
    let mut avoidable = Usd::ZERO;
    if let Some((tier, right)) = right_size(step, call, baselines) {
        let cost = cost_of_answer(call);
        avoidable = cost - right;
        faults.push(Fault::Oversized {
            tier: tier.tier,
            used: call.model.clone(),
            right: tier.model.clone(),
            times: cost.0 as f64 / right.0 as f64,
        });
    }
    if let Some(earlier) = repeats {
        avoidable = call.cost;
        faults.push(Fault::Repeats(earlier));
    }
    if step.status == StepStatus::Failed && call.cost > Usd::ZERO {
        avoidable = call.cost;
        faults.push(Fault::PaidFailure(call.cost));
    }
    let baseline = latency_baseline(call, baselines);
    let latency = step.latency();
    let excess = latency.saturating_sub(baseline).max(0);
    if excess > 0 {
        faults.push(Fault::Slow { latency, baseline });
    }
    Verdict { step: step.id, cost: call.cost, avoidable, latency, excess, faults }
}

/// The right-sized model and cost of a step that cost over 1.5 times as much.
fn right_size<'a>(
    step: &Step,
    call: &Call,
    baselines: &'a Baselines,
) -> Option<(&'a TierBaseline, Usd)> {
    let classified = step.routing.as_ref()?.classified;
    let tier = baselines.tiers.iter().find(|baseline| baseline.tier == classified)?;
    if tier.model == call.model {
        return None;
    }
    let (read, write, write_1h) = (tier.cached_input, tier.cache_write, tier.cache_write_1h);
    let cache = CachePrices { read, write, write_1h };
    let right = Prices::new(tier.input, tier.output, cache).cost(&call.usage);
    let over = 2 * i128::from(cost_of_answer(call).0) > 3 * i128::from(right.0);
    (right > Usd::ZERO && over).then_some((tier, right))
}

/// Returns the cost of a call without the attempts that broke off before it: no other model would have
/// avoided those.
fn cost_of_answer(call: &Call) -> Usd {
    call.prices.map_or(call.cost, |prices| prices.cost(&call.usage).min(call.cost))
}

/// Returns the time after which a call counts as slow, in microseconds.
fn latency_baseline(call: &Call, baselines: &Baselines) -> i64 {
    let known = baselines.latency.iter().find(|baseline| baseline.model == call.model);
    if let Some(baseline) = known.filter(|baseline| baseline.samples >= MIN_SAMPLES) {
        return (2.0 * baseline.p95_ms * 1000.0) as i64;
    }
    let tokens = i64::try_from(call.usage.completion).unwrap_or(i64::MAX);
    BASE_LATENCY.saturating_add(LATENCY_PER_TOKEN.saturating_mul(tokens))
}
