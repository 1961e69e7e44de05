//! The report of a backtest, as it is stored and returned.

use std::collections::BTreeMap;

use domain::ids::StepId;
use domain::money::Usd;
use domain::tier::Tier;
use serde::{Deserialize, Serialize};

/// The most steps of one kind that a report names.
pub(super) const MOST_IDS: usize = 100;

/// A limit of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// `limits.loop_requests` in `limits.loop_window_seconds`.
    LoopRequests,
    /// `limits.requests_per_hour`.
    RequestsPerHour,
    /// `monthly_budget`.
    MonthlyBudget,
    /// The cap of a key.
    HourlyLimit,
    /// A cap or a budget, under which no model is called that has no price, or would run a vendor's tool
    /// without a price or a bound.
    NoPrice,
}

impl Limit {
    /// The word that stands for it: the key of its setting, if it has one.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LoopRequests => "loop_requests",
            Self::RequestsPerHour => "requests_per_hour",
            Self::MonthlyBudget => "monthly_budget",
            Self::HourlyLimit => "hourly_limit",
            Self::NoPrice => "no_price",
        }
    }
}

/// The differences that a draft would have made to the requests of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BacktestReport {
    /// The steps of the window.
    pub steps: StepCounts,
    /// Judged requests that their record has as blocked.
    pub recorded_blocked: u64,
    /// Judged requests that the draft blocks.
    pub draft_blocked: u64,
    /// Requests that were answered and that the draft blocks, by the finding that is the cause.
    pub newly_blocked: Vec<ByCause>,
    /// Requests that were blocked and that the draft lets through, by the finding that was the cause.
    pub newly_passed: Vec<ByCause>,
    /// Requests that were answered, and are by the draft, by their tiers. Refused ones are left out.
    pub tiers: Vec<TierMove>,
    /// Answers by model.
    pub models: BTreeMap<String, ModelCosts>,
    /// Requests that a limit of the draft would have refused, and none of now.
    pub refused: BTreeMap<Limit, Refused>,
    /// The requests for which the limits of now matter.
    pub refusal_counts: RefusalCounts,
    /// Money.
    pub costs: Costs,
    /// The settings of the draft that have no effect on a backtest.
    pub ignored_settings: Vec<String>,
}

/// The steps of a window, by whether they count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCounts {
    /// All that were read.
    pub read: u64,
    /// Completed and blocked requests among them that were judged.
    pub judged: u64,
    /// Requests whose content is not stored.
    pub without_content: u64,
    /// Requests that could not be judged: a damaged content, no memory for it, or a block outside the messages,
    /// which are all that is stored of it. Damaged rows of any kind count too: theirs may be unreadable.
    pub unreadable: u64,
    /// Whether the window has more than were read: then the earliest were.
    pub truncated: bool,
}

/// Requests whose verdict differs for one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByCause {
    /// A category of findings, `routing`, or `other` for all beyond the most causes of a report.
    pub category: String,
    /// The type of the finding.
    pub kind: String,
    /// How many there are.
    pub steps: u64,
    /// The first of them.
    pub step_ids: Vec<StepId>,
}

/// Requests of one tier that go to one tier by the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierMove {
    /// The recorded tier.
    pub from: Tier,
    /// The tier by the draft.
    pub to: Tier,
    /// How many there are.
    pub steps: u64,
    /// Their recorded cost.
    pub recorded_cost: Usd,
    /// Their cost by the draft.
    pub draft_cost: Usd,
}

/// The answers of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCosts {
    /// Recorded answers.
    pub recorded_steps: u64,
    /// Their cost.
    pub recorded_cost: Usd,
    /// Answers by the draft, without the refused ones.
    pub draft_steps: u64,
    /// Their cost.
    pub draft_cost: Usd,
}

/// Requests that a limit would have refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// How many there are.
    pub steps: u64,
    /// The cost that does not arise: the recorded one of answered requests, the estimated one of others.
    pub cost: Usd,
    /// The first of them.
    pub step_ids: Vec<StepId>,
}

/// Requests that the limits of now would have refused, replayed as those of the draft are. They were answered
/// when other limits held, or the replay is coarser than the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusalCounts {
    /// Those that the draft refuses as well: no difference that it makes.
    pub already: u64,
    /// Those that the draft lets through.
    pub no_longer: u64,
}

/// The money of a window. `draft` is `recorded - newly_blocked + newly_passed - refused - savings`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// The recorded cost of all judged requests.
    pub recorded: Usd,
    /// Their cost by the draft.
    pub draft: Usd,
    /// The recorded cost of requests that the draft blocks.
    pub newly_blocked: Usd,
    /// The estimated cost of requests that only the draft lets through.
    pub newly_passed: Usd,
    /// The cost of requests that a limit would have refused.
    pub refused: Usd,
    /// The money saved on requests that are answered with and without the draft.
    pub savings: Usd,
    /// Requests that would be answered by a model without a price, or by one that is not known.
    pub unpriced_steps: u64,
}
