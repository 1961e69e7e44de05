//! Evidence: traces, logs and statistics.

pub(crate) mod logs;
pub(crate) mod stats;
pub(crate) mod traces;
