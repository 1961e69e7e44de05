use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use domain::conversation::Prompt;
use domain::ids::StepId;
use domain::step::{ApiEndpoint, StepStatus};
use futures_util::FutureExt;
use serde_json::json;

use super::*;
use crate::pipeline::choose::Routed;
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

/// A call that repeats another for a replay, and the step that it makes.
async fn replayed(fresh: &Fresh, trace: &str) -> (Arc<Routed>, MadeStep) {
    let gateway = &fresh.gateway;
    let context = gateway.request_context(&fresh.caller, trace, None, ApiEndpoint::Replay).await;
    let made = MadeStep::default();
    let recorded = RecordedCall {
        step: StepId(1),
        placeholders: checks::Placeholders::default(),
        servers: Vec::new(),
        made: made.clone(),
    };
    let mut context = context.unwrap();
    context.recorded = Some(Arc::new(recorded));
    let prompt = Prompt::question("Say hello.".to_owned());
    let routed = gateway.route(context, prompt).await.unwrap();
    (Arc::new(*routed.unwrap_or_else(|refusal| panic!("{}", refusal.reason))), made)
}

/// Waits until a call is closed.
async fn closed(fresh: &Fresh, step: StepId) {
    let store = &fresh.gateway.store;
    let is_closed = async || (!store.is_open_call(step).await.unwrap()).then_some(());
    until("the call is closed", is_closed).await;
}

/// The step of a replay stands for a call that was made, and keeps it from being made.
#[tokio::test]
async fn a_call_of_a_replay_that_is_dropped_before_it_leaves_has_no_step() {
    let fresh = Fresh::with(json!({})).await;
    let (gateway, trace) = (&fresh.gateway, fresh.trace().await);
    let (routed, made) = replayed(&fresh, &trace).await;
    let funded = gateway.fund(&routed, &routed.models()[0], None).await.unwrap();
    let step = funded.step();
    assert!(gateway.begin(funded).now_or_never().is_none(), "the start waits for the disk");
    // The writer takes one after the other, so the start is on disk once this is.
    fresh.in_flight(&trace).await.finish().await.unwrap();
    closed(&fresh, step).await;
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

/// Lets paused time pass until a future is done: while the writer of a store runs, it does not pass by itself.
async fn hastened<T>(work: impl Future<Output = T>) -> T {
    let pass = async {
        loop {
            tokio::time::advance(Duration::from_millis(500)).await;
        }
    };
    tokio::select! {
        biased;
        done = work => done,
        () = pass => unreachable!(),
    }
}

/// A replay waits for the record of its call, and holds its slot meanwhile.
#[tokio::test]
async fn a_call_of_a_replay_whose_record_is_lost_is_closed_once_the_disk_takes_writes() {
    let fresh = Fresh::idle(json!({})).await;
    let (gateway, trace) = (&fresh.gateway, fresh.trace().await);
    let (routed, made) = replayed(&fresh, &trace).await;
    let funded = gateway.fund(&routed, &routed.models()[0], None).await.unwrap();
    let step = funded.step();
    let flight = gateway.begin(funded).await.unwrap();
    // No other write gets its turn until this one ends.
    let busy = gateway.store.begin().await.unwrap();
    tokio::time::pause();
    let lost = hastened(flight.finish()).await;
    tokio::time::resume();
    assert!(matches!(lost, Err(Error::Unavailable(_))), "{lost:?}");
    let given_up = async || gateway.store.writer().is_failing().then_some(());
    until("the writer has given it up", given_up).await;
    drop(busy);
    closed(&fresh, step).await;
    let found = fresh.steps(&trace).await.remove(0);
    assert_eq!((found.id, found.status, found.source), (step, StepStatus::Failed, Some(StepId(1))));
    assert_eq!(found.error.as_deref(), Some("The end of this call could not be recorded"));
    assert!(found.call.unwrap().cost_estimated);
    assert_eq!(*lock(&made), Some(step), "it was made");
}

/// The record of the call, of which the gateway knew only that it took too long.
#[tokio::test]
async fn a_call_of_a_replay_whose_record_is_late_keeps_it() {
    let fresh = Fresh::idle(json!({})).await;
    let (gateway, trace) = (&fresh.gateway, fresh.trace().await);
    let (routed, _) = replayed(&fresh, &trace).await;
    let funded = gateway.fund(&routed, &routed.models()[0], None).await.unwrap();
    let start = funded.start();
    let flight = gateway.begin(funded).await.unwrap();
    flight.finish().await.unwrap();
    let writer = gateway.store.writer();
    writer.unrecorded(&start, gateway.clock.now()).await.unwrap();
    let steps = fresh.steps(&trace).await;
    assert_eq!((steps.len(), steps[0].status), (1, StepStatus::Completed));
}

#[tokio::test]
async fn the_start_of_a_call_that_was_not_made_is_withdrawn_once_the_disk_takes_writes() {
    let fresh = Fresh::idle(json!({})).await;
    let (gateway, trace) = (&fresh.gateway, fresh.trace().await);
    let (routed, made) = replayed(&fresh, &trace).await;
    let funded = gateway.fund(&routed, &routed.models()[0], None).await.unwrap();
    let step = funded.step();
    let flight = gateway.begin(funded).await.unwrap();
    let busy = gateway.store.begin().await.unwrap();
    tokio::time::pause();
    let late = hastened(flight.withdraw()).await;
    tokio::time::resume();
    assert!(matches!(late, Err(Error::Unavailable(_))), "{late:?}");
    assert!(gateway.store.is_open_call(step).await.unwrap());
    drop(busy);
    closed(&fresh, step).await;
    assert_eq!(
        (gateway.store.steps(trace.parse().unwrap()).await.unwrap().len(), *lock(&made)),
        (0, None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_a_replay_waits_for_is_repeated_until_the_gateway_stops() {
    let stopping = CancellationToken::new();
    let tried = std::sync::atomic::AtomicU32::new(0);
    let count = || tried.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
    let away = || Error::Unavailable("refused".to_owned());
    let back = write_until_stop(&stopping, || {
        let number = count();
        async move { if number < 9 { Err(away()) } else { Ok(()) } }
    });
    assert!(back.await.is_ok());
    let refused = write_until_stop(&stopping, || {
        count();
        async { Err(Error::Internal("refused".to_owned())) }
    });
    assert!(matches!(refused.await, Err(Error::Internal(_))));
    assert_eq!(count(), 11, "a refusal is final");
    let stopped = write_until_stop(&stopping, || {
        if count() == 13 {
            stopping.cancel();
        }
        async { Err(away()) }
    });
    assert!(matches!(stopped.await, Err(Error::Unavailable(_))));
    assert_eq!(count(), 15, "once more after the stop");
}
