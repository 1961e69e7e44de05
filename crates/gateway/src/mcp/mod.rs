//! MCP servers as tools: named by a request, allowed by the project, listed, offered to any model
//! as functions, and run by the gateway where nobody has to approve that.

mod allowed;
mod credentials;
mod entries;
mod names;
mod offer;
mod run;
mod sessions;
mod shares;

use std::time::Duration;

pub(crate) use allowed::Allowed;
pub(crate) use credentials::{Given as GivenTokens, Tokens, faults};
pub(crate) use entries::{Entry, is_entry, take_entries};
pub(crate) use offer::{Round, Server};
pub(crate) use sessions::Sessions;

/// How often a model may be asked in one request.
const MOST_ROUNDS: u32 = 10;
/// How many tools are run at once for one answer of a model.
const MOST_CALLS: usize = 32;
/// How long one call of a tool, or the list of a server's tools, may take.
const CALL_TIME: Duration = Duration::from_secs(30);
/// How long a request with all its rounds may take.
const TOTAL: Duration = Duration::from_mins(5);
