//! Simulation: the route of a text and its estimated cost. Nothing is called, spent or recorded.

use checks::{GiveUp, Part};
use domain::ids::ProjectId;
use domain::model::Model;
use domain::money::Usd;
use domain::safety::Origin;
use domain::tier::Tier;
use futures_util::future::BoxFuture;
use routing::Shape;
use serde_json::{Map, Value};

use crate::capacity::offload::{offload, offload_judging};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::tokens;
use crate::state::caller::Caller;
use crate::state::known_traces::asks_secure;
use domain::conversation::Prompt;

/// Completion tokens that an estimate assumes.
const TYPICAL_COMPLETION: u64 = 256;

/// A request to simulate.
#[derive(Debug)]
pub struct Simulation {
    /// The text.
    pub input: String,
    /// Must be the key's own project.
    pub project: ProjectId,
    /// Read as a trace's metadata is.
    pub metadata: Option<Map<String, Value>>,
}

/// The simulated result.
#[derive(Debug)]
pub enum Simulated {
    /// A model would be called.
    Resolved {
        /// The tier.
        tier: Tier,
        /// The first model of the path.
        model: String,
        /// The estimated cost; `None` when the model has no price.
        estimated_cost: Option<Usd>,
        /// The models that would be tried, in order.
        fallback_path: Vec<String>,
        /// 0 to 1.
        risk_score: f64,
        /// 0 to 1.
        complexity: f64,
        /// Why, in words.
        reasons: Vec<String>,
    },
    /// Safety would refuse it.
    Blocked {
        /// Why.
        reason: String,
    },
    /// No model is configured for it.
    Unconfigured {
        /// The tier.
        tier: Tier,
        /// Why.
        reason: String,
    },
}

/// The estimated cost of a call with a prompt of so many tokens; `None` when the model has no price.
pub(crate) fn estimate(model: &Model, prompt_tokens: u64) -> Option<Usd> {
    let completion = model.config.max_output_tokens.unwrap_or(u64::MAX).min(TYPICAL_COMPLETION);
    routing::estimate_cost(model, prompt_tokens, completion)
}

impl Gateway {
    /// Reports the result of an execution with this text.
    pub fn simulate<'a>(
        &'a self,
        caller: &'a Caller,
        simulation: &'a Simulation,
    ) -> BoxFuture<'a, Result<Simulated>> {
        Box::pin(async move {
            let project = &caller.project;
            if simulation.project != project.id() {
                return Err(Error::NotFound);
            }
            let parts = [Part { origin: Origin::User, text: &simulation.input }];
            let shape = Shape { turns: 1, total_chars: simulation.input.len(), tools: 0 };
            let policy = &project.policy;
            let judge =
                |give_up: GiveUp<'_>| policy.conclude([policy.judge_until(&parts, give_up)]);
            let report =
                offload_judging(caller.share(), policy.effort(simulation.input.len()), judge)
                    .await?;
            if let Some(block) = report.block {
                return Ok(Simulated::Blocked { reason: block.reason });
            }
            let classify = || {
                let routing = project.classify(&simulation.input, &shape);
                let question = Prompt::question(simulation.input.clone());
                (routing, tokens::count(&question, "", None).prompt)
            };
            let (routing, prompt) =
                offload(caller.share(), simulation.input.len(), classify).await?;
            let asks_secure =
                asks_secure(simulation.metadata.as_ref().and_then(|m| m.get("sensitivity")));
            let (routing, models) =
                project.route(routing, report.pii_detected(), false, asks_secure);
            let tier = routing.classified;
            let mut models = match models {
                Ok(models) => caller.callable(models),
                Err(unresolved) => {
                    return Ok(Simulated::Unconfigured { tier, reason: unresolved.to_string() });
                }
            };
            if models.is_empty() {
                return Err(Error::ModelNotAllowed);
            }
            // The path of an execution leaves out what the key's cap or the project's budget forbids.
            let unpriced = models.iter().find_map(|model| caller.check_price(model).err());
            models.retain(|model| caller.check_price(model).is_ok());
            let none = || unpriced.unwrap_or_else(|| Error::Internal("an empty path".to_owned()));
            let first = models.first().ok_or_else(none)?;
            Ok(Simulated::Resolved {
                tier,
                model: first.identifier.clone(),
                estimated_cost: estimate(first, prompt),
                fallback_path: models.iter().map(|model| model.identifier.clone()).collect(),
                risk_score: report.risk_score,
                complexity: routing.complexity,
                reasons: routing.reasons,
            })
        })
    }
}
