//! The classes of service that a request asks for, and what they cost.

use domain::conversation::Prompt;
use domain::fees::{Factor, PerSurcharge, Surcharge};

use crate::adapter::request::Attempt;
use crate::chat_form::text;
use crate::error::Error;

/// The member that names the class of service: asked for in a request, given in an answer.
pub(crate) const SERVICE_TIER: &str = "service_tier";
/// The classes of service that cost no more than the prices of a model.
const PRICED_TIERS: [&str; 4] = ["auto", "default", "standard", "flex"];

/// Returns the surcharges that a prompt asks for: that of the faster tier.
pub(crate) fn surcharges(prompt: &Prompt) -> PerSurcharge<bool> {
    surcharges_if(is_priority(text(prompt.params.get(SERVICE_TIER))).unwrap_or(false))
}

/// Returns the surcharges that may apply to a prompt: a vendor that is asked to choose may serve it faster.
/// One that is not asked does so for accounts that are set to it; to set money aside for that would take
/// most of a cap from all others.
pub(crate) fn possible_surcharges(prompt: &Prompt) -> PerSurcharge<bool> {
    let tier = text(prompt.params.get(SERVICE_TIER));
    surcharges_if(is_priority(tier).unwrap_or(tier == "auto"))
}

fn surcharges_if(is_priority: bool) -> PerSurcharge<bool> {
    let mut surcharges = PerSurcharge::default();
    surcharges[Surcharge::Priority] = is_priority;
    surcharges
}

/// Whether a class of service is the faster one; `None` if the vendor is to choose, or none is named.
pub(crate) fn is_priority(tier: &str) -> Option<bool> {
    match tier {
        "" | "auto" => None,
        tier => Some(matches!(tier, "priority" | "fast")),
    }
}

/// Refuses a class of service that costs more than the prices of a model.
pub(crate) fn check_tier(attempt: &Attempt<'_>) -> Result<(), Error> {
    let (params, fees) = (&attempt.prompt.params, &attempt.model.config.fees);
    let tier = params.get(SERVICE_TIER).filter(|tier| !tier.is_null());
    if let Some(tier) = tier
        && !PRICED_TIERS.contains(&text(Some(tier)))
        && !(surcharges(attempt.prompt)[Surcharge::Priority]
            && fees.factors[Surcharge::Priority] != Factor::default())
    {
        let tier: String = text(Some(tier)).chars().take(40).collect();
        return Err(Error::unpriced(format!(
            "service_tier: '{tier}' has other prices than those of the model: leave it out, or ask for \
             auto, default or flex"
        )));
    }
    Ok(())
}
