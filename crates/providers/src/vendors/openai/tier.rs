//! The classes of service that a request asks for, and what they cost.

use domain::conversation::Prompt;
use domain::fees::{Factor, PerSurcharge, Surcharge};
use serde_json::Value;

use crate::adapter::request::Attempt;
use crate::chat_form::text;
use crate::error::Error;

/// The classes of service that cost no more than the prices of a model.
const PRICED_TIERS: [&str; 4] = ["auto", "default", "standard", "flex"];
/// Returns the surcharges that a prompt asks for: that of the faster tier.
pub(crate) fn surcharges(prompt: &Prompt) -> PerSurcharge<bool> {
    let tier = prompt.params.get("service_tier").and_then(Value::as_str);
    let mut surcharges = PerSurcharge::default();
    surcharges[Surcharge::Priority] = matches!(tier, Some("priority" | "fast"));
    surcharges
}

/// Refuses a class of service that costs more than the prices of a model.
pub(crate) fn check_tier(attempt: &Attempt<'_>) -> Result<(), Error> {
    let (params, fees) = (&attempt.prompt.params, &attempt.model.config.fees);
    let tier = params.get("service_tier").filter(|tier| !tier.is_null());
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
