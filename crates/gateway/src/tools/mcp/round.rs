//! One round of a conversation with a model that is offered tools of MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use providers::McpAddress;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::tools::function_tools::{self, ToolCall};
use crate::tools::mcp::{CALL_TIME, MOST_CALLS, MOST_ROUNDS};

/// A server whose tools are offered. It is stored with every run of the conversation, so that a
/// follow-up can map tools to servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Server {
    /// The caller's name for it.
    pub(crate) label: String,
    pub(crate) url: String,
    /// Whether the gateway runs its tools.
    pub(crate) runs: bool,
    pub(crate) vpc_only: bool,
    /// The server's own name of each function.
    pub(crate) functions: BTreeMap<String, String>,
}

/// One round of a conversation with a model that is offered MCP tools.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    offer: Arc<Offer>,
    number: u32,
}

#[derive(Debug)]
struct Offer {
    servers: Vec<Server>,
    deadline: Instant,
}

impl Round {
    pub(crate) fn first(servers: Vec<Server>, deadline: Instant) -> Self {
        Self { offer: Arc::new(Offer { servers, deadline }), number: 1 }
    }

    /// The servers, for the record.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.offer.servers
    }

    /// The time by which the request must be over.
    pub(crate) fn deadline(&self) -> Instant {
        self.offer.deadline
    }

    /// Whether only a private model may see the tools.
    pub(crate) fn vpc_only(&self) -> bool {
        self.offer.servers.iter().any(|server| server.vpc_only)
    }

    /// Whether any of these calls are run here. Too many at once, and those of the last round, go to
    /// the caller like every other call.
    pub(crate) fn runs(&self, calls: &[ToolCall]) -> bool {
        let here = calls.iter().filter(|call| self.runs_call(call)).count();
        self.number < MOST_ROUNDS && (1..=MOST_CALLS).contains(&here)
    }

    /// Whether this call is one of a tool that is run here.
    pub(crate) fn runs_call(&self, call: &ToolCall) -> bool {
        self.find(call).is_some_and(|(server, _)| server.runs)
    }

    pub(crate) fn next(&self) -> Self {
        Self { offer: self.offer.clone(), number: self.number + 1 }
    }

    /// The label of the server that a call goes to.
    pub(crate) fn label(&self, call: &ToolCall) -> &str {
        self.find(call).map_or("", |(server, _)| &server.label)
    }

    pub(crate) fn find(&self, call: &ToolCall) -> Option<(&Server, &str)> {
        let mut servers = self.offer.servers.iter();
        servers.find_map(|server| Some((server, server.functions.get(&call.name)?.as_str())))
    }

    /// The time by which a call of a tool that begins now must be over.
    pub(crate) fn call_deadline(&self, now: Instant) -> Instant {
        self.offer.deadline.min(now + CALL_TIME)
    }
}

/// Whether one of some servers has listed a tool that a model is offered.
pub(crate) fn lists(servers: &[Server], tool: &Value) -> bool {
    let name = function_tools::name(tool);
    name.is_some_and(|name| servers.iter().any(|of| of.functions.contains_key(name)))
}

impl Server {
    pub(crate) fn address(&self) -> Result<McpAddress> {
        McpAddress::read(&self.url).map_err(Error::Internal)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tools::mcp::ROUNDS_TIMEOUT;

    #[test]
    fn a_call_takes_thirty_seconds_within_five_minutes_for_all() {
        let seconds = Duration::from_secs;
        let began = Instant::now();
        let mut round = Round::first(Vec::new(), began + ROUNDS_TIMEOUT);
        for (passed, left) in [(0, 30), (200, 30), (270, 30), (290, 10), (300, 0)] {
            let now = began + seconds(passed);
            assert_eq!(round.call_deadline(now), now + seconds(left), "after {passed} s");
            // Further rounds have no more time.
            round = round.next();
        }
        assert_eq!(round.deadline(), began + seconds(300));
    }
}
