//! Grading: the steps of a trace in, letters and figures out.
//!
//! Pure functions: no clock, no I/O. A step's baselines come in with it, so that the same steps and
//! baselines always grade alike. Only the similarity of two outputs looks at content.

mod answer;
mod assess;
mod drift;
mod fidelity;
mod figures;
mod graph;
mod insights;
mod rating;
mod review_advice;
mod schema;
mod similarity;
mod stall;
mod turns;
mod verdict;

#[cfg(test)]
mod testing;

pub use answer::{NO_LANGUAGE, answer_shape};
pub use assess::{assess, counts};
pub use drift::{DRIFT_LIMIT, DriftReport, MIN_DRIFT_SAMPLES, Profile, drift, psi};
pub use fidelity::tool_fidelity;
pub use figures::{TraceFigures, figures, figures_in_turns, percentile};
pub use insights::{
    Calls, CandidateModel, Findings, InsightChanges, Observed, insight_changes, intent_patterns,
    latency_alerts, migration_alerts,
};
pub use rating::user_rating;
pub use review_advice::{AdvisedChange, JudgedCategory, review_advice};
pub use similarity::{Output, similarity};
