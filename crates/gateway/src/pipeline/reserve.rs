//! Reserve: the most that a call can cost is set aside before it is made, so that calls that run at
//! the same time cannot pass a cap or a budget together.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use counters::{Failure, Figures, Reserved};
use domain::conversation::Prompt;
use domain::model::Model;
use domain::money::{Price, Prices, Usd};
use domain::original::WireFormat;
use domain::time::Timestamp;
use domain::usage::Usage;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::capacity::offload::offload;
use crate::config::OnCounterLoss;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::lock::lock;
use crate::pipeline::charge_bound::ChargeBound;
use crate::pipeline::counted::Counted;
use crate::pipeline::pricing_basis::{PricingBasis, dearest};
use crate::pipeline::prompt_size::{continued, sizes, uncounted};
use crate::pipeline::reservation::Reservation;
use crate::state::caller::Caller;
use crate::state::shared_counters::Fleet;

/// The longest answer if neither the caller nor the model bounds the completion.
const DEFAULT_MAX_OUTPUT_TOKENS: u64 = 4096;
/// The shortest completion that a call accepts while other calls may still release money, in tokens.
const MIN_COMPLETION_WHILE_WAITING: u64 = 256;
/// The least `max_output_tokens` of OpenAI's Responses: <https://platform.openai.com/docs/api-reference>.
const LEAST_RESPONSE: u64 = 16;
/// A shadow call leaves this many times the most that it can cost.
const SPARE: u64 = 3;
/// The longest wait of a call for others to settle.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a call asks that waits for calls of other gateways.
const OTHERS_INTERVAL: Duration = Duration::from_millis(50);
/// How often an attempt asks for less, as others take what was left.
const MOST_LOWERED: usize = 3;
/// The most that one call can cost.
#[derive(Debug)]
pub(super) struct CostBound<'p> {
    /// Each kind of prompt token at the dearest price it can have.
    prices: Option<Prices>,
    /// The cost that does not depend on a bound: images.
    flat: Option<Usd>,
    /// Prompt tokens that cannot be passed: no token is shorter than a byte, but for those of a page.
    prompt: u64,
    /// A count of the prompt's tokens that is closer to the truth.
    counted: Counted<'p>,
    /// The number of completions requested.
    choices: u64,
    /// The tokens of the answer that the caller predicts: those that do not come true are charged as
    /// completion tokens, beside the bound.
    predicted: u64,
    /// The most that the vendor's own tools can add, the widest bound first.
    charges: Vec<ChargeBound>,
    /// The longest completion.
    bound: u64,
    /// The shortest bound on a completion that the format of the request has.
    least: u64,
    /// Whether the caller has set that bound: then it is not lowered.
    is_requested: bool,
    /// The money that earlier attempts of the same call have set aside: no other call is about to
    /// settle it.
    held: Usd,
}

impl<'p> CostBound<'p> {
    pub(super) fn of(prompt: &'p Prompt, model: &Model, pricing_basis: PricingBasis) -> Self {
        let (bytes, unread) = sizes(prompt);
        let fetched =
            uncounted(prompt, model.config.context_window).saturating_add(continued(prompt, model));
        let (most, unread) = (bytes.saturating_add(fetched), unread.saturating_add(fetched));
        let requested = prompt.max_output_tokens;
        let asked = providers::charges(model, prompt);
        let fees = &model.config.fees;
        let raised = |prices| fees.raised(prices, |surcharge| asked.surcharges[surcharge]);
        let prices = |prices| dearest(raised(prices), model, prompt);
        Self {
            prices: pricing_basis.prices(model).map(prices),
            charges: ChargeBound::all(&asked, fees, model.config.context_window),
            flat: pricing_basis.most_of_images(model, prompt, most),
            prompt: most,
            counted: Counted {
                prompt,
                unread,
                context_window: model.config.context_window,
                tokens: OnceLock::new(),
            },
            choices: choices(prompt),
            predicted: prompt
                .params
                .get("prediction")
                .map_or(0, |value| value.to_string().len() as u64),
            bound: requested
                .or(model.config.max_output_tokens)
                .unwrap_or_else(|| usual_bound(prompt)),
            least: least_bound(prompt),
            // A thinking budget is a bound of the caller's as well.
            is_requested: requested.is_some() || prompt.thinking_budget().is_some(),
            held: Usd::ZERO,
        }
    }

    /// The bound on the cost of another attempt of a call: its bounds stay unchanged.
    pub(super) fn bounded(mut self, bound: Option<u64>, tool_uses: Option<u64>) -> Self {
        self.charges.retain(|charges| charges.uses == tool_uses);
        Self { bound: bound.unwrap_or(self.bound), is_requested: true, ..self }
    }

    /// The bound on the cost beside the money that earlier attempts have set aside.
    pub(super) fn beside(self, held: Option<&Reservation>) -> Self {
        let held = held.map_or(Usd::ZERO, Reservation::amount);
        Self { held, ..self }
    }

    /// The bound and the cost that fit into what is left, with completions no shorter than `least` and
    /// the uses of tools that the request asks for.
    #[cfg(test)]
    fn fit(&self, left: Usd, least: u64) -> Option<(u64, Usd)> {
        self.fit_with(&self.charges[0], left, least)
    }

    /// The bound and the cost that fit into what is left, with completions no shorter than `least`.
    fn fit_with(&self, charges: &ChargeBound, left: Usd, least: u64) -> Option<(u64, Usd)> {
        let fits = |cost: Usd| cost == Usd::ZERO || cost <= left;
        if let Some(cost) = self.flat {
            return fits(cost).then_some((self.bound, cost));
        }
        let Some(prices) = &self.prices else {
            return fits(charges.fees).then_some((self.bound, charges.fees));
        };
        let cost = |prompt, bound: u64| {
            let completion = bound.saturating_add(self.predicted).saturating_mul(self.choices);
            let prompt = charges.prompt(prompt, bound);
            prices.cost(&Usage { completion, ..Usage::of_prompt(prompt) }) + charges.fees
        };
        if fits(cost(self.prompt, self.bound)) {
            return Some((self.bound, cost(self.prompt, self.bound)));
        }
        // Not counted yet: the locks are held here, and a long prompt takes its time.
        let counted = (*self.counted.tokens.get()?).min(self.prompt);
        if fits(cost(counted, self.bound)) {
            return Some((self.bound, cost(counted, self.bound)));
        }
        if self.is_requested || prices.output <= Price::ZERO {
            return None;
        }
        let room = left - cost(counted, 0);
        let again = i128::from(prices.input.0) * i128::from(charges.passes.saturating_sub(1));
        let each = i128::from(prices.output.0) * i128::from(self.choices) + again;
        let afforded = u64::try_from(i128::from(room.0) * 1000 / each).ok()?;
        // The rounded bound may be a token too many.
        let over = u64::from(!fits(cost(counted, afforded)));
        let bound = afforded.checked_sub(over)?;
        let least = least.max(self.least).min(self.bound.max(1));
        (bound >= least).then(|| (bound, cost(counted, bound)))
    }
}

/// The completion bound if neither the caller nor the model gives one: thinking tokens come on top
/// of an answer. It is the bound that the adapter of a format that needs one would send.
pub(super) fn usual_bound(prompt: &Prompt) -> u64 {
    prompt.thinking_budget().unwrap_or(0).saturating_add(DEFAULT_MAX_OUTPUT_TOKENS)
}

/// The shortest bound on a completion that a provider accepts for a prompt, in tokens.
fn least_bound(prompt: &Prompt) -> u64 {
    let original = prompt.original.as_ref().filter(|original| original.body.is_some());
    match original.map(|original| original.format) {
        Some(WireFormat::Responses) => LEAST_RESPONSE,
        _ => 1,
    }
}

/// The number of completions that a prompt requests.
pub(super) fn choices(prompt: &Prompt) -> u64 {
    let requested = ["n", "best_of"].iter().filter_map(|name| prompt.params.get(*name));
    requested.map(number).max().unwrap_or(1).max(1)
}

/// A number as lenient servers read one.
fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_default();
    value.as_u64().or_else(|| text.trim().parse().ok()).unwrap_or_else(|| {
        // Casts of floats saturate.
        value.as_f64().or_else(|| text.trim().parse().ok()).unwrap_or(1.0).ceil() as u64
    })
}

/// The bounds under which a call fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The longest completion, in tokens.
    pub(super) completion: u64,
    /// The most uses of each tool that the vendor runs, if the request has any.
    pub(super) tool_uses: Option<u64>,
}

/// The result of an attempt to set money aside.
enum ReserveOutcome {
    /// It is set aside. The figures have it.
    Reserved(Bounds, Reservation, Figures),
    /// The cost does not fit now. `others`: other calls still hold money, so it may fit later.
    Full { error: Error, others: bool },
    /// Spend cannot be known.
    Unknown,
}

impl Gateway {
    /// Sets aside what a call can cost under a cap or a budget. It waits for others that are about
    /// to settle. Returns the bounds on it, which may have been lowered.
    pub(super) async fn reserve(
        &self,
        caller: &Caller,
        cost_bound: &CostBound<'_>,
    ) -> Result<(Bounds, Reservation)> {
        match self.try_reserve(caller, cost_bound, MIN_COMPLETION_WHILE_WAITING).await {
            ReserveOutcome::Reserved(bound, reservation, _) => return Ok((bound, reservation)),
            ReserveOutcome::Unknown => return Err(Error::LimitsUnavailable),
            ReserveOutcome::Full { .. } => {}
        }
        offload(caller.share(), cost_bound.prompt as usize, || cost_bound.counted.count()).await?;
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        let mut least = MIN_COMPLETION_WHILE_WAITING;
        loop {
            // The waiter is registered before the check, so that no release in between is missed.
            let mut settled = pin!(self.settled.notified());
            settled.as_mut().enable();
            let (error, others) = match self.try_reserve(caller, cost_bound, least).await {
                ReserveOutcome::Reserved(bound, reservation, _) => return Ok((bound, reservation)),
                ReserveOutcome::Unknown => return Err(Error::LimitsUnavailable),
                ReserveOutcome::Full { error, others } => (error, others),
            };
            if least == 1 {
                return Err(error);
            }
            // Nobody tells of what other gateways give back.
            let next = Instant::now() + OTHERS_INTERVAL;
            let until = if self.fleet.is_some() { deadline.min(next) } else { deadline };
            if !others || (timeout_at(until, settled).await.is_err() && until == deadline) {
                // No other call is left to wait for, or no time: a short completion is better than
                // none.
                least = 1;
            }
        }
    }

    /// Sets aside what a shadow call can cost, at once or not at all: only if several times as much stays
    /// for calls that somebody waits for.
    pub(super) async fn reserve_spare(
        &self,
        caller: &Caller,
        cost_bound: &CostBound<'_>,
    ) -> Result<(Bounds, Reservation)> {
        let reserved = self.try_reserve(caller, cost_bound, MIN_COMPLETION_WHILE_WAITING).await;
        let (bounds, reservation, figures) = match reserved {
            ReserveOutcome::Reserved(bounds, reservation, figures) => {
                (bounds, reservation, figures)
            }
            ReserveOutcome::Full { error, .. } => return Err(error),
            ReserveOutcome::Unknown => return Err(Error::LimitsUnavailable),
        };
        let budget = caller.project.settings.monthly_budget;
        let of_month = budget.map(|all| all - figures.month_spent - figures.month_reserved);
        let limit = caller.key.key.hourly_limit;
        let of_hour = limit.map(|all| all - figures.hour_spent - figures.hour_reserved);
        let spare = reservation.amount().times(SPARE);
        if [of_month, of_hour].into_iter().flatten().all(|left| left >= spare) {
            return Ok((bounds, reservation));
        }
        Err(Error::BudgetReserved)
    }

    async fn try_reserve(
        &self,
        caller: &Caller,
        cost_bound: &CostBound<'_>,
        least: u64,
    ) -> ReserveOutcome {
        match &self.fleet {
            // Boxed: a gateway that counts for itself would carry it.
            Some(fleet) => {
                Box::pin(self.try_reserve_shared(fleet, caller, cost_bound, least)).await
            }
            None => self.try_reserve_here(caller, cost_bound, least),
        }
    }

    /// An attempt by what this gateway has counted.
    fn try_reserve_here(
        &self,
        caller: &Caller,
        cost_bound: &CostBound<'_>,
        least: u64,
    ) -> ReserveOutcome {
        let now = self.clock.now();
        let (key, project) = (&caller.key, &caller.project);
        // Both at once, and always in this order.
        let (mut month, mut windows) = (lock(&project.month), lock(&key.windows));
        let mut figures = Figures::default();
        if project.settings.monthly_budget.is_some() {
            figures.month_spent = month.total(now);
            figures.month_reserved = month.set_aside.total();
        }
        if key.key.hourly_limit.is_some() {
            figures.hour_spent = windows.spent(now);
            figures.hour_reserved = windows.set_aside.total();
        }
        let (bounds, amount) = match widest(caller, cost_bound, &figures, now, least) {
            Ok(found) => found,
            Err((error, others)) => return ReserveOutcome::Full { error, others },
        };
        month.set_aside.add(amount);
        windows.set_aside.add(amount);
        figures.month_reserved += amount;
        figures.hour_reserved += amount;
        ReserveOutcome::Reserved(bounds, Reservation::here(self, caller, amount), figures)
    }

    /// An attempt by the shared counters. It asks for the most first, as if nothing was spent: that is one round
    /// trip for most calls. If that does not fit, it asks for what does.
    async fn try_reserve_shared(
        &self,
        fleet: &Arc<Fleet>,
        caller: &Caller,
        cost_bound: &CostBound<'_>,
        least: u64,
    ) -> ReserveOutcome {
        let bounds = caller.bounds();
        let now = self.clock.now();
        // Without any spend a bound fits that alone is above the cap: the figures say so then.
        let free = Figures::default();
        let mut found = match widest(caller, cost_bound, &free, now, least) {
            Ok(found) => found,
            Err((error, others)) => return ReserveOutcome::Full { error, others },
        };
        let mut refused = (Error::BudgetReserved, true);
        for _ in 0..MOST_LOWERED {
            match fleet.reserve(&bounds, found.1).await {
                Ok(Reserved::Granted(hold, figures)) => {
                    let reservation = Reservation::shared(self, caller, fleet, (hold, found.1));
                    return ReserveOutcome::Reserved(found.0, reservation, figures);
                }
                Ok(Reserved::Full(figures)) => {
                    match widest(caller, cost_bound, &figures, now, least) {
                        Ok(lower) => found = lower,
                        Err((error, others)) => return ReserveOutcome::Full { error, others },
                    }
                    if let Some(limit) = bounds.cap {
                        refused = (Error::SpendReserved { limit }, true);
                    }
                }
                Err(Failure::Lost | Failure::Away(_)) => {
                    return match fleet.on_loss {
                        OnCounterLoss::Refuse => ReserveOutcome::Unknown,
                        OnCounterLoss::Local => self.try_reserve_here(caller, cost_bound, least),
                    };
                }
            }
        }
        let (error, others) = refused;
        ReserveOutcome::Full { error, others }
    }
}

/// The widest bounds that fit, and the highest cost under them.
fn widest(
    caller: &Caller,
    cost_bound: &CostBound<'_>,
    figures: &Figures,
    now: Timestamp,
    least: u64,
) -> std::result::Result<(Bounds, Usd), (Error, bool)> {
    // The widest bound on the uses of tools that fits.
    let mut found = Err((Error::BudgetReserved, false));
    for charges in &cost_bound.charges {
        found = fit(caller, cost_bound, charges, figures, now, least);
        if found.is_ok() {
            break;
        }
    }
    found
}

/// The bounds under which a call fits into what is left of the month and of the hour, and its highest
/// cost. An error comes with whether other calls still hold money, so that it may fit later.
fn fit(
    caller: &Caller,
    cost_bound: &CostBound<'_>,
    charges: &ChargeBound,
    figures: &Figures,
    now: Timestamp,
    least: u64,
) -> std::result::Result<(Bounds, Usd), (Error, bool)> {
    let mut fit = None;
    if let Some(budget) = caller.project.settings.monthly_budget {
        let (spent, reserved) = (figures.month_spent, figures.month_reserved);
        fit = cost_bound.fit_with(charges, budget - spent - reserved, least);
        if fit.is_none() {
            let others = reserved > cost_bound.held && spent < budget;
            let error = if others { Error::BudgetReserved } else { Error::budget_exceeded(now) };
            return Err((error, others));
        }
    }
    if let Some(limit) = caller.key.key.hourly_limit {
        let (spent, reserved) = (figures.hour_spent, figures.hour_reserved);
        let left = limit - spent - reserved;
        let Some(capped) = cost_bound.fit_with(charges, left, least) else {
            // The call that settles the last of it trips the key.
            let crossed = spent >= limit;
            let error = if crossed {
                Error::SpendCapped { limit: Some(limit) }
            } else {
                Error::SpendReserved { limit }
            };
            return Err((error, reserved > cost_bound.held && !crossed));
        };
        fit = Some(fit.map_or(capped, |fit: (u64, Usd)| fit.min(capped)));
    }
    let (completion, amount) = fit.unwrap_or((cost_bound.bound, Usd::ZERO));
    Ok((Bounds { completion, tool_uses: charges.uses }, amount))
}

#[cfg(test)]
#[path = "reserve_tests.rs"]
mod tests;
