//! Tools: functions that callers declare, and those of MCP servers.

pub(crate) mod fingerprint;
pub(crate) mod function_tools;
pub(crate) mod mcp;
