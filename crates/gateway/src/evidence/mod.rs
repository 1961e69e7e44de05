//! Evidence: traces, logs, statistics and insights.

pub(crate) mod complexity;
mod drift;
pub(crate) mod figures;
pub(crate) mod insights;
pub(crate) mod listed_trace;
pub(crate) mod logs;
pub(crate) mod reviews;
pub(crate) mod series;
pub(crate) mod stats;
mod trace_handles;
pub(crate) mod trace_search;
pub(crate) mod traces;
pub(crate) mod usage;
