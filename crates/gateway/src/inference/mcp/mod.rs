//! Tools of MCP servers in executions: offered to a model, run, and answered to it.

pub(crate) mod offer;
mod run;
