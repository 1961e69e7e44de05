//! Steps for tests.

use domain::ids::{ProjectId, StepId, TraceId};
use domain::model::Provider;
use domain::money::Usd;
use domain::step::{ApiEndpoint, Call, Routing, Security, Step, StepKind, StepStatus};
use domain::tier::{Intent, Tier};
use domain::time::Timestamp;
use domain::usage::Usage;

/// A step that starts at `id` seconds and takes no time.
pub(crate) fn step(id: i64, kind: StepKind, parent: Option<i64>) -> Step {
    Step {
        id: StepId(id),
        trace: "01890a5d-ac96-774b-bcce-b302099a8057".parse::<TraceId>().unwrap(),
        project: ProjectId(1),
        key: None,
        kind,
        parent: parent.map(StepId),
        source: None,
        trace_context: None,
        attributes: None,
        api_endpoint: ApiEndpoint::Executions,
        status: StepStatus::Completed,
        reason: None,
        error: None,
        started_at: Timestamp(id * 1_000_000),
        finished_at: Timestamp(id * 1_000_000),
        routing: None,
        security: Security::default(),
        call: None,
        user_rating: None,
    }
}

/// A run step with the input fingerprint `print` on `model`, with 1,000 prompt and no completion
/// tokens.
pub(crate) fn run(id: i64, model: &str, cost: i64, millis: i64, print: i64) -> Step {
    let mut step = step(id, StepKind::Run, None);
    step.finished_at = Timestamp(step.started_at.0 + millis * 1000);
    step.routing = Some(Routing {
        tier: None,
        classified: Tier::Simple,
        complexity: 0.1,
        intent: Intent::Answer,
        reasons: Vec::new(),
    });
    step.call = Some(Call {
        infrastructure: if model.starts_with('p') { "private" } else { "public_cloud" }.into(),
        is_public: true,
        usage: Usage { prompt: 1000, ..Usage::default() },
        cost: Usd(cost),
        input_fingerprint: Some(print),
        output_fingerprint: Some(print),
        ..Call::of(model.into(), Provider::Openai)
    });
    step
}

/// A log step that carries a rating.
pub(crate) fn rated(id: i64, rating: f64) -> Step {
    Step { user_rating: Some(rating), ..step(id, StepKind::Log, None) }
}

/// A tool call under `parent`, then the run (`id` + 1) that carries its results.
pub(crate) fn round(id: i64, parent: i64) -> [Step; 2] {
    let mut follow_up = run(id + 1, "small", 10, 100, id + 1);
    follow_up.parent = Some(StepId(id));
    [step(id, StepKind::ToolCall, Some(parent)), follow_up]
}

/// A run and `rounds` tool rounds after it, one under the other.
pub(crate) fn agent(rounds: i64) -> Vec<Step> {
    let mut steps = vec![run(1, "small", 10, 100, 1)];
    for at in 1..=rounds {
        steps.extend(round(2 * at, 2 * at - 1));
    }
    steps
}
