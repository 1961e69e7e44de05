//! How much a model behind Converse is asked to think.

use std::borrow::Cow;

use domain::model::Model;

use crate::adapter::request::Attempt;
use crate::chat_form::conversation::Conversation;
use crate::chat_form::effort::Effort;
use crate::chat_form::params::Params;
use crate::chat_form::tools::Tools;
use crate::error::Error;
use crate::vendors::anthropic::rules::takes_effort;
use crate::vendors::anthropic::thoughts::Thoughts;

const EFFORTS: [Effort; 5] =
    [Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh, Effort::Max];

/// The models that are known not to think, by a part of their names.
const THOUGHTLESS: [&str; 9] = [
    "amazon.titan",
    "amazon.nova-micro",
    "amazon.nova-lite",
    "amazon.nova-pro",
    "amazon.nova-premier",
    "meta.llama",
    "mistral.",
    "cohere.",
    "ai21.",
];

/// Whether a model is Claude, by its name with or without a region.
pub(super) fn is_claude(model: &Model) -> bool {
    model.upstream_name().contains("anthropic.claude-")
}

/// Takes the effort and, for Claude, its `thinking`; that stays for other models, and is dropped by
/// its name.
pub(super) fn thoughts<'a>(
    params: &mut Params<'a>,
    attempt: &Attempt<'_>,
    conversation: &Conversation<'_>,
    tools: &Tools<'_>,
) -> Result<Thoughts<'a>, Error> {
    let model = attempt.model;
    if is_claude(model) && params.is_lenient() {
        return Thoughts::take(params, attempt, conversation, tools);
    }
    let mut thoughts = Thoughts::default();
    if is_claude(model) {
        thoughts.thinking = params.take("thinking").map(Cow::Borrowed);
    }
    thoughts.effort = effort(params, model)?;
    Ok(thoughts)
}

fn effort<'a>(params: &mut Params<'a>, model: &Model) -> Result<Option<&'a str>, Error> {
    let Some(asked) = params.text("reasoning_effort")? else { return Ok(None) };
    let name = model.upstream_name();
    if params.is_lenient() {
        let is_thoughtless = THOUGHTLESS.iter().any(|part| name.contains(part));
        let level = Effort::read(asked).filter(|_| !is_thoughtless);
        let nearest = level.and_then(|asked| asked.nearest(&EFFORTS));
        if nearest.is_none() {
            params.lose("reasoning_effort");
        }
        return Ok(nearest.map(Effort::word));
    }
    if !takes_effort(name, asked) {
        let asked: String = asked.chars().take(16).collect();
        return Err(Error::lacking(model, format_args!("reasoning_effort {asked}")));
    }
    if !EFFORTS.iter().any(|effort| effort.word() == asked) {
        return Err(Error::unsupported(format!(
            "reasoning_effort of model {} must be one of {}",
            model.identifier,
            EFFORTS.map(Effort::word).join(", ")
        )));
    }
    Ok(Some(asked))
}
