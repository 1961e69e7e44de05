//! Executions and direct runs: one text in, one text out, with tools between them.

use domain::conversation::Prompt;
use domain::ids::StepId;
use domain::step::ApiEndpoint;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::inference::mcp::offer::OfferedTools;
use crate::pipeline::choose::{Fallbacks, Routed};
use crate::pipeline::in_flight::InFlight;
use crate::pipeline::refusal::Refusal;
use crate::pipeline::screen::{PiiRule, ScreeningRequest};
use crate::safety::answer_strings::{self, tool_message};
use crate::state::caller::Caller;
use crate::tools::function_tools::{self, ToolCall, ToolResult};

/// An answer.
#[derive(Debug)]
pub struct Executed {
    /// The answer's text.
    pub output: String,
    /// The identifier of the model that wrote it.
    pub model: String,
    /// The step that records it.
    pub step: StepId,
}

/// A request to execute.
#[derive(Debug, Default)]
pub struct ExecuteRequest {
    /// An open trace of the caller's project.
    pub trace_id: String,
    /// The prompt. A follow-up takes the conversation from its parent.
    pub input: String,
    /// The tools that the model may call, in any form; a follow-up without any has those of the
    /// first round.
    pub tools: Vec<Value>,
    /// The results of the tools of the parent step; a follow-up answers all of them.
    pub results: Option<Vec<ToolResult>>,
    /// The step it follows from.
    pub parent: Option<i64>,
}

/// The result of an execution.
#[derive(Debug)]
pub enum Outcome {
    /// An answer.
    Text(Executed),
    /// The model waits for tools.
    Tools {
        /// The calls that it asks for.
        calls: Vec<ToolCall>,
        /// The step that records them: the parent of the follow-up with their results.
        step: StepId,
    },
    /// Refused by safety or routing, at no cost.
    Blocked(Refusal),
}

impl Gateway {
    /// Checks, routes, calls a model and records what it cost.
    pub fn execute<'a>(
        &'a self,
        caller: &'a Caller,
        request: ExecuteRequest,
    ) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            let tools = OfferedTools::read(request.tools, &caller.project)?;
            let context = self
                .request_context(caller, &request.trace_id, request.parent, ApiEndpoint::Executions)
                .await?;
            let (mut prompt, known) = match request.results {
                None => (Prompt::question(request.input), None),
                Some(results) => Box::pin(self.follow_up(&context, results)).await?,
            };
            // Tools of MCP servers are run here: the steps below once a round.
            if let Some(round) = self.first_round(&context, tools, known, &mut prompt).await? {
                return Box::pin(self.converse(context, round, prompt)).await;
            }
            match self.route(context, prompt).await? {
                Ok(routed) => self.execute_routed(*routed).await,
                Err(refusal) => Ok(Outcome::Blocked(refusal)),
            }
        })
    }

    /// Calls the model that the caller names; checks and cost recording still apply.
    pub fn run<'a>(
        &'a self,
        caller: &'a Caller,
        trace_id: &'a str,
        model: &'a str,
        input: String,
        parent: Option<i64>,
    ) -> BoxFuture<'a, Result<Outcome>> {
        Box::pin(async move {
            let context = self.request_context(caller, trace_id, parent, ApiEndpoint::Runs).await?;
            let request =
                ScreeningRequest { prompt: Prompt::question(input), pii: PiiRule::Settings };
            match self.direct_with(&context, request, model, Fallbacks::No).await? {
                Ok(routed) => self.execute_routed(*routed).await,
                Err(refusal) => Ok(Outcome::Blocked(refusal)),
            }
        })
    }

    /// Calls, judges the answer, records.
    async fn execute_routed(&self, routed: Routed) -> Result<Outcome> {
        let (flight, outcome) = self.call_and_judge(routed).await?;
        Self::recorded(flight, outcome).await
    }

    /// Funds and calls the routed models in order until one answers, and judges the answer, which
    /// may leave once the call is recorded. Its step is that of the call.
    pub(crate) async fn call_and_judge(&self, routed: Routed) -> Result<(InFlight, Outcome)> {
        let (mut flight, mut reply) = self.call(routed).await?;
        // A refusal has its reason in a field of its own.
        if reply.text.is_empty()
            && let Some(refusal) = reply.native.as_ref().and_then(answer_strings::refusal)
        {
            reply.text = refusal.to_owned();
        }
        let beside = reply.native.as_mut().map_or(0, answer_strings::beside_text);
        // Only the text and the calls of tools that were offered leave, so only these are judged
        // and kept.
        let offers = flight.funded()?.routed().screened().prompt().params.contains_key("tools");
        if !offers || tool_message(&reply).is_none() {
            reply.native = None;
        }
        flight.outcome.note_reply(&reply);
        let blocked = flight.present(&mut reply).await?;
        // Reasoning that is left out of the answer is still paid for.
        flight.outcome.beside = beside;
        let funded = flight.funded()?;
        let (step, model) = (funded.step(), funded.model().identifier.clone());
        let outcome = match (blocked, tool_message(&reply)) {
            (Some(reason), _) => {
                let trace = funded.routed().screened().context().trace.id();
                Outcome::Blocked(Refusal { reason, step, trace, cause: None })
            }
            (None, Some(message)) => Outcome::Tools { calls: function_tools::calls(message), step },
            (None, None) => Outcome::Text(Executed { output: reply.text, model, step }),
        };
        Ok((flight, outcome))
    }

    /// Records a call, and returns its outcome: calls of tools have a step of their own by then.
    pub(crate) async fn recorded(flight: InFlight, mut outcome: Outcome) -> Result<Outcome> {
        let recorded = flight.finish().await?;
        if let (Outcome::Tools { step, .. }, Some(tools_step)) = (&mut outcome, recorded.tools_step)
        {
            *step = tools_step;
        }
        Ok(outcome)
    }
}
