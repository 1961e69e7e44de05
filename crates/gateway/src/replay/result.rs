//! The result of a replay, as it is stored and returned.

use domain::grade::Grades;
use domain::ids::{StepId, TraceId};
use domain::money::Usd;
use serde::{Deserialize, Serialize};

/// How a trace compares with its replays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplayResult {
    /// The source.
    pub source: TraceSummary,
    /// Its replays, in the order of their models.
    pub replays: Vec<Replayed>,
}

/// The figures of a trace that are compared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TraceSummary {
    /// The cost of its calls.
    pub total_cost: Usd,
    /// Its grades.
    pub grades: Grades,
    /// From its creation to the end of its last step.
    pub total_latency_ms: f64,
    /// The models of its calls, in the order of their first calls.
    pub models_used: Vec<String>,
}

/// One replay of a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replayed {
    /// The model that was to make all calls, if one was.
    pub model: Option<String>,
    /// Its trace.
    pub trace: TraceId,
    /// Its figures.
    pub summary: TraceSummary,
    /// The calls of the source, in their order.
    pub steps: Vec<ReplayedStep>,
    /// The change in the cost of the calls that were answered again, in percent; `None` if none was, or if
    /// they had cost nothing.
    pub cost_change_pct: Option<f64>,
    /// The change in their time, likewise.
    pub latency_change_pct: Option<f64>,
}

/// What became of a call of the source.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ReplayedStep {
    /// The step of the source.
    pub source: i64,
    /// The step of the replay, if there is one.
    pub step: Option<StepId>,
    /// The model that was called, or would have been.
    pub model: String,
    /// The cost of the call, if it was made.
    pub cost: Option<Usd>,
    /// Its time, if it was made.
    pub latency_ms: Option<f64>,
    /// How alike the two answers are, 0 to 1, if both are there.
    pub similarity: Option<f64>,
    /// Why it was left out, if it was.
    pub skipped: Option<Skip>,
    /// Why safety has refused it, if it has.
    pub blocked: Option<String>,
    /// Why it has failed, if it has.
    pub error: Option<String>,
}

/// Why a call is not made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// It would cost more than `max_cost`, by the estimate.
    MaxCost,
    /// It is sensitive, and the model is public.
    Secure,
}

impl Skip {
    /// The word that stands for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxCost => "max_cost",
            Self::Secure => "secure",
        }
    }
}
