//! Call: the only entrance to the providers, and it takes only a [`Funded`].

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use domain::conversation::Reply;
use domain::model::Model;
use domain::money::Usd;
use domain::step::StepStatus;
use providers::{Embedded, ErrorKind, GeneratedImages, Permit};
use tokio::time::Instant;

use crate::call_metrics::{self, CIRCUIT_OPEN};
use crate::error::{Congestion, Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::call_outcome::CallOutcome;
use crate::pipeline::choose::Routed;
use crate::pipeline::endpoint_attempts::{EndpointAttempts, OVERLOADED, whole_seconds};
use crate::pipeline::fund::Funded;
use crate::pipeline::in_flight::InFlight;
use crate::pipeline::monitored_stream::MonitoredStream;
use crate::pipeline::operation::{Completion, Embedding, ImageGeneration, Operation, Streaming};
use crate::pipeline::reservation::Reservation;
use crate::pipeline::upstream::Upstream;

/// The longest time of a call if the model's configuration gives none.
const CALL_TIMEOUT: Duration = Duration::from_mins(5);
/// Attempts on one model, the first included. One with more endpoints is tried once at each.
const ATTEMPTS: u32 = 2;

/// The result of one attempt.
pub(super) type Answered<T> = std::result::Result<T, providers::Error>;

impl Gateway {
    /// Calls the routed models in order until one answers. Every model that was called and failed
    /// leaves a failed step; a model that received no request, because it does not support it,
    /// leaves none. A model whose circuit is open leaves one only if no other model does.
    pub(crate) async fn call(&self, routed: Routed) -> Result<(InFlight, Reply)> {
        self.whole_answer::<Completion>(routed).await
    }

    /// Calls the routed models for a stream, as [`Gateway::call`] does, up to the first byte: after
    /// that there is no other model.
    pub(crate) async fn call_stream(&self, routed: Routed) -> Result<(InFlight, MonitoredStream)> {
        let (flight, stream, permit) = Box::pin(self.first_answer::<Streaming>(routed)).await?;
        Ok((flight, MonitoredStream::new(stream, permit, self.upstream.clock.clone())))
    }

    /// Calls the routed models for embeddings, as [`Gateway::call`] does.
    pub(crate) async fn call_embed(&self, routed: Routed) -> Result<(InFlight, Embedded)> {
        self.whole_answer::<Embedding>(routed).await
    }

    /// Calls the routed models for images, as [`Gateway::call`] does.
    pub(crate) async fn call_image_generation(
        &self,
        routed: Routed,
    ) -> Result<(InFlight, GeneratedImages)> {
        self.whole_answer::<ImageGeneration>(routed).await
    }

    /// An answer that is whole when it is there.
    async fn whole_answer<M: Operation>(&self, routed: Routed) -> Result<(InFlight, M::Answer)> {
        // Boxed: the futures of an HTTP client are large, and every layer above would move them.
        let (flight, answer, permit) = Box::pin(self.first_answer::<M>(routed)).await?;
        if let Some(permit) = permit {
            permit.success(self.upstream.clock.now());
        }
        Ok((flight, answer))
    }

    async fn first_answer<M: Operation>(
        &self,
        routed: Routed,
    ) -> Result<(InFlight, M::Answer, Option<Permit>)> {
        let routed = Arc::new(routed);
        let caller = &routed.screened().context().caller;
        let regions = caller.project.settings.allowed_regions.as_deref();
        let (mut last, mut unpriced) = (None, None);
        // The first model that was skipped for its open circuit, and whether another has left a
        // step.
        let (mut open, mut is_recorded) = (None, false);
        // The possible charges of earlier models: no other call may spend them before this call has
        // settled.
        let mut held = None;
        for model in routed.models() {
            if let Err(error) = caller.check_priced(model, routed.screened().pricing_basis()) {
                unpriced.get_or_insert(error);
                continue;
            }
            if let Err(error) = caller.check_charges(model, routed.screened().prompt()) {
                unpriced.get_or_insert(error);
                continue;
            }
            if let Some(error) = routed.stored_elsewhere(model) {
                last.get_or_insert(error);
                continue;
            }
            let order = |number| routed.endpoint_order(number);
            let accepts = |endpoint: &Model| routed.can_serve(model, endpoint);
            let Some(places) = self.upstream.places(model, order, regions, accepts) else {
                call_metrics::of_model(&model.identifier)
                    .count_failure(model.provider, CIRCUIT_OPEN);
                last.get_or_insert_with(|| {
                    let congestion = self.upstream.congestion(model, regions);
                    congestion.map_or(Error::ProviderUnreachable, Error::ProviderBusy)
                });
                open.get_or_insert(&model.identifier);
                continue;
            };
            let before = held.as_ref().map_or(Usd::ZERO, Reservation::amount);
            let funded = self.fund(&routed, model, held.take()).await?;
            let mut flight = self.begin(funded).await?;
            let (funded, outcome) = flight.parts()?;
            let error = match self.attempt::<M>(funded, outcome, places).await {
                Ok((answer, permit)) => return Ok((flight, answer, permit)),
                Err(error) => error,
            };
            let what = failure_text(&error);
            tracing::info!(model = %model.identifier, %what, "a model call failed");
            if error.refuses_request() && flight.outcome.attempts == 1 {
                held = flight.funded()?.keep(before);
                // Boxed: it is rare, and every call would carry it.
                Box::pin(flight.withdraw()).await?;
                // A fallback that lacks a parameter is no reason why the model before it failed.
                last.get_or_insert_with(|| to_gateway_error(&error));
                continue;
            }
            flight.outcome.note_failure(&error);
            flight.outcome.usage = error.usage();
            if let Some(claim) = caller.claim.as_ref().filter(|_| error.may_be_charged()) {
                claim.note_spent();
            }
            held = flight.funded()?.keep(if error.may_be_charged() { Usd::MOST } else { before });
            flight.finish().await?;
            is_recorded = true;
            let goes_on = error.fallback_helps();
            if error.is_ours() {
                last.get_or_insert_with(|| to_gateway_error(&error));
            } else {
                last = Some(to_gateway_error(&error));
            }
            if !goes_on {
                break;
            }
        }
        // A missing price matters only when no model was left to call.
        let error = last.or(unpriced).unwrap_or(Error::ProviderUnreachable);
        // Do not mention open circuits when the request itself was rejected.
        if let Some(open) = open.filter(|_| !is_recorded)
            && matches!(error, Error::ProviderUnreachable | Error::ProviderBusy(_))
        {
            Box::pin(self.record_uncalled(&routed, open)).await?;
        }
        Err(error)
    }

    /// Tries the first endpoint, then the model's others, each with the full timeout. Without another
    /// endpoint it retries the same one, if the provider cannot have charged or asks for a retry. A
    /// retry after a possible charge needs money of its own. The state is noted after each attempt,
    /// for a caller that hangs up.
    pub(super) async fn attempt<M: Operation>(
        &self,
        funded: &Funded,
        outcome: &mut CallOutcome,
        mut places: EndpointAttempts,
    ) -> Answered<(M::Answer, Option<Permit>)> {
        let Upstream { client, clock, .. } = &self.upstream;
        let model = funded.model();
        // A round of MCP tools has only the time that earlier rounds left.
        let round = funded.routed().screened().context().mcp.as_ref();
        let in_time = || {
            let end = Instant::now() + model.config.timeout.unwrap_or(CALL_TIMEOUT);
            round.map_or(end, |round| end.min(round.deadline()))
        };
        let mut deadline = in_time();
        let mut attempts = 0;
        loop {
            attempts += 1;
            outcome.attempts = i64::from(attempts);
            outcome.account = funded.routed().storing_account(places.here());
            let began = Instant::now();
            outcome.unseen_since = M::UNSEEN.then(|| clock.now());
            let result = {
                let mut call = pin!(M::call(client, funded, places.here(), deadline));
                match poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
                    Poll::Ready(result) => result,
                    Poll::Pending => {
                        // Over a kept connection the provider is at work by now. The first word of
                        // a stream must not wait for it.
                        if M::UNSEEN {
                            funded.prepare_record();
                        }
                        call.await
                    }
                }
            };
            outcome.unseen_since = None;
            let metrics = call_metrics::of_model(&model.identifier);
            metrics.attempt_took(began.elapsed());
            let now = clock.now();
            let error = match result {
                Ok(answer) => return Ok((answer, places.answered())),
                Err(error) => error,
            };
            metrics.count_failure(model.provider, error.class());
            places.failed(&error, now);
            let failed = places.to_string();
            if error.endpoint_helps()
                && places.has_next(now)
                && (!error.may_be_charged() || self.fund_again(funded).await)
                && Instant::now() < in_time()
                && places.go_on(clock.now())
            {
                // An attempt that hangs has not taken the time of the others.
                deadline = in_time();
                outcome.broken_off += u64::from(error.may_be_charged());
                let caller = &funded.routed().screened().context().caller;
                if let Some(claim) = caller.claim.as_ref().filter(|_| error.may_be_charged()) {
                    claim.note_spent();
                }
                let what = failure_text(&error);
                tracing::info!(%failed, next = %places, %what, "a call goes on to another endpoint");
                continue;
            }
            if attempts >= ATTEMPTS || !error.retryable_here() || !is_soon(&error) {
                return Err(error);
            }
            // The last three digits of the clock, in microseconds, serve as jitter.
            let jitter = (now.0 % 1000) as f64 / 1000.0;
            let pause = providers::back_off(attempts, error.retry_after(), jitter);
            if Instant::now() + pause >= deadline || !places.allow(now) {
                return Err(error);
            }
            // If the caller hangs up during the pause, the failed attempt is recorded.
            outcome.note_failure(&error);
            tokio::time::sleep(pause).await;
            (outcome.status, outcome.error) = (StepStatus::Completed, None);
            outcome.failure_status = None;
        }
    }
}

impl CallOutcome {
    /// Notes that an error of the provider, or on the way to it, ended the call.
    pub(super) fn note_failure(&mut self, error: &providers::Error) {
        self.status = StepStatus::Failed;
        self.error = Some(failure_text(error));
        self.failure_status = error.provider_status();
    }
}

/// The error without the provider's own message: that may quote the prompt, and goes to the caller
/// alone.
pub(crate) fn failure_text(error: &providers::Error) -> String {
    match (&error.kind, error.provider_status()) {
        (ErrorKind::Unsupported(_), _) => error.to_string(),
        (ErrorKind::Forbidden, _) => "The egress rules forbid the address".to_owned(),
        (ErrorKind::RateLimited, _) => "The provider is rate limiting (429)".to_owned(),
        (ErrorKind::Rejected { status, .. }, _) => {
            format!("The provider refused the request ({status})")
        }
        (ErrorKind::Unusable, _) => "The model gave no answer that can be used".to_owned(),
        (ErrorKind::Unreachable, Some(status)) => format!("The provider failed ({status})"),
        (ErrorKind::Unreachable, None) => {
            "The provider could not be reached, or its answer made no sense".to_owned()
        }
    }
}

/// Whether a provider asks for a retry soon enough to wait for it, rather than for another.
fn is_soon(error: &providers::Error) -> bool {
    error.retry_after().is_none_or(|wait| wait <= providers::MAX_BACK_OFF)
}

/// The error as the caller receives it.
pub(crate) fn to_gateway_error(error: &providers::Error) -> Error {
    match &error.kind {
        // Another model could have answered: the request itself was in order.
        ErrorKind::Rejected { status, .. } if error.fallback_helps() => {
            Error::ProviderRefusedAccount { status: *status, message: error.to_string() }
        }
        ErrorKind::Rejected { status, .. } => Error::ProviderRejected {
            status: *status,
            message: error.to_string(),
            code: error.provider_code(),
        },
        ErrorKind::Unsupported(what) if error.is_unpriced() => {
            Error::ExternalAccess(vec![what.clone()])
        }
        ErrorKind::Unsupported(what) => match error.at_message() {
            Some(index) => Error::InvalidMessage { index, fault: what.clone() },
            None => Error::invalid(what.clone()),
        },
        _ => match error.provider_status() {
            Some(status @ (429 | OVERLOADED)) => Error::ProviderBusy(Congestion {
                status,
                retry_after: error.retry_after().map(whole_seconds),
                passes: error.retryable_here(),
            }),
            _ => Error::ProviderUnreachable,
        },
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
