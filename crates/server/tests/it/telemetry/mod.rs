//! Logs, metrics, and the caller's own traces.

mod logs_and_metrics;
mod trace_context;
