//! A request that is carried out under its claim, and how it ends.

use std::sync::Arc;

use store::ClaimEnd;

use crate::bounded_read::{bounded, write_again};
use crate::capacity::offload::offload_always;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::idempotency::kept_answer::KeptAnswer;
use crate::request_id;
use crate::state::caller::Caller;
use crate::state::claims::{AnswerBytes, CallClaim, HeldRun};

/// The claim of a request that is carried out. Dropped without an answer it is given up: the request is free again
/// if no model can have been called, and lost otherwise.
#[derive(Debug)]
pub struct ClaimedRequest {
    pub(super) gateway: Gateway,
    pub(super) caller: Caller,
    pub(super) claim: Arc<CallClaim>,
    /// `None` once its end is being written.
    pub(super) run: Option<HeldRun>,
}

/// Counts the outcome of a request with an `Idempotency-Key`.
pub(super) fn count(outcome: &'static str) {
    metrics::counter!("sluice_idempotent_requests_total", "outcome" => outcome).increment(1);
}

impl Gateway {
    /// Notes that a model is about to be called under a claim: if this node dies, the answer is lost. Refuses the call
    /// if the claim is not this node's any more.
    pub(crate) async fn begin_claimed(&self, claim: &CallClaim) -> Result<()> {
        if claim.has_begun() {
            return Ok(());
        }
        if !self.store.begin_claimed_call(claim.id, claim.claimed_at).await? {
            let why = "another node has taken this one for dead";
            return Err(Error::Unavailable(why.to_owned()));
        }
        claim.note_begun();
        Ok(())
    }
}

impl ClaimedRequest {
    /// The caller whose calls are made under this claim.
    pub fn caller(&self) -> Caller {
        self.caller.clone().under(self.claim.clone())
    }

    /// Carries the request out in a task of the gateway, which goes on when the caller hangs up and ends at a stop of
    /// the gateway.
    pub fn spawn(self, work: impl Future<Output = RequestEnd> + Send + 'static) {
        let gateway = self.gateway.clone();
        let (cut_off, stopping) = (gateway.cut_off.clone(), gateway.stopping.clone());
        let work = async move {
            let work = stopping.run_until_cancelled(work);
            if let Some(Some(end)) = cut_off.run_until_cancelled(work).await {
                self.end(end).await;
            }
        };
        gateway.tasks.spawn(request_id::carried(work));
    }

    /// Room for the bytes of its answer.
    pub fn answer_bytes(&self) -> AnswerBytes {
        AnswerBytes::new(self.gateway.claims.clone())
    }

    /// Writes how it ended: an answer is kept if the request succeeded, or has cost something.
    async fn end(mut self, request: RequestEnd) {
        let Some(run) = self.run.take() else { return };
        let has_succeeded = request.has_succeeded && !self.claim.has_failed();
        let written = if has_succeeded || self.claim.has_spent() {
            (request.leaves)();
            self.keep(request.answer).await
        } else {
            // A caller that has the failure may put the request right at once.
            let (store, claim) = (&self.gateway.store, &*self.claim);
            let released = store.release_claim_of_request(claim.id, claim.claimed_at).await;
            (request.leaves)();
            match released {
                Ok(_) => {
                    count("released");
                    Ok(())
                }
                Err(_) => self.release().await,
            }
        };
        if let Err(error) = written {
            tracing::error!(error = error.cause(), "the answer to an Idempotency-Key was not kept");
            count("failed");
        }
        drop(run);
    }

    async fn keep(&self, answer: AnswerEnd) -> Result<()> {
        let (head, bytes) = match answer {
            AnswerEnd::Whole(head, bytes) => (head, bytes),
            AnswerEnd::TooLarge => return self.write_end(ClaimEnd::Unkept, "unkept").await,
            AnswerEnd::BrokenOff => return self.write_end(ClaimEnd::Lost, "lost").await,
        };
        // Such a project keeps no texts of its calls, in whatever form.
        if self.caller.project.settings.discard_content {
            return self.write_end(ClaimEnd::Unkept, "unkept").await;
        }
        let (key, place) = (&self.caller.project.sealing, self.claim.id.place());
        let length = bytes.bytes().len();
        let seal = || key.seal_content(&place, &head.write(bytes.bytes())?).map_err(Error::from);
        let sealed = offload_always(self.caller.share(), length, seal).await?;
        drop(bytes);
        if !self.has_room(sealed.len()).await {
            return self.write_end(ClaimEnd::Unkept, "full").await;
        }
        self.write_end(ClaimEnd::Answered(&sealed), "kept").await
    }

    /// Whether the project may keep so many bytes more. Other nodes keep answers beside this one, so the bound is met
    /// within what they keep in a minute.
    async fn has_room(&self, bytes: usize) -> bool {
        let (gateway, id) = (&self.gateway, self.claim.id);
        if let Some(sum) = gateway.kept_bytes.begin_sum(id.project, gateway.clock.now()) {
            match bounded(gateway.store.kept_bytes(id.project)).await {
                Ok(of_keys) => sum.note(&of_keys),
                Err(error) => {
                    tracing::warn!(error = error.cause(), "the size of kept answers is not known");
                }
            }
        }
        gateway.kept_bytes.add(id.project, id.key, bytes as u64)
    }

    async fn write_end(&self, end: ClaimEnd<'_>, outcome: &'static str) -> Result<()> {
        let (store, claim) = (&self.gateway.store, &*self.claim);
        let write = || store.end_claim_of_request(claim.id, claim.claimed_at, end);
        let is_written = write_again(write).await?;
        // Without a row the project is gone, or another node has settled the claim.
        count(if is_written { outcome } else { "lost" });
        Ok(())
    }

    async fn release(&self) -> Result<()> {
        let (store, claim) = (&self.gateway.store, &*self.claim);
        write_again(|| store.release_claim_of_request(claim.id, claim.claimed_at)).await?;
        count("released");
        Ok(())
    }

    /// Gives the claim up: the work on it ended early.
    async fn give_up(&self) -> Result<()> {
        if !self.claim.has_begun() {
            return self.release().await;
        }
        self.write_end(ClaimEnd::Lost, "lost").await
    }
}

impl Drop for ClaimedRequest {
    fn drop(&mut self) {
        let Some(run) = self.run.take() else { return };
        let given_up = Self {
            gateway: self.gateway.clone(),
            caller: self.caller.clone(),
            claim: self.claim.clone(),
            run: None,
        };
        self.gateway.tasks.spawn(async move {
            if let Err(error) = given_up.give_up().await {
                tracing::error!(error = error.cause(), "a claim was not given up");
            }
            drop(run);
        });
    }
}

/// The end of a request that was carried out.
pub struct RequestEnd {
    /// Whether it did what its caller has asked for, as its answer has it.
    pub has_succeeded: bool,
    /// Its answer.
    pub answer: AnswerEnd,
    /// Sends the answer, unless it was streamed.
    pub leaves: Box<dyn FnOnce() + Send>,
}

/// The answer to a request that was carried out.
#[derive(Debug)]
pub enum AnswerEnd {
    /// It is whole: its head, and the bytes of its body.
    Whole(KeptAnswer, AnswerBytes),
    /// There is no room for it.
    TooLarge,
    /// It broke off.
    BrokenOff,
}
