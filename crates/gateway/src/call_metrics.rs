//! The metrics of calls, by model and by project. The handles are kept: a call looks up the name of its
//! model and makes no label.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use domain::ids::ProjectId;
use domain::model::Provider;
use domain::money::Usd;
use domain::tier::Tier;
use domain::usage::{TokenKind, Usage};
use metrics::{Counter, Histogram, SharedString};

use crate::metric_labels::ByLabel;

/// The reason why a model was not called: its circuit was open.
pub(crate) const CIRCUIT_OPEN: &str = "circuit_open";
/// The reason of a streamed answer with more parts or bytes than are taken in.
pub(crate) const TOO_LARGE: &str = "too_large";

/// The tier of a call whose caller named the model.
const NO_TIER: &str = "none";
/// The kind of the cost of images that have a price each.
const IMAGE: &str = "image";
/// The kind of the cost of the vendor's own tools.
const TOOL: &str = "tool";

const KINDS: usize = TokenKind::ALL.len();
/// Every tier, and none.
const TIERS: usize = Tier::ALL.len() + 1;

/// Models with a label of their own: those that were called first.
static MODELS: ByLabel<ModelMetrics> = ByLabel::new(200, ModelMetrics::new);
/// Projects with a label of their own: those that spent first.
static SPEND: ByLabel<Counter> = ByLabel::new(
    1_000,
    |project| metrics::counter!("sluice_spend_nanodollars_total", "project" => project),
);

/// The metrics of a model.
pub(crate) fn of_model(identifier: &str) -> Arc<ModelMetrics> {
    MODELS.get(identifier)
}

/// Counts what a project has spent.
pub(crate) fn count_spend(project: ProjectId, cost: Usd) {
    SPEND.get(&project.to_string()).increment(cost.0.unsigned_abs());
}

/// The metrics of one model. A series appears with its first event.
pub(crate) struct ModelMetrics {
    label: SharedString,
    attempt_seconds: OnceLock<Histogram>,
    first_token_seconds: OnceLock<Histogram>,
    usage: [[OnceLock<Box<UsageCounters>>; TIERS]; Provider::ALL.len()],
}

/// Tokens and cost of the calls of one model, provider and tier, by kind.
struct UsageCounters {
    tokens: [OnceLock<Counter>; KINDS],
    cost: [OnceLock<Counter>; KINDS],
    images: OnceLock<Counter>,
    tools: OnceLock<Counter>,
}

/// The cost of a call: of tokens by their kind, of images that have a price each, and of the vendor's
/// own tools.
pub(crate) struct Costs {
    pub(crate) tokens: [(TokenKind, Usd); KINDS],
    pub(crate) images: Usd,
    pub(crate) tools: Usd,
}

impl ModelMetrics {
    fn new(label: SharedString) -> Self {
        Self {
            label,
            attempt_seconds: OnceLock::new(),
            first_token_seconds: OnceLock::new(),
            usage: [const { [const { OnceLock::new() }; TIERS] }; Provider::ALL.len()],
        }
    }

    /// The label of the model.
    pub(crate) fn label(&self) -> SharedString {
        self.label.clone()
    }

    /// Records the time of an attempt.
    pub(crate) fn attempt_took(&self, time: Duration) {
        let made = || metrics::histogram!("sluice_upstream_seconds", "model" => self.label.clone());
        self.attempt_seconds.get_or_init(made).record(time.as_secs_f64());
    }

    /// Records the time to the first text of a stream.
    pub(crate) fn first_token_took(&self, time: Duration) {
        let made =
            || metrics::histogram!("sluice_first_token_seconds", "model" => self.label.clone());
        self.first_token_seconds.get_or_init(made).record(time.as_secs_f64());
    }

    /// Counts a failure, by a word of a closed list. Failures are rare: their handles are not kept.
    pub(crate) fn count_failure(&self, provider: Provider, reason: &'static str) {
        metrics::counter!("sluice_upstream_failures_total",
            "model" => self.label.clone(), "provider" => provider.as_str(), "reason" => reason)
        .increment(1);
    }

    /// Counts the tokens and the cost of a call.
    pub(crate) fn count_usage(
        &self,
        provider: Provider,
        tier: Option<Tier>,
        usage: &Usage,
        costs: &Costs,
    ) {
        let of_tier = tier.map_or(TIERS - 1, |tier| tier as usize);
        let counters = self.usage.get(provider as usize).and_then(|tiers| tiers.get(of_tier));
        let Some(counters) = counters else { return };
        let counters = counters.get_or_init(|| Box::new(UsageCounters::new()));
        let provider = provider.as_str();
        let tier = tier.map_or(NO_TIER, Tier::as_str);
        let cost = |kind: &'static str| {
            metrics::counter!("sluice_cost_nanodollars_total",
                "model" => self.label.clone(), "provider" => provider, "tier" => tier, "kind" => kind)
        };
        for (counter, (kind, tokens)) in counters.tokens.iter().zip(usage.by_kind()) {
            if tokens > 0 {
                let made = || {
                    metrics::counter!("sluice_tokens_total",
                        "model" => self.label.clone(), "provider" => provider, "tier" => tier,
                        "kind" => kind.as_str())
                };
                counter.get_or_init(made).increment(tokens);
            }
        }
        for (counter, (kind, amount)) in counters.cost.iter().zip(costs.tokens) {
            if amount > Usd::ZERO {
                counter.get_or_init(|| cost(kind.as_str())).increment(amount.0.unsigned_abs());
            }
        }
        if costs.images > Usd::ZERO {
            counters.images.get_or_init(|| cost(IMAGE)).increment(costs.images.0.unsigned_abs());
        }
        if costs.tools > Usd::ZERO {
            counters.tools.get_or_init(|| cost(TOOL)).increment(costs.tools.0.unsigned_abs());
        }
    }
}

impl UsageCounters {
    fn new() -> Self {
        Self {
            tokens: [const { OnceLock::new() }; KINDS],
            cost: [const { OnceLock::new() }; KINDS],
            images: OnceLock::new(),
            tools: OnceLock::new(),
        }
    }
}
