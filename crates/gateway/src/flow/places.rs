//! Places: at which of its endpoints a model is called, and at which one after that.

use std::sync::Arc;
use std::vec;

use domain::model::Model;
use domain::time::Timestamp;
use providers::{Breaker, Breakers};

use crate::labels;

/// Where a call goes, and where else it may go.
pub(super) struct Places {
    here: Place,
    /// Where it was not yet.
    others: vec::IntoIter<Place>,
}

struct Place {
    /// The model as it is called here.
    model: Arc<Model>,
    breaker: Arc<Breaker>,
    /// Which of the model's endpoints it is, where it has several.
    endpoint: Option<usize>,
}

impl Places {
    /// The places of a model in the order of a seed, the first of them let through by its breaker;
    /// `None` while no breaker lets a call through.
    pub(super) fn of(
        model: &Arc<Model>,
        seed: u64,
        regions: Option<&[String]>,
        breakers: &Breakers,
        now: Timestamp,
    ) -> Option<Self> {
        let place = |model: &Arc<Model>, endpoint: Option<usize>| Place {
            model: model.clone(),
            breaker: breakers.get(model.id, endpoint.unwrap_or(0)),
            endpoint,
        };
        let all: Vec<Place> = if model.config.endpoints.is_empty() {
            vec![place(model, None)]
        } else {
            let endpoints = routing::endpoints(model, seed, regions).into_iter();
            endpoints.map(|endpoint| place(&endpoint.model, Some(endpoint.index))).collect()
        };
        let mut others = all.into_iter();
        let here = others.find(|place| place.breaker.allow(now))?;
        Some(Self { here, others })
    }

    /// The model as it is called now.
    pub(super) fn here(&self) -> &Model {
        &self.here.model
    }

    /// Takes in how the call here went.
    pub(super) fn note(&self, error: Option<&providers::Error>, now: Timestamp) {
        let Place { model, breaker, endpoint } = &self.here;
        match error {
            Some(error) if error.is_endpoint_fault() => breaker.fault(now),
            // It was not called.
            Some(error) if error.is_ours() => breaker.release(now),
            _ => breaker.success(now),
        }
        if let Some(endpoint) = endpoint {
            let outcome = if error.is_some() { "failed" } else { "answered" };
            metrics::counter!("sluice_endpoint_calls_total",
                "model" => labels::model(&model.identifier),
                "endpoint" => endpoint.to_string(),
                "outcome" => outcome)
            .increment(1);
        }
    }

    /// Whether there is another place to go on to, as far as can be told without going there.
    pub(super) fn has_next(&self, now: Timestamp) -> bool {
        self.others.as_slice().iter().any(|place| !place.breaker.is_open(now))
    }

    /// Goes on to the next place that its breaker lets through, if there is one.
    pub(super) fn go_on(&mut self, now: Timestamp) -> bool {
        let next = self.others.find(|place| place.breaker.allow(now));
        next.map(|next| self.here = next).is_some()
    }

    /// Whether another call may go out here.
    pub(super) fn allow(&self, now: Timestamp) -> bool {
        self.here.breaker.allow(now)
    }
}

/// By index alone: an address may be nobody else's business.
impl std::fmt::Display for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.here.endpoint {
            Some(endpoint) => write!(f, "endpoints[{endpoint}] of {}", self.here.model.identifier),
            None => f.write_str(&self.here.model.identifier),
        }
    }
}
