//! Whole answers to canonical replies, and the parts shared with streamed ones.

use domain::conversation::Reply;
use domain::model::{Model, Provider};
use domain::step::FinishReason;
use domain::usage::Usage;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::chat_form::answer::{Answer, state};
use crate::chat_form::{STOP_SEQUENCE, text};
use crate::error::Error;
use crate::vendors::anthropic::reported::Reported;
use crate::wire::error_body::{error_within, names_error};
use crate::wire::json;
use crate::wire::token_counts::{Count, Group, split_writes};

pub(super) fn decode(model: &Model, body: &[u8]) -> Result<Reply, Error> {
    let message = json::object(body)?;
    if names_error(&message) || text(message.get("type")) == "error" {
        return Err(error_within(&message));
    }
    let mut counts = Counts::default();
    for block in message.get("content").and_then(Value::as_array).into_iter().flatten() {
        counts.charges.see(block);
    }
    let usage = message.get("usage").and_then(|usage| counts.with(usage).usage());
    reply(model, message, usage).map_err(|error| error.having_used(usage))
}

fn reply(
    model: &Model,
    mut message: Map<String, Value>,
    usage: Option<Usage>,
) -> Result<Reply, Error> {
    let Some(Value::Array(blocks)) = message.remove("content") else {
        return Err(Error::malformed("it has no content"));
    };
    let mut answer = Answer::default();
    for block in &blocks {
        match text(block.get("type")) {
            "text" => answer.text.push_str(text(block.get("text"))),
            "thinking" => answer.reasoning.push_str(text(block.get("thinking"))),
            "tool_use" => answer.calls.push(call(block)?),
            _ => {}
        }
    }
    answer.finish = finish(text(message.get("stop_reason")), !answer.calls.is_empty());
    answer.stop_details = details(message.remove("stop_details"));
    answer.refusal = answer.stop_details.as_ref().and_then(explanation).map(str::to_owned);
    answer.stop_sequence = message.get(STOP_SEQUENCE).and_then(Value::as_str).map(str::to_owned);
    answer.usage = usage;
    answer.upstream_model =
        Some(text(message.get("model")).to_owned()).filter(|name| !name.is_empty());
    answer.state = own_state(model.upstream_name(), blocks);
    Ok(answer.reply())
}

/// A call of a tool: id, name, arguments.
fn call(block: &Value) -> Result<(String, String, String), Error> {
    let (id, name) = (text(block.get("id")), text(block.get("name")));
    if id.is_empty() || name.is_empty() {
        return Err(Error::malformed("a tool call has no id or no name"));
    }
    let input = match block.get("input") {
        Some(input @ Value::Object(_)) => input.to_string(),
        None | Some(Value::Null) => "{}".to_owned(),
        Some(_) => return Err(Error::malformed("the input of a tool call is no object")),
    };
    Ok((id.to_owned(), name.to_owned(), input))
}

/// Returns the canonical reason; `None` when there is none.
pub(super) fn finish(word: &str, calls_tools: bool) -> Option<FinishReason> {
    Some(match word {
        "" => return None,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        // `end_turn`, `stop_sequence`, `pause_turn`, and unknown words: they still end the answer.
        _ if calls_tools => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    })
}

/// Returns the details of a refusal.
pub(super) fn details(told: Option<Value>) -> Option<Value> {
    told.filter(|details| text(details.get("type")) == "refusal")
}

/// Returns the reason for a refusal, in the provider's words.
pub(super) fn explanation(details: &Value) -> Option<&str> {
    Some(text(details.get("explanation"))).filter(|said| !said.is_empty())
}

/// Returns the whole content, to be sent back verbatim, if the model thought: its signatures hold only
/// for the blocks they were made for.
pub(super) fn own_state(model: &str, mut blocks: Vec<Value>) -> Option<Value> {
    let thinks =
        |block: &Value| matches!(text(block.get("type")), "thinking" | "redacted_thinking");
    if !blocks.iter().any(thinks) {
        return None;
    }
    blocks.retain(|block| block.is_object() && !is_blank_text(block));
    Some(state(Provider::Anthropic, model, Value::Array(blocks)))
}

/// Whether a block is a blank text, which the provider always refuses.
pub(super) fn is_blank_text(block: &Value) -> bool {
    text(block.get("type")) == "text" && text(block.get("text")).trim().is_empty()
}

/// The counts of a message as reported. Each report replaces the counts that it names.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_creation: Group<Writes>,
    output_tokens_details: Group<Details>,
    #[serde(skip)]
    pub(super) charges: Reported,
}

/// Cache writes by how long they are kept.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Writes {
    ephemeral_5m_input_tokens: Count,
    ephemeral_1h_input_tokens: Count,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    thinking_tokens: Count,
}

impl Counts {
    pub(super) fn with(self, usage: &Value) -> Self {
        // A list would be read as the members in their order.
        let Some(Ok(more)) = usage.is_object().then(|| Self::deserialize(usage)) else {
            return self;
        };
        let later = |known: Count, more| known.followed_by(more);
        Self {
            input_tokens: later(self.input_tokens, more.input_tokens),
            output_tokens: later(self.output_tokens, more.output_tokens),
            cache_read_input_tokens: later(
                self.cache_read_input_tokens,
                more.cache_read_input_tokens,
            ),
            cache_creation_input_tokens: later(
                self.cache_creation_input_tokens,
                more.cache_creation_input_tokens,
            ),
            cache_creation: self.cache_creation.followed_by(more.cache_creation),
            output_tokens_details: self
                .output_tokens_details
                .followed_by(more.output_tokens_details),
            charges: self.charges.with(usage),
        }
    }

    /// Returns the counts from before the answer, without its length: that is not known yet.
    pub(super) fn of_prompt(self) -> Self {
        Self { output_tokens: Count::Missing, ..self }
    }

    /// Returns the usage; `None` without counts. The provider counts cached tokens apart, and the
    /// thinking within the output.
    pub(super) fn usage(self) -> Option<Usage> {
        let (input, output) = (self.input_tokens.known(), self.output_tokens.known());
        let (read, written) = (self.cache_read_input_tokens, self.cache_creation_input_tokens);
        if [input, output, read.known(), written.known()].iter().all(Option::is_none) {
            return None;
        }
        let mut usage = Usage::default();
        // One nonsensical part of the prompt's count leaves the whole count in doubt.
        usage.open.prompt = input.is_none() || read.is_nonsense() || written.is_nonsense();
        usage.open.completion = output.is_none();
        usage.cached = read.known().unwrap_or(0);
        let split = self.cache_creation.read(&mut usage.open);
        let (hour, minutes) = (split.ephemeral_1h_input_tokens, split.ephemeral_5m_input_tokens);
        split_writes(written, hour, minutes, &mut usage);
        usage.prompt =
            input.unwrap_or(0).saturating_add(usage.cached).saturating_add(usage.cache_write);
        usage.completion = output.unwrap_or(0);
        let details = self.output_tokens_details.read(&mut usage.open);
        usage.reasoning = details.thinking_tokens.or_none(&mut usage.open);
        usage.open.detail |= usage.reasoning > usage.completion;
        usage.extras = self.charges.extras(&mut usage.open);
        usage.reported()
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
