//! The usage and the cost of a call, computed from its outcome.

use domain::fees::VendorTool;
use domain::money::{Prices, Usd};
use domain::step::{FinishReason, StepStatus};
use domain::time::Timestamp;
use domain::usage::{Open, Usage};

use crate::call_metrics::{self, Costs};
use crate::pipeline::call_outcome::CallOutcome;
use crate::pipeline::charge_bound::reported_prices;
use crate::pipeline::fund::Funded;
use crate::pipeline::pricing_basis::PricingBasis;
use crate::pipeline::tokens;

/// The usage and the cost of one call.
pub(super) struct UsageCost {
    pub(super) usage: Usage,
    pub(super) cost: Usd,
    /// The part of the cost that the vendor's own tools make up, beside tokens.
    fees: Usd,
    /// The prices that the tokens had, with the surcharges on them.
    pub(super) prices: Option<Prices>,
    /// Whether the cost, or the tokens if they cost nothing, rest on figures that the provider has
    /// not reported.
    pub(super) estimated: bool,
}

impl UsageCost {
    /// The usage and the cost of a call that ends now.
    pub(super) fn by(funded: &Funded, outcome: &CallOutcome, now: Timestamp) -> Self {
        let pricing_basis = funded.pricing_basis();
        let (usage, counted_here) = usage(funded, outcome, now);
        let (model, extras) = (funded.model(), &usage.extras);
        let prompt = funded.routed().screened().prompt();
        let reported = |surcharge| extras.surcharges[surcharge];
        let raised = |prices: &Prices| reported_prices(model, prompt, *prices, reported);
        let prices = funded.prices().map(raised);
        let (cost, estimated) = match pricing_basis.image_price(model) {
            Some(price) => images(pricing_basis, price, outcome),
            None => (prices.map_or(Usd::ZERO, |prices| prices.cost(&usage)), counted_here),
        };
        let fees = model.config.fees.cost(&extras.uses);
        // The time that a container was kept is not reported.
        let estimated = estimated || extras.uses[VendorTool::CodeExecution] > 0;
        let lost = broken_off(funded, &usage, outcome);
        let cost = cost + fees + lost;
        Self { usage, cost, fees, prices, estimated: estimated || lost > Usd::ZERO }
    }

    /// Counts tokens and cost of the call in the metrics of its model.
    pub(super) fn count(&self, funded: &Funded) {
        let model = funded.model();
        call_metrics::of_model(&model.identifier).count_usage(
            model.provider,
            funded.routed().tier(),
            &self.usage,
            &self.by_kind(funded),
        );
    }

    /// The cost of each kind. Attempts that broke off before the last cost prompts, or images.
    fn by_kind(&self, funded: &Funded) -> Costs {
        let is_by_image = funded.pricing_basis().image_price(funded.model()).is_some();
        let prices = self.prices.unwrap_or_default();
        let mut tokens = prices.cost_by_kind(&self.usage);
        let rest = self.cost - self.fees - tokens.iter().map(|(_, cost)| *cost).sum();
        if is_by_image {
            return Costs { tokens, images: rest, tools: self.fees };
        }
        tokens[0].1 += rest;
        Costs { tokens, images: Usd::ZERO, tools: self.fees }
    }
}

/// The cost of images, and whether their number is a guess: a caller who hangs up does not stop
/// them.
fn images(pricing_basis: PricingBasis, price: Usd, outcome: &CallOutcome) -> (Usd, bool) {
    match (outcome.images, outcome.status) {
        (None, StepStatus::Failed) => (Usd::ZERO, false),
        (made, _) => (price.times(pricing_basis.images(made)), made.is_none()),
    }
}

/// About the cost of the attempts that broke off before the last one: their prompts, since the
/// provider's further work is unknown, or their images. A call that failed without any usage adds
/// nothing.
fn broken_off(funded: &Funded, usage: &Usage, outcome: &CallOutcome) -> Usd {
    if outcome.broken_off == 0 || outcome.status == StepStatus::Failed && *usage == Usage::default()
    {
        return Usd::ZERO;
    }
    let prompt = funded.routed().screened().prompt();
    let images = funded.pricing_basis().cost_of_images(funded.model(), prompt);
    let prompts = || Some(funded.prices()?.cost(&Usage::of_prompt(usage.prompt)));
    images.or_else(prompts).unwrap_or_default().times(outcome.broken_off)
}

/// Tokens used, and whether they rest on anything but plausible counts of the provider. A call that
/// failed before the provider sent anything used nothing.
fn usage(funded: &Funded, outcome: &CallOutcome, now: Timestamp) -> (Usage, bool) {
    let nothing_came =
        outcome.text.is_empty() && outcome.first_token.is_none() && outcome.unseen_since.is_none();
    let reported = match (outcome.usage, outcome.status) {
        (Some(reported), _) => reported,
        (None, StepStatus::Failed) if nothing_came => return (Usage::default(), false),
        (None, _) => outcome.prompt_usage.map_or_else(Usage::unknown, |reported| {
            let open = Open { completion: true, ..reported.open };
            Usage { completion: 0, reasoning: 0, open, ..reported }
        }),
    };
    let mut usage = reported.counts();
    // Some servers that count nothing report 0. An answer that a filter has cut out was not written,
    // unless words of it came.
    let is_filtered = outcome.finish == Some(FinishReason::ContentFilter)
        && outcome.text.is_empty()
        && outcome.beside == 0;
    let lacks_prompt = reported.open.prompt || reported.prompt == 0;
    // Embeddings have none.
    let lacks_completion = funded.pricing_basis() != PricingBasis::Input
        && (reported.open.completion || reported.completion == 0 && !is_filtered);
    if lacks_prompt || lacks_completion {
        let counted = counted(funded, outcome, now);
        // The provider's count is the least.
        if lacks_prompt {
            usage.prompt = usage.prompt.max(counted.prompt);
        }
        if lacks_completion {
            usage.completion = usage.completion.max(counted.completion);
        }
    }
    let prompt = funded.routed().screened().prompt();
    let for_an_hour =
        reported.open.cache_write > 0 && providers::may_keep_for_an_hour(funded.model(), prompt);
    if for_an_hour {
        usage.cache_write_1h += reported.open.cache_write;
    }
    let is_changed = usage != reported.counts();
    (usage, is_changed || for_an_hour || reported.open.is_doubtful())
}

/// Tokens used, as they are counted here.
fn counted(funded: &Funded, outcome: &CallOutcome, now: Timestamp) -> Usage {
    let (pricing_basis, prompt) = (funded.pricing_basis(), funded.routed().screened().prompt());
    let images = pricing_basis.images(outcome.images);
    let mut usage = pricing_basis.count(funded.model(), prompt, &outcome.text, images);
    usage.completion += tokens::estimate(outcome.beside);
    if let Some(called_at) = outcome.unseen_since {
        usage.completion += funded.written_within(now.since(called_at));
    }
    usage
}
