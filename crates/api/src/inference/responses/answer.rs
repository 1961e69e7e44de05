//! A whole answer in the Responses format.

use domain::ids::{StepId, TraceId};
use domain::json_weight::InnerJson;
use domain::step::FinishReason;
use domain::time::Timestamp;
use domain::usage::Usage;
use gateway::{ChatReply, Refusal};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::http::dialect::Dialect;
use crate::inference::canonical::answer::Answer;
use crate::inference::canonical::prompt::State;
use crate::inference::finding::FindingBody;
use crate::inference::responses::custom_tools::{CustomTools, input_of};
use crate::inference::responses::request::AnswerOptions;

/// An answer, and the parameters of its request that it repeats. `step_id`, `trace_id`, `reason` and
/// `cause` are ours.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ResponseAnswer {
    id: String,
    /// Always `response`.
    object: &'static str,
    created_at: i64,
    /// `completed` or `incomplete`; in streams `in_progress` and `failed` as well.
    status: &'static str,
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    #[schema(value_type = Option<Object>)]
    incomplete_details: Option<Value>,
    model: String,
    /// Items: `reasoning`, `message`, `function_call`, `custom_tool_call`.
    #[schema(value_type = Vec<Object>)]
    output: Vec<Value>,
    #[schema(value_type = Option<Object>)]
    usage: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64, required = true)]
    step_id: Option<StepId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = true)]
    trace_id: Option<TraceId>,
    /// Why the request was refused or the answer withheld.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// The finding in the request, and its location, if safety refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    cause: Option<FindingBody>,
    /// The repeated parameters of the request.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    echo: Map<String, Value>,
    #[serde(skip)]
    dialect: Dialect,
}

/// How an answer ended.
#[derive(Debug, Default)]
pub(super) struct End {
    pub(super) output: Vec<Value>,
    pub(super) usage: Usage,
    /// Why the answer was withheld.
    pub(super) blocked: Option<String>,
}

impl ResponseAnswer {
    /// An answer without content.
    pub(super) fn blank(
        step: StepId,
        trace: TraceId,
        model: String,
        created: Timestamp,
        echo: Map<String, Value>,
    ) -> Self {
        Self {
            id: format!("resp_{step}"),
            object: "response",
            created_at: created.unix_seconds(),
            status: "in_progress",
            error: None,
            incomplete_details: None,
            model,
            output: Vec::new(),
            usage: None,
            step_id: Some(step),
            trace_id: Some(trace),
            reason: None,
            cause: None,
            echo,
            dialect: Dialect::Sluice,
        }
    }

    /// A vendor's answers have no fields of ours.
    pub(super) fn in_dialect(self, dialect: Dialect) -> Self {
        match dialect {
            Dialect::Sluice => self,
            Dialect::Vendor => {
                Self { dialect, step_id: None, trace_id: None, reason: None, cause: None, ..self }
            }
        }
    }

    /// The dialect that it is written in.
    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Adds the finding in the request that caused the refusal.
    pub(super) fn caused(self, cause: Option<FindingBody>) -> Self {
        Self { cause, ..self }
    }

    /// Completes the answer. Withheld content is a refusal, which is whole.
    pub(super) fn ended(self, finish: FinishReason, end: End) -> Self {
        let cut_off = match finish {
            _ if end.blocked.is_some() => None,
            FinishReason::Length => Some("max_output_tokens"),
            FinishReason::ContentFilter => Some("content_filter"),
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Refusal => None,
        };
        Self {
            status: if cut_off.is_some() { "incomplete" } else { "completed" },
            incomplete_details: cut_off.map(|reason| json!({"reason": reason})),
            output: end.output,
            usage: Some(usage(end.usage)),
            reason: end.blocked.filter(|_| self.dialect == Dialect::Sluice),
            ..self
        }
    }

    /// The answer as failed, with the output up to the failure.
    pub(super) fn failed(self, message: &str, output: Vec<Value>) -> Self {
        let error = json!({"code": "server_error", "message": message});
        Self { status: "failed", error: Some(error), output, ..self }
    }

    /// Whether the model's answer is complete.
    pub(super) fn is_completed(&self) -> bool {
        self.status == "completed"
    }
}

/// An answer.
pub(super) fn whole(mut reply: ChatReply, options: AnswerOptions) -> ResponseAnswer {
    let AnswerOptions { echo, custom } = options;
    let answer = Answer::of(&mut reply);
    let is_cut_off = reply.blocked.is_none() && reply.finish.is_cut_off();
    let output = items(reply.step, answer, reply.blocked.as_deref(), is_cut_off, &custom);
    let blank = ResponseAnswer::blank(reply.step, reply.trace, reply.model, reply.created, echo);
    blank.ended(reply.finish, End { output, usage: reply.usage, blocked: reply.blocked })
}

/// A request that was refused before any model was called.
pub fn refused(refusal: Refusal, now: Timestamp, echo: Map<String, Value>) -> ResponseAnswer {
    let Refusal { reason, step, trace, cause } = refusal;
    let output = items(step, Answer::default(), Some(&reason), false, &CustomTools::default());
    let end = End { output, usage: Usage::default(), blocked: Some(reason) };
    ResponseAnswer::blank(step, trace, String::new(), now, echo)
        .caused(FindingBody::of(cause))
        .ended(FinishReason::ContentFilter, end)
}

fn items(
    step: StepId,
    answer: Answer,
    blocked: Option<&str>,
    is_cut_off: bool,
    custom: &CustomTools,
) -> Vec<Value> {
    let mut items = Vec::new();
    if !answer.thought.is_empty() || answer.state.is_some() {
        let id = id("rs", step, items.len());
        items.push(reasoning(&id, &answer.thought, answer.state.as_ref()));
    }
    let parts = [
        (!answer.text.is_empty()).then(|| text_part(&answer.text)),
        (!answer.refusal.is_empty()).then(|| refusal_part(&answer.refusal)),
        blocked.map(refusal_part),
    ];
    for part in parts.into_iter().flatten() {
        items.push(message(&id("msg", step, items.len()), "completed", Some(part)));
    }
    // A refusal is complete, and explains why the text before it ended.
    if is_cut_off
        && answer.calls.is_empty()
        && answer.refusal.is_empty()
        && let Some(last) = items.last_mut().filter(|item| item["type"] == "message")
    {
        last["status"] = "incomplete".into();
    }
    for call in answer.calls {
        let status = call_status(is_cut_off, &call.arguments);
        if custom.has(&call.name) {
            let (id, input) = (id("ctc", step, items.len()), input_of(&call.arguments));
            items.push(custom_call(&id, status, &call.id, &call.name, &input));
            continue;
        }
        let id = id("fc", step, items.len());
        items.push(function_call(&id, status, &call.id, &call.name, &call.arguments));
    }
    items
}

/// The status of a call that is over. A call that was cut off has arguments that are no object.
pub(super) fn call_status(is_cut_off: bool, arguments: &str) -> &'static str {
    let is_whole = || InnerJson::default().read::<Map<String, Value>>(arguments).is_some();
    if is_cut_off && !is_whole() { "incomplete" } else { "completed" }
}

/// The id of an item.
pub(super) fn id(kind: &str, step: StepId, index: usize) -> String {
    format!("{kind}_{step}_{index}")
}

/// The model's reasoning, and the state that its provider requires back verbatim: clients keep that
/// unread.
pub(super) fn reasoning(id: &str, thought: &str, state: Option<&State>) -> Value {
    let summary: Vec<Value> =
        (!thought.is_empty()).then(|| summary_part(thought)).into_iter().collect();
    json!({"id": id, "type": "reasoning", "summary": summary,
        "encrypted_content": state.map(State::token)})
}

/// A message of the model.
pub(super) fn message(id: &str, status: &str, part: Option<Value>) -> Value {
    let content: Vec<Value> = part.into_iter().collect();
    json!({"id": id, "type": "message", "status": status, "role": "assistant", "content": content})
}

/// A call of a tool.
pub(super) fn function_call(
    id: &str,
    status: &str,
    call_id: &str,
    name: &str,
    arguments: &str,
) -> Value {
    json!({"id": id, "type": "function_call", "status": status, "call_id": call_id, "name": name,
        "arguments": arguments})
}

/// A call of a custom tool.
pub(super) fn custom_call(id: &str, status: &str, call_id: &str, name: &str, input: &str) -> Value {
    json!({"id": id, "type": "custom_tool_call", "status": status, "call_id": call_id, "name": name,
        "input": input})
}

/// Text of a message.
pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// A refusal as a content part.
pub(super) fn refusal_part(refusal: &str) -> Value {
    json!({"type": "refusal", "refusal": refusal})
}

/// Reasoning as a summary part.
pub(super) fn summary_part(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}

/// The counts in the format's words.
fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt,
        "input_tokens_details":
            {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.prompt + usage.completion,
    })
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
