//! Whether a session keeps the model whose provider has the beginning of its conversation in a cache.

use std::borrow::Borrow;

use domain::ids::ModelId;
use domain::model::Model;
use domain::money::{Prices, Usd};
use domain::thousands::grouped;
use domain::tier::Tier;
use domain::usage::Usage;

/// The model that a session used last, and what its provider still has of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warm {
    /// The model.
    pub model: ModelId,
    /// The tier in which it was chosen.
    pub tier: Tier,
    /// Prompt tokens in the provider's cache.
    pub cached: u64,
    /// Completion tokens of the last answer.
    pub completion: u64,
}

/// The models that a session's next call may go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates<M> {
    /// The tier that they are of.
    pub tier: Tier,
    /// The models, in the order to try them.
    pub models: Vec<M>,
}

/// Whether a session keeps its model, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity<M> {
    /// Its model comes first.
    Kept(Candidates<M>, String),
    /// The models stay as routing chose them.
    Left(String),
    /// The session has nothing to lose.
    Free,
}

/// Decides whether a session keeps its model.
///
/// `chosen` is what routing has chosen, `complex` the models of the `complex` tier if routing has chosen
/// `simple` now. A model is kept only if it is one of these, if its circuit is closed, and if what the
/// call would save elsewhere is worth at most what the tokens in the cache would cost again. A session
/// that needs a more capable tier always gets it.
pub fn affinity<M: Borrow<Model> + Clone>(
    warm: &Warm,
    prompt_tokens: u64,
    chosen: &Candidates<M>,
    complex: &[M],
    is_down: impl Fn(&Model) -> bool,
) -> Affinity<M> {
    let at = |models: &[M]| models.iter().position(|one| one.borrow().id == warm.model);
    let goes_down = (warm.tier, chosen.tier) == (Tier::Complex, Tier::Simple);
    let (tier, models, at) = match (at(&chosen.models), at(complex)) {
        (Some(at), _) => (chosen.tier, chosen.models.as_slice(), at),
        (None, Some(at)) if goes_down => (Tier::Complex, complex, at),
        _ => return Affinity::Free,
    };
    let model: &Model = models[at].borrow();
    let again = again(model, warm.cached);
    if again <= Usd::ZERO {
        return Affinity::Free;
    }
    let tokens = usize::try_from(warm.cached).unwrap_or(usize::MAX);
    let worth = format!("{} cached tokens, {} USD", grouped(tokens), amount(again));
    if is_down(model) {
        return Affinity::Left(format!("left: {worth}; {} is not available", model.identifier));
    }
    let is_first = tier == chosen.tier && at == 0;
    if !is_first {
        if (warm.tier, chosen.tier) == (Tier::Simple, Tier::Complex) {
            return Affinity::Left(format!("left: {worth}; a more capable model is needed"));
        }
        let other = chosen.models.iter().map(Borrow::borrow).find(|other: &&Model| !is_down(other));
        let saving = other.and_then(|other| saving(warm, prompt_tokens, model, other));
        if let Some(saving) = saving.filter(|saving| *saving > again) {
            let saving = amount(saving);
            return Affinity::Left(format!("left: {worth}; another model saves {saving} USD"));
        }
    }
    let mut models = models.to_vec();
    models[..=at].rotate_right(1);
    Affinity::Kept(Candidates { tier, models }, format!("kept: {worth}"))
}

/// The price of tokens sent anew, beyond that of reading them from the cache; zero without a price.
fn again(model: &Model, cached: u64) -> Usd {
    let cold = Usage::of_prompt(cached);
    let again = |prices: Prices| prices.cost(&cold) - prices.cost(&Usage { cached, ..cold });
    model.prices().map_or(Usd::ZERO, again)
}

/// The saving of a call with another model, which has nothing of it in a cache; `None` if that has no
/// price. The answer counts as long as the last one.
fn saving(warm: &Warm, prompt_tokens: u64, model: &Model, other: &Model) -> Option<Usd> {
    let Warm { cached, completion, .. } = *warm;
    let prompt = prompt_tokens.max(cached);
    let cold = Usage { prompt, completion, ..Usage::default() };
    Some(model.prices()?.cost(&Usage { cached, ..cold }) - other.prices()?.cost(&cold))
}

/// An amount with two decimals, or with two digits if it is less than a cent.
fn amount(amount: Usd) -> String {
    let dollars = amount.dollars();
    let decimals = match dollars.abs() {
        cents if cents >= 0.01 => 2,
        small => (1.0 - small.log10().floor()).clamp(2.0, 9.0) as usize,
    };
    format!("{dollars:.decimals$}")
}

#[cfg(test)]
#[path = "affinity_tests.rs"]
mod tests;
