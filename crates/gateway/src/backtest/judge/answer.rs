//! The model that answers a request by the draft, and the cost of its answer.

use std::sync::Arc;

use checks::Report;
use domain::conversation::Prompt;
use domain::fees::Surcharge;
use domain::model::Model;
use domain::money::{Prices, Usd};
use domain::original::{Original, WireFormat};
use domain::step::{ApiEndpoint, Call};
use domain::tier::Tier;
use domain::usage::Usage;
use serde_json::Value;

use super::{Answer, Cause, Fate, Pricing, ROUTING, Request};
use crate::backtest::draft::DraftProject;
use crate::inference::simulate;
use crate::pipeline::charge_bound::check_bounded;
use crate::pipeline::choose::{Fallbacks, private_only, shape};
use crate::pipeline::screen::{PiiRule, question};
use crate::pipeline::tokens;
use crate::replay::recorded::Recorded;
use crate::safety::prompt_strings;
use crate::state::registry::ProjectState;

/// The type of a block of a request whose model, with its fallbacks, is in no region that is allowed.
const REGION: &str = "region";

/// A request that went to its vendor as it came, as far as the vendor charges for it.
pub(super) fn passing(endpoint: ApiEndpoint, passed: &Value) -> Option<Prompt> {
    let format = match endpoint {
        ApiEndpoint::Chat => WireFormat::ChatCompletions,
        ApiEndpoint::Messages => WireFormat::Messages,
        ApiEndpoint::Responses => WireFormat::Responses,
        ApiEndpoint::Gemini => WireFormat::GenerateContent,
        _ => return None,
    };
    let original = Original::new(format, passed.get("request")?.to_string());
    Some(Prompt { original: Some(Box::new(original)), ..Prompt::default() })
}

/// The model that is called of those that may be.
struct Called<'m> {
    model: &'m Model,
    /// Whether a cap or a budget leaves none of them: then it is the first.
    lacks_price: bool,
}

impl Request<'_> {
    /// The fate of a request that a model has answered.
    pub(super) fn answered(&self, project: &DraftProject, call: &Call, report: &Report) -> Answer {
        let was = self.step.routing.as_ref();
        let Some((was, tier)) = was.and_then(|was| Some((was, was.tier?))) else {
            return self.answered_by_name(project, call, report);
        };
        let classified = self.classify(&project.state, report);
        // A call that classifies as it did then goes where it went: a session may have stayed with the
        // model of another tier.
        let is_kept = classified == was.classified;
        let tier = if is_kept { tier } else { classified };
        let models = project.state.candidates(tier).unwrap_or_default();
        let Some(called) = self.called(&models, self.asks.price.draft) else {
            return unresolved(tier);
        };
        // Likewise within a tier whose models the draft does not change: a model may have been out of order.
        let stays = (is_kept || was.tier == Some(tier))
            && project.unchanged.contains(&tier)
            && models.iter().any(|model| {
                model.identifier == call.model && self.fits(model, self.asks.price.draft)
            });
        let model = if stays { &call.model } else { &called.model.identifier };
        let answer = self.by(project, call, model, called.lacks_price);
        Answer { fate: Fate { tier: Some(tier), ..answer.fate }, ..answer }
    }

    /// The fate of an answered request that named its model. Which it named is not recorded: it is taken for
    /// the one that answered.
    fn answered_by_name(&self, project: &DraftProject, call: &Call, report: &Report) -> Answer {
        let first = project.state.models.get(&call.model);
        let Some(first) = first.filter(|first| self.basis.fits(first)) else {
            // A model that is no longer registered, or not for this endpoint, is no matter of the draft.
            return self.by(project, call, &call.model, false);
        };
        let models = self.named(&project.state, first, report);
        match self.called(&models, self.asks.price.draft) {
            Some(called) => self.by(project, call, &called.model.identifier, called.lacks_price),
            None if self.private_only(first, report) && !first.is_private() => {
                Answer::blocked(routing(Tier::Secure.as_str()))
            }
            None => Answer::blocked(routing(REGION)),
        }
    }

    /// The answer of a model to a recorded call.
    fn by(&self, project: &DraftProject, call: &Call, model: &str, lacks_price: bool) -> Answer {
        let (cost, pricing) = self.cost(project, call, model);
        let fate = Fate { block: None, tier: None, model: Some(model.to_owned()), cost };
        Answer { fate, pricing, lacks_price }
    }

    /// The models to try for a call that named one, as the endpoint chooses them.
    fn named(&self, project: &ProjectState, first: &Model, report: &Report) -> Vec<Arc<Model>> {
        let fallbacks = match self.step.api_endpoint {
            ApiEndpoint::Runs => Fallbacks::No,
            _ => Fallbacks::Yes,
        };
        project.named(first, self.private_only(first, report), fallbacks, self.basis)
    }

    fn private_only(&self, first: &Model, report: &Report) -> bool {
        private_only(self.asks.secure, report.pii_detected(), first)
    }

    /// Whether the caps and the budget of now leave no model for an answered request.
    pub(super) fn lacks_price(&self, project: &ProjectState, report: &Report) -> bool {
        let Some(call) = self.step.call.as_ref().filter(|_| self.asks.price.now) else {
            return false;
        };
        let tier = self.step.routing.as_ref().and_then(|routing| routing.tier);
        let models = match (tier, project.models.get(&call.model)) {
            (Some(tier), _) => project.candidates(tier).unwrap_or_default(),
            (None, Some(first)) => self.named(project, first, report),
            (None, None) => Vec::new(),
        };
        self.called(&models, true).is_some_and(|called| called.lacks_price)
    }

    /// The first of some models that may be called. `None` if there are none.
    fn called<'m>(&self, models: &'m [Arc<Model>], is_bound: bool) -> Option<Called<'m>> {
        let fitting = models.iter().find(|model| self.fits(model, is_bound));
        let model = fitting.or(models.first())?;
        Some(Called { model, lacks_price: fitting.is_none() })
    }

    /// Whether a model may be called. Under a cap or a budget it has a price, and so have the tools that its
    /// vendor would run, with a bound.
    fn fits(&self, model: &Model, is_bound: bool) -> bool {
        let prompt = self.passed.as_ref().unwrap_or(&self.recorded.prompt);
        !is_bound || (self.basis.is_priced(model) && check_bounded(model, prompt).is_ok())
    }

    /// The cost of a call with its recorded tokens, made by a model of the draft.
    fn cost(&self, project: &DraftProject, call: &Call, model: &str) -> (Usd, Pricing) {
        let is_same = model == call.model;
        let priced = project.state.models.get(model).filter(|model| self.basis.is_priced(model));
        let Some(found) = priced else { return (call.cost, Pricing::Unpriced) };
        let current = project.priced.get(model);
        if is_same && (current.is_none() || self.basis.image_price(found).is_some()) {
            // The charge for an image stays: a draft has only prices of tokens.
            return (call.cost, Pricing::Known);
        }
        // A call that was charged by the image may have no tokens.
        let is_counted = self.basis.image_price(found).is_some() || call.usage == Usage::default();
        if !is_same
            && is_counted
            && let Some(cost) = self.basis.cost_of_images(found, &self.recorded.prompt)
        {
            return (cost, Pricing::Known);
        }
        let Some(prices) = self.basis.prices(found) else { return (call.cost, Pricing::Unpriced) };
        let prices = match current {
            Some(current) if is_same => self.surcharged(prices, current, call),
            _ => prices,
        };
        // Fees for a vendor's own tools stay, and so do attempts that broke off.
        let was = call.prices.map_or(Usd::ZERO, |prices| prices.cost(&call.usage));
        let rest = if is_same { call.cost - was } else { Usd::ZERO };
        (prices.cost(&call.usage) + rest, Pricing::Known)
    }

    /// Prices of a draft with the surcharges of a call. Which those were is not recorded: they are the ones that
    /// make the prices that the model has without the draft those of the call.
    fn surcharged(&self, prices: Prices, current: &Model, call: &Call) -> Prices {
        let (Some(was), Some(plain)) = (call.prices, self.basis.prices(current)) else {
            return prices;
        };
        let fees = &current.config.fees;
        let mut sets = 0..1_u32 << Surcharge::ALL.len();
        let applies = |set: u32| move |surcharge: Surcharge| set & (1 << surcharge as u32) != 0;
        let found = sets.find(|set| fees.raised(plain, applies(*set)) == was);
        found.map_or(prices, |set| fees.raised(prices, applies(set)))
    }

    /// The fate of a blocked request that the draft lets through.
    pub(super) fn passed(&self, project: &DraftProject, report: &Report) -> Answer {
        let unknown =
            || Answer { fate: Fate::default(), pricing: Pricing::Unpriced, lacks_price: false };
        let was_routed = self.step.routing.as_ref().is_some_and(|was| was.tier.is_some());
        let is_routed = match self.step.api_endpoint {
            // Their models are named, and the record of a block does not have them.
            ApiEndpoint::Runs | ApiEndpoint::Embeddings | ApiEndpoint::Images => return unknown(),
            ApiEndpoint::Executions | ApiEndpoint::Stream => true,
            _ => was_routed,
        };
        let tier = self.classify(&project.state, report);
        let models = project.state.candidates(tier).unwrap_or_default();
        let Some(Called { model, lacks_price }) = self.called(&models, self.asks.price.draft)
        else {
            // One that may have named its model does not depend on the tier.
            return if is_routed { unresolved(tier) } else { unknown() };
        };
        let count = tokens::count(&self.recorded.prompt, "", model.config.context_window);
        let (cost, pricing) = match simulate::estimate(model, count.prompt) {
            Some(cost) => (cost, Pricing::Estimated),
            None => (Usd::ZERO, Pricing::Unpriced),
        };
        let model = Some(model.identifier.clone());
        let fate = Fate { block: None, tier: is_routed.then_some(tier), model, cost };
        Answer { fate, pricing, lacks_price: is_routed && lacks_price }
    }

    /// The tier that the request goes to by the draft.
    fn classify(&self, project: &ProjectState, report: &Report) -> Tier {
        let Recorded { prompt, placeholders, servers, .. } = &self.recorded;
        let shape = shape(prompt, prompt_strings::length(prompt));
        let routing = project.classify(&question(prompt, placeholders), &shape);
        let is_sensitive = report.pii_detected() && self.pii == PiiRule::Route;
        let vpc_only = servers.iter().any(|server| server.vpc_only);
        project.route(routing, is_sensitive, vpc_only, self.asks.secure).0.classified
    }
}

fn unresolved(tier: Tier) -> Answer {
    let answer = Answer::blocked(routing(tier.as_str()));
    Answer { fate: Fate { tier: Some(tier), ..answer.fate }, ..answer }
}

fn routing(kind: &str) -> Cause {
    Cause { category: ROUTING.to_owned(), kind: kind.to_owned() }
}
