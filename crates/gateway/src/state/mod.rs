//! State of a running gateway, below every use case: nothing here depends on the gateway.

mod attributes;
pub(crate) mod caller;
pub(crate) mod claims;
pub(crate) mod failure_rows;
pub(crate) mod job_waits;
pub(crate) mod job_wakes;
pub(crate) mod known_traces;
pub(crate) mod list_prices;
pub(crate) mod login_throttle;
pub(crate) mod mcp_servers;
pub(crate) mod mcp_sessions;
pub(crate) mod mcp_shares;
pub(crate) mod mcp_tokens;
pub(crate) mod member;
pub(crate) mod perimeter_counts;
pub(crate) mod recounted;
pub(crate) mod registry;
pub(crate) mod running_jobs;
pub(crate) mod session;
pub(crate) mod session_table;
pub(crate) mod session_traces;
pub(crate) mod shared_counters;
pub(crate) mod start_journal;
pub(crate) mod stored_model;
pub(crate) mod usage_asks;
pub(crate) mod verdict_cache;
pub(crate) mod weekly_drift;
