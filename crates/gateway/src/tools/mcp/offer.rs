//! What a request offers of MCP servers, and the conversations with them.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use providers::{McpAddress, McpAnswer, McpError, McpTool};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Gateway;
use crate::error::{Error, Result};
use crate::pipeline::Turn;
use crate::state::mcp_sessions::To;
use crate::tools::function_tools;
use crate::tools::function_tools::ToolCall;
use crate::tools::mcp::entries::Entry;
use crate::tools::mcp::names::Names;
use crate::tools::mcp::{CALL_TIME, MOST_CALLS, MOST_ROUNDS, TOTAL};

/// A server whose tools are offered. It is kept with every run of the conversation, so that a
/// follow-up knows whose tools they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Server {
    /// What the caller calls it.
    pub(super) label: String,
    url: String,
    /// Whether the gateway runs its tools.
    runs: bool,
    vpc_only: bool,
    /// The server's own name of each function.
    functions: BTreeMap<String, String>,
}

/// One round of a conversation with a model that MCP tools are offered to.
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

impl Gateway {
    /// Lists the tools of the servers that a request names, adds them to its functions, and
    /// remembers whose they are. A server that cannot be used fails the request, and leaves a
    /// failed step.
    pub(crate) async fn offer(
        &self,
        turn: &Turn,
        entries: Vec<Entry>,
        functions: &mut Vec<Value>,
    ) -> Result<Round> {
        let deadline = Instant::now() + TOTAL;
        let began = self.clock.now();
        let until = Instant::now() + CALL_TIME;
        let listing = entries.iter().map(async |entry| {
            let to = to(turn, &entry.address)?;
            Ok::<_, Error>(self.mcp.tools(to, until).await)
        });
        let mut offered: Vec<(Entry, Arc<[McpTool]>)> = Vec::new();
        for (entry, listed) in std::iter::zip(&entries, join_all(listing).await) {
            match listed? {
                Ok(tools) => offered.push((entry.clone(), tools)),
                Err(fault) => {
                    self.record_unlisted(turn, &entry.label, &fault, began).await?;
                    return Err(unusable(entry, &fault));
                }
            }
        }
        let servers = declare(offered, functions)?;
        Ok(Round::first(servers, deadline))
    }

    /// What a follow-up offers: the servers of the conversation that it carries on.
    pub(crate) fn offer_again(turn: &Turn, servers: Vec<Server>) -> Result<Round> {
        for server in &servers {
            turn.caller.project.mcp.check(&server.address()?)?;
        }
        Ok(Round::first(servers, Instant::now() + TOTAL))
    }
}

impl Round {
    fn first(servers: Vec<Server>, deadline: Instant) -> Self {
        Self { offer: Arc::new(Offer { servers, deadline }), number: 1 }
    }

    /// The servers, for the record.
    pub(crate) fn servers(&self) -> &[Server] {
        &self.offer.servers
    }

    /// When the request must be over.
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
    pub(super) fn runs_call(&self, call: &ToolCall) -> bool {
        self.find(call).is_some_and(|(server, _)| server.runs)
    }

    pub(super) fn next(&self) -> Self {
        Self { offer: self.offer.clone(), number: self.number + 1 }
    }

    /// The label of the server that a call goes to.
    pub(super) fn label(&self, call: &ToolCall) -> &str {
        self.find(call).map_or("", |(server, _)| &server.label)
    }

    fn find(&self, call: &ToolCall) -> Option<(&Server, &str)> {
        let mut servers = self.offer.servers.iter();
        servers.find_map(|server| Some((server, server.functions.get(&call.name)?.as_str())))
    }

    /// When a call of a tool that begins now must be over.
    fn call_deadline(&self, now: Instant) -> Instant {
        self.offer.deadline.min(now + CALL_TIME)
    }

    /// Runs a tool.
    pub(super) async fn call(
        &self,
        gateway: &Gateway,
        turn: &Turn,
        call: &ToolCall,
    ) -> std::result::Result<McpAnswer, McpError> {
        let (server, tool) = self.find(call).ok_or(McpError::Malformed)?;
        let deadline = self.call_deadline(Instant::now());
        let address = server.address().map_err(|_| McpError::Forbidden)?;
        let to = to(turn, &address).map_err(|_| McpError::Forbidden)?;
        gateway.mcp.call(to, tool, &call.arguments, deadline).await
    }
}

/// A server as a turn may call it; an error where the project does not allow it.
fn to<'a>(turn: &'a Turn, address: &'a McpAddress) -> Result<To<'a>> {
    let project = &turn.caller.project;
    let token = project.mcp.check(address)?;
    Ok(To { project: project.id(), trace: turn.trace.id(), address, token })
}

impl Server {
    fn address(&self) -> Result<McpAddress> {
        McpAddress::read(&self.url).map_err(Error::Internal)
    }
}

/// Adds the tools of servers to the functions of a request.
fn declare(
    offered: Vec<(Entry, Arc<[McpTool]>)>,
    functions: &mut Vec<Value>,
) -> Result<Vec<Server>> {
    let given: Vec<String> =
        functions.iter().filter_map(|tool| name(tool).map(str::to_owned)).collect();
    let all = offered.iter().flat_map(|(_, tools)| tools.iter().map(|tool| tool.name.as_str()));
    let mut names = Names::new(given.iter().map(String::as_str), all);
    let mut servers = Vec::with_capacity(offered.len());
    for (entry, listed) in offered {
        let mut known = BTreeMap::new();
        for tool in &*listed {
            let name = names.give(&entry.label, &tool.name);
            let mut function = json!({"name": name, "parameters": tool.schema});
            if let Some(description) = &tool.description {
                function["description"] = description.as_str().into();
            }
            functions.push(json!({"type": "function", "function": function}));
            known.insert(name, tool.name.clone());
        }
        servers.push(Server {
            label: entry.label,
            url: entry.address.as_str().to_owned(),
            runs: entry.runs,
            vpc_only: entry.vpc_only,
            functions: known,
        });
    }
    function_tools::check_number(functions)?;
    Ok(servers)
}

fn name(tool: &Value) -> Option<&str> {
    tool.get("function")?.get("name")?.as_str()
}

fn unusable(entry: &Entry, fault: &McpError) -> Error {
    match fault {
        McpError::Forbidden => {
            Error::invalid(format!("MCP server {} is not allowed: {fault}", entry.address.as_str()))
        }
        _ => Error::McpServer(format!("MCP server {} cannot be used: {fault}", entry.label)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_call_takes_thirty_seconds_within_five_minutes_for_all() {
        let seconds = Duration::from_secs;
        let began = Instant::now();
        let mut round = Round::first(Vec::new(), began + TOTAL);
        for (passed, left) in [(0, 30), (200, 30), (270, 30), (290, 10), (300, 0)] {
            let now = began + seconds(passed);
            assert_eq!(round.call_deadline(now), now + seconds(left), "after {passed} s");
            // Further rounds have no more time.
            round = round.next();
        }
        assert_eq!(round.deadline(), began + seconds(300));
    }
}
