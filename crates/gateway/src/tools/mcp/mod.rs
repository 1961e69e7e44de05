//! MCP servers as tools: named by a request, allowed by the project, listed, offered to any model
//! as functions, and run by the gateway if no approval is required.

pub(crate) mod entries;
pub(crate) mod names;
pub(crate) mod round;

use std::time::Duration;

/// The most calls of a model in one request.
pub(crate) const MOST_ROUNDS: u32 = 10;
/// The most tools that are run at once for one answer of a model.
pub(crate) const MOST_CALLS: usize = 32;
/// The longest time of one call of a tool, or of listing a server's tools.
pub(crate) const CALL_TIME: Duration = Duration::from_secs(30);
/// The longest time of a request with all its rounds.
pub(crate) const ROUNDS_TIMEOUT: Duration = Duration::from_mins(5);
