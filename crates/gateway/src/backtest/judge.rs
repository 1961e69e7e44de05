//! One recorded request, judged by a draft. Nothing here reads or writes anything but its arguments.

use std::sync::Arc;

use checks::{GiveUp, Report};
use domain::conversation::Role;
use domain::fees::Surcharge;
use domain::ids::{KeyId, StepId};
use domain::model::Model;
use domain::money::{Prices, Usd};
use domain::safety::Category;
use domain::step::{ApiEndpoint, Call, Content, Step, StepKind, StepStatus};
use domain::tier::Tier;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::backtest::draft::DraftProject;
use crate::inference::embeddings::leak;
use crate::inference::simulate;
use crate::pipeline::choose::shape;
use crate::pipeline::pricing_basis::PricingBasis;
use crate::pipeline::screen::{Leaks, PiiRule, Replaces, question};
use crate::pipeline::tokens;
use crate::replay::recorded::{Recorded, pii_rule};
use crate::safety::prompt_strings;
use crate::state::registry::ProjectState;
use crate::tools::mcp::round::{Server, lists};

/// The category of a block that is not of safety.
const ROUTING: &str = "routing";
/// The type of a block by a pattern that took too long.
const SLOW_PATTERN: &str = "slow_pattern";
/// The type of a block of an image by a term.
const BLOCKED_TERM: &str = "blocked_term";

/// Whether a step is a request that a backtest judges. The steps of replays name their sources.
pub(super) fn counts(step: &Step) -> bool {
    let is_primary = step.call.as_ref().is_some_and(|call| !call.shadow);
    let is_request = match step.kind {
        StepKind::Blocked => true,
        StepKind::Run => step.status == StepStatus::Completed && is_primary,
        StepKind::Check | StepKind::Log | StepKind::ToolCall => false,
    };
    is_request && step.source.is_none()
}

/// The cause of a block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Cause {
    /// A category of findings, or `routing`.
    pub(crate) category: String,
    /// The type of the finding; of `routing` the tier that has no model.
    pub(crate) kind: String,
}

/// The outcome of a request: in its record, or by the draft.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    /// Why it is blocked, if it is.
    pub(super) block: Option<Cause>,
    /// The tier that it is routed to; none if it names its model.
    pub(super) tier: Option<Tier>,
    /// The model that answers, if it is known.
    pub(super) model: Option<String>,
    /// The cost of the answer.
    pub(super) cost: Usd,
}

/// How much is known of the cost by the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pricing {
    /// It follows from recorded tokens, or is the recorded cost.
    Known,
    /// There are no recorded tokens: it is an estimate.
    Estimated,
    /// The model has no price, or is not known. A recorded call keeps its cost; another one costs
    /// nothing.
    Unpriced,
}

/// A recorded request, and what the draft makes of it.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) step: StepId,
    pub(super) key: Option<KeyId>,
    pub(super) started_at: Timestamp,
    pub(super) finished_at: Timestamp,
    /// Whether it is a later round of a conversation with MCP tools.
    pub(super) is_round: bool,
    /// Whether it needs a model with a price and there is none.
    pub(super) lacks_price: bool,
    pub(super) recorded: Fate,
    pub(super) draft: Fate,
    pub(super) pricing: Pricing,
}

/// Why a recorded request has no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unjudged {
    /// Its content holds no conversation that can be read.
    Unreadable,
    /// Judging was given up.
    Abandoned,
}

/// The demands on the model of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    /// Its trace asks for a private one.
    pub(super) secure: bool,
    /// A cap or a budget of the draft asks for one with a price.
    pub(super) price: bool,
}

/// Judges a recorded request.
pub(super) fn judge(
    project: &DraftProject,
    step: &Step,
    content: &[u8],
    asks: Asks,
    give_up: GiveUp<'_>,
) -> Result<Judged, Unjudged> {
    let request = Request::read(step, content, asks).ok_or(Unjudged::Unreadable)?;
    let report = request.inspect(&project.state, give_up);
    if report.abandoned {
        return Err(Unjudged::Abandoned);
    }
    let (draft, pricing) = match request.block(&project.state, &report) {
        Some(block) => (Fate { block: Some(block), ..Fate::default() }, Pricing::Known),
        None => match &step.call {
            Some(call) => request.answered(project, call, &report),
            None => request.passed(project, &report),
        },
    };
    let lacks_price = request.lacks_price(project, &draft);
    Ok(Judged {
        step: step.id,
        key: step.key,
        started_at: step.started_at,
        finished_at: step.finished_at,
        is_round: request.is_round(),
        lacks_price,
        recorded: recorded(step),
        draft,
        pricing,
    })
}

/// The outcome of a request by its record.
fn recorded(step: &Step) -> Fate {
    let tier = step.routing.as_ref().and_then(|routing| routing.tier);
    match &step.call {
        Some(call) => Fate { block: None, tier, model: Some(call.model.clone()), cost: call.cost },
        None => Fate { block: Some(recorded_cause(step)), tier, ..Fate::default() },
    }
}

/// The cause of a recorded block. Its findings are recorded, and which of them was the cause is not: it is
/// the one that the reason names, else the strongest.
fn recorded_cause(step: &Step) -> Cause {
    if let Some(tier) = step.routing.as_ref().and_then(|routing| routing.tier) {
        return Cause { category: ROUTING.to_owned(), kind: tier.as_str().to_owned() };
    }
    let reason = step.reason.as_deref().unwrap_or_default();
    let text = |finding: &Value, name: &str| {
        finding.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let findings = step.security.findings.as_ref().and_then(Value::as_array);
    let order = |finding: &&Value| {
        let kind = text(finding, "type");
        let named = reason.contains(&kind) || reason.contains(&kind.replace('_', " "));
        let score = finding.get("score").and_then(Value::as_f64).unwrap_or_default();
        (named, score)
    };
    let strongest = findings.into_iter().flatten().max_by(|one, other| {
        let (one, other) = (order(one), order(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    match strongest {
        Some(finding) => Cause { category: text(finding, "category"), kind: text(finding, "type") },
        None if step.api_endpoint == ApiEndpoint::Images => policy(BLOCKED_TERM),
        None => policy(SLOW_PATTERN),
    }
}

/// Whether something was found in a blocked request outside its messages, which are all that is stored of it:
/// judged without that it would seem to pass.
fn lies_outside(step: &Step) -> bool {
    let findings = step.security.findings.as_ref().and_then(Value::as_array);
    let is_outside =
        |finding: &Value| finding.get("field").is_some() && finding.get("message").is_none();
    step.kind == StepKind::Blocked && findings.into_iter().flatten().any(is_outside)
}

fn policy(kind: &str) -> Cause {
    Cause { category: Category::Policy.as_str().to_owned(), kind: kind.to_owned() }
}

/// A recorded request, read.
struct Request<'a> {
    step: &'a Step,
    recorded: Recorded,
    servers: Vec<Server>,
    pii: PiiRule,
    basis: PricingBasis,
    asks: Asks,
}

impl<'a> Request<'a> {
    fn read(step: &'a Step, content: &[u8], asks: Asks) -> Option<Self> {
        if lies_outside(step) {
            return None;
        }
        let mut content: Content = serde_json::from_slice(content).ok()?;
        let servers = content.mcp.take().map(serde_json::from_value).transpose().ok()?;
        // Texts to be embedded are no messages.
        if let Some(Value::Array(texts)) = &mut content.input {
            for text in texts.iter_mut().filter(|text| text.is_string()) {
                *text = json!({"role": "user", "content": text.take()});
            }
        }
        let recorded = Recorded::read(content, step.api_endpoint)?;
        let pii = match step.api_endpoint {
            ApiEndpoint::Embeddings | ApiEndpoint::Images => PiiRule::Settings,
            _ => pii_rule(step),
        };
        let basis = PricingBasis::of(step.api_endpoint, &recorded.prompt);
        Some(Self { step, recorded, servers: servers.unwrap_or_default(), pii, basis, asks })
    }

    /// Whether the gateway sent it itself, with the results of tools that it had run.
    fn is_round(&self) -> bool {
        let last = self.recorded.prompt.messages.last();
        self.step.parent.is_some()
            && self.servers.iter().any(|server| server.runs)
            && last.is_some_and(|message| message.role == Role::Tool)
    }

    /// Whether it needs a model with a price, and gets one without.
    fn lacks_price(&self, project: &DraftProject, draft: &Fate) -> bool {
        // A blocked request without a tier may have named any model.
        let is_known = self.step.call.is_some() || draft.tier.is_some();
        let model = draft.model.as_ref().filter(|_| self.asks.price && is_known);
        let model = model.and_then(|model| project.state.models.get(model));
        model.is_some_and(|model| !self.basis.is_priced(model))
    }

    /// The first of a tier's models that may be called; one without a price only if all are.
    fn first<'m>(&self, models: &'m [Arc<Model>]) -> Option<&'m Arc<Model>> {
        models.iter().find(|model| self.fits(model)).or(models.first())
    }

    fn fits(&self, model: &Model) -> bool {
        !self.asks.price || self.basis.is_priced(model)
    }

    fn inspect(&self, project: &ProjectState, give_up: GiveUp<'_>) -> Report {
        let Recorded { prompt, placeholders, .. } = &self.recorded;
        let is_listed = |tool: &Value| lists(&self.servers, tool);
        project.inspect_recorded(prompt, placeholders, &is_listed, give_up)
    }

    /// Why the draft blocks it, if it does.
    fn block(&self, project: &ProjectState, report: &Report) -> Option<Cause> {
        let of = |finding: &checks::Finding| Cause {
            category: finding.category.as_str().to_owned(),
            kind: finding.kind.to_string(),
        };
        if let Some(block) = &report.block {
            let finding = block.finding.and_then(|index| report.findings.get(index));
            return Some(finding.map_or_else(|| policy(SLOW_PATTERN), of));
        }
        match self.step.api_endpoint {
            ApiEndpoint::Embeddings => {
                let replaces = Replaces::of(project.policy.safety(), self.pii);
                // The model of a blocked request is not recorded; those for embeddings are public as a rule.
                let is_public = self.step.call.as_ref().is_none_or(|call| call.is_public);
                let leaks = Leaks::of(report, replaces);
                leak(leaks, is_public)?;
                let is_cause = |finding: &&checks::Finding| match finding.category {
                    Category::Secret => leaks.secret,
                    Category::Pii => !leaks.secret && finding.high_sensitivity,
                    Category::Injection | Category::Policy => false,
                };
                report.findings.iter().find(is_cause).map(of)
            }
            ApiEndpoint::Images => {
                // The terms are those of the prompt as the caller wrote it.
                let Recorded { prompt, placeholders, .. } = &self.recorded;
                let violates = |text: &str| {
                    let original = placeholders.originals_in(text);
                    let text = original.as_deref().unwrap_or(text);
                    !project.blocked_terms.violations(text).is_empty()
                };
                prompt.texts().any(violates).then(|| policy(BLOCKED_TERM))
            }
            _ => None,
        }
    }

    /// The fate of a request that a model has answered.
    fn answered(&self, project: &DraftProject, call: &Call, report: &Report) -> (Fate, Pricing) {
        let was = self.step.routing.as_ref();
        let Some((was, tier)) = was.and_then(|was| Some((was, was.tier?))) else {
            let (cost, pricing) = self.cost(project, call, &call.model);
            let model = Some(call.model.clone());
            return (Fate { block: None, tier: None, model, cost }, pricing);
        };
        let classified = self.classify(&project.state, report);
        // A call that classifies as it did then goes where it went: a session may have stayed with the
        // model of another tier.
        let tier = if classified == was.classified { tier } else { classified };
        let Ok(models) = project.state.candidates(tier) else {
            return (unresolved(tier), Pricing::Known);
        };
        // Likewise within a tier whose models the draft does not change: a model may have been out of order.
        let stays = project.unchanged.contains(&tier)
            && models.iter().any(|model| model.identifier == call.model && self.fits(model));
        let model = match self.first(&models) {
            Some(first) if !stays => &first.identifier,
            _ => &call.model,
        };
        let (cost, pricing) = self.cost(project, call, model);
        (Fate { block: None, tier: Some(tier), model: Some(model.clone()), cost }, pricing)
    }

    /// The cost of a call with its recorded tokens, made by a model of the draft.
    fn cost(&self, project: &DraftProject, call: &Call, model: &str) -> (Usd, Pricing) {
        let is_same = model == call.model;
        let current = project.priced.get(model);
        if is_same && current.is_none() {
            return (call.cost, Pricing::Known);
        }
        let found = project.state.models.get(model);
        if is_same && found.is_some_and(|model| self.basis.image_price(model).is_some()) {
            // It is charged by the image, and a draft has only prices of tokens.
            return (call.cost, Pricing::Known);
        }
        let Some(prices) = found.and_then(|model| self.basis.prices(model)) else {
            return (call.cost, Pricing::Unpriced);
        };
        let prices = match current {
            Some(current) if is_same => self.surcharged(prices, current, call),
            _ => prices,
        };
        // Fees for a vendor's own tools stay, and so does what is charged by the image.
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
    fn passed(&self, project: &DraftProject, report: &Report) -> (Fate, Pricing) {
        let unknown = (Fate::default(), Pricing::Unpriced);
        let was_routed = self.step.routing.as_ref().is_some_and(|was| was.tier.is_some());
        let is_routed = match self.step.api_endpoint {
            // Their models are named, and the record of a block does not have them.
            ApiEndpoint::Runs | ApiEndpoint::Embeddings | ApiEndpoint::Images => return unknown,
            ApiEndpoint::Executions | ApiEndpoint::Stream => true,
            _ => was_routed,
        };
        let tier = self.classify(&project.state, report);
        let models = project.state.candidates(tier).unwrap_or_default();
        let Some(model) = self.first(&models) else {
            // One that may have named its model does not depend on the tier.
            return if is_routed { (unresolved(tier), Pricing::Known) } else { unknown };
        };
        let count = tokens::count(&self.recorded.prompt, "", model.config.context_window);
        let (cost, pricing) = match simulate::estimate(model, count.prompt) {
            Some(cost) => (cost, Pricing::Estimated),
            None => (Usd::ZERO, Pricing::Unpriced),
        };
        let model = Some(model.identifier.clone());
        (Fate { block: None, tier: is_routed.then_some(tier), model, cost }, pricing)
    }

    /// The tier that the request goes to by the draft.
    fn classify(&self, project: &ProjectState, report: &Report) -> Tier {
        let Recorded { prompt, placeholders, .. } = &self.recorded;
        let shape = shape(prompt, prompt_strings::length(prompt));
        let routing = project.classify(&question(prompt, placeholders), &shape);
        let is_sensitive = report.pii_detected() && self.pii == PiiRule::Route;
        let vpc_only = self.servers.iter().any(|server| server.vpc_only);
        project.route(routing, is_sensitive, vpc_only, self.asks.secure).0.classified
    }
}

fn unresolved(tier: Tier) -> Fate {
    let block = Cause { category: ROUTING.to_owned(), kind: tier.as_str().to_owned() };
    Fate { block: Some(block), tier: Some(tier), ..Fate::default() }
}
