//! State of a running gateway, below every use case: nothing here knows the gateway.

pub(crate) mod known_traces;
pub(crate) mod login_throttle;
pub(crate) mod mcp_sessions;
pub(crate) mod mcp_shares;
pub(crate) mod registry;
pub(crate) mod verdict_cache;
