//! Whole answers to canonical replies, and the parts shared with streamed ones.

use domain::conversation::Reply;
use domain::model::{Model, Provider};
use domain::step::FinishReason;
use domain::usage::{MOST_TOKENS, Usage};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::chat_form::answer::{self, Answer};
use crate::chat_form::text;
use crate::error::Error;
use crate::wire::error_body::message_in;
use crate::wire::json;
use crate::wire::token_counts::{Count, split_writes};

pub(super) fn decode(model: &Model, body: &[u8]) -> Result<Reply, Error> {
    let whole = json::object(body)?;
    let usage = whole.get("usage").and_then(usage);
    reply(model, whole, usage).map_err(|error| error.having_used(usage))
}

fn reply(
    model: &Model,
    mut whole: Map<String, Value>,
    usage: Option<Usage>,
) -> Result<Reply, Error> {
    let finish = finish_reason(text(whole.get("stopReason")))?;
    let content = whole
        .get_mut("output")
        .and_then(|output| output.get_mut("message")?.get_mut("content"))
        .map(Value::take);
    let Some(Value::Array(blocks)) = content else {
        return Err(match message_in(&whole) {
            said @ Some(_) => Error::answered(said),
            None => Error::malformed("it has no message"),
        });
    };
    let mut answer = Answer { finish, usage, ..Answer::default() };
    for block in &blocks {
        read(block, &mut answer)?;
    }
    if !answer.calls.is_empty() && matches!(answer.finish, None | Some(FinishReason::Stop)) {
        answer.finish = Some(FinishReason::ToolCalls);
    }
    answer.state = state(model.upstream_name(), blocks);
    Ok(answer.reply())
}

fn read(block: &Value, answer: &mut Answer) -> Result<(), Error> {
    if let Some(said) = block.get("text") {
        answer.text.push_str(text(Some(said)));
    } else if let Some(call) = block.get("toolUse").filter(|call| !is_servers_own(call)) {
        let (id, name) = (text(call.get("toolUseId")), text(call.get("name")));
        if id.is_empty() || name.is_empty() {
            return Err(Error::malformed("a tool call has no id or no name"));
        }
        let arguments = call.get("input").map_or_else(|| "{}".to_owned(), Value::to_string);
        answer.calls.push((id.to_owned(), name.to_owned(), arguments));
    } else if let Some(thought) = block.get("reasoningContent") {
        let said = thought.get("reasoningText").and_then(|said| said.get("text"));
        answer.reasoning.push_str(text(said));
    } else if let Some(cited) = block.get("citationsContent") {
        let parts = cited.get("content").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            answer.text.push_str(text(part.get("text")));
        }
    }
    Ok(())
}

/// Whether a call is one that the provider has run itself.
pub(super) fn is_servers_own(call: &Value) -> bool {
    text(call.get("type")) == "server_tool_use"
}

/// Returns the state that must come back with the next turn: the whole message as it was, if it holds
/// thoughts that the model has signed. Signatures are valid only in their position; models that do not
/// sign refuse thoughts. Blank texts would be refused, and are removed.
pub(super) fn state(model: &str, mut blocks: Vec<Value>) -> Option<Value> {
    if !blocks.iter().any(is_signed_thought) {
        return None;
    }
    blocks.retain(|block| {
        block.get("text").and_then(Value::as_str).is_none_or(|text| !text.trim().is_empty())
    });
    Some(answer::state(Provider::Bedrock, model, Value::Array(blocks)))
}

fn is_signed_thought(block: &Value) -> bool {
    let Some(thought) = block.get("reasoningContent") else { return false };
    let signature = thought.get("reasoningText").and_then(|text| text.get("signature"));
    !text(signature).is_empty() || thought.get("redactedContent").is_some()
}

/// Returns the canonical reason; `None` for unknown words.
pub(super) fn finish_reason(word: &str) -> Result<Option<FinishReason>, Error> {
    Ok(Some(match word {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "guardrail_intervened" | "content_filtered" => FinishReason::ContentFilter,
        "malformed_model_output" | "malformed_tool_use" => {
            return Err(Error::unusable(format!("The model's answer cannot be used: {word}")));
        }
        _ => return Ok(None),
    }))
}

/// Returns the usage, if it was reported.
pub(super) fn usage(value: &Value) -> Option<Usage> {
    // A list would be read as the members in their order.
    let told = Counts::deserialize(Some(value).filter(|value| value.is_object())?).ok()?;
    let (input, output) = (told.input_tokens.known(), told.output_tokens.known());
    if input.is_none() && output.is_none() {
        return None;
    }
    let (read, written) = (told.cache_read_input_tokens, told.cache_write_input_tokens);
    let mut usage = Usage::default();
    // One nonsensical part of the prompt's count leaves the whole count in doubt.
    usage.open.prompt = input.is_none() || read.is_nonsense() || written.is_nonsense();
    usage.open.completion = output.is_none();
    usage.cached = read.known().unwrap_or(0);
    let (hour, minutes) = writes(value.get("cacheDetails"));
    split_writes(written, hour, minutes, &mut usage);
    usage.prompt =
        input.unwrap_or(0).saturating_add(usage.cached).saturating_add(usage.cache_write);
    usage.completion = output.unwrap_or(0);
    // The total may leave out cached tokens. Tokens in the total beside all parts were generated.
    let sum = usage.prompt.saturating_add(usage.completion);
    let total = told.total_tokens.or_none(&mut usage.open);
    if total > sum && total <= MOST_TOKENS {
        usage.completion += total - sum;
        usage.open.detail = true;
    }
    usage.reported()
}

/// Returns the cache writes that are kept for an hour, and for five minutes. Those of any other time
/// count as the dearer.
fn writes(details: Option<&Value>) -> (Count, Count) {
    let (mut hour, mut minutes) = (Count::Missing, Count::Missing);
    for detail in details.and_then(Value::as_array).into_iter().flatten() {
        let tokens = detail.get("inputTokens").map_or(Ok(Count::Nonsense), Count::deserialize);
        let kept = if text(detail.get("ttl")) == "5m" { &mut minutes } else { &mut hour };
        *kept = match (*kept, tokens.unwrap_or_default()) {
            (Count::Sound(sum), Count::Sound(more)) => Count::Sound(sum.saturating_add(more)),
            (Count::Missing, tokens) => tokens,
            (known, Count::Missing) => known,
            _ => Count::Nonsense,
        };
    }
    (hour, minutes)
}

/// Tokens; the input excludes those read from the cache or written to it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names of the wire format")]
struct Counts {
    input_tokens: Count,
    output_tokens: Count,
    total_tokens: Count,
    cache_read_input_tokens: Count,
    cache_write_input_tokens: Count,
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
