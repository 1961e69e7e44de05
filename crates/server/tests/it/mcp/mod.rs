//! MCP servers.

mod official_server;
mod sessions;
mod tool_rounds;
