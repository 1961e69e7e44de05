//! Whole answers to canonical replies.

use domain::conversation::Reply;
use domain::fees::VendorTool;
use domain::model::Model;
use domain::step::FinishReason;
use domain::usage::Usage;

use crate::chat_form::answer::Answer;
use crate::error::Error;
use crate::vendors::gemini::is_recent;
use crate::vendors::gemini::provider_state::StateBuilder;
use crate::vendors::gemini::wire::{Generated, PartContent, part_content};

pub(super) fn decode(model: &Model, body: &[u8]) -> Result<Reply, Error> {
    read(model, body, false)
}

/// Reads an answer that passes to its caller as it came.
pub(super) fn decode_passing(model: &Model, body: &[u8]) -> Result<Reply, Error> {
    read(model, body, true)
}

fn read(model: &Model, body: &[u8], passes: bool) -> Result<Reply, Error> {
    let response = Generated::read(body)?;
    let usage = with_searches(response.usage(), response.searches(is_recent(model)));
    reply(model, response, usage, passes).map_err(|error| error.having_used(usage))
}

fn reply(
    model: &Model,
    mut response: Generated,
    usage: Option<Usage>,
    passes: bool,
) -> Result<Reply, Error> {
    let mut answer =
        Answer { usage, upstream_model: response.model_version.take(), ..Answer::default() };
    let Some(mut candidate) = response.candidate() else {
        let reason = response.blocked();
        let refusal = reason.ok_or_else(|| Error::malformed("it has no candidates"))?;
        return Ok(Answer {
            refusal: Some(refusal),
            finish: Some(FinishReason::ContentFilter),
            ..answer
        }
        .reply());
    };
    let mut kept = StateBuilder::default();
    for part in candidate.take_parts() {
        match part_content(&part, answer.calls.len(), response.response_id.as_deref())? {
            PartContent::Text(text) => answer.text.push_str(text),
            PartContent::Thought(text) => answer.reasoning.push_str(text),
            PartContent::Call { id, name, arguments } => {
                answer.calls.push((id, name.to_owned(), arguments));
            }
            PartContent::Image(url) => answer.images.push(url),
            PartContent::Other => {}
        }
        kept.add(part)?;
    }
    answer.finish = candidate.finish(!answer.calls.is_empty(), passes)?;
    answer.state = kept.state(model.upstream_name());
    Ok(answer.reply())
}

/// A usage with so many searches.
pub(super) fn with_searches(usage: Option<Usage>, searches: u32) -> Option<Usage> {
    if searches == 0 {
        return usage;
    }
    let mut usage = usage.unwrap_or_else(Usage::unknown);
    usage.extras.uses[VendorTool::WebSearch] = searches;
    Some(usage)
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
