//! Choose: a tier and the models to try, or the model that the caller named.

use std::sync::Arc;

use domain::model::Model;
use domain::step::Routing;
use domain::tier::Tier;
use routing::{DEFAULT_THRESHOLD, Shape};

use super::Screened;
use crate::error::Result;

/// A screened prompt with the models to try, in order.
#[derive(Debug)]
pub struct Routed {
    screened: Screened,
    routing: Routing,
    models: Vec<Arc<Model>>,
}

/// Whether another model may answer for the one that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallbacks {
    /// Its fallbacks.
    Yes,
    /// None: the answer's model is the one that was asked for.
    No,
}

/// What the router says.
pub(crate) enum Choice {
    Route(Box<Routed>),
    /// The reason, and what it concerns.
    Blocked(String, Box<Routing>, Box<Screened>),
}

impl Screened {
    /// Routes a prompt by what it is like.
    pub(crate) fn choose(self) -> Choice {
        let screened = self;
        let project = screened.turn().caller.project.clone();
        let settings = &project.settings;
        let mut routing = classify(&screened, settings.complexity_threshold);
        let secure_trace = screened.turn().trace.is_sensitive();
        let tier = match routing::sensitive(screened.is_sensitive(), false, secure_trace) {
            Some(reason) => {
                routing.reasons.insert(0, reason.to_owned());
                Tier::Secure
            }
            None => routing.classified,
        };
        routing.tier = Some(tier);
        routing.classified = tier;
        let find = |identifier: &str| project.models.get(identifier).map(|model| &**model);
        let regions = settings.allowed_regions.as_deref();
        match routing::resolve(tier, &settings.routing_tiers, find, regions) {
            Ok(models) => {
                let shared = |model: &&Model| project.models.get(&model.identifier).cloned();
                let models = models.iter().filter_map(shared).collect();
                Choice::Route(Box::new(Routed { screened, routing, models }))
            }
            Err(unresolved) => {
                Choice::Blocked(unresolved.to_string(), Box::new(routing), Box::new(screened))
            }
        }
    }

    /// Takes the model that the caller named, and its fallbacks where the endpoint has them.
    pub(crate) fn direct(self, identifier: &str, fallbacks: Fallbacks) -> Result<Routed> {
        let screened = self;
        let project = screened.turn().caller.project.clone();
        let first = project.model(identifier)?;
        let routing = classify(&screened, project.settings.complexity_threshold);
        let find = |identifier: &str| project.models.get(identifier).map(|model| &**model);
        // Sensitive content that may not leave stays with private models, by fallbacks too.
        let private_only =
            screened.turn().trace.is_sensitive() || (screened.security().pii && first.is_private());
        let regions = project.settings.allowed_regions.as_deref();
        let chain = routing::chain(first, find, private_only, regions);
        let shared = |model: &&Model| project.models.get(&model.identifier).cloned();
        let mut models: Vec<_> = chain.iter().filter_map(shared).collect();
        if fallbacks == Fallbacks::No {
            models.retain(|model| model.identifier == identifier);
        }
        if models.is_empty() {
            return Err(crate::Error::invalid(format!(
                "Model {identifier} may not be used here: the trace is sensitive or its region is not allowed"
            )));
        }
        Ok(Routed { screened, routing, models })
    }
}

impl Routed {
    pub(crate) fn screened(&self) -> &Screened {
        &self.screened
    }

    pub(crate) fn routing(&self) -> &Routing {
        &self.routing
    }

    pub(crate) fn models(&self) -> &[Arc<Model>] {
        &self.models
    }
}

/// What a prompt is like, with no tier chosen yet.
fn classify(screened: &Screened, threshold: Option<f64>) -> Routing {
    let prompt = screened.prompt();
    let shape = Shape {
        turns: prompt.messages.len(),
        total_chars: screened.length(),
        tools: prompt.params.get("tools").and_then(serde_json::Value::as_array).map_or(0, Vec::len),
    };
    let classification = routing::classify(&screened.question(), &shape);
    let classified = routing::tier(&classification, threshold.unwrap_or(DEFAULT_THRESHOLD));
    Routing {
        tier: None,
        classified,
        complexity: classification.complexity,
        intent: classification.intent,
        reasons: classification.reasons,
    }
}
