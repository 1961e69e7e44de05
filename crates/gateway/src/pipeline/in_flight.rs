//! A funded call that is not recorded yet.

use std::sync::Arc;
use std::time::Duration;

use domain::step::StepStatus;
use store::Start;
use tokio_util::sync::CancellationToken;

use crate::bounded_read::{bounded, write_again};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::lock::lock;
use crate::pipeline::call_outcome::CallOutcome;
use crate::pipeline::call_outcome::Recorded;
use crate::pipeline::fund::Funded;
use crate::pipeline::pending_start::Call;
use crate::pipeline::rounds::Rounds;
use crate::pipeline::shadow::Leaving;
use crate::request_id::{self, Served};
use crate::state::claims::CallClaim;

impl Gateway {
    /// Takes a funded call into flight: its start is written, now or while the call is open.
    pub(super) async fn begin(&self, funded: Funded) -> Result<InFlight> {
        let writer = self.store.writer();
        let unsure = writer.is_slow() || writer.is_failing() || !writer.is_alive();
        let context = funded.routed().screened().context();
        // A call of a replay is not made a second time after a crash, so none may be forgotten.
        let recorded = context.recorded.clone();
        // A request with an Idempotency-Key is carried out once, also if this node dies now. A shadow call
        // is made after its answer.
        let claim = context.caller.claim.clone().filter(|_| !context.is_shadow);
        let strict = context.caller.project.settings.limits.strict;
        let written = unsure || strict || recorded.is_some() || claim.is_some();
        let mut flight = InFlight::new(self.clone(), funded, written);
        if written {
            // A caller that gives up here leaves a call that was never made, and its start is
            // closed.
            flight.outcome.status = StepStatus::Failed;
            flight.outcome.error = Some(NOT_MADE.to_owned());
            let start = flight.funded()?.start();
            let started = match claim {
                None => Box::pin(writer.start(start)).await.map_err(Error::from),
                Some(claim) => Box::pin(self.start_claimed(start, &claim)).await,
            };
            if let Err(error) = started {
                if recorded.is_some() {
                    Box::pin(flight.withdraw()).await.unwrap_or_else(not_withdrawn);
                }
                return Err(error);
            }
            if let Some(recorded) = &recorded {
                *lock(&recorded.made) = Some(flight.funded()?.step());
            }
            flight.funded()?.leaves(self.clock.now());
            flight.outcome = CallOutcome::default();
        } else if let Some(call) = &flight.call {
            self.write_start(call);
        }
        Ok(flight)
    }

    /// Writes the start of a call and that a model is called under a claim, and waits for both.
    async fn start_claimed(&self, start: Start, claim: &CallClaim) -> Result<()> {
        let writer = self.store.writer();
        let started = async { writer.start(start).await.map_err(Error::from) };
        tokio::try_join!(started, self.begin_claimed(claim)).map(drop)
    }
}

/// The pause before a write is repeated that a replay waits for.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The error of a step whose start was written, but no call was made.
const NOT_MADE: &str = "The call was given up before it was made";
/// The error of a step whose call ended by a defect of the gateway.
const FAULT: &str = "The gateway failed while it handled this call";

/// A funded call that is not recorded yet. If it is dropped, mostly because the caller hung up, a
/// task of the gateway's records its state.
#[derive(Debug)]
pub(crate) struct InFlight {
    gateway: Gateway,
    /// The request that it is made for.
    request: Option<Served>,
    /// The rounds of which it is one, if it is not the last.
    rounds: Option<Rounds>,
    call: Option<Arc<Call>>,
    /// The outcome so far; its text is as the provider sent it.
    pub(crate) outcome: CallOutcome,
}

impl InFlight {
    fn new(gateway: Gateway, funded: Funded, written: bool) -> Self {
        Self {
            gateway,
            request: request_id::served(),
            rounds: None,
            call: Some(Arc::new(Call::new(funded, written))),
            outcome: CallOutcome::default(),
        }
    }

    /// The call.
    pub(crate) fn funded(&self) -> Result<&Funded> {
        // Only `finish` and `drop` take it, and both end this value.
        self.call.as_deref().map(|call| &call.funded).ok_or_else(ended_twice)
    }

    /// The call, and its outcome so far.
    pub(super) fn parts(&mut self) -> Result<(&Funded, &mut CallOutcome)> {
        match self.call.as_deref() {
            Some(call) => Ok((&call.funded, &mut self.outcome)),
            None => Err(ended_twice()),
        }
    }

    /// Notes that an error of the gateway ends the call, and returns the error: if the call is
    /// dropped now, its caller has not hung up.
    pub(crate) fn fault(&mut self, error: Error) -> Error {
        self.outcome.status = StepStatus::Failed;
        self.outcome.error = Some(FAULT.to_owned());
        error
    }

    /// Records how it ended. Returns once that is on disk.
    pub(crate) fn finish(mut self) -> impl Future<Output = Result<Recorded>> + Send {
        // Boxed: each waiting future would carry the call twice.
        Box::pin(async move {
            let Some(call) = self.call.take() else {
                return Err(ended_twice());
            };
            call.end(&self.gateway.start_journal, self.outcome.status == StepStatus::Completed);
            let recorded = self.gateway.record_run(&call.funded, &mut self.outcome).await;
            if recorded.is_err() && is_replayed(&call) {
                let (gateway, start) = (self.gateway.clone(), call.funded.start());
                self.gateway.tasks.spawn(async move { settle_unrecorded(&gateway, start).await });
            }
            let recorded = recorded?;
            let answer_left = self.request.take().map(|request| request.answer_left);
            let leaving = Leaving::new(self.rounds.take(), answer_left);
            self.gateway.shadow(call, &mut self.outcome, leaving);
            Ok(recorded)
        })
    }

    /// Records how a round ended whose answer its caller does not get: tools are run next. A shadow call waits
    /// until all rounds have ended, and the answer of the last has left.
    pub(crate) fn finish_round(
        mut self,
        rounds: Rounds,
    ) -> impl Future<Output = Result<Recorded>> + Send {
        self.rounds = Some(rounds);
        self.finish()
    }

    /// Takes it back: it was refused here, and no provider was asked. It leaves no step, not even if
    /// the gateway dies once this has returned.
    pub(super) async fn withdraw(mut self) -> Result<()> {
        let call = self.call.take().ok_or_else(ended_twice)?;
        let is_written = call.end(&self.gateway.start_journal, false);
        call.funded.settled();
        if is_written { take_back(self.gateway.clone(), call).await } else { Ok(()) }
    }

    /// Why it is being dropped, unless the outcome records a reason already.
    fn dropped_by(&self, is_shadow: bool) -> (StepStatus, &'static str) {
        if std::thread::panicking() {
            (StepStatus::Failed, FAULT)
        } else if self.gateway.cut_off.is_cancelled() || is_shadow {
            // Only a stop ends a shadow call: it has no caller who could hang up.
            (StepStatus::Failed, "The gateway stopped before this call ended")
        } else {
            (StepStatus::Cancelled, "The caller hung up")
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        call.end(&self.gateway.start_journal, false);
        let mut outcome = std::mem::take(&mut self.outcome);
        if outcome.error.is_none() {
            let (status, error) =
                self.dropped_by(call.funded.routed().screened().context().is_shadow);
            (outcome.status, outcome.error) = (status, Some(error.to_owned()));
        }
        // It is recorded later: whoever ends the claim must know now that it has left.
        let context = call.funded.routed().screened().context();
        if let Some(claim) = context.caller.claim.as_ref().filter(|_| !context.is_shadow)
            && outcome.error.as_deref() != Some(NOT_MADE)
        {
            claim.note_end(outcome.status == StepStatus::Failed);
            claim.note_spent();
        }
        let gateway = self.gateway.clone();
        if is_replayed(&call) && outcome.error.as_deref() == Some(NOT_MADE) {
            call.funded.settled();
            let withdrawn = async move { take_back(gateway, call).await };
            let tasks = &self.gateway.tasks;
            tasks.spawn(async { withdrawn.await.unwrap_or_else(not_withdrawn) });
            return;
        }
        let record = async move {
            if let Err(error) = gateway.record_run(&call.funded, &mut outcome).await {
                metrics::counter!("sluice_dropped_total", "what" => "cancelled_step").increment(1);
                tracing::error!(%error, step = %call.funded.step(), "a call that was cut short was not recorded");
                if is_replayed(&call) {
                    let start = call.funded.start();
                    // Nothing of its prompt is held for as long as the disk takes no writes.
                    drop((call, outcome));
                    settle_unrecorded(&gateway, start).await;
                }
            }
        };
        self.gateway.tasks.spawn(request_id::under(self.request.take(), record));
    }
}

/// Withdraws the start of a call that was not made. That of a replay would stand for a call that is not made
/// again: it is withdrawn until the disk has it, by a task of the gateway if that takes long.
async fn take_back(gateway: Gateway, call: Arc<Call>) -> Result<()> {
    let (writer, step) = (gateway.store.writer(), call.funded.step());
    let Some(recorded) = &call.funded.routed().screened().context().recorded else {
        return Ok(writer.withdraw(step).await?);
    };
    *lock(&recorded.made) = None;
    let Err(error) = write_again(|| writer.withdraw(step)).await else { return Ok(()) };
    let of_task = gateway.clone();
    gateway.tasks.spawn(async move {
        let (writer, stopping) = (of_task.store.writer(), &of_task.stopping);
        let withdrawn = write_until_stop(stopping, || async { Ok(writer.withdraw(step).await?) });
        withdrawn.await.unwrap_or_else(not_withdrawn);
    });
    Err(error)
}

/// Whether a call repeats another for a replay. While its start is open, the replay waits for its record.
fn is_replayed(call: &Call) -> bool {
    call.funded.routed().screened().context().recorded.is_some()
}

/// Records the end of a call of a replay whose own record could not be written, as soon as the disk takes it. The
/// call is closed then, and still not made again.
async fn settle_unrecorded(gateway: &Gateway, start: Start) {
    let (store, ended_at) = (&gateway.store, gateway.clock.now());
    let settled = write_until_stop(&gateway.stopping, || async {
        // A write that took too long may have been stored since.
        if bounded(store.is_open_call(start.step)).await? {
            store.writer().unrecorded(&start, ended_at).await?;
        }
        Ok(())
    });
    if let Err(error) = settled.await {
        tracing::error!(%error, step = %start.step, "the end of a call of a replay was not recorded");
    }
}

/// Repeats a write, after a pause each time, until it is done or refused; once the gateway stops, the next attempt is
/// the last.
async fn write_until_stop<F>(stopping: &CancellationToken, write: impl Fn() -> F) -> Result<()>
where
    F: Future<Output = Result<()>> + Send,
{
    loop {
        stopping.run_until_cancelled(tokio::time::sleep(RETRY_INTERVAL)).await;
        let is_last = stopping.is_cancelled();
        match write().await {
            Err(Error::Unavailable(_)) if !is_last => {}
            done => return done,
        }
    }
}

fn not_withdrawn(error: Error) {
    tracing::warn!(%error, "the start of a call that was not made was not withdrawn");
}

fn ended_twice() -> Error {
    Error::Internal("a call ended twice".to_owned())
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;
