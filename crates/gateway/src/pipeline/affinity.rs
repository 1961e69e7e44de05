//! The session of a call, and its influence on the models and endpoints that are tried.

use std::sync::Arc;
use std::time::Duration;

use domain::model::{Model, Provider};
use domain::step::{ApiEndpoint, Routing, StepStatus};
use domain::tier::Tier;
use domain::time::Timestamp;
use domain::usage::Usage;
use routing::{Affinity, Candidates, Order, Warm};

use crate::gateway::Gateway;
use crate::pipeline::choose::Routed;
use crate::pipeline::fund::Funded;
use crate::pipeline::screen::Screened;
use crate::pipeline::tokens;
use crate::state::session::SessionId;

/// The time for which a provider keeps a prompt in its cache, and that for which it keeps one that is
/// written for an hour.
const WARM: Duration = Duration::from_mins(5);
const WARM_FOR_AN_HOUR: Duration = Duration::from_hours(1);
/// The shortest prompt that a provider keeps in its cache without being asked, in tokens.
const LEAST_KEPT: u64 = 1024;

impl Screened {
    /// The session that the call belongs to, if its calls share the beginning of a conversation. The
    /// calls of other endpoints have nothing in common that a provider could keep.
    pub(super) fn session(&self) -> Option<SessionId> {
        let context = self.context();
        let is_alone = matches!(
            context.api_endpoint,
            ApiEndpoint::Runs | ApiEndpoint::Embeddings | ApiEndpoint::Images | ApiEndpoint::Replay
        );
        (!is_alone).then(|| context.session(self.prompt()))
    }
}

impl Routed {
    /// The order of a model's endpoints for this call, the `number`th of the gateway's.
    pub(super) fn endpoint_order(&self, number: u64) -> Order {
        let session = self.screened().session();
        session.map_or(Order::Call(number), |session| Order::Session(session.bytes()))
    }
}

impl Gateway {
    /// Puts the model that a session used last before the others, if that is worth it, and notes the
    /// reason.
    pub(super) fn keep_warm(
        &self,
        screened: &Screened,
        routing: &mut Routing,
        models: Vec<Arc<Model>>,
    ) -> Vec<Arc<Model>> {
        let caller = &screened.context().caller;
        let project = &caller.project;
        let Some(tier) = routing.tier.filter(|_| project.has_choice()) else { return models };
        let now = self.clock.now();
        let known = || self.warm_models.get(screened.session()?, now);
        let Some(mut warm) = known() else { return models };
        // No more can be in the cache than the prompt has now: few texts have two bytes a token.
        let prompt = tokens::estimate(screened.length());
        warm.cached = warm.cached.min(prompt.saturating_mul(2));
        let goes_down = (warm.tier, tier) == (Tier::Complex, Tier::Simple);
        let complex = if goes_down {
            caller.callable(project.candidates(Tier::Complex).unwrap_or_default())
        } else {
            Vec::new()
        };
        let regions = project.settings.allowed_regions.as_deref();
        let is_down = |model: &Model| self.upstream.is_down(model, regions, now);
        let chosen = Candidates { tier, models };
        let (kept, reason) = match routing::affinity(&warm, prompt, &chosen, &complex, is_down) {
            Affinity::Kept(kept, reason) => (kept, reason),
            Affinity::Left(reason) => (chosen, reason),
            Affinity::Free => return chosen.models,
        };
        routing.tier = Some(kept.tier);
        routing.reasons.push(reason);
        kept.models
    }

    /// Notes what the provider of a call that was answered has of the session's conversation now.
    pub(super) fn note_warm(&self, funded: &Funded, status: StepStatus, usage: &Usage) {
        let routed = funded.routed();
        let project = &routed.screened().context().caller.project;
        // A caller who names the model leaves nothing to decide the next time.
        let Some(tier) = routed.tier().filter(|_| project.has_choice()) else { return };
        if status != StepStatus::Completed {
            return;
        }
        let Some(session) = routed.screened().session() else { return };
        let model = funded.model();
        let cached = cached(model.provider, usage);
        let warm = Warm { model: model.id, tier, cached, completion: usage.completion };
        self.warm_models.note(session, warm, warm_until(self.clock.now(), usage));
    }
}

/// The tokens of a prompt that its provider has in its cache now.
fn cached(provider: Provider, usage: &Usage) -> u64 {
    let reported = usage.cached + usage.cache_write;
    match provider {
        Provider::Openai | Provider::Azure | Provider::Gemini | Provider::Internal
            if usage.prompt >= LEAST_KEPT =>
        {
            usage.prompt
        }
        _ => reported,
    }
}

/// The time until which they are in the cache.
fn warm_until(now: Timestamp, usage: &Usage) -> Timestamp {
    now.plus(if usage.cache_write_1h > 0 { WARM_FOR_AN_HOUR } else { WARM })
}

#[cfg(test)]
#[path = "affinity_tests.rs"]
mod tests;
