//! A whole answer in Gemini's format.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::ids::StepId;
use domain::json_weight::InnerJson;
use domain::step::FinishReason;
use domain::usage::Usage;
use gateway::{ChatReply, Refusal};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::inference::canonical::answer::{Answer, Call};
use crate::inference::canonical::prompt::State;
use crate::inference::gemini::generate::AnswerOptions;

/// An answer of the model's, or a chunk of one.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeneratedContent {
    /// One; none if the prompt was refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) candidates: Vec<Candidate>,
    /// Why the prompt was refused: `blockReason`, and a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    pub(super) prompt_feedback: Option<Value>,
    /// The tokens; in a stream in the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    pub(super) usage_metadata: Option<Value>,
    /// The identifier of the model that answered.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) model_version: String,
    pub(super) response_id: String,
}

/// The answer itself.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// The model's content: `parts` with `text`, `thought`, `functionCall`, `thoughtSignature`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    content: Option<Value>,
    /// `STOP`, `MAX_TOKENS` or `SAFETY`; in a stream in the last chunk.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    finish_reason: Option<&'static str>,
    /// Why the answer was withheld.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    finish_message: Option<String>,
    /// Always 0.
    index: u32,
}

/// The end of an answer.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) finish: FinishReason,
    pub(super) usage: Usage,
    /// Why the answer was withheld, if it was.
    pub(super) blocked: Option<String>,
    /// Whether the model refused in its own words.
    pub(super) refuses: bool,
}

impl GeneratedContent {
    /// Parts of an answer, with its end or before it.
    pub(super) fn of(step: StepId, model: String, parts: Vec<Value>, end: Option<Ending>) -> Self {
        let content = (!parts.is_empty()).then(|| json!({"parts": parts, "role": "model"}));
        let mut candidate =
            Candidate { content, finish_reason: None, finish_message: None, index: 0 };
        let mut usage_metadata = None;
        if let Some(Ending { finish, usage: used, blocked, refuses }) = end {
            let withheld = refuses || blocked.is_some();
            candidate.finish_reason = Some(finish_reason(finish, withheld));
            candidate.finish_message = blocked;
            usage_metadata = Some(usage(used));
        }
        Self {
            candidates: vec![candidate],
            prompt_feedback: None,
            usage_metadata,
            model_version: model,
            response_id: response_id(step),
        }
    }
}

/// An answer.
pub(super) fn whole(mut reply: ChatReply, options: AnswerOptions) -> GeneratedContent {
    let answer = Answer::of(&mut reply);
    let end = Ending {
        finish: reply.finish,
        usage: reply.usage,
        refuses: !answer.refusal.is_empty(),
        blocked: reply.blocked,
    };
    let mut parts = Vec::new();
    if options.with_thoughts && !answer.thought.is_empty() {
        parts.push(json!({"text": answer.thought, "thought": true}));
    }
    let texts = [answer.text, answer.refusal].into_iter().filter(|text| !text.is_empty());
    parts.extend(texts.map(|text| json!({"text": text})));
    let mut inner = InnerJson::default();
    parts.extend(answer.calls.iter().map(|call| function_call(call, &mut inner)));
    if let Some(state) = answer.state {
        sign(&mut parts, &state);
    }
    GeneratedContent::of(reply.step, reply.model, parts, Some(end))
}

/// A request that was refused before any model was called.
pub(super) fn refused(refusal: Refusal) -> GeneratedContent {
    let Refusal { reason, step, .. } = refusal;
    GeneratedContent {
        candidates: Vec::new(),
        prompt_feedback: Some(json!({"blockReason": "SAFETY", "blockReasonMessage": reason})),
        usage_metadata: Some(usage(Usage::default())),
        model_version: String::new(),
        response_id: response_id(step),
    }
}

fn response_id(step: StepId) -> String {
    format!("gen_{step}")
}

/// A call. The format's calls hold objects: arguments that are no object are kept unchanged, in a member
/// of their own.
pub(super) fn function_call(call: &Call, inner: &mut InnerJson) -> Value {
    let text = call.arguments.trim();
    let args = if text.is_empty() { Some(Map::new()) } else { inner.read(text) };
    let args = args.map_or_else(|| json!({"INVALID_JSON": text}), Value::Object);
    json!({"functionCall": {"id": call.id, "name": call.name, "args": args}})
}

/// Puts the state that the provider requires back on the first call, else on the last text: clients send
/// signatures back unread, with the parts that they came with.
pub(super) fn sign(parts: &mut Vec<Value>, state: &State) {
    let first = parts.iter().position(|part| part.get("functionCall").is_some());
    let signature = STANDARD.encode(state.token());
    let place = first.or_else(|| parts.len().checked_sub(1));
    let part = place.and_then(|place| parts.get_mut(place));
    match part.filter(|part| part.get("thought").is_none()) {
        Some(part) => part["thoughtSignature"] = signature.into(),
        None => parts.push(json!({"text": "", "thoughtSignature": signature})),
    }
}

/// The reason why the model stopped, under the format's names: calls of tools have none of their own.
fn finish_reason(finish: FinishReason, refuses: bool) -> &'static str {
    match finish {
        FinishReason::ContentFilter | FinishReason::Refusal => "SAFETY",
        FinishReason::Length => "MAX_TOKENS",
        FinishReason::Stop | FinishReason::ToolCalls if refuses => "SAFETY",
        FinishReason::Stop | FinishReason::ToolCalls => "STOP",
    }
}

/// The counts under the format's names, in which the candidates' tokens exclude the thoughts'.
fn usage(usage: Usage) -> Value {
    let mut counts = json!({
        "promptTokenCount": usage.prompt,
        "candidatesTokenCount": usage.completion.saturating_sub(usage.reasoning),
        "totalTokenCount": usage.prompt.saturating_add(usage.completion),
    });
    let more = [("cachedContentTokenCount", usage.cached), ("thoughtsTokenCount", usage.reasoning)];
    for (name, count) in more.into_iter().filter(|(_, count)| *count > 0) {
        counts[name] = count.into();
    }
    counts
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
