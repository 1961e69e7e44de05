//! Choose: a tier and the models to try, or the model that the caller named.

use std::sync::{Arc, OnceLock};

use domain::conversation::Prompt;
use domain::ids::StepId;
use domain::model::Model;
use domain::step::Routing;
use domain::tier::Tier;
use routing::{DEFAULT_THRESHOLD, Shape, Unresolved};

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::pricing_basis::PricingBasis;
use crate::pipeline::refusal::UnrecordedRefusal;
use crate::pipeline::screen::Screened;
use crate::state::registry::ProjectState;
use crate::tools::mcp::round::Round;

/// A screened prompt with the models to try, in order.
#[derive(Debug)]
pub struct Routed {
    screened: Screened,
    /// The classification. If the caller named the model, it is computed while the provider works, so
    /// that a stream's first token is not delayed.
    routing: OnceLock<Routing>,
    models: Vec<Arc<Model>>,
}

/// Whether another model may answer for the one that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallbacks {
    /// Its fallbacks.
    Yes,
    /// None: the answer's model is the one that was requested.
    No,
}

/// The router's decision.
pub(crate) enum Choice {
    Route(Box<Routed>),
    Blocked(Box<UnrecordedRefusal>),
}

impl Screened {
    /// Routes a prompt by its classification, and by the models that its session has used.
    /// A tier counts only its models that the key may call: without any, the request is refused.
    pub(crate) fn choose(self, gateway: &Gateway) -> Result<Choice> {
        let project = self.context().caller.project.clone();
        let secure_trace = self.context().trace.is_sensitive();
        let vpc_only = self.context().mcp.as_ref().is_some_and(Round::vpc_only);
        let (mut routing, models) =
            project.route(self.classify(), self.is_sensitive(), vpc_only, secure_trace);
        Ok(match models {
            Ok(models) => {
                let models = self.context().caller.callable(models);
                if models.is_empty() {
                    return Err(Error::ModelNotAllowed);
                }
                let models = gateway.keep_warm(&self, &mut routing, models);
                Choice::Route(Box::new(Routed { screened: self, routing: routing.into(), models }))
            }
            Err(unresolved) => {
                let refused = self.refused(unresolved.to_string(), "routing", Some(routing));
                Choice::Blocked(Box::new(refused))
            }
        })
    }

    /// Takes the model that the caller named, and its fallbacks if the endpoint has them.
    pub(crate) fn direct(self, name: &str, fallbacks: Fallbacks) -> Result<Routed> {
        let screened = self;
        let project = screened.context().caller.project.clone();
        let first = project.model(name)?;
        let caller = &screened.context().caller;
        caller.check_model(first)?;
        let private_only =
            private_only(screened.context().trace.is_sensitive(), screened.security().pii, first);
        let models = project.named(first, private_only, fallbacks, screened.pricing_basis());
        let models = caller.callable(models);
        if models.is_empty() {
            return Err(Error::invalid(format!(
                "Model {name} may not be used here: the trace is sensitive or its region is not allowed"
            )));
        }
        Ok(Routed { screened, routing: OnceLock::new(), models })
    }
}

/// Whether only private models may answer a request that names its model: sensitive content that may not
/// leave stays with them, by fallbacks too.
pub(crate) fn private_only(asks_secure: bool, pii: bool, named: &Model) -> bool {
    asks_secure || (pii && named.is_private())
}

impl Screened {
    /// The classification of the prompt, with no tier chosen yet.
    fn classify(&self) -> Routing {
        let shape = shape(self.prompt(), self.length());
        self.context().caller.project.classify(&self.question(), &shape)
    }
}

/// The shape of a prompt whose judged strings have so many bytes.
pub(crate) fn shape(prompt: &Prompt, length: usize) -> Shape {
    let tools = prompt.params.get("tools").and_then(serde_json::Value::as_array);
    Shape { turns: prompt.messages.len(), total_chars: length, tools: tools.map_or(0, Vec::len) }
}

impl Routed {
    /// The routed prompt, classified as the same prompt was before.
    pub(crate) fn classified(self, routing: Routing) -> Self {
        Self { routing: OnceLock::from(Routing { tier: None, ..routing }), ..self }
    }

    /// The same prompt for the shadow model, beside a step of it.
    pub(super) fn of_shadow(&self, step: StepId, model: Arc<Model>) -> Self {
        let routing = Routing { tier: None, ..self.routing().clone() };
        let screened = self.screened.of_shadow(step);
        Self { screened, routing: routing.into(), models: vec![model] }
    }

    pub(crate) fn screened(&self) -> &Screened {
        &self.screened
    }

    /// The tier that was chosen; none if the caller named the model.
    pub(crate) fn tier(&self) -> Option<Tier> {
        self.routing.get()?.tier
    }

    /// The classification of the prompt.
    pub(crate) fn routing(&self) -> &Routing {
        self.routing.get_or_init(|| self.screened.classify())
    }

    pub(crate) fn models(&self) -> &[Arc<Model>] {
        &self.models
    }
}

impl ProjectState {
    /// The complexity from which a text is complex.
    pub(crate) fn complexity_threshold(&self) -> f64 {
        self.settings.complexity_threshold.unwrap_or(DEFAULT_THRESHOLD)
    }

    /// The classification of a text by the project's threshold, with no tier chosen yet.
    pub(crate) fn classify(&self, text: &str, shape: &Shape) -> Routing {
        let classification = routing::classify(text, shape);
        let threshold = self.complexity_threshold();
        Routing {
            tier: None,
            classified: routing::tier(&classification, threshold),
            complexity: classification.complexity,
            intent: classification.intent,
            reasons: classification.reasons,
        }
    }

    /// The tier that a text goes to, and the models to try there.
    pub(crate) fn route(
        &self,
        mut routing: Routing,
        pii: bool,
        vpc_only: bool,
        asks_secure: bool,
    ) -> (Routing, std::result::Result<Vec<Arc<Model>>, Unresolved>) {
        if let Some(reason) = routing::sensitive(pii, vpc_only, asks_secure) {
            routing.reasons.insert(0, reason.to_owned());
            routing.classified = Tier::Secure;
        }
        let tier = routing.classified;
        routing.tier = Some(tier);
        (routing, self.candidates(tier))
    }

    /// The models to try for a tier.
    pub(crate) fn candidates(
        &self,
        tier: Tier,
    ) -> std::result::Result<Vec<Arc<Model>>, Unresolved> {
        let find = |identifier: &str| self.models.get(identifier).map(|model| &**model);
        let (tiers, regions) =
            (&self.settings.routing_tiers, self.settings.allowed_regions.as_deref());
        let models = routing::resolve(tier, tiers, find, regions);
        models.map(|models| self.shared(&models))
    }

    /// The models to try for a call that names its model: that one, and its fallbacks if the endpoint has
    /// them. None if all of them are left out.
    pub(crate) fn named(
        &self,
        first: &Model,
        private_only: bool,
        fallbacks: Fallbacks,
        pricing_basis: PricingBasis,
    ) -> Vec<Arc<Model>> {
        let find = |identifier: &str| self.models.get(identifier).map(|model| &**model);
        let regions = self.settings.allowed_regions.as_deref();
        let mut chain = routing::chain(first, find, private_only, regions);
        if fallbacks == Fallbacks::No {
            chain.retain(|model| model.identifier == first.identifier);
        }
        chain.retain(|model| pricing_basis.fits(model));
        self.shared(&chain)
    }

    /// Whether there is more than one model to route to.
    pub(super) fn has_choice(&self) -> bool {
        self.models.len() > 1
    }

    /// The registry's own handles of some of its models.
    fn shared(&self, models: &[&Model]) -> Vec<Arc<Model>> {
        models.iter().filter_map(|model| self.models.get(&model.identifier).cloned()).collect()
    }
}
