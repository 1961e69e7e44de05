//! The endpoints at which a model is called, one after the other.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use domain::model::Model;
use domain::time::Timestamp;
use providers::{Breaker, Breakers, Fault, Permit};
use routing::Order;

use crate::call_metrics;
use crate::error::Congestion;

/// Anthropic's status for an overloaded service.
pub(super) const OVERLOADED: u16 = 529;

/// The endpoint of a call, and the other endpoints that it may go to.
pub(super) struct EndpointAttempts {
    here: Candidate,
    /// The permit for the call here, until its result is known. A call that is not made, because it
    /// is refused for money or its caller hangs up, was no probe.
    permit: Option<Permit>,
    /// The endpoints that were not tried yet.
    others: vec::IntoIter<Candidate>,
}

struct Candidate {
    /// The model as it is called here.
    model: Arc<Model>,
    breaker: Arc<Breaker>,
    /// The index of the endpoint, if the model has several.
    endpoint: Option<usize>,
}

impl EndpointAttempts {
    /// The endpoints of a model in an order, of those that are accepted, the first of them let through
    /// by its breaker; `None` while no breaker lets a call through. The order is asked for only if there are several.
    pub(super) fn of(
        model: &Arc<Model>,
        order: impl FnOnce() -> Order,
        regions: Option<&[String]>,
        accepts: impl Fn(&Model) -> bool,
        breakers: &Breakers,
        now: Timestamp,
    ) -> Option<Self> {
        let mut all = candidates(model, order, regions, breakers);
        all.retain(|candidate| accepts(&candidate.model));
        let mut others = all.into_iter();
        let (permit, here) = next(&mut others, now)?;
        Some(Self { here, permit: Some(permit), others })
    }

    /// The congestion at a model whose breakers let no call through, if one of them was opened by a
    /// provider that has too many requests: the one that lets a call through first.
    pub(super) fn congestion(
        model: &Arc<Model>,
        regions: Option<&[String]>,
        breakers: &Breakers,
        now: Timestamp,
    ) -> Option<Congestion> {
        let all = candidates(model, || Order::Call(0), regions, breakers).into_iter();
        let busy = all.filter_map(|candidate| match candidate.breaker.opened_by(now)? {
            (Fault::Busy { status, passes }, left) => Some((left, status, passes)),
            (Fault::Failed, _) => None,
        });
        let (left, status, passes) = busy.min_by_key(|(left, _, passes)| (!passes, *left))?;
        Some(Congestion { status, retry_after: Some(whole_seconds(left)), passes })
    }

    /// Whether no breaker of a model lets a call through, without taking a permit.
    pub(super) fn none_left(
        model: &Model,
        regions: Option<&[String]>,
        breakers: &Breakers,
        now: Timestamp,
    ) -> bool {
        let is_open = |endpoint| breakers.get(model.id, endpoint).is_open(now);
        if model.config.endpoints.is_empty() {
            return is_open(0);
        }
        routing::endpoints(model, Order::Call(0), regions).iter().all(|one| is_open(one.index))
    }

    /// The model as it is called now.
    pub(super) fn here(&self) -> &Model {
        &self.here.model
    }

    /// Notes that the call here failed.
    pub(super) fn failed(&mut self, error: &providers::Error, now: Timestamp) {
        self.count("failed");
        if let Some(permit) = self.permit.take() {
            report(permit, Some(error), now);
        }
    }

    /// Notes that the call here was answered, or begins to be: its result is still to be reported.
    pub(super) fn answered(self) -> Option<Permit> {
        self.count("answered");
        self.permit
    }

    fn count(&self, outcome: &'static str) {
        if let Some(endpoint) = self.here.endpoint {
            metrics::counter!("sluice_endpoint_calls_total",
                "model" => call_metrics::of_model(&self.here.model.identifier).label(),
                "endpoint" => endpoint.to_string(),
                "outcome" => outcome)
            .increment(1);
        }
    }

    /// Whether there is another endpoint to try, without taking its permit.
    pub(super) fn has_next(&self, now: Timestamp) -> bool {
        self.others.as_slice().iter().any(|candidate| !candidate.breaker.is_open(now))
    }

    /// Moves to the next endpoint that its breaker lets through, if there is one.
    pub(super) fn go_on(&mut self, now: Timestamp) -> bool {
        let Some((permit, candidate)) = next(&mut self.others, now) else { return false };
        (self.here, self.permit) = (candidate, Some(permit));
        true
    }

    /// Whether another call may go out here.
    pub(super) fn allow(&mut self, now: Timestamp) -> bool {
        self.permit = self.here.breaker.allow(now);
        self.permit.is_some()
    }
}

/// The endpoints of a model in an order, which is asked for only if there are several.
fn candidates(
    model: &Arc<Model>,
    order: impl FnOnce() -> Order,
    regions: Option<&[String]>,
    breakers: &Breakers,
) -> Vec<Candidate> {
    let candidate = |model: &Arc<Model>, endpoint: Option<usize>| Candidate {
        model: model.clone(),
        breaker: breakers.get(model.id, endpoint.unwrap_or(0)),
        endpoint,
    };
    if model.config.endpoints.is_empty() {
        return vec![candidate(model, None)];
    }
    let endpoints = routing::endpoints(model, order(), regions).into_iter();
    endpoints.map(|endpoint| candidate(&endpoint.model, Some(endpoint.index))).collect()
}

/// A wait in whole seconds, of which there is at least one.
pub(super) fn whole_seconds(wait: Duration) -> u32 {
    let seconds = wait.as_millis().div_ceil(1000).max(1);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// The next endpoint that its breaker lets through, with the permit for a call there.
fn next(candidates: &mut vec::IntoIter<Candidate>, now: Timestamp) -> Option<(Permit, Candidate)> {
    candidates.find_map(|candidate| Some((candidate.breaker.allow(now)?, candidate)))
}

/// Reports the outcome of a call to the breaker that let it through.
pub(super) fn report(permit: Permit, error: Option<&providers::Error>, now: Timestamp) {
    match error {
        Some(error) if error.is_endpoint_fault() => permit.fault(fault_of(error), now),
        // It was not called.
        Some(error) if error.is_ours() => drop(permit),
        _ => permit.success(now),
    }
}

/// The kind of an endpoint's failure.
fn fault_of(error: &providers::Error) -> Fault {
    match error.provider_status() {
        Some(status @ (429 | OVERLOADED)) => Fault::Busy { status, passes: error.retryable_here() },
        _ => Fault::Failed,
    }
}

/// Shows the index alone: an address may be confidential.
impl std::fmt::Display for EndpointAttempts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.here.endpoint {
            Some(endpoint) => write!(f, "endpoints[{endpoint}] of {}", self.here.model.identifier),
            None => f.write_str(&self.here.model.identifier),
        }
    }
}
