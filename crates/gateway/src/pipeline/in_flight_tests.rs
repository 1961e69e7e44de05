use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use domain::conversation::Prompt;
use domain::step::{ApiEndpoint, StepStatus};
use futures_util::FutureExt;
use serde_json::json;

use super::*;
use crate::pipeline::context::{MadeStep, RecordedCall};
use crate::testing::{Fresh, of_parts, pdf, until};

/// How the one call of a trace ended.
async fn ended(fresh: &Fresh, trace: &str) -> (StepStatus, String) {
    let step = fresh.steps(trace).await.remove(0);
    (step.status, step.error.unwrap())
}

#[tokio::test]
async fn a_call_that_is_dropped_says_who_dropped_it() {
    let fresh = Fresh::with(json!({})).await;

    let trace = fresh.trace().await;
    drop(fresh.in_flight(&trace).await);
    let hung_up = (StepStatus::Cancelled, "The caller hung up".to_owned());
    assert_eq!(ended(&fresh, &trace).await, hung_up);

    let trace = fresh.trace().await;
    let mut flight = fresh.in_flight(&trace).await;
    let error = flight.fault(Error::Internal("no randomness".to_owned()));
    assert!(matches!(error, Error::Internal(_)));
    drop(flight);
    assert_eq!(ended(&fresh, &trace).await, (StepStatus::Failed, FAULT.to_owned()));

    let trace = fresh.trace().await;
    let flight = fresh.in_flight(&trace).await;
    let panics = async move {
        let _flight = flight;
        panic!("a defect, on purpose");
    };
    AssertUnwindSafe(panics).catch_unwind().await.unwrap_err();
    assert_eq!(ended(&fresh, &trace).await, (StepStatus::Failed, FAULT.to_owned()));

    let trace = fresh.trace().await;
    let flight = fresh.in_flight(&trace).await;
    fresh.gateway.cut_off().cancel();
    drop(flight);
    let stopped = (StepStatus::Failed, "The gateway stopped before this call ended".to_owned());
    assert_eq!(ended(&fresh, &trace).await, stopped);
}

/// The cost of a call that a crash interrupted is estimated from its start.
#[tokio::test]
async fn the_start_of_a_call_counts_the_pages_of_a_pdf() {
    let fresh = Fresh::with(json!({})).await;
    let trace = fresh.trace().await;
    let context =
        fresh.gateway.request_context(&fresh.caller, &trace, None, ApiEndpoint::Executions).await;
    let prompt = of_parts(vec![json!({"type": "text", "text": "Summarize."}), pdf(160_000)]);
    let routed = fresh.gateway.route(context.unwrap(), prompt).await.unwrap();
    let routed = Arc::new(*routed.unwrap_or_else(|refusal| panic!("{}", refusal.reason)));
    let model = &routed.models()[0];
    let funded = fresh.gateway.fund(&routed, model, None).await.unwrap();
    let tokens = funded.start().prompt_tokens;
    assert!((20_000..20_100).contains(&tokens), "{tokens}");
}

/// The step of a replay stands for a call that was made, and keeps it from being made.
#[tokio::test]
async fn a_call_of_a_replay_that_is_dropped_before_it_leaves_has_no_step() {
    let fresh = Fresh::with(json!({})).await;
    let (gateway, trace) = (&fresh.gateway, fresh.trace().await);
    let context = gateway.request_context(&fresh.caller, &trace, None, ApiEndpoint::Replay).await;
    let made = MadeStep::default();
    let recorded = RecordedCall {
        step: domain::ids::StepId(1),
        placeholders: checks::Placeholders::default(),
        made: made.clone(),
    };
    let mut context = context.unwrap();
    context.recorded = Some(Arc::new(recorded));
    let prompt = Prompt::question("Say hello.".to_owned());
    let routed = gateway.route(context, prompt).await.unwrap();
    let routed = Arc::new(*routed.unwrap_or_else(|refusal| panic!("{}", refusal.reason)));
    let funded = gateway.fund(&routed, &routed.models()[0], None).await.unwrap();
    let step = funded.step();
    assert!(gateway.begin(funded).now_or_never().is_none(), "the start waits for the disk");
    // The writer takes one after the other, so the start is on disk once this is.
    fresh.in_flight(&trace).await.finish().await.unwrap();
    until("the call is closed", async || {
        (!gateway.store.is_open_call(step).await.unwrap()).then_some(())
    })
    .await;
    let steps = fresh.steps(&trace).await;
    assert!(steps.iter().all(|other| other.id != step), "{steps:?}");
    assert_eq!((steps.len(), *lock(&made)), (1, None));

    let funded = gateway.fund(&routed, &routed.models()[0], None).await.unwrap();
    let step = funded.step();
    let flight = gateway.begin(funded).await.unwrap();
    assert_eq!(*lock(&made), Some(step));
    flight.withdraw().await.unwrap();
    assert_eq!(*lock(&made), None);
}
