//! The loop: a model is asked, its tools are run, and it is asked again with what they answered.

use domain::conversation::{Message, Prompt};
use domain::ids::StepId;
use domain::step::{Step, StepKind};
use domain::time::Timestamp;
use providers::{McpAnswer, McpError};

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::inference::executions::Outcome;
use crate::inference::follow_up;
use crate::inference::mcp::offer::call_tool;
use crate::pipeline::context::RequestContext;
use crate::pipeline::record::RanTool;
use crate::pipeline::rounds::Rounds;
use crate::request_id;
use crate::tools::function_tools::{self, ToolCall, ToolResult};
use crate::tools::mcp::round::Round;

/// The error of a step whose call was ended by a stop of the gateway.
const STOPPED: &str = "The gateway stopped before this call ended";

/// A tool that was run.
struct Ran {
    step: StepId,
    finished_at: Timestamp,
    result: ToolResult,
}

impl Gateway {
    /// Calls a model and runs the tools that it asks for, by turns, until it answers or waits for
    /// the caller. Every round is screened, routed, funded and recorded like a request of its own.
    pub(crate) async fn converse(
        &self,
        context: RequestContext,
        round: Round,
        prompt: Prompt,
    ) -> Result<Outcome> {
        let rounds = Rounds::default();
        // Ends them however this ends, also if the caller hangs up, who has no answer then.
        let _guard = rounds.guard();
        let outcome = self.take_turns(context, round, prompt, &rounds).await;
        rounds.note_answer();
        outcome
    }

    async fn take_turns(
        &self,
        mut context: RequestContext,
        mut round: Round,
        mut prompt: Prompt,
        rounds: &Rounds,
    ) -> Result<Outcome> {
        // Found by the prompt of the caller, before a step of a tool asks for it with another one.
        context.session(&prompt);
        loop {
            context.mcp = Some(round.clone());
            let mut next = prompt.clone();
            let routed = match self.route(context.clone(), prompt).await? {
                Ok(routed) => *routed,
                Err(refusal) => return Ok(Outcome::Blocked(refusal)),
            };
            let (flight, outcome) = self.call_and_judge(routed).await?;
            let calls = match outcome {
                Outcome::Tools { calls, .. } if round.runs(&calls) => calls,
                outcome => return Self::recorded(flight, outcome).await,
            };
            let run = flight.funded()?.step();
            next.messages.extend(follow_up::answer(&flight)?.and_then(Message::read));
            flight.finish_round(rounds.clone()).await?;
            let ran = self.run_tools(&context, &round, run, &calls).await?;
            if ran.len() < calls.len() {
                return self.hand_over(&context, &round, run, calls, &ran).await;
            }
            // The gate has seen only the first round.
            self.check_settled(&context.caller, self.clock.now()).await?;
            context.parent =
                ran.iter().max_by_key(|ran| (ran.finished_at, ran.step)).map(|ran| ran.step);
            // One for each call, in their order.
            let results = std::iter::zip(&calls, ran);
            next.messages
                .extend(results.map(|(call, ran)| function_tools::answer(call, ran.result)));
            prompt = next;
            round = round.next();
        }
    }

    /// Runs those calls of a model that the gateway has to run, side by side. A call that has begun
    /// is ended and recorded also when the caller hangs up: the tool may have had an effect.
    async fn run_tools(
        &self,
        context: &RequestContext,
        round: &Round,
        run: StepId,
        calls: &[ToolCall],
    ) -> Result<Vec<Ran>> {
        let ours = calls.iter().filter(|call| round.runs_call(call)).cloned();
        let running: Vec<_> = ours
            .map(|call| {
                let (gateway, context, round) = (self.clone(), context.clone(), round.clone());
                let ran = async move { gateway.run_tool(&context, &round, run, call).await };
                self.tasks.spawn(request_id::carried(ran))
            })
            .collect();
        let mut ran = Vec::with_capacity(running.len());
        for task in running {
            ran.push(task.await.map_err(|error| Error::Internal(error.to_string()))??);
        }
        Ok(ran)
    }

    async fn run_tool(
        &self,
        context: &RequestContext,
        round: &Round,
        run: StepId,
        call: ToolCall,
    ) -> Result<Ran> {
        let step =
            Step { parent: Some(run), ..self.plain_step(context, StepKind::ToolCall).await? };
        let (text, error) = tokio::select! {
            answer = call_tool(self, context, round, &call) => for_model(answer),
            () = self.cut_off.cancelled() => (STOPPED.to_owned(), Some(STOPPED.to_owned())),
        };
        let ran = RanTool { server: round.label(&call), call: Some(&call), text: &text, error };
        let (id, finished_at) = self.record_tool(context, step, ran).await?;
        let result = ToolResult { call: call.id, content: text, name: Some(call.name) };
        Ok(Ran { step: id, finished_at, result })
    }

    /// Hands the calls that the gateway does not run to the caller. The step that waits for them
    /// refers to the steps that hold the results of the others.
    async fn hand_over(
        &self,
        context: &RequestContext,
        round: &Round,
        run: StepId,
        mut calls: Vec<ToolCall>,
        ran: &[Ran],
    ) -> Result<Outcome> {
        calls.retain(|call| !round.runs_call(call));
        let finished =
            ran.iter().map(|ran| (ran.result.call.as_str(), ran.step)).collect::<Vec<_>>();
        let step = self.record_tools(context, run, &calls, &finished).await?;
        Ok(Outcome::Tools { calls, step })
    }

    /// Records that the tools of a server could not be listed.
    pub(super) async fn record_unlisted(
        &self,
        context: &RequestContext,
        label: &str,
        fault: &McpError,
        began: Timestamp,
    ) -> Result<()> {
        let step =
            Step { started_at: began, ..self.plain_step(context, StepKind::ToolCall).await? };
        let ran = RanTool { server: label, call: None, text: "", error: Some(failed(fault)) };
        self.record_tool(context, step, ran).await.map(drop)
    }
}

/// The answer of a call for the model, and its error. An error is given in plain words: models
/// often find another way.
fn for_model(answer: std::result::Result<McpAnswer, McpError>) -> (String, Option<String>) {
    match answer {
        Ok(McpAnswer { text, is_error: false }) => (text, None),
        Ok(McpAnswer { text, is_error: true }) => {
            let text = if text.is_empty() { "The tool failed.".to_owned() } else { text };
            (text, Some("The tool reported an error".to_owned()))
        }
        Err(fault) => {
            let words = match &fault {
                McpError::Refused(words) => format!(": {words}"),
                _ => String::new(),
            };
            (format!("The tool could not be run: {fault}{words}"), Some(failed(&fault)))
        }
    }
}

fn failed(fault: &McpError) -> String {
    format!("The MCP server failed: {fault}")
}
