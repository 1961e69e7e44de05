//! Fund: the highest cost of the call is set aside, a step id is taken, and its start is written,
//! before the call or while it is open.

use std::sync::{Arc, OnceLock};

use counters::HoldId;
use domain::conversation::Prompt;
use domain::ids::{KeyId, StepId};
use domain::model::Model;
use domain::money::{Prices, Usd};
use domain::step::Routing;
use domain::time::Timestamp;
use domain::trace_context::CallerTrace;
use store::Start;

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::charge_bound::check_bounded;
use crate::pipeline::choose::Routed;
use crate::pipeline::file_tokens;
use crate::pipeline::pricing_basis::PricingBasis;
use crate::pipeline::reservation::Reservation;
use crate::pipeline::reserve::{CostBound, choices, usual_bound};
use crate::pipeline::tokens;
use crate::state::caller::Caller;
use crate::tools::fingerprint;

/// A call that may be made. Only `fund` makes one, and only from a [`Routed`].
///
/// ```compile_fail,E0451
/// # fn forged(routed: std::sync::Arc<gateway::pipeline::Routed>) -> gateway::pipeline::Funded {
/// gateway::pipeline::Funded { routed, ..todo!() }
/// # }
/// ```
///
/// Nor is there a way from a prompt to a provider that leaves it out:
///
/// ```compile_fail,E0616
/// # async fn skipped(upstream: &gateway::pipeline::Upstream, attempt: providers::Attempt<'_>) {
/// upstream.client.complete(attempt).await;
/// # }
/// ```
///
/// A [`Routed`] cannot be made by hand either, and so neither can a [`crate::pipeline::screen::Screened`]:
///
/// ```compile_fail,E0451
/// # fn forged(screened: gateway::pipeline::Screened) -> gateway::pipeline::Routed {
/// gateway::pipeline::Routed { screened, ..todo!() }
/// # }
/// ```
///
/// ```compile_fail,E0451
/// # fn forged(prompt: domain::conversation::Prompt) -> gateway::pipeline::Screened {
/// gateway::pipeline::Screened { prompt, ..todo!() }
/// # }
/// ```
#[derive(Debug)]
pub struct Funded {
    routed: Arc<Routed>,
    model: Arc<Model>,
    step: StepId,
    pricing_basis: PricingBasis,
    prices: Option<Prices>,
    max_output_tokens: Option<u64>,
    max_tool_uses: Option<u64>,
    /// Set under a cap or a budget.
    reservation: Option<Reservation>,
    started_at: Timestamp,
    /// When its start was on disk, if it had to be before the call left.
    left_at: OnceLock<Timestamp>,
    input_fingerprint: OnceLock<i64>,
}

impl Caller {
    /// Whether a cap or a budget bounds what may be spent.
    fn is_bounded(&self) -> bool {
        self.key.key.hourly_limit.is_some() || self.project.settings.monthly_budget.is_some()
    }

    /// Refuses a model whose answers could not be counted against a cap or a budget.
    pub(crate) fn check_price(&self, model: &Model) -> Result<()> {
        self.check_priced(model, PricingBasis::Tokens)
    }

    /// Refuses a model whose answers, charged by `charge`, could not be counted against a cap or a
    /// budget.
    pub(super) fn check_priced(&self, model: &Model, pricing_basis: PricingBasis) -> Result<()> {
        if self.is_bounded() && !pricing_basis.is_priced(model) {
            return Err(Error::invalid(format!("Model has no price: {}", model.identifier)));
        }
        Ok(())
    }

    /// Refuses a prompt with tools of the vendor's that no cap or budget could hold.
    pub(super) fn check_charges(&self, model: &Model, prompt: &Prompt) -> Result<()> {
        if self.is_bounded() { check_bounded(model, prompt) } else { Ok(()) }
    }
}

impl Gateway {
    /// Funds one attempt on one of the routed models. `held` is the possible charge of earlier models.
    pub(super) async fn fund(
        &self,
        routed: &Arc<Routed>,
        model: &Arc<Model>,
        held: Option<Reservation>,
    ) -> Result<Funded> {
        let caller = &routed.screened().context().caller;
        let pricing_basis = routed.screened().pricing_basis();
        caller.check_priced(model, pricing_basis)?;
        let prompt = routed.screened().prompt();
        // Under a cap or budget the bound goes upstream, so that it is a bound.
        let (max_output_tokens, max_tool_uses, reservation) = if caller.is_bounded() {
            let cost_bound = CostBound::of(prompt, model, pricing_basis).beside(held.as_ref());
            let (bounds, reservation) = if routed.screened().context().is_shadow {
                self.reserve_spare(caller, &cost_bound).await?
            } else {
                self.reserve(caller, &cost_bound).await?
            };
            if let Some(held) = held {
                reservation.take_in(&held);
            }
            (Some(bounds.completion), bounds.tool_uses, Some(reservation))
        } else {
            (prompt.max_output_tokens.or(model.config.max_output_tokens), None, None)
        };
        Ok(Funded {
            routed: routed.clone(),
            model: model.clone(),
            step: self.store.step_id().await?,
            pricing_basis,
            prices: pricing_basis.prices(model),
            max_output_tokens,
            max_tool_uses,
            reservation,
            started_at: self.clock.now(),
            left_at: OnceLock::new(),
            input_fingerprint: OnceLock::new(),
        })
    }

    /// Funds another attempt of a call whose last may have been charged: the possible cost of that
    /// stays set aside until the call has settled. Returns whether there is money for both.
    pub(super) async fn fund_again(&self, funded: &Funded) -> bool {
        let Some(reservation) = &funded.reservation else { return true };
        let screened = funded.routed.screened();
        let cost_bound = CostBound::of(screened.prompt(), &funded.model, funded.pricing_basis)
            .bounded(funded.max_output_tokens, funded.max_tool_uses)
            .beside(Some(reservation));
        match self.reserve(&screened.context().caller, &cost_bound).await {
            Ok((_, more)) => {
                reservation.take_in(&more);
                true
            }
            Err(_) => false,
        }
    }
}

impl Funded {
    pub(crate) fn routed(&self) -> &Routed {
        &self.routed
    }

    pub(crate) fn model(&self) -> &Arc<Model> {
        &self.model
    }

    pub(crate) fn step(&self) -> StepId {
        self.step
    }

    /// The caller's own trace, with the step of the call as the parent of what the provider does.
    pub(super) fn outgoing_trace(&self) -> Option<CallerTrace> {
        let trace = self.routed.screened().context().caller_trace.as_ref()?;
        Some(trace.of_step(self.step))
    }

    pub(crate) fn prices(&self) -> Option<&Prices> {
        self.prices.as_ref()
    }

    pub(crate) fn pricing_basis(&self) -> PricingBasis {
        self.pricing_basis
    }

    pub(crate) fn max_output_tokens(&self) -> Option<u64> {
        self.max_output_tokens
    }

    pub(crate) fn max_tool_uses(&self) -> Option<u64> {
        self.max_tool_uses
    }

    /// About the completion tokens of all choices together, `micros` microseconds after the
    /// provider was asked.
    pub(super) fn written_within(&self, micros: i64) -> u64 {
        let prompt = self.routed.screened().prompt();
        let bound = self.max_output_tokens.unwrap_or_else(|| usual_bound(prompt));
        tokens::written_within(micros).min(bound).saturating_mul(choices(prompt))
    }

    /// When it began: the time for which its start was written is not the model's.
    pub(crate) fn started_at(&self) -> Timestamp {
        self.left_at.get().copied().unwrap_or(self.started_at)
    }

    /// Notes that its start is on disk, and that it leaves now.
    pub(super) fn leaves(&self, now: Timestamp) {
        self.left_at.get_or_init(|| now);
    }

    /// Prepares the fields of the record that describe the prompt.
    pub(super) fn prepare_record(&self) {
        self.routing();
        self.input_fingerprint();
    }

    /// The classification of the prompt. Embeddings and images belong to no tier, so they have none.
    pub(super) fn routing(&self) -> Option<&Routing> {
        self.pricing_basis.is_for_text().then(|| self.routed.routing())
    }

    /// The fingerprint of the request. None for images: they differ each time, so an equal request is
    /// no repetition.
    pub(super) fn input_fingerprint(&self) -> Option<i64> {
        let screened = self.routed.screened();
        let key = &screened.context().caller.project.print_key;
        let found = || fingerprint::input(key, &self.model.identifier, screened.prompt());
        let repeats = !matches!(self.pricing_basis, PricingBasis::Images(_));
        repeats.then(|| *self.input_fingerprint.get_or_init(found))
    }

    /// Keeps at most `most` of the money that is set aside when this call has ended: it, or an
    /// attempt before it, may still have been charged.
    pub(super) fn keep(&self, most: Usd) -> Option<Reservation> {
        self.reservation.as_ref().map(|reservation| reservation.moved(most))
    }

    /// The reservations in the shared counters, to be settled there.
    pub(super) fn take_holds(&self) -> Vec<HoldId> {
        self.reservation.as_ref().map(Reservation::take_holds).unwrap_or_default()
    }

    /// Counts the cost of the call from now on, instead of its highest cost.
    pub(super) fn settled(&self) {
        if let Some(reservation) = &self.reservation {
            reservation.release();
        }
    }

    pub(super) fn start(&self) -> Start {
        let screened = self.routed.screened();
        let context = screened.context();
        Start {
            step: self.step,
            trace: context.trace.id(),
            project: context.caller.project.id(),
            key: Some(KeyId::to_i64(context.caller.key.key.id)),
            api_endpoint: context.api_endpoint,
            parent: context.parent,
            source: context.source(),
            traceparent: context.trace_context().map(|context| context.to_string()),
            attributes: context.attributes.as_deref().cloned(),
            model: self.model.identifier.clone(),
            provider: self.model.provider,
            infrastructure: self.model.infrastructure().to_owned(),
            is_public: self.model.is_public,
            tier: self.routed.tier(),
            shadow: context.is_shadow,
            prompt_tokens: tokens::estimate(screened.length())
                + file_tokens::about_unread(screened.prompt(), self.model.config.context_window)
                + screened.prompt().continued_tokens(),
            prices: self.prices.map(|prices| (prices.input.0, prices.output.0)),
            flat_cost: self
                .pricing_basis
                .cost_of_images(&self.model, screened.prompt())
                .map(|cost| cost.0),
            started_at: self.started_at.0,
        }
    }
}
