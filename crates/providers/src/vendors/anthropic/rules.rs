//! Parameters that Claude takes, by the name of the model, also if others serve it.

use domain::model::Model;

use crate::adapter::request::Attempt;
use crate::chat_form::effort::Effort;
use crate::chat_form::params::Params;
use crate::error::Error;

/// The bound if neither the caller nor the model's definition has one: the format requires it. Every
/// model of the vendor's can write that much.
const DEFAULT_MAX_TOKENS: u64 = 4096;

/// The part of `temperature`, `top_p` and `top_k` that a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sampling {
    Nothing,
    /// All three, but not `temperature` and `top_p` together.
    OneOfTwo,
    All,
}

impl Sampling {
    /// From 4.1 on models refuse `temperature` and `top_p` together, Opus from 4.7 on and every model
    /// from 5 on refuse all three. A model that is not named as the vendor names its models is sent all
    /// parameters.
    fn of(name: &str) -> Self {
        match Claude::read(name) {
            Some(
                Claude("mythos", ..) | Claude("opus", Some(4), Some(7..)) | Claude(_, Some(5..), _),
            ) => Self::Nothing,
            Some(Claude(_, Some(4), Some(1..))) => Self::OneOfTwo,
            _ => Self::All,
        }
    }
}

/// A model of the vendor's by its name: the family, and the two numbers of its version. Older names,
/// which begin with the number, have no family.
struct Claude<'a>(&'a str, Option<u8>, Option<u8>);

impl<'a> Claude<'a> {
    fn read(name: &'a str) -> Option<Self> {
        let (_, name) = name.split_once("claude-")?;
        let mut words = name.split(['-', '.', '@', ':']);
        let family = words.next().unwrap_or_default();
        if family.parse::<u8>().is_ok() {
            return Some(Self("", None, None));
        }
        // Dates are longer than two digits.
        let mut number = || words.next().filter(|word| word.len() < 3)?.parse().ok();
        Some(Self(family, number(), number()))
    }
}

/// Whether a model takes an effort: Opus from 4.5 on, and every model from 4.6 on; `max` all of them
/// from 4.6 on, `xhigh` Opus from 4.7 on and every model from 5 on. A model that is not named as the
/// vendor names its models is sent any effort.
pub(crate) fn takes_effort(name: &str, effort: &str) -> bool {
    let Some(claude) = Claude::read(name) else { return true };
    let is_from = |minor: u8| match claude {
        Claude("" | "v1" | "v2" | "instant", ..) => false,
        Claude("mythos", ..) | Claude(_, None, _) => true,
        Claude(_, Some(major), other) => major > 4 || (major == 4 && other >= Some(minor)),
    };
    let is_opus = claude.0 == "opus";
    match effort {
        "xhigh" => is_from(u8::MAX) || (is_opus && is_from(7)),
        "max" => is_from(6),
        _ => is_from(6) || (is_opus && is_from(5)),
    }
}

/// Returns the efforts that a model takes, least first.
pub(crate) fn efforts(name: &str) -> Vec<Effort> {
    let usual = Effort::USUAL.into_iter().chain([Effort::Xhigh, Effort::Max]);
    usual.filter(|effort| takes_effort(name, effort.word())).collect()
}

/// Whether a model thinks within a budget, and has no effort: 3.7 Sonnet, and those of the fourth
/// generation before 4.6.
pub(crate) fn thinks_by_budget(name: &str) -> bool {
    let is_of_its_time =
        name.contains("claude-3-7") || matches!(Claude::read(name), Some(Claude(_, Some(4), _)));
    is_of_its_time && !takes_effort(name, "low")
}

/// Whether a model takes `temperature`, `top_p` and `top_k` at all.
pub(crate) fn takes_sampling(name: &str) -> bool {
    Sampling::of(name) != Sampling::Nothing
}

/// Takes `temperature` and `top_p` out of the parameters. If the model lacks them, they stay, and
/// `finish` reports them to the caller.
pub(crate) fn temperature_and_top_p(
    params: &mut Params<'_>,
    model: &Model,
) -> Result<(Option<f64>, Option<f64>), Error> {
    let sampling = Sampling::of(model.upstream_name());
    if sampling == Sampling::Nothing {
        return Ok((None, None));
    }
    let temperature = params.number("temperature", 0.0..=1.0)?;
    let top_p = params.number("top_p", 0.0..=1.0)?;
    if sampling == Sampling::OneOfTwo && temperature.is_some() {
        // A `top_p` of 1 excludes nothing: clients send it beside `temperature`.
        return match top_p {
            None => Ok((temperature, None)),
            Some(all) if all >= 1.0 => Ok((temperature, None)),
            Some(_) if params.lose("top_p") => Ok((temperature, None)),
            Some(_) => Err(Error::lacking(model, "top_p together with temperature")),
        };
    }
    Ok((temperature, top_p))
}

/// Returns the bound on the completion. The thinking budget is a part of it, and has to leave room for
/// an answer.
///
/// Fails if it does not.
pub(super) fn max_tokens(attempt: &Attempt<'_>, budget: Option<u64>) -> Result<u64, Error> {
    let Attempt { model, prompt, max_output_tokens, .. } = *attempt;
    let Some(bound) = max_output_tokens else {
        return Ok(budget.unwrap_or(0).saturating_add(DEFAULT_MAX_TOKENS));
    };
    let Some(budget) = budget.filter(|budget| *budget >= bound) else { return Ok(bound) };
    let model = &model.identifier;
    Err(Error::unsupported(if prompt.max_output_tokens == Some(bound) {
        format!(
            "max_tokens {bound} must be above thinking.budget_tokens {budget} for model {model}"
        )
    } else {
        format!(
            "thinking.budget_tokens {budget} is not supported by model {model} here: its \
            max_output_tokens, or what is left to spend, allows a completion of {bound} tokens"
        )
    }))
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
