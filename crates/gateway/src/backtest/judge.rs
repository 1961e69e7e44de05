//! One recorded request, judged by a draft. Nothing here reads or writes anything but its arguments.

mod answer;
mod round;

use checks::{GiveUp, Report};
use domain::conversation::Prompt;
use domain::ids::{KeyId, StepId};
use domain::money::Usd;
use domain::safety::Category;
use domain::step::{ApiEndpoint, Content, Step, StepKind, StepStatus};
use domain::tier::Tier;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::backtest::both::Both;
use crate::backtest::draft::DraftProject;
use crate::inference::embeddings::leak;
use crate::pipeline::pricing_basis::PricingBasis;
use crate::pipeline::screen::{Leaks, PiiRule, Replaces};
use crate::replay::recorded::{Recorded, pii_rule};
use crate::state::registry::ProjectState;
use crate::tools::mcp::round::lists;

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
    /// The type of the finding; of `routing` the tier that has no model, or `region` if the model that the
    /// request names and its fallbacks are in none that is allowed.
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
    /// The step of a tool that it follows, if it is a later round of a conversation with MCP tools.
    pub(super) round_after: Option<StepId>,
    /// Whether it needs a model with a price and there is none.
    pub(super) lacks_price: Both<bool>,
    pub(super) recorded: Fate,
    pub(super) draft: Fate,
    pub(super) pricing: Pricing,
}

/// Why a recorded request has no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unjudged {
    /// Its content holds no conversation that can be read, not all of what decides, or there is no memory for it.
    Unreadable,
    /// Judging was given up.
    Abandoned,
}

/// The demands on the model of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    /// Its trace asks for a private one.
    pub(super) secure: bool,
    /// A cap or a budget asks for one with a price.
    pub(super) price: Both<bool>,
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
    let answer = match request.block(&project.state, &report) {
        Some(block) => Answer::blocked(block),
        None => match &step.call {
            Some(call) => request.answered(project, call, &report),
            None => request.passed(project, &report),
        },
    };
    let lacks_price =
        Both { now: request.lacks_price(&project.current, &report), draft: answer.lacks_price };
    Ok(Judged {
        step: step.id,
        key: step.key,
        started_at: step.started_at,
        finished_at: step.finished_at,
        round_after: step.parent.filter(|_| request.is_round()),
        lacks_price,
        recorded: recorded(step),
        draft: answer.fate,
        pricing: answer.pricing,
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

/// The outcome of a request by the draft.
struct Answer {
    fate: Fate,
    pricing: Pricing,
    /// Whether it needs a model with a price, and gets one without.
    lacks_price: bool,
}

impl Answer {
    fn blocked(block: Cause) -> Self {
        let fate = Fate { block: Some(block), ..Fate::default() };
        Self { fate, pricing: Pricing::Known, lacks_price: false }
    }
}

/// A recorded request, read.
struct Request<'a> {
    step: &'a Step,
    recorded: Recorded,
    pii: PiiRule,
    basis: PricingBasis,
    /// The request by which its vendor charges for tools, if it went to the vendor as it came.
    passed: Option<Prompt>,
    asks: Asks,
}

impl<'a> Request<'a> {
    fn read(step: &'a Step, content: &[u8], asks: Asks) -> Option<Self> {
        if lies_outside(step) {
            return None;
        }
        let mut content: Content = serde_json::from_slice(content).ok()?;
        let passed = content.passed.take();
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
        let passed = passed.filter(|_| asks.price.now || asks.price.draft);
        let passed = passed.and_then(|passed| answer::passing(step.api_endpoint, &passed));
        Some(Self { step, recorded, pii, basis, passed, asks })
    }

    fn inspect(&self, project: &ProjectState, give_up: GiveUp<'_>) -> Report {
        let Recorded { prompt, placeholders, servers, .. } = &self.recorded;
        let is_listed = |tool: &Value| lists(servers, tool);
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
}
