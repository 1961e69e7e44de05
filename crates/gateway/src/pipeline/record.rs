//! Record: a step, its content and its cost, on disk before the answer leaves.

use aws_lc_rs::hmac::Key;
use domain::conversation::{Body, Message, Prompt, Role};
use domain::ids::StepId;
use domain::json_weight::InnerJson;
use domain::money::Usd;
use domain::original::Original;
use domain::step::{Call, Security, Step, StepKind, StepStatus, ToolUse};
use domain::time::Timestamp;
use domain::usage::Usage;
use serde_json::{Value, json};

use crate::call_metrics;
use crate::capacity::offload::offload_always;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::lock::lock;
use crate::pipeline::call_outcome::{CallOutcome, Recorded};
use crate::pipeline::choose::Routed;
use crate::pipeline::context::RequestContext;
use crate::pipeline::fund::Funded;
use crate::pipeline::passed_content::Passed;
use crate::pipeline::present::judge_rest;
use crate::pipeline::refusal::{Refusal, UnrecordedRefusal};
use crate::pipeline::screen::{JudgedTool, merged};
use crate::pipeline::stored_content::{Input, Output, Stored};
use crate::pipeline::stored_responses::stored_rows;
use crate::pipeline::usage_cost::UsageCost;
use crate::tools::fingerprint;
use crate::tools::function_tools::{self, ToolCall};

/// Most contents take no more than this.
const CONTENT_BYTES: usize = 4096;

/// The call of a tool of an MCP server.
pub(crate) struct RanTool<'a> {
    /// The label of its server.
    pub(crate) server: &'a str,
    /// `None` when the server was not even asked.
    pub(crate) call: Option<&'a ToolCall>,
    /// The text that the model receives.
    pub(crate) text: &'a str,
    pub(crate) error: Option<String>,
}

impl Gateway {
    /// Records a run step and settles its cost. If the model asked for tools, a tool step follows
    /// it.
    pub(crate) async fn record_run(
        &self,
        funded: &Funded,
        outcome: &mut CallOutcome,
    ) -> Result<Recorded> {
        let context = funded.routed().screened().context();
        if outcome.status != StepStatus::Completed {
            judge_rest(&context.caller.project, outcome).await;
        }
        let usage_cost = UsageCost::by(funded, outcome, self.clock.now());
        let calls = outcome.message.as_ref().map(function_tools::calls).unwrap_or_default();
        let step = self.run_step(funded, outcome, &usage_cost, &calls);
        self.note_warm(funded, step.status, &usage_cost.usage);
        self.count_spend(context, step.finished_at, usage_cost.cost);
        if let Some(claim) = context.caller.claim.as_ref().filter(|_| !context.is_shadow) {
            claim.note_end(outcome.status == StepStatus::Failed);
            if usage_cost.cost > Usd::ZERO || usage_cost.usage != Usage::default() {
                claim.note_spent();
            }
        }
        usage_cost.count(funded);
        let settling = self.fleet.as_ref().map(|fleet| {
            let (caller, cost) = (&context.caller, usage_cost.cost);
            (fleet, self.settle_shared(fleet, caller, funded.take_holds(), cost, step.finished_at))
        });
        funded.settled();
        let resources = stored_rows(funded, outcome, &usage_cost.usage);
        let recorded = self.store_run(funded, outcome, step, &calls);
        let (turn, tools_step) = match resources {
            None => recorded.await?,
            // Both are queued together.
            Some(resources) => Box::pin(self.record_with_stored(recorded, resources)).await?,
        };
        match settling {
            None => self.trip_if_spent(&context.caller).await,
            Some((_, None)) => {}
            Some((fleet, Some((settled, holds)))) => {
                fleet.counters.stored(context.caller.project.id(), &holds);
                self.trip_if_shared_spent(&context.caller, settled).await;
            }
        }
        Ok(Recorded { tools_step, turn, usage: usage_cost.usage, cost: usage_cost.cost })
    }

    /// The step of a call that has ended.
    fn run_step(
        &self,
        funded: &Funded,
        outcome: &mut CallOutcome,
        usage_cost: &UsageCost,
        calls: &[ToolCall],
    ) -> Box<Step> {
        let screened = funded.routed().screened();
        let context = screened.context();
        let call = call(funded, outcome, usage_cost, calls);
        // Boxed here: on its way to the writer it would be moved five times.
        Box::new(Step {
            id: funded.step(),
            trace: context.trace.id(),
            project: context.caller.project.id(),
            key: Some(context.caller.key.key.id),
            kind: StepKind::Run,
            parent: context.parent,
            source: context.source(),
            trace_context: context.trace_context(),
            attributes: context.attributes.clone(),
            api_endpoint: context.api_endpoint,
            status: outcome.status,
            reason: None,
            error: outcome.error.take(),
            started_at: funded.started_at(),
            finished_at: self.clock.now(),
            routing: funded.routing().cloned(),
            security: merged(screened.security(), &outcome.output),
            call: Some(call),
            user_rating: None,
        })
    }

    /// Counts the cost of a call from now on, even if the caller hangs up or the disk fails.
    fn count_spend(&self, context: &RequestContext, at: Timestamp, cost: Usd) {
        call_metrics::count_spend(context.caller.project.id(), cost);
        self.count(&context.caller, at, cost);
    }

    /// Stores a run step, and that of the tools which the caller is to run. Returns the number of the
    /// turn, and the id of the step of the tools.
    async fn store_run(
        &self,
        funded: &Funded,
        outcome: &CallOutcome,
        step: Box<Step>,
        calls: &[ToolCall],
    ) -> Result<(Option<u64>, Option<StepId>)> {
        let screened = funded.routed().screened();
        let context = screened.context();
        // The stored output is the one that leaves: a withheld answer must not be read back from
        // its step.
        let output = match &outcome.message {
            Some(message) => Output::Value(message),
            None => Output::Text(outcome.stored_text()),
        };
        let has_words = !outcome.text.is_empty() || !outcome.refusal.is_empty();
        let original = passed_original(screened.prompt(), outcome);
        let stored = Stored {
            output: (step.status != StepStatus::Failed || has_words).then_some(output),
            mcp: context.servers(),
            passed: original.and_then(|original| Passed::of(original, &outcome.passed)),
            untranslatable: original.and_then(|original| original.untranslatable.as_deref()),
            omitted: original.map(|original| original.omitted.as_slice()).unwrap_or_default(),
            ..Stored::prompt(screened)
        };
        // Tools that are run here leave a step each. Those that a shadow model asks for are not run.
        let here = context.mcp.as_ref().is_some_and(|round| round.runs(calls));
        if calls.is_empty() || here || context.is_shadow {
            return Ok((self.store(context, step, &stored).await?, None));
        }
        let run = step.id;
        // The run is queued before any wait: a caller that hangs up now does not lose it.
        let both = async {
            let tools = self.record_tools(context, run, calls, &[]);
            tokio::try_join!(self.store(context, step, &stored), tools)
        };
        let (turn, tools_step) = Box::pin(both).await?;
        Ok((turn, Some(tools_step)))
    }

    /// Records the tools that a run step has asked for and that the caller is to run, and the steps
    /// that hold the results of the other calls of that round. Returns the step's id.
    pub(crate) async fn record_tools(
        &self,
        context: &RequestContext,
        run: StepId,
        calls: &[ToolCall],
        finished: &[(&str, StepId)],
    ) -> Result<StepId> {
        let (step, output) = self.tool_step(context, run, calls, finished).await?;
        let id = step.id;
        self.record_plain(context, step, None, Output::Value(&output)).await?;
        Ok(id)
    }

    /// The step of the tools that a run step has asked for, and its content.
    async fn tool_step(
        &self,
        context: &RequestContext,
        run: StepId,
        calls: &[ToolCall],
        finished: &[(&str, StepId)],
    ) -> Result<(Step, Value)> {
        let plain = self.plain_step(context, StepKind::ToolCall).await?;
        // The step of its run repeats another; this one is of the answer.
        let step = Step { parent: Some(run), source: None, ..plain };
        let calls: Vec<Value> = calls
            .iter()
            .map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments}))
            .collect();
        let mut output = json!({"tool_calls": calls});
        if !finished.is_empty() {
            let finished =
                finished.iter().map(|(call, step)| json!({"id": call, "step_id": step.0}));
            output["finished"] = finished.collect();
        }
        Ok((step, output))
    }

    /// Records a tool that was run here: its arguments, the text for the model, and its error.
    /// Returns the step's id and its end.
    pub(crate) async fn record_tool(
        &self,
        context: &RequestContext,
        mut step: Step,
        ran: RanTool<'_>,
    ) -> Result<(StepId, Timestamp)> {
        step.finished_at = self.clock.now();
        let arguments = ran.call.map(|call| Value::from(call.arguments.clone()).to_string());
        let extra = arguments.into_iter().map(|text| ("arguments".to_owned(), text.into()));
        let (role, body) = (Role::Tool, Body::Text(ran.text.to_owned()));
        let message = Message { role, body, extra: extra.collect() };
        let judge = || context.judge_tool(message);
        let bytes = context.caller.project.policy.effort(ran.text.len());
        let judged = offload_always(context.caller.share(), bytes, judge).await?;
        let JudgedTool { message, security, placeholders } = judged;
        let mut input = json!({"server_label": ran.server});
        if let Some(call) = ran.call {
            let arguments = message.extra.get("arguments").and_then(Value::as_str);
            let arguments = arguments.and_then(|text| InnerJson::default().read::<Value>(text));
            input["id"] = call.id.as_str().into();
            input["name"] = call.name.as_str().into();
            input["arguments"] = arguments.unwrap_or_default();
        }
        step.security = security;
        if ran.error.is_some() {
            step.status = StepStatus::Failed;
        }
        step.error = ran.error;
        let stored = Stored {
            input: Some(Input::Value(&input)),
            output: match &message.body {
                Body::Text(text) if ran.call.is_some() => Some(Output::Text(text)),
                _ => None,
            },
            placeholders: (!placeholders.is_empty()).then_some(&placeholders),
            ..Stored::default()
        };
        let recorded = (step.id, step.finished_at);
        self.store(context, step.into(), &stored).await?;
        Ok(recorded)
    }

    /// Records a request that safety or routing has refused, as a step of its own.
    pub(crate) fn refuse<'a>(
        &'a self,
        context: &'a RequestContext,
        refused: UnrecordedRefusal,
    ) -> impl Future<Output = Result<Refusal>> + Send + 'a {
        // Boxed: it is rare, and every request would carry it.
        Box::pin(async move {
            let UnrecordedRefusal { prompt, reason, category, security, routing, cause } = refused;
            metrics::counter!("sluice_blocked_total", "reason" => category).increment(1);
            let step = Step {
                status: StepStatus::Blocked,
                reason: Some(reason.clone()),
                routing,
                security,
                ..self.plain_step(context, StepKind::Blocked).await?
            };
            let refusal = Refusal { reason, step: step.id, trace: step.trace, cause };
            let input = Some(Input::of(context.api_endpoint, &prompt));
            // By its servers a backtest knows a later round of a conversation.
            let mcp = context.servers();
            self.store(context, step.into(), &Stored { input, mcp, ..Stored::default() }).await?;
            Ok(refusal)
        })
    }

    /// Records that no model was called, because the circuit of this one, the first of the path
    /// that could have been, is open. A step without a call costs nothing and has no latency of a
    /// model.
    pub(super) async fn record_uncalled(&self, routed: &Routed, model: &str) -> Result<()> {
        let screened = routed.screened();
        let context = screened.context();
        let step = Step {
            status: StepStatus::Failed,
            error: Some(format!("Model {model} was not called: its circuit is open")),
            routing: screened.pricing_basis().is_for_text().then(|| routed.routing().clone()),
            security: screened.security().clone(),
            ..self.plain_step(context, StepKind::Run).await?
        };
        let id = step.id;
        self.store(context, step.into(), &Stored::prompt(screened)).await?;
        if let Some(recorded) = &context.recorded {
            *lock(&recorded.made) = Some(id);
        }
        Ok(())
    }

    /// Records a step that called no model: a check or a log entry.
    pub(crate) async fn record_plain(
        &self,
        context: &RequestContext,
        step: Step,
        input: Option<&str>,
        output: Output<'_>,
    ) -> Result<()> {
        let stored =
            Stored { input: input.map(Input::Text), output: Some(output), ..Stored::default() };
        self.store(context, step.into(), &stored).await.map(drop)
    }

    /// A completed step of this request with nothing in it.
    pub(crate) async fn plain_step(
        &self,
        context: &RequestContext,
        kind: StepKind,
    ) -> Result<Step> {
        let now = self.clock.now();
        Ok(Step {
            id: self.store.step_id().await?,
            trace: context.trace.id(),
            project: context.caller.project.id(),
            key: Some(context.caller.key.key.id),
            kind,
            parent: context.parent,
            source: context.source(),
            trace_context: context.trace_context(),
            attributes: context.attributes.clone(),
            api_endpoint: context.api_endpoint,
            status: StepStatus::Completed,
            reason: None,
            error: None,
            started_at: now,
            finished_at: now,
            routing: None,
            security: Security::default(),
            call: None,
            user_rating: None,
        })
    }

    /// Returns the number of the turn in its trace, if it is an answer of assistants.
    async fn store(
        &self,
        context: &RequestContext,
        step: Box<Step>,
        stored: &Stored<'_>,
    ) -> Result<Option<u64>> {
        let project = &context.caller.project;
        let json = if project.settings.discard_content {
            None
        } else {
            let mut json = Vec::with_capacity(CONTENT_BYTES);
            serde_json::to_writer(&mut json, stored)
                .map_err(|error| crate::error::Error::Internal(error.to_string()))?;
            Some(json)
        };
        let content = json.as_deref().map(|json| (json, &project.sealing));
        let counts = grading::counts(&step);
        let number = self.store.writer().step(step, content).await?;
        if !counts {
            return Ok(number);
        }
        let trace = self.handle_now(project, &context.trace).await?;
        if trace.is_completed() {
            // A step that was added after completion changes the grade. The task has logged its
            // failure, if there was one.
            let _ = self.regrade(context.caller.project.clone(), trace).await;
        }
        Ok(number)
    }
}

/// The request as it came, of a call that went on so.
fn passed_original<'p>(prompt: &'p Prompt, outcome: &CallOutcome) -> Option<&'p Original> {
    prompt.original.as_deref().filter(|_| outcome.passes)
}

/// The part of a run step that describes its call.
fn call(
    funded: &Funded,
    outcome: &mut CallOutcome,
    usage_cost: &UsageCost,
    calls: &[ToolCall],
) -> Call {
    let screened = funded.routed().screened();
    let (model, key) = (funded.model(), &screened.context().caller.project.print_key);
    Call {
        model: model.identifier.clone(),
        provider: model.provider,
        upstream_model: outcome.upstream_model.take(),
        infrastructure: model.infrastructure().to_owned(),
        is_public: model.is_public,
        attempts: outcome.attempts,
        failure_status: outcome.failure_status,
        usage: usage_cost.usage,
        prices: usage_cost.prices,
        cost: usage_cost.cost,
        cost_estimated: usage_cost.estimated,
        first_token: outcome.first_token,
        finish: outcome.finish,
        input_fingerprint: funded.input_fingerprint(),
        // An answer that only asks for tools has no text that could be repeated.
        output_fingerprint: (funded.pricing_basis().is_for_text() && !outcome.text.is_empty())
            .then(|| fingerprint::text(key, &outcome.text)),
        answer: outcome.shape().filter(|_| funded.pricing_basis().is_for_text()),
        tools: tool_use(screened.prompt(), outcome.message.as_ref(), calls, key),
        shadow: screened.context().is_shadow,
        similarity: outcome.similarity,
    }
}

/// The stored form of the tool calls of an answer.
fn tool_use(
    prompt: &Prompt,
    message: Option<&Value>,
    calls: &[ToolCall],
    key: &Key,
) -> Option<ToolUse> {
    if calls.is_empty() {
        return None;
    }
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let declared = list(prompt.params.get("tools"));
    let called = list(message.and_then(|message| message.get("tool_calls")));
    Some(ToolUse {
        calls: u32::try_from(calls.len()).unwrap_or(u32::MAX),
        fidelity: grading::tool_fidelity(&declared, &called).unwrap_or(1.0),
        fingerprints: calls.iter().map(|call| fingerprint::tool(key, call)).collect(),
    })
}
