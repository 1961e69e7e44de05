//! Simulation: the route of a text and its estimated cost. Nothing is called, spent or recorded.

use std::sync::Arc;

use checks::{GiveUp, Part};
use domain::conversation::Prompt;
use domain::ids::ProjectId;
use domain::model::Model;
use domain::money::Usd;
use domain::safety::Origin;
use domain::tier::Tier;
use futures_util::future::BoxFuture;
use routing::Shape;
use serde_json::{Map, Value};

use crate::capacity::offload::{Share, offload, offload_judging};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::tokens;
use crate::state::caller::Caller;
use crate::state::known_traces::asks_secure;
use crate::state::member::Member;
use crate::state::registry::ProjectState;

/// The longest text that a member tries, in bytes.
const LARGEST_TRIAL: usize = 64 * 1024;
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

/// A text whose route is looked for.
#[derive(Clone, Copy)]
struct Trial<'a> {
    text: &'a str,
    /// Whether its trace asks for a private model.
    is_sensitive: bool,
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
            if simulation.project != caller.project.id() {
                return Err(Error::NotFound);
            }
            let metadata = simulation.metadata.as_ref();
            let is_sensitive = asks_secure(metadata.and_then(|fields| fields.get("sensitivity")));
            let trial = Trial { text: &simulation.input, is_sensitive };
            self.simulated(&caller.project, Some(caller), trial).await
        })
    }

    /// Reports the result of an execution with this text for a member, whatever the key.
    pub async fn simulate_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        text: &str,
        is_sensitive: bool,
    ) -> Result<Simulated> {
        let project = self.visible_project(member, project)?;
        if !member.role.may_try_settings() {
            return Err(Error::Forbidden);
        }
        if text.len() > LARGEST_TRIAL {
            return Err(Error::invalid(format!("A text to try has at most {LARGEST_TRIAL} bytes")));
        }
        self.simulated(&project, None, Trial { text, is_sensitive }).await
    }

    /// The result for a caller, if it is one's; else as far as the project decides.
    async fn simulated(
        &self,
        project: &Arc<ProjectState>,
        caller: Option<&Caller>,
        Trial { text, is_sensitive }: Trial<'_>,
    ) -> Result<Simulated> {
        let share = caller.map_or_else(|| Share::of_project(project.id()), Caller::share);
        let parts = [Part { origin: Origin::User, text }];
        let shape = Shape { turns: 1, total_chars: text.len(), tools: 0 };
        let policy = &project.policy;
        let judge = |give_up: GiveUp<'_>| policy.conclude([policy.judge_until(&parts, give_up)]);
        let report = offload_judging(share, policy.effort(text.len()), judge).await?;
        if let Some(block) = report.block {
            return Ok(Simulated::Blocked { reason: block.reason });
        }
        let classify = || {
            let routing = project.classify(text, &shape);
            let question = Prompt::question(text.to_owned());
            (routing, tokens::count(&question, "", None).prompt)
        };
        let (routing, prompt) = offload(share, text.len(), classify).await?;
        let (routing, models) = project.route(routing, report.pii_detected(), false, is_sensitive);
        let tier = routing.classified;
        let mut models = match models {
            Ok(models) => models,
            Err(unresolved) => {
                return Ok(Simulated::Unconfigured { tier, reason: unresolved.to_string() });
            }
        };
        if let Some(caller) = caller {
            models = caller.callable(models);
            if models.is_empty() {
                return Err(Error::ModelNotAllowed);
            }
            // The path of an execution leaves out what the key's cap or the project's budget forbids.
            let unpriced = models.iter().find_map(|model| caller.check_price(model).err());
            models.retain(|model| caller.check_price(model).is_ok());
            if let Some(unpriced) = unpriced.filter(|_| models.is_empty()) {
                return Err(unpriced);
            }
        }
        let first = models.first().ok_or_else(|| Error::Internal("an empty path".to_owned()))?;
        Ok(Simulated::Resolved {
            tier,
            model: first.identifier.clone(),
            estimated_cost: estimate(first, prompt),
            fallback_path: models.iter().map(|model| model.identifier.clone()).collect(),
            risk_score: report.risk_score,
            complexity: routing.complexity,
            reasons: routing.reasons,
        })
    }
}
