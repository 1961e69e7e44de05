//! Evidence: traces, replays, logs and statistics.

pub(crate) mod logs;
pub(crate) mod replay;
pub(crate) mod stats;
pub(crate) mod trace_detail;
pub(crate) mod traces;
