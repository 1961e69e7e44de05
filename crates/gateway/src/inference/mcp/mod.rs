//! Tools of MCP servers in executions: offered to a model, run, and answered to it.

mod offer;
mod run;
