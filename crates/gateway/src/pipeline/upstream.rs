//! The providers, and the state of their endpoints. Only this module and its siblings reach them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::ids::ModelId;
use domain::model::Model;
use domain::time::{Clock, Timestamp};
use providers::{Breakers, Client};
use routing::Order;

use crate::error::Congestion;
use crate::pipeline::endpoint_attempts::EndpointAttempts;

/// The providers, reached only by funded calls.
pub struct Upstream {
    pub(super) client: Client,
    pub(super) breakers: Breakers,
    /// The number of calls that were given an endpoint: the seed of the next one's.
    placed: AtomicU64,
    pub(super) clock: Clock,
}

impl std::fmt::Debug for Upstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upstream").finish_non_exhaustive()
    }
}

impl Upstream {
    pub(crate) fn new(client: Client, clock: Clock) -> Self {
        Self { client, breakers: Breakers::default(), placed: AtomicU64::new(0), clock }
    }

    /// Closes connections that were not used for a while.
    pub(crate) fn close_unused(&self) {
        self.client.close_unused();
    }

    /// Forgets the breakers of a model that was changed or deleted. Calls that run continue.
    pub(crate) fn forget(&self, model: ModelId) {
        self.breakers.forget(model);
    }

    /// The endpoints of a model, in one of the allowed regions, in the order that the number of the
    /// call gives; `None` while its circuits are open.
    pub(super) fn places(
        &self,
        model: &Arc<Model>,
        order: impl FnOnce(u64) -> Order,
        regions: Option<&[String]>,
        accepts: impl Fn(&Model) -> bool,
    ) -> Option<EndpointAttempts> {
        let number = self.placed.fetch_add(1, Ordering::Relaxed);
        let order = || order(number);
        EndpointAttempts::of(model, order, regions, accepts, &self.breakers, self.clock.now())
    }

    /// Whether the circuit of one endpoint of a model is open on this node; 0 is the only one of a model
    /// without several.
    pub(crate) fn is_open(&self, model: ModelId, endpoint: usize) -> bool {
        self.breakers.get(model, endpoint).is_open(self.clock.now())
    }

    /// Checks that an endpoint can be reached. No credential is sent.
    pub(crate) async fn probe(&self, endpoint: &Model) -> Result<(), providers::Error> {
        self.client.probe(endpoint).await
    }

    /// Whether all circuits of a model in the allowed regions are open.
    pub(super) fn is_down(
        &self,
        model: &Model,
        regions: Option<&[String]>,
        now: Timestamp,
    ) -> bool {
        EndpointAttempts::none_left(model, regions, &self.breakers, now)
    }

    /// The congestion that has opened the circuits of a model, if it was one.
    pub(super) fn congestion(
        &self,
        model: &Arc<Model>,
        regions: Option<&[String]>,
    ) -> Option<Congestion> {
        EndpointAttempts::congestion(model, regions, &self.breakers, self.clock.now())
    }
}
