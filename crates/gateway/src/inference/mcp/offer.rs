//! The tools of MCP servers that a request offers, and the conversations with these servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::conversation::Prompt;
use futures_util::future::join_all;
use providers::{McpAddress, McpAnswer, McpError, McpTool};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::context::RequestContext;
use crate::state::mcp_sessions::To;
use crate::state::registry::ProjectState;
use crate::tools::function_tools::{self, ToolCall};
use crate::tools::mcp::entries::{self, Entry};
use crate::tools::mcp::names::Names;
use crate::tools::mcp::round::{Round, Server};
use crate::tools::mcp::{CALL_TIME, ROUNDS_TIMEOUT};

/// The tools that a request offers to a model.
pub(crate) struct OfferedTools {
    /// Functions that the caller runs.
    functions: Vec<Value>,
    /// MCP servers, whose tools are not listed yet.
    servers: Vec<Entry>,
}

impl OfferedTools {
    /// Reads the tools of a request, in any of their forms; none if there are none. Fails for a
    /// server that the project does not allow.
    pub(crate) fn read(mut tools: Vec<Value>, project: &ProjectState) -> Result<Option<Self>> {
        if tools.is_empty() {
            return Ok(None);
        }
        function_tools::normalise(&mut tools)?;
        function_tools::check_known(&tools)?;
        let servers = entries::take_entries(&mut tools)?;
        for server in &servers {
            project.mcp.check(&server.address)?;
        }
        Ok(Some(Self { functions: tools, servers }))
    }
}

impl Gateway {
    /// Puts the tools of a request into its prompt, and opens the first round of an execution if MCP
    /// servers have some of them. A follow-up that offers none has those of its conversation, of
    /// which `known` are the servers.
    pub(crate) async fn first_round(
        &self,
        context: &RequestContext,
        tools: Option<OfferedTools>,
        known: Option<Vec<Server>>,
        prompt: &mut Prompt,
    ) -> Result<Option<Round>> {
        let Some(OfferedTools { mut functions, servers }) = tools else {
            return known.map(|known| Self::offer_again(context, known)).transpose();
        };
        let mut round = None;
        if !servers.is_empty() {
            round = Some(Box::pin(self.offer(context, servers, &mut functions)).await?);
        }
        prompt.params.shift_remove("tools");
        if !functions.is_empty() {
            prompt.params.insert("tools".to_owned(), functions.into());
        }
        Ok(round)
    }

    /// Lists the tools of the servers that a request names, adds them to its functions, and
    /// remembers whose they are. A server that cannot be used fails the request, and leaves a
    /// failed step.
    async fn offer(
        &self,
        context: &RequestContext,
        entries: Vec<Entry>,
        functions: &mut Vec<Value>,
    ) -> Result<Round> {
        let deadline = Instant::now() + ROUNDS_TIMEOUT;
        let began = self.clock.now();
        let until = Instant::now() + CALL_TIME;
        let listing = entries.iter().map(async |entry| {
            let to = to(context, &entry.address)?;
            Ok::<_, Error>(self.mcp.tools(to, until).await)
        });
        let mut offered: Vec<(Entry, Arc<[McpTool]>)> = Vec::new();
        for (entry, listed) in std::iter::zip(&entries, join_all(listing).await) {
            match listed? {
                Ok(tools) => offered.push((entry.clone(), tools)),
                Err(fault) => {
                    self.record_unlisted(context, &entry.label, &fault, began).await?;
                    return Err(unusable(entry, &fault));
                }
            }
        }
        let servers = declare(offered, functions)?;
        Ok(Round::first(servers, deadline))
    }

    /// The offer of a follow-up: the servers of the conversation that it carries on.
    fn offer_again(context: &RequestContext, servers: Vec<Server>) -> Result<Round> {
        for server in &servers {
            context.caller.project.mcp.check(&server.address()?)?;
        }
        Ok(Round::first(servers, Instant::now() + ROUNDS_TIMEOUT))
    }
}

/// Runs a tool of a round.
pub(crate) async fn call_tool(
    gateway: &Gateway,
    context: &RequestContext,
    round: &Round,
    call: &ToolCall,
) -> std::result::Result<McpAnswer, McpError> {
    let (server, tool) = round.find(call).ok_or(McpError::Malformed)?;
    let deadline = round.call_deadline(Instant::now());
    let address = server.address().map_err(|_| McpError::Forbidden)?;
    let to = to(context, &address).map_err(|_| McpError::Forbidden)?;
    gateway.mcp.call(to, tool, &call.arguments, deadline).await
}

/// A server as a request may call it; an error if the project does not allow it.
fn to<'a>(context: &'a RequestContext, address: &'a McpAddress) -> Result<To<'a>> {
    let project = &context.caller.project;
    let token = project.mcp.check(address)?;
    Ok(To { project: project.id(), trace: context.trace.id(), address, token })
}

/// Adds the tools of servers to the functions of a request.
fn declare(
    offered: Vec<(Entry, Arc<[McpTool]>)>,
    functions: &mut Vec<Value>,
) -> Result<Vec<Server>> {
    let given: Vec<String> =
        functions.iter().filter_map(function_tools::name).map(str::to_owned).collect();
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

fn unusable(entry: &Entry, fault: &McpError) -> Error {
    match fault {
        McpError::Forbidden => {
            Error::invalid(format!("MCP server {} is not allowed: {fault}", entry.address.as_str()))
        }
        _ => Error::McpServer(format!("MCP server {} cannot be used: {fault}", entry.label)),
    }
}
