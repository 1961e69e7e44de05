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

impl TraceSummary {
    /// How the totals of a replay differ from those of this source.
    pub fn changes_to(&self, replay: &Self) -> TotalChanges {
        let percent =
            |before: f64, after: f64| (before > 0.0).then(|| (after - before) / before * 100.0);
        TotalChanges {
            cost_pct: percent(self.total_cost.0 as f64, replay.total_cost.0 as f64),
            latency_pct: percent(self.total_latency_ms, replay.total_latency_ms),
        }
    }
}

/// How the totals of a replay differ from those of its source, in percent; `None` where the total of the source
/// is 0. A call that was not repeated counts on one side alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TotalChanges {
    /// In cost.
    pub cost_pct: Option<f64>,
    /// In time.
    pub latency_pct: Option<f64>,
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
    /// The completed calls of the source, in their order.
    pub steps: Vec<ReplayedStep>,
    /// The change in the cost of the calls that were answered again, in percent; `None` if none was, or if
    /// they cost nothing in the source.
    pub cost_change_pct: Option<f64>,
    /// The change in their time, likewise.
    pub latency_change_pct: Option<f64>,
}

/// A call of the source, compared with its repetition.
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
    /// The parts of the source's request, which passed as it came, that the repetition lacks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The reason why it was not repeated, if it was not.
    pub skipped: Option<Skip>,
    /// The reason for which safety refused it, if it did.
    pub blocked: Option<String>,
    /// The reason why it failed, if it did.
    pub error: Option<String>,
}

/// The reason why a call is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Skip {
    /// It would cost more than `max_cost`, by the estimate, or its public model has no price.
    MaxCost,
    /// It is sensitive, and the model is public.
    Secure,
    /// It answers with no text: an embedding or an image.
    NotRepeatable,
}

impl Skip {
    /// The word that stands for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxCost => "max_cost",
            Self::Secure => "secure",
            Self::NotRepeatable => "not_repeatable",
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::grade::Grade;

    use super::*;

    #[test]
    fn totals_differ_in_percent_of_those_of_the_source() {
        let summary = |cost: i64, total_latency_ms: f64| TraceSummary {
            total_cost: Usd(cost),
            grades: Grades { overall: Grade::A, waste: Grade::A, latency: Grade::A },
            total_latency_ms,
            models_used: Vec::new(),
        };
        for (before, after, cost_pct, latency_pct) in [
            ((200, 80.0), (100, 100.0), Some(-50.0), Some(25.0)),
            ((100, 80.0), (100, 80.0), Some(0.0), Some(0.0)),
            ((100, 80.0), (0, 0.0), Some(-100.0), Some(-100.0)),
            ((0, 80.0), (100, 160.0), None, Some(100.0)),
            ((0, 0.0), (0, 0.0), None, None),
        ] {
            let changes = summary(before.0, before.1).changes_to(&summary(after.0, after.1));
            assert_eq!(changes, TotalChanges { cost_pct, latency_pct }, "{before:?} {after:?}");
        }
    }
}
