//! `/traces` and what is kept of a trace.

mod auto_trace;
mod detail;
mod filters;
mod lifecycle;
