//! MCP servers as tools: named by a request, allowed by the project, listed, offered to any model
//! as functions, and run by the gateway if no approval is required.

pub(crate) mod entries;
pub(crate) mod names;
pub(crate) mod round;

use std::time::Duration;

/// How often a model may be asked in one request.
pub(crate) const MOST_ROUNDS: u32 = 10;
/// How many tools are run at once for one answer of a model.
pub(crate) const MOST_CALLS: usize = 32;
/// How long one call of a tool, or the list of a server's tools, may take.
pub(crate) const CALL_TIME: Duration = Duration::from_secs(30);
/// How long a request with all its rounds may take.
pub(crate) const TOTAL: Duration = Duration::from_mins(5);
