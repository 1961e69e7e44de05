//! Logs, metrics, the caller's own traces, and their collector.

mod documented;
mod logs_and_metrics;
mod otlp;
mod trace_context;
