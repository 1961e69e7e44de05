//! The most that a vendor can charge for a call beside the tokens of its prompt and answer: uses of its
//! own tools, and the prompt that it reads again after each round of them.

use domain::conversation::Prompt;
use domain::fees::{Charges, FeePrices, PerTool, Surcharge, UseBound};
use domain::model::Model;
use domain::money::{Prices, Usd};

use crate::error::{Error, Result};

/// The most rounds of tools that a vendor runs within one call. ("Server tools" of Anthropic's manual:
/// the loop ends with `pause_turn`.)
const MOST_ROUNDS: u64 = 10;
/// The containers that one call uses, in their units of five minutes: one for the longest call.
const CONTAINER_UNITS: u64 = 12;
/// The bounds on the uses of each tool that are tried, one after the other, until one fits.
const USES: [u64; 4] = [u64::MAX, 4, 2, 1];

/// The most that the tools of a vendor can add to a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChargeBound {
    /// The bound on the uses of each tool that has to be sent, if there is any.
    pub(super) uses: Option<u64>,
    /// The price of the uses themselves.
    pub(super) fees: Usd,
    /// How often the prompt is read, the first time included.
    pub(super) passes: u64,
    /// The tokens that results of tools add to all passes together.
    pub(super) results: u64,
    /// The most prompt tokens of one pass.
    pub(super) window: Option<u64>,
}

impl ChargeBound {
    /// The bounds for a request, the widest first: the next one takes away uses of tools.
    pub(super) fn all(charges: &Charges, fees: &FeePrices, window: Option<u64>) -> Vec<Self> {
        let one_pass = Self { passes: 1, window: None, ..Self::default() };
        if charges.tools.is_empty() {
            return vec![one_pass];
        }
        let mut all = Vec::with_capacity(USES.len());
        for most in USES {
            let all_rounds = charges.rounds.map_or(MOST_ROUNDS, |all| all.min(most));
            let mut bound = Self { uses: Some(most), window, ..one_pass };
            let (mut uses, mut tokens, mut is_endless) = (0_u64, 0_u64, false);
            let mut counts = PerTool::default();
            for charge in &charges.tools {
                let (times, charged) = match charge.uses {
                    UseBound::Of(given) => (given.min(most), given.min(most)),
                    UseBound::OnePass(given) => (0, given),
                    UseBound::Missing | UseBound::Unpriced => (all_rounds, CONTAINER_UNITS),
                };
                uses = uses.saturating_add(times);
                match charge.tokens {
                    Some(each) => tokens = tokens.saturating_add(each.saturating_mul(times)),
                    None => is_endless = true,
                }
                if let Some(tool) = charge.tool {
                    let charged = u32::try_from(charged).unwrap_or(u32::MAX);
                    counts[tool] = u32::saturating_add(counts[tool], charged);
                }
            }
            let rounds = uses.min(all_rounds);
            bound.fees = fees.cost(&counts);
            bound.passes = 1 + rounds;
            // An unknown number fills the window.
            bound.results = if is_endless { u64::MAX } else { tokens.saturating_mul(rounds) };
            if all.last().is_none_or(|last: &Self| *last != Self { uses: last.uses, ..bound }) {
                all.push(bound);
            }
        }
        all
    }

    /// The prompt tokens of all passes together, for a prompt and a completion of so many tokens: the
    /// beginning of an answer is a part of the prompt of the next pass.
    pub(super) fn prompt(&self, prompt: u64, completion: u64) -> u64 {
        let again = (self.passes - 1).saturating_mul(completion);
        let sum = prompt.saturating_mul(self.passes).saturating_add(self.results);
        let most = self.window.map_or(u64::MAX, |window| window.saturating_mul(self.passes));
        sum.saturating_add(again).min(most.max(prompt))
    }
}

/// The prices of a call with the surcharges that its provider has reported; those that the report leaves
/// out apply if the request asks for them.
pub(super) fn reported_prices(
    model: &Model,
    prompt: &Prompt,
    prices: Prices,
    reported: impl Fn(Surcharge) -> Option<bool>,
) -> Prices {
    // Most models have none.
    if model.config.fees.factors == FeePrices::default().factors {
        return prices;
    }
    let requested = providers::surcharges(model, prompt);
    let applies = |surcharge| reported(surcharge).unwrap_or(requested[surcharge]);
    model.config.fees.raised(prices, applies)
}

/// Refuses a request with a tool that has no known price, or that the vendor puts no bound on, for a
/// model whose window does not bound it either: no cap could hold.
pub(crate) fn check_bounded(model: &Model, prompt: &Prompt) -> Result<()> {
    let charges = providers::charges(model, prompt);
    if let Some(charge) = charges.tools.iter().find(|charge| charge.uses == UseBound::Unpriced) {
        return Err(Error::Unbounded(format!(
            "{}: the price of this tool is not known here, so it cannot be used under a spend cap or a \
             budget: leave it out",
            charge.at
        )));
    }
    if model.config.context_window.is_some() {
        return Ok(());
    }
    let endless = charges.tools.iter().find(|charge| charge.tokens.is_none());
    endless.map_or(Ok(()), |charge| {
        Err(Error::Unbounded(format!(
            "{}: its vendor puts no bound on what this tool costs, so it cannot be used under a spend \
             cap or a budget: leave it out, or set additional_config.context_window of model {}",
            charge.at, model.identifier
        )))
    })
}

#[cfg(test)]
#[path = "charge_bound_tests.rs"]
mod tests;
