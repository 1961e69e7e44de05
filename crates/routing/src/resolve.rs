//! From a tier, or a named model, to the models to try in order.

use std::collections::BTreeMap;
use std::fmt;

use domain::model::Model;
use domain::money::Usd;
use domain::tier::Tier;
use domain::usage::Usage;

use crate::endpoints::allows_region;

/// Most models that one chain visits, the first included.
pub const MAX_CHAIN: usize = 8;

/// The reason why a request has no model. Its `Display` is the reason that the caller of the gateway
/// reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// The request is sensitive, and neither the model of the `secure` tier nor one of its
    /// fallbacks is private.
    NoPrivateModel,
    /// The tier names no model that the project has registered.
    NoModelForTier(Tier),
    /// The tier has models, but none in a region that the project allows.
    NoModelInRegion(Tier),
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPrivateModel => f.write_str(
                "sensitive data detected but no private model registered for the secure tier",
            ),
            Self::NoModelForTier(tier) => write!(
                f,
                "no model could be resolved for the `{tier}` tier: set routing tiers or fallbacks"
            ),
            Self::NoModelInRegion(tier) => write!(
                f,
                "no model could be resolved for the `{tier}` tier: \
                 none of its models is in an allowed region"
            ),
        }
    }
}

impl std::error::Error for Unresolved {}

/// Returns the models to try for a tier, in order: the configured one, then its fallbacks.
///
/// `secure` takes the model that is configured for it and no other: a private model that nobody chose
/// for sensitive data does not receive any. All models it yields are private, fallbacks included.
pub fn resolve<'a>(
    tier: Tier,
    tiers: &BTreeMap<Tier, String>,
    find: impl Fn(&str) -> Option<&'a Model>,
    allowed_regions: Option<&[String]>,
) -> Result<Vec<&'a Model>, Unresolved> {
    let secure = tier == Tier::Secure;
    let nothing =
        if secure { Unresolved::NoPrivateModel } else { Unresolved::NoModelForTier(tier) };
    let first = tiers.get(&tier).and_then(|identifier| find(identifier)).ok_or(nothing)?;
    let mut models = links(first, find);
    models.retain(|model| !secure || model.is_private());
    if models.is_empty() {
        return Err(nothing);
    }
    models.retain(|model| in_region(model, allowed_regions));
    if models.is_empty() { Err(Unresolved::NoModelInRegion(tier)) } else { Ok(models) }
}

/// Returns the models to try when `first` was chosen: itself, then `fallback_identifier` by
/// `fallback_identifier`, each once, at most [`MAX_CHAIN`].
///
/// A model that is left out (public under `private_only`, or outside the allowed regions) still passes
/// on to its own fallback. The chain can therefore be empty.
pub fn chain<'a>(
    first: &'a Model,
    find: impl Fn(&str) -> Option<&'a Model>,
    private_only: bool,
    allowed_regions: Option<&[String]>,
) -> Vec<&'a Model> {
    let mut models = links(first, find);
    models.retain(|m| (!private_only || m.is_private()) && in_region(m, allowed_regions));
    models
}

/// Estimates the cost of a call; `None` when the model has no price.
pub fn estimate_cost(model: &Model, prompt_tokens: u64, completion_tokens: u64) -> Option<Usd> {
    let usage = Usage { prompt: prompt_tokens, completion: completion_tokens, ..Usage::default() };
    Some(model.prices()?.cost(&usage))
}

fn links<'a>(first: &'a Model, find: impl Fn(&str) -> Option<&'a Model>) -> Vec<&'a Model> {
    let mut models = vec![first];
    let mut last = first;
    while models.len() < MAX_CHAIN {
        let Some(next) = last.config.fallback.as_deref().and_then(&find) else { break };
        if models.iter().any(|seen| seen.id == next.id) {
            break;
        }
        models.push(next);
        last = next;
    }
    models
}

/// Whether a model is in an allowed region. The regions of its endpoints, if any, replace its own tag.
fn in_region(model: &Model, allowed: Option<&[String]>) -> bool {
    match model.config.endpoints.as_slice() {
        [] => allows_region(allowed, &model.region),
        endpoints => {
            endpoints.iter().any(|endpoint| allows_region(allowed, &endpoint.model.region))
        }
    }
}

#[cfg(test)]
mod tests;
