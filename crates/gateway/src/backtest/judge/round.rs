//! Later rounds of a conversation in which the gateway runs MCP tools.

use domain::conversation::{Message, Role};
use domain::step::ApiEndpoint;
use serde_json::Value;

use super::Request;
use crate::tools::function_tools;
use crate::tools::mcp::round::Server;
use crate::tools::mcp::{MOST_CALLS, MOST_ROUNDS};

impl Request<'_> {
    /// Whether the gateway sent it itself, with the results of tools that it had run. A follow-up of the
    /// caller has the servers of its conversation and ends with results too, but the last of these calls were
    /// handed over: the caller runs one of them, there were too many, or that round was the last.
    pub(super) fn is_round(&self) -> bool {
        let is_execution = self.step.api_endpoint == ApiEndpoint::Executions;
        is_execution
            && self.step.parent.is_some()
            && !rounds(&self.recorded.prompt.messages, &self.recorded.servers)
                .is_multiple_of(MOST_ROUNDS as usize)
    }
}

/// How many answers at the end of a conversation asked for nothing but tools that the gateway runs.
fn rounds(messages: &[Message], servers: &[Server]) -> usize {
    let mut rounds = 0;
    let mut rest = messages;
    while let Some(answer) = rest.iter().rposition(|message| message.role != Role::Tool)
        && answer + 1 < rest.len()
        && is_run_here(&rest[answer], servers)
    {
        rounds += 1;
        rest = &rest[..answer];
    }
    rounds
}

fn is_run_here(answer: &Message, servers: &[Server]) -> bool {
    let calls = answer.extra.get("tool_calls").and_then(Value::as_array);
    let runs = |call: &Value| {
        let name = function_tools::name(call);
        name.is_some_and(|name| {
            let server = servers.iter().find(|server| server.functions.contains_key(name));
            server.is_some_and(|server| server.runs)
        })
    };
    calls.is_some_and(|calls| (1..=MOST_CALLS).contains(&calls.len()) && calls.iter().all(runs))
}
