use std::panic::AssertUnwindSafe;

use domain::step::StepStatus;
use futures_util::FutureExt;
use serde_json::json;

use super::*;
use crate::testing::Fresh;

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
