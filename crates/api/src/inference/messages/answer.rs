//! A whole answer in Anthropic's format.

use domain::conversation::{STOP_DETAILS, STOP_SEQUENCE};
use domain::ids::{StepId, TraceId};
use domain::json_weight::InnerJson;
use domain::step::FinishReason;
use domain::usage::Usage;
use gateway::{ChatReply, Refusal};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::http::dialect::Dialect;
use crate::inference::canonical::answer::{Answer, Call, first_choice};
use crate::inference::canonical::prompt::State;
use crate::inference::finding::FindingBody;

/// A message of the model's. `step_id`, `trace_id`, `reason` and `cause` are ours.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessageAnswer {
    id: String,
    /// Always `message`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Always `assistant`.
    role: &'static str,
    model: String,
    /// Blocks: `thinking`, `text`, `tool_use`, `redacted_thinking`.
    #[schema(value_type = Vec<Object>)]
    content: Vec<Value>,
    /// `end_turn`, `max_tokens`, `stop_sequence`, `tool_use` or `refusal`; null at the beginning of a
    /// stream.
    stop_reason: Option<&'static str>,
    /// The stop sequence that was met. Only Anthropic reports it; at others the reason is `end_turn`.
    stop_sequence: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    stop_details: Option<Value>,
    #[schema(value_type = Object)]
    usage: Value,
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
}

impl MessageAnswer {
    /// An answer without content.
    pub(super) fn blank(step: StepId, trace: TraceId, model: String) -> Self {
        Self {
            id: format!("msg_{step}"),
            kind: "message",
            role: "assistant",
            model,
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            stop_details: None,
            usage: usage(Usage::default()),
            step_id: Some(step),
            trace_id: Some(trace),
            reason: None,
            cause: None,
        }
    }

    /// A vendor's answers have no fields of ours.
    pub(super) fn in_dialect(self, dialect: Dialect) -> Self {
        match dialect {
            Dialect::Sluice => self,
            Dialect::Vendor => {
                Self { step_id: None, trace_id: None, reason: None, cause: None, ..self }
            }
        }
    }

    /// The answer at the beginning of a stream: the stop reason comes at the end.
    pub(super) fn without_end(self) -> Self {
        Self { stop_reason: None, stop_sequence: None, stop_details: None, ..self }
    }
}

/// An answer.
pub fn whole(mut reply: ChatReply) -> MessageAnswer {
    let mut ending = Ending::default();
    if let Some(native) = &mut reply.native {
        ending.take_from(native, "message");
    }
    let answer = Answer::of(&mut reply);
    let mut message = MessageAnswer::blank(reply.step, reply.trace, reply.model);
    message.usage = usage(reply.usage);
    let own = Some(answer.refusal.as_str()).filter(|text| !text.is_empty());
    let refusal = reply.blocked.as_deref().or(own);
    let details = ending.details.take().filter(|_| reply.blocked.is_none());
    message.stop_details = details.or_else(|| refusal.map(stop_details));
    let refuses = message.stop_details.is_some();
    let reason = stop_reason(reply.finish, !answer.calls.is_empty(), refuses);
    (message.stop_reason, message.stop_sequence) = ending.reason(reason);
    message.reason = reply.blocked;
    message.content = content(answer);
    message
}

/// A request that was refused before any model was called.
pub fn refused(refusal: Refusal) -> MessageAnswer {
    let Refusal { reason, step, trace, cause } = refusal;
    let mut message = MessageAnswer::blank(step, trace, String::new());
    message.stop_reason = Some("refusal");
    message.stop_details = Some(stop_details(&reason));
    message.reason = Some(reason);
    message.cause = FindingBody::of(cause);
    message
}

fn content(answer: Answer) -> Vec<Value> {
    let mut blocks = Vec::new();
    // Clients send back a signature unread, and redacted thinking too.
    match (answer.thought.is_empty(), &answer.state) {
        (false, state) => {
            let signature = state.as_ref().map(State::token).unwrap_or_default();
            blocks.push(json!({"type": "thinking", "thinking": answer.thought,
                "signature": signature}));
        }
        (true, Some(state)) => blocks.push(redacted_thinking(state)),
        (true, None) => {}
    }
    for text in [answer.text, answer.refusal] {
        if !text.is_empty() {
            blocks.push(json!({"type": "text", "text": text}));
        }
    }
    let mut inner = InnerJson::default();
    blocks.extend(answer.calls.iter().map(|call| tool_use(call, &mut inner)));
    blocks
}

/// A block with the state that the provider requires back verbatim.
pub(super) fn redacted_thinking(state: &State) -> Value {
    json!({"type": "redacted_thinking", "data": state.token()})
}

/// A call as a block. The format's calls hold objects: arguments that are no object are kept unchanged,
/// in a member of their own.
fn tool_use(call: &Call, inner: &mut InnerJson) -> Value {
    let text = call.arguments.trim();
    let input = if text.is_empty() { Some(Map::new()) } else { inner.read(text) };
    let input = input.map_or_else(|| json!({"INVALID_JSON": text}), Value::Object);
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

/// The reason why the model stopped, under the format's names.
pub(super) fn stop_reason(finish: FinishReason, has_calls: bool, refuses: bool) -> &'static str {
    match finish {
        FinishReason::ContentFilter | FinishReason::Refusal => "refusal",
        FinishReason::Length => "max_tokens",
        FinishReason::Stop | FinishReason::ToolCalls if has_calls => "tool_use",
        FinishReason::Stop | FinishReason::ToolCalls if refuses => "refusal",
        FinishReason::Stop | FinishReason::ToolCalls => "end_turn",
    }
}

/// The details that a provider of this format reports of the end of an answer, which no other format
/// can hold.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// The details of a refusal, which include its text.
    pub(super) details: Option<Value>,
    /// The stop sequence that was met.
    sequence: Option<String>,
}

impl Ending {
    /// Takes it out of an answer, or out of a chunk of one.
    pub(super) fn take_from(&mut self, native: &mut Map<String, Value>, member: &str) {
        let found = first_choice(native).and_then(|choice| choice.get_mut(member)?.as_object_mut());
        let Some(message) = found else { return };
        if let Some(details @ Value::Object(_)) = message.remove(STOP_DETAILS) {
            self.details = Some(details);
        }
        if let Some(Value::String(sequence)) = message.remove(STOP_SEQUENCE) {
            self.sequence = Some(sequence);
        }
        if self.details.is_some() {
            message.remove("refusal");
        }
    }

    /// The reason to stop, and the sequence if it was one.
    pub(super) fn reason(
        &mut self,
        reason: &'static str,
    ) -> (Option<&'static str>, Option<String>) {
        match self.sequence.take().filter(|_| reason == "end_turn") {
            Some(sequence) => (Some("stop_sequence"), Some(sequence)),
            None => (Some(reason), None),
        }
    }
}

/// The text of a refusal.
pub(super) fn stop_details(explanation: &str) -> Value {
    json!({"type": "refusal", "category": null, "explanation": explanation})
}

/// The counts under the format's names, in which input tokens exclude cached tokens.
pub(super) fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.prompt.saturating_sub(usage.cached + usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write.saturating_sub(usage.cache_write_1h),
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
    })
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
