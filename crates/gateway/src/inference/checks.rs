//! Checks: the safety verdict on a text, recorded as a step.

use checks::{Finding, GiveUp, Part};
use domain::ids::StepId;
use domain::safety::{Category, Origin};
use domain::step::{ApiEndpoint, Security, Step, StepKind};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::capacity::offload::offload_judging;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::pipeline::stored_content::Output;
use crate::safety::inspection::security;
use crate::safety::location::{Located, cause};
use crate::state::caller::Caller;

/// The verdict on a text.
#[derive(Debug)]
pub struct CheckResult {
    /// Whether a request with this text would be let through.
    pub allowed: bool,
    /// Why not.
    pub reason: Option<String>,
    /// The step that records the check.
    pub step: StepId,
    /// The findings.
    pub security: Security,
    /// The finding that forbids it.
    pub cause: Option<Box<Located>>,
    /// Personal data: type, start and end in Unicode scalar values.
    pub entities: Vec<(String, usize, usize)>,
}

impl Gateway {
    /// Judges a text and records the verdict.
    pub fn check<'a>(
        &'a self,
        caller: &'a Caller,
        trace_id: &'a str,
        input: &'a str,
    ) -> BoxFuture<'a, Result<CheckResult>> {
        Box::pin(async move {
            let context = self.request_context(caller, trace_id, None, ApiEndpoint::Checks).await?;
            let step = self.plain_step(&context, StepKind::Check).await?;
            let parts = [Part { origin: Origin::User, text: input }];
            let policy = &caller.project.policy;
            let judge =
                |give_up: GiveUp<'_>| policy.conclude([policy.judge_until(&parts, give_up)]);
            let report = offload_judging(caller.share(), policy.effort(input.len()), judge).await?;
            caller.project.note_slow(&report);
            let located: Vec<Located> = report.findings.iter().map(Located::in_text).collect();
            let security = security(&report, &located);
            let reason = report.block.as_ref().map(|block| block.reason.clone());
            let entity =
                |finding: &Finding| (finding.kind.clone().into_owned(), finding.start, finding.end);
            let personal =
                report.findings.iter().filter(|finding| finding.category == Category::Pii);
            let result = CheckResult {
                allowed: reason.is_none(),
                reason: reason.clone(),
                step: step.id,
                cause: cause(&report, &located),
                entities: personal.map(entity).collect(),
                security: security.clone(),
            };
            let step = Step { security, reason, finished_at: self.clock.now(), ..step };
            let output = json!({"allowed": result.allowed});
            self.record_plain(&context, step, Some(input), Output::Value(&output)).await?;
            Ok(result)
        })
    }
}
