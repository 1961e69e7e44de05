//! Record: a step, its content and its cost, on disk before the answer leaves.

use aws_lc_rs::hmac::Key;
use domain::conversation::Prompt;
use domain::ids::StepId;
use domain::model::Model;
use domain::money::Usd;
use domain::step::{
    Call, Door, FinishReason, Routing, Security, Step, StepKind, StepStatus, ToolUse,
};
use domain::usage::Usage;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::charge::Charge;
use super::{Funded, Turn};
use crate::Gateway;
use crate::error::Result;
use crate::tools::{self, ToolCall};
use crate::{labels, output, prints, tokens};

/// How a call ended, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) status: StepStatus,
    pub(crate) error: Option<String>,
    /// What the model said, as the provider sent it.
    pub(crate) text: String,
    /// Bytes of what it said beside the text: tool calls, reasoning, further choices.
    pub(crate) beside: usize,
    /// What is stored in place of the text, where the output check changed it.
    pub(crate) instead: Option<String>,
    /// What it said beside text: the whole message, where it asked for tools, as it leaves.
    pub(crate) message: Option<Value>,
    pub(crate) finish: Option<FinishReason>,
    pub(crate) usage: Option<Usage>,
    pub(crate) upstream_model: Option<String>,
    pub(crate) first_token: Option<i64>,
    pub(crate) attempts: i64,
    /// How many images were made.
    pub(crate) images: Option<u64>,
    /// What the check of the output has found.
    pub(crate) output: Security,
}

impl Default for Ended {
    fn default() -> Self {
        Self {
            status: StepStatus::Completed,
            error: None,
            text: String::new(),
            beside: 0,
            instead: None,
            message: None,
            finish: None,
            usage: None,
            upstream_model: None,
            first_token: None,
            attempts: 1,
            images: None,
            output: Security::default(),
        }
    }
}

/// Who refused a request.
#[derive(Debug)]
pub(crate) struct BlockedBy {
    pub(crate) reason: String,
    pub(crate) security: Security,
    pub(crate) routing: Option<Routing>,
}

impl BlockedBy {
    /// The reason as one of a few words, for metrics.
    fn why(&self) -> &'static str {
        match (&self.routing, &self.security) {
            (Some(_), _) => "routing",
            (None, security) if security.secret => "secret",
            (None, security) if security.injection => "injection",
            (None, security) if security.pii => "pii",
            (None, _) => "policy",
        }
    }
}

/// A step's content as it is stored; see [`domain::step::Content`].
#[derive(Serialize)]
struct Stored<'a> {
    input: Option<Input<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a Map<String, Value>>,
    output: Option<Output<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    placeholders: Option<&'a checks::Placeholders>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Input<'a> {
    Text(&'a str),
    /// What is to be embedded.
    Texts(Vec<&'a str>),
    Messages(&'a [domain::conversation::Message]),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(&'a str),
    Value(&'a Value),
}

impl Gateway {
    /// Records a run step and settles what it cost. Where the model asked for tools, a step of
    /// theirs follows it: returns its id.
    pub(crate) async fn record_run(
        &self,
        funded: &Funded,
        mut ended: Ended,
    ) -> Result<Option<StepId>> {
        let screened = funded.routed().screened();
        let turn = screened.turn();
        let prompt = screened.prompt();
        let project = &turn.caller.project;
        if ended.status != StepStatus::Completed {
            output::judge_rest(project, &mut ended);
        }
        let (model, charge) = (funded.model(), funded.charge());
        let (usage, counted_here) = usage(charge, model, prompt, &ended);
        let (cost, estimated) = match charge.image_price(model) {
            Some(price) => images(charge, price, &ended),
            None => {
                let cost = funded.prices().map_or(Usd::ZERO, |prices| prices.cost(&usage));
                (cost, counted_here && cost > Usd::ZERO)
            }
        };
        let calls = ended.message.as_ref().map(tools::calls).unwrap_or_default();
        let tools = tool_use(prompt, ended.message.as_ref(), &calls, &project.print_key);
        let call = Call {
            model: model.identifier.clone(),
            provider: model.provider,
            upstream_model: ended.upstream_model,
            infrastructure: model.infrastructure().to_owned(),
            is_public: model.is_public,
            attempts: ended.attempts,
            usage,
            prices: funded.prices().copied(),
            cost,
            cost_estimated: estimated,
            first_token: ended.first_token,
            finish: ended.finish,
            // An image is another one each time: asking again repeats nothing.
            input_print: (!matches!(charge, Charge::Images(_)))
                .then(|| prints::input(&project.print_key, &model.identifier, prompt)),
            output_print: charge
                .is_for_text()
                .then(|| prints::text(&project.print_key, &ended.text)),
            tools,
            shadow: false,
        };
        let step = Step {
            id: funded.step(),
            trace: turn.trace.id(),
            project: project.id(),
            key: Some(turn.caller.key.key.id),
            kind: StepKind::Run,
            parent: turn.parent,
            door: turn.door,
            status: ended.status,
            reason: None,
            error: ended.error,
            started_at: funded.started_at(),
            finished_at: self.clock.now(),
            // What no tier's model could have done has no right size.
            routing: charge.is_for_text().then(|| funded.routed().routing().clone()),
            security: merged(screened.security(), &ended.output),
            call: Some(call),
            user_rating: None,
        };
        // What is stored is what leaves: a withheld answer must not be read back from its step.
        let output = match &ended.message {
            Some(message) => Output::Value(message),
            None => Output::Text(ended.instead.as_ref().unwrap_or(&ended.text)),
        };
        let stored = Stored {
            input: Some(input(turn.door, prompt)),
            params: (!prompt.params.is_empty()).then_some(&prompt.params),
            output: (step.status != StepStatus::Failed || !ended.text.is_empty()).then_some(output),
            placeholders: (!screened.placeholders().is_empty()).then(|| screened.placeholders()),
        };
        metrics::counter!("sluice_spend_nanodollars_total", "project" => labels::project(project.id()))
            .increment(cost.0.unsigned_abs());
        // What was spent counts from now on, even if the caller hangs up or the disk fails.
        self.count(&turn.caller, step.finished_at, cost);
        let asked = if calls.is_empty() {
            None
        } else {
            Some(self.tool_step(turn, step.id, &calls).await?)
        };
        // Both are queued before anything is waited for: who hangs up now loses neither.
        let tools = async {
            match &asked {
                None => Ok(None),
                Some((step, output)) => {
                    let id = step.id;
                    self.record_plain(turn, step.clone(), None, output).await.map(|()| Some(id))
                }
            }
        };
        let ((), asked) = tokio::try_join!(self.store(turn, step, &stored), tools)?;
        self.trip_if_spent(&turn.caller).await;
        Ok(asked)
    }

    /// The step of the tools that a run step has asked for, and its content.
    async fn tool_step(
        &self,
        turn: &Turn,
        run: StepId,
        calls: &[ToolCall],
    ) -> Result<(Step, Value)> {
        let step = Step { parent: Some(run), ..self.plain_step(turn, StepKind::ToolCall).await? };
        let calls: Vec<Value> = calls
            .iter()
            .map(|call| json!({"id": call.id, "name": call.name, "arguments": call.arguments}))
            .collect();
        Ok((step, json!({"tool_calls": calls})))
    }

    /// Records a request that safety or routing has refused. Returns the step's id.
    pub(crate) async fn record_block(
        &self,
        turn: &Turn,
        prompt: &Prompt,
        blocked: BlockedBy,
    ) -> Result<StepId> {
        metrics::counter!("sluice_blocked_total", "reason" => blocked.why()).increment(1);
        let step = Step {
            status: StepStatus::Blocked,
            reason: Some(blocked.reason),
            routing: blocked.routing,
            security: blocked.security,
            ..self.plain_step(turn, StepKind::Blocked).await?
        };
        let id = step.id;
        let stored = Stored {
            input: Some(input(turn.door, prompt)),
            params: None,
            output: None,
            placeholders: None,
        };
        self.store(turn, step, &stored).await?;
        Ok(id)
    }

    /// Records a step that called no model: a check or a log entry.
    pub(crate) async fn record_plain(
        &self,
        turn: &Turn,
        step: Step,
        input: Option<&str>,
        output: &Value,
    ) -> Result<()> {
        let stored = Stored {
            input: input.map(Input::Text),
            params: None,
            output: Some(Output::Value(output)),
            placeholders: None,
        };
        self.store(turn, step, &stored).await
    }

    /// A completed step of this turn with nothing in it.
    pub(crate) async fn plain_step(&self, turn: &Turn, kind: StepKind) -> Result<Step> {
        let now = self.clock.now();
        Ok(Step {
            id: self.store.step_id().await?,
            trace: turn.trace.id(),
            project: turn.caller.project.id(),
            key: Some(turn.caller.key.key.id),
            kind,
            parent: turn.parent,
            door: turn.door,
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

    async fn store(&self, turn: &Turn, step: Step, stored: &Stored<'_>) -> Result<()> {
        let project = &turn.caller.project;
        let json = if project.settings.discard_content {
            None
        } else {
            let json = serde_json::to_vec(stored);
            Some(json.map_err(|error| crate::Error::Internal(error.to_string()))?)
        };
        let content = json.as_deref().map(|json| (json, &project.sealing));
        let counts = grading::counts(&step);
        self.store.writer().step(step, content).await?;
        if counts && turn.trace.is_completed() {
            self.regrade_later(turn.caller.project.clone(), turn.trace.clone());
        }
        Ok(())
    }
}

fn input(door: Door, prompt: &Prompt) -> Input<'_> {
    use domain::conversation::{Body, Role};
    match prompt.messages.as_slice() {
        [_, _, ..] if door == Door::Embeddings => Input::Texts(prompt.texts().collect()),
        [message] if message.role == Role::User && message.extra.is_empty() => {
            match &message.body {
                Body::Text(text) => Input::Text(text),
                _ => Input::Messages(&prompt.messages),
            }
        }
        messages => Input::Messages(messages),
    }
}

/// What images cost, and whether their number is a guess: a caller who hangs up does not stop them.
fn images(charge: Charge, price: Usd, ended: &Ended) -> (Usd, bool) {
    match (ended.images, ended.status) {
        (None, StepStatus::Failed) => (Usd::ZERO, false),
        (made, _) => (price.times(charge.images(made)), made.is_none()),
    }
}

/// What was used, and whether it had to be counted here. A call that failed before the provider
/// said anything used nothing.
fn usage(charge: Charge, model: &Model, prompt: &Prompt, ended: &Ended) -> (Usage, bool) {
    match (ended.usage, ended.status) {
        (Some(usage), _) => (usage, false),
        (None, StepStatus::Failed) if ended.text.is_empty() && ended.first_token.is_none() => {
            (Usage::default(), false)
        }
        (None, _) => {
            let images = charge.images(ended.images);
            let mut usage = charge.count(model, prompt, &ended.text, images);
            usage.completion += tokens::estimate(ended.beside);
            (usage, true)
        }
    }
}

/// What is kept of the tool calls of an answer.
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
    let asked = list(message.and_then(|message| message.get("tool_calls")));
    Some(ToolUse {
        calls: u32::try_from(calls.len()).unwrap_or(u32::MAX),
        fidelity: grading::tool_fidelity(&declared, &asked).unwrap_or(1.0),
        print: prints::tools(key, calls),
    })
}

fn merged(input: &Security, output: &Security) -> Security {
    if input.findings.is_none() && output.findings.is_none() {
        return input.clone();
    }
    let mut findings: Vec<Value> = Vec::new();
    for (found, within) in [(&input.findings, "input"), (&output.findings, "output")] {
        for finding in found.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let mut finding = finding.clone();
            finding["within"] = within.into();
            findings.push(finding);
        }
    }
    Security {
        pii: input.pii || output.pii,
        injection: input.injection || output.injection,
        secret: input.secret || output.secret,
        review: input.review || output.review,
        risk_score: input.risk_score.max(output.risk_score),
        findings: (!findings.is_empty()).then_some(Value::Array(findings)),
    }
}
