//! Logs and metrics.

mod logs_and_metrics;
