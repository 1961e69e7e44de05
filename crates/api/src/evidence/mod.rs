//! Evidence: traces, replays, backtests, logs, statistics, insights and exports.

pub(crate) mod backtests;
pub(crate) mod excerpts;
pub(crate) mod exports;
pub(crate) mod finding_places;
pub(crate) mod insights;
pub(crate) mod logs;
pub(crate) mod marked_texts;
pub(crate) mod own_usage;
pub(crate) mod period;
pub(crate) mod replay;
pub(crate) mod reviews;
pub(crate) mod stats;
pub(crate) mod trace_detail;
pub(crate) mod trace_query;
pub(crate) mod traces;
pub(crate) mod usage;
