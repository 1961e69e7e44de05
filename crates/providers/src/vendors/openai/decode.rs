//! Whole answers to canonical replies.

use domain::conversation::Reply;
use domain::fees::Surcharge;
use domain::step::FinishReason;
use domain::usage::Usage;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::chat_form::text;
use crate::error::Error;
use crate::vendors::openai::calls;
use crate::vendors::openai::searches::{cites_pages, with_search};
use crate::vendors::openai::tier::{SERVICE_TIER, is_priority};
use crate::vendors::openai::wire::{WireUsage, finish_reason, formalise_reasons};
use crate::wire::error_body::{error_within, names_error};
use crate::wire::json;

pub(super) fn decode(body: &[u8]) -> Result<Reply, Error> {
    let native = json::object(body)?;
    let usage = usage(native.get("usage"));
    let mut usage = if cites_pages(&native) { Some(with_search(usage)) } else { usage };
    if let Some(usage) = &mut usage {
        usage.extras.surcharges[Surcharge::Priority] = is_priority(text(native.get(SERVICE_TIER)));
    }
    reply(native, usage).map_err(|error| error.having_used(usage))
}

fn reply(mut native: Map<String, Value>, usage: Option<Usage>) -> Result<Reply, Error> {
    if let Some(error) = error_in(&native) {
        return Err(error);
    }
    calls::settle(&mut native);
    let first = first_choice(&native).ok_or_else(|| Error::malformed("it has no choices"))?;
    let message = first
        .get("message")
        .and_then(Value::as_object)
        .ok_or_else(|| Error::malformed("its choice has no message"))?;
    let (said, finish) = (content_text(message.get("content")), finish(first, message));
    formalise_reasons(&mut native);
    Ok(Reply {
        text: said,
        finish,
        usage,
        upstream_model: Some(text(native.get("model")))
            .filter(|name| !name.is_empty())
            .map(str::to_owned),
        native: Some(native),
        passes: false,
        source: None,
        dropped: Vec::new(),
        stored: None,
    })
}

/// Returns the canonical reason. A refusal comes with the reason `stop` and no content; so do calls of
/// a tool that the request named.
fn finish(choice: &Map<String, Value>, message: &Map<String, Value>) -> Option<FinishReason> {
    let reason = finish_reason(text(choice.get("finish_reason")));
    match reason {
        None | Some(FinishReason::Stop) if calls_tools(message) => Some(FinishReason::ToolCalls),
        None | Some(FinishReason::Stop) if refuses(message) => Some(FinishReason::Refusal),
        reason => reason,
    }
}

/// Whether a message, or a piece of one, is a refusal.
pub(super) fn refuses(message: &Map<String, Value>) -> bool {
    !text(message.get("refusal")).is_empty()
}

/// Whether a message, or a piece of one, calls tools.
pub(super) fn calls_tools(message: &Map<String, Value>) -> bool {
    let calls = message.get("tool_calls").and_then(Value::as_array);
    calls.is_some_and(|calls| !calls.is_empty())
}

/// Returns choice 0: servers that answer several times need not put it first.
pub(super) fn first_choice(answer: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let choices = answer.get("choices")?.as_array()?;
    choices
        .iter()
        .filter_map(Value::as_object)
        .find(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0)
}

/// Returns the text of a content: a string, or the text parts of a list.
pub(super) fn content_text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().map(|part| text(part.get("text"))).collect(),
        _ => String::new(),
    }
}

pub(super) fn usage(value: Option<&Value>) -> Option<Usage> {
    // A list would be read as the members in their order.
    WireUsage::deserialize(value.filter(|value| value.is_object())?).ok()?.read()
}

/// Returns the error that some servers send with a status of 200.
pub(super) fn error_in(answer: &Map<String, Value>) -> Option<Error> {
    let marked = text(answer.get("object")) == "error";
    (names_error(answer) || marked).then(|| error_within(answer))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
