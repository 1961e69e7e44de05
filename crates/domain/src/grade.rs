//! Grades and the figures they rest on.

use serde::{Deserialize, Serialize};

use crate::ids::StepId;
use crate::money::Usd;
use crate::tier::words;

words!(
    /// A letter grade; the order is from best to worst.
    Grade {
        /// Optimal.
        A = "A",
        /// Slightly over-engineered.
        B = "B",
        /// Noticeable waste or latency.
        C = "C",
        /// Significant over-spend or a slow chain.
        D = "D",
        /// Severely inefficient.
        F = "F",
    }
);

impl Grade {
    /// The grade one letter worse; `F` stays `F`.
    #[must_use]
    pub fn worsened(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::C,
            Self::C => Self::D,
            Self::D | Self::F => Self::F,
        }
    }
}

/// The three letters of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grades {
    /// The overall grade.
    pub overall: Grade,
    /// Avoidable cost.
    pub waste: Grade,
    /// Avoidable waiting.
    pub latency: Grade,
}

/// Why a step lowered a grade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GradeReason {
    /// The step; `None` when the reason is the whole trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// A sentence.
    pub reason: String,
}

/// The data that grading stores with a completed trace, so that a late rating regrades alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// The letters.
    pub grades: Grades,
    /// The cost of all run steps.
    pub total_cost: Usd,
    /// Cost by model identifier, dearest first.
    pub by_model: Vec<(String, Usd)>,
    /// Cost by infrastructure label, dearest first.
    pub by_infrastructure: Vec<(String, Usd)>,
    /// The reasons for the grades.
    pub reasons: Vec<GradeReason>,
    /// The baselines that the steps were measured against.
    pub baselines: Baselines,
}

/// The baselines that grading measures steps against, taken when the trace was completed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baselines {
    /// One entry per model that the trace called.
    pub latency: Vec<LatencyBaseline>,
    /// The prices of the model that each tier should have used, USD per 1,000 tokens.
    pub tiers: Vec<TierBaseline>,
    /// The pause without a step that begins another turn, in microseconds, in a trace that the calls of
    /// a session share; other traces are one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<i64>,
}

/// The usual latency of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyBaseline {
    /// The model's identifier.
    pub model: String,
    /// The 95th percentile of its run steps in the last 7 days, in milliseconds.
    pub p95_ms: f64,
    /// The number of steps behind that.
    pub samples: u64,
}

/// The right-sized model of a tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierBaseline {
    /// The tier.
    pub tier: crate::tier::Tier,
    /// The model configured for it.
    pub model: String,
    /// Its price per 1,000 prompt tokens.
    pub input: Usd,
    /// Its price per 1,000 completion tokens.
    pub output: Usd,
    /// Its price per 1,000 prompt tokens read from the cache; else that of others.
    #[serde(default)]
    pub cached_input: Option<Usd>,
    /// Its price per 1,000 prompt tokens written to the cache; else that of others.
    #[serde(default)]
    pub cache_write: Option<Usd>,
    /// Its price per 1,000 prompt tokens written to the cache for an hour; else by that of others.
    #[serde(default)]
    pub cache_write_1h: Option<Usd>,
}
