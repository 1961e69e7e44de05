//! Logs: notes of a caller on a trace, ratings among them.

use domain::ids::{StepId, TraceId};
use domain::step::{ApiEndpoint, Step, StepKind};
use domain::time::Timestamp;
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::pipeline::attributes::{self, NamedInBody};
use crate::pipeline::context::RequestContext;
use crate::pipeline::stored_content::Output;
use crate::state::caller::Caller;

/// A recorded note.
#[derive(Debug)]
pub struct LogResult {
    /// The step that holds it.
    pub step: StepId,
    /// Its trace.
    pub trace: TraceId,
    /// The step it is about.
    pub parent: Option<StepId>,
    /// The time of the note.
    pub created_at: Timestamp,
}

impl Gateway {
    /// Records a note. Completed traces take notes too: feedback comes late, and a rating regrades.
    pub fn log<'a>(
        &'a self,
        caller: &'a Caller,
        trace_id: &'a str,
        output: &'a RawValue,
        parent: Option<i64>,
    ) -> BoxFuture<'a, Result<LogResult>> {
        Box::pin(async move {
            caller.project.check_active()?;
            caller.check_endpoint(ApiEndpoint::Logs)?;
            let trace = self.find_trace(caller, trace_id).await?;
            let parent = self.find_parent(&trace, parent).await?;
            let (caller, api_endpoint) = (caller.clone(), ApiEndpoint::Logs);
            let attributes = attributes::gather(&caller, Some(&trace), NamedInBody::default());
            let mut context = RequestContext::new(caller, trace, parent, api_endpoint);
            context.attributes = attributes;
            let step = Step {
                user_rating: grading::user_rating(output.get()),
                ..self.plain_step(&context, StepKind::Log).await?
            };
            let result = LogResult {
                step: step.id,
                trace: context.trace.id(),
                parent: step.parent,
                created_at: step.started_at,
            };
            self.record_plain(&context, step, None, Output::Json(output)).await?;
            Ok(result)
        })
    }
}

#[cfg(test)]
mod tests {
    use domain::money::Usd;
    use domain::time::{DAY, HOUR, SECOND};
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use crate::testing::Fresh;

    #[tokio::test]
    async fn only_a_rating_regrades() {
        let fresh = Fresh::with(json!({})).await;
        let (gateway, caller) = (&fresh.gateway, &fresh.caller);
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let good = gateway.complete_trace(caller, &trace).await.unwrap().assessment.unwrap();
        let note = |output: serde_json::Value| to_raw_value(&output).unwrap();
        let letter = async || {
            let trace = gateway.trace(caller, &trace).await.unwrap().trace;
            trace.assessment.unwrap().grades.overall
        };
        for output in [json!({}), json!({"user_rating": "superb"}), json!({"note": "x"})] {
            gateway.log(caller, &trace, &note(output), None).await.unwrap();
            assert_eq!(letter().await, good.grades.overall);
        }
        gateway.log(caller, &trace, &note(json!({"user_rating": false})), None).await.unwrap();
        assert_eq!(letter().await, good.grades.overall.worsened());
    }

    #[tokio::test]
    async fn a_pause_far_beyond_the_usual_is_a_sign_of_a_stall() {
        let fresh = Fresh::with(json!({})).await;
        let (gateway, caller) = (&fresh.gateway, &fresh.caller);
        let (busy, idle) = (fresh.trace().await, fresh.trace().await);
        fresh.in_flight(&busy).await.finish().await.unwrap();
        let mut like = fresh.steps(&busy).await.remove(0);
        if let Some(call) = &mut like.call {
            (call.input_fingerprint, call.output_fingerprint) = (None, None);
        }
        // Steps of a second each, after pauses in seconds.
        let write = async |trace: &str, pauses: &[i64]| {
            let mut at = gateway.now().minus_micros(5 * HOUR);
            for pause in pauses {
                let mut step = like.clone();
                step.id = gateway.store.step_id().await.unwrap();
                step.trace = trace.parse().unwrap();
                step.started_at = at.minus_micros(-pause * SECOND);
                at = step.started_at.minus_micros(-SECOND);
                step.finished_at = at;
                gateway.store.writer().step(step, None).await.unwrap();
            }
        };
        write(&busy, &[2; 30]).await;
        write(&idle, &[2, 2_000]).await;
        let idle = gateway.trace(caller, &idle).await.unwrap().figures.stall_probability;
        assert!((0.4..0.5).contains(&idle), "{idle}");
    }

    #[tokio::test]
    async fn a_rating_changes_no_grade_and_no_cost_once_steps_are_gone() {
        let fresh = Fresh::with(json!({})).await;
        let (gateway, caller) = (&fresh.gateway, &fresh.caller);
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let graded = gateway.complete_trace(caller, &trace).await.unwrap().assessment.unwrap();
        let later = gateway.now().minus_micros(-31 * DAY);
        assert_eq!(fresh.purge(later).await, 1);
        let bad = to_raw_value(&json!({"user_rating": false})).unwrap();
        gateway.log(caller, &trace, &bad, None).await.unwrap();
        let detail = gateway.trace(caller, &trace).await.unwrap();
        assert_eq!(detail.steps.len(), 1, "the rating itself");
        assert!(detail.total_cost > Usd::ZERO);
        assert_eq!(detail.total_cost, graded.total_cost);
        assert_eq!(detail.trace.assessment, Some(graded));
    }
}
