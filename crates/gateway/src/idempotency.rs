//! Requests with an `Idempotency-Key`: each is carried out once, on whichever node, and answered alike whenever it
//! comes again within a day.
//!
//! ```text
//!            no claim                 answered, or something was spent
//! request ------------> claim, run ------------------------------------> answer kept
//!    |                    ^    |
//!    | claim of another   |    | nothing was spent and it failed
//!    v                    |    v
//!  wait ----------------> free
//! ```
//!
//! A claim is a row of the database, and beside it an entry in the memory of the node that works on it
//! ([`Claims`](crate::state::claims::Claims)): requests on that node wait for the entry, those on others look at the
//! row again and again. The work goes on when its caller hangs up, so that the answer is there when they ask again.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use domain::time::{DAY, Timestamp};
use serde::{Deserialize, Serialize};
use store::{ClaimEnd, ClaimId, ClaimState};
use tokio::time::{Instant, sleep, timeout_at};

use crate::bounded_read::{bounded, write_again};
use crate::capacity::offload::{offload, offload_always};
use crate::error::{Error, IdempotencyFault, Result};
use crate::gateway::Gateway;
use crate::request_id;
use crate::state::caller::Caller;
use crate::state::claims::{AnswerBytes, CallClaim, Entered, HeldRun, WaitingPlace};

/// How long answers are kept, in microseconds.
pub(crate) const ANSWERS_KEPT: i64 = DAY;
/// How long a request waits for another with its claim.
const MOST_WAIT: Duration = Duration::from_secs(30);
/// The first pause between two looks at the claim of another node; each is twice as long as the one before.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// The longest of these pauses.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// A request that is to be carried out once.
#[derive(Clone, Copy, Debug)]
pub struct IdempotentRequest<'a> {
    /// The caller's name for it.
    pub idempotency_key: &'a str,
    /// The path that it was sent to.
    pub path: &'a str,
    /// Its query, without credentials.
    pub query: &'a str,
    /// Its body as it came.
    pub body: &'a [u8],
}

/// An answer that is kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAnswer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its body.
    #[serde(skip)]
    pub body: Vec<u8>,
    /// The names of the attributes of its request that were not kept.
    dropped_attributes: Vec<String>,
}

impl KeptAnswer {
    /// An answer to the request that is served here.
    pub fn new(status: u16, headers: Vec<(String, Vec<u8>)>) -> Self {
        let body = Vec::new();
        Self { status, headers, body, dropped_attributes: request_id::dropped_attributes() }
    }

    /// As it is stored: the length of the head, the head as JSON, the body.
    fn write(&self, body: &[u8]) -> Result<Vec<u8>> {
        let head = serde_json::to_vec(self).map_err(|error| Error::Internal(error.to_string()))?;
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
        let mut all = Vec::with_capacity(4 + head.len() + body.len());
        all.extend_from_slice(&length.to_le_bytes());
        all.extend_from_slice(&head);
        all.extend_from_slice(body);
        Ok(all)
    }

    fn read(stored: &[u8]) -> Option<Self> {
        let (length, rest) = stored.split_first_chunk::<4>()?;
        let (head, body) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let head: Self = serde_json::from_slice(head).ok()?;
        Some(Self { body: body.to_vec(), ..head })
    }
}

/// The way to treat a request.
#[derive(Debug)]
pub enum Once {
    /// It is carried out under this claim.
    First(ClaimedRequest),
    /// It was answered before.
    Again(Box<KeptAnswer>),
}

/// The claim of a request that is carried out. Dropped without an answer it is given up: the request is free again
/// if no model can have been called, and lost otherwise.
#[derive(Debug)]
pub struct ClaimedRequest {
    gateway: Gateway,
    caller: Caller,
    claim: Arc<CallClaim>,
    /// `None` once its end is being written.
    run: Option<HeldRun>,
}

/// Counts the outcome of a request with an `Idempotency-Key`.
fn count(outcome: &'static str) {
    metrics::counter!("sluice_idempotent_requests_total", "outcome" => outcome).increment(1);
}

impl Gateway {
    /// Claims a request, or finds its answer. Waits for up to 30 seconds while it is carried out elsewhere.
    pub async fn once(&self, caller: &Caller, request: IdempotentRequest<'_>) -> Result<Once> {
        let length = request.body.len();
        let hashed = offload(caller.share(), length, || hashes(caller, &request)).await?;
        let found = self.claim_or_answer(caller, hashed).await;
        match &found {
            Ok(Once::Again(answer)) => {
                count("replayed");
                if !answer.dropped_attributes.is_empty() {
                    request_id::note_dropped_attributes(answer.dropped_attributes.clone());
                }
            }
            Ok(Once::First(_)) => {}
            Err(Error::Idempotency(fault)) => count(fault.outcome()),
            Err(Error::Busy { .. }) => count("busy"),
            Err(_) => count("failed"),
        }
        found
    }

    async fn claim_or_answer(
        &self,
        caller: &Caller,
        (id, request): (ClaimId, [u8; 32]),
    ) -> Result<Once> {
        let deadline = Instant::now() + MOST_WAIT;
        let mut place = None;
        loop {
            let run = match self.claims.enter(id)? {
                Entered::First(run) => {
                    let claimed_at = self.clock.now();
                    let expired = claimed_at.minus_micros(ANSWERS_KEPT);
                    if self.store.claim_request(id, request, claimed_at, expired).await? {
                        // No other request can be in it.
                        let _ = run.run.request.set(request);
                        return Ok(self.claimed(caller, id, claimed_at, run));
                    }
                    match self
                        .look_until(caller, (id, request), &run, (&mut place, deadline))
                        .await?
                    {
                        Some(answer) => return Ok(Once::Again(answer)),
                        None => continue,
                    }
                }
                Entered::Behind(run) => run,
            };
            if run.request.get().is_some_and(|first| *first != request) {
                return Err(IdempotencyFault::OtherRequest.into());
            }
            if place.is_none() {
                place = Some(self.claims.wait(id.key)?);
            }
            if timeout_at(deadline, run.ended.cancelled()).await.is_err() {
                return Err(IdempotencyFault::Running.into());
            }
            // All who have waited read the answer at the same time.
            if let Look::Answered(answer) = self.look(caller, (id, request)).await? {
                return Ok(Once::Again(answer));
            }
        }
    }

    fn claimed(&self, caller: &Caller, id: ClaimId, claimed_at: Timestamp, run: HeldRun) -> Once {
        Once::First(ClaimedRequest {
            gateway: self.clone(),
            caller: caller.clone(),
            claim: Arc::new(CallClaim::new(id, claimed_at)),
            run: Some(run),
        })
    }

    /// Looks at the claim of another node, again and again, until its request is answered; `None` once it is free.
    async fn look_until(
        &self,
        caller: &Caller,
        (id, request): (ClaimId, [u8; 32]),
        run: &HeldRun,
        (place, deadline): (&mut Option<WaitingPlace>, Instant),
    ) -> Result<Option<Box<KeptAnswer>>> {
        let mut pause = FIRST_LOOK;
        loop {
            match self.look(caller, (id, request)).await? {
                Look::Answered(answer) => return Ok(Some(answer)),
                Look::Free => return Ok(None),
                Look::Stray => {
                    self.store.settle_stray_claim(id).await?;
                    continue;
                }
                Look::Running => {
                    let _ = run.run.request.set(request);
                }
            }
            if place.is_none() {
                *place = Some(self.claims.wait(id.key)?);
            }
            if Instant::now() + pause >= deadline {
                return Err(IdempotencyFault::Running.into());
            }
            sleep(pause).await;
            pause = (2 * pause).min(LONGEST_LOOK);
        }
    }

    /// Looks at a claim once. Fails if it is for another request, or if its answer will never be known.
    async fn look(&self, caller: &Caller, (id, request): (ClaimId, [u8; 32])) -> Result<Look> {
        let expired = self.clock.now().minus_micros(ANSWERS_KEPT);
        let Some(found) = bounded(self.store.claim_of_request(id, expired)).await? else {
            return Ok(Look::Free);
        };
        if found.request != request {
            return Err(IdempotencyFault::OtherRequest.into());
        }
        let sealed = match found.state {
            ClaimState::Running(node) if node == self.store.node() => return Ok(Look::Stray),
            ClaimState::Running(_) => return Ok(Look::Running),
            ClaimState::Lost => return Err(IdempotencyFault::Unknown.into()),
            ClaimState::Unkept => return Err(IdempotencyFault::Unkept.into()),
            ClaimState::Answered(sealed) => sealed,
        };
        let key = &caller.project.sealing;
        let length = sealed.len();
        let opened =
            offload(caller.share(), length, || key.open_content(&id.place(), sealed)).await??;
        let answer = KeptAnswer::read(&opened);
        let answer =
            answer.ok_or_else(|| Error::Internal("a kept answer is damaged".to_owned()))?;
        Ok(Look::Answered(Box::new(answer)))
    }

    /// Settles the claims of this node that it does not work on: their end could not be written, or their caller had
    /// gone before the work began.
    pub(crate) async fn settle_stray_claims(&self) -> Result<()> {
        for id in self.store.own_claims_of_requests().await? {
            // While it is held, no request can take the claim.
            if let Ok(Entered::First(_held)) = self.claims.enter(id) {
                self.store.settle_stray_claim(id).await?;
            }
        }
        Ok(())
    }

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

/// The state of a claim at one look.
enum Look {
    Answered(Box<KeptAnswer>),
    /// It is there no more.
    Free,
    /// Another node works on it.
    Running,
    /// This node should work on it and does not: its end could not be written.
    Stray,
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
        self.write_end(ClaimEnd::Answered(&sealed), "kept").await
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

/// The name of the claim of a request, and the hash of the request. Keyed, so that neither can be guessed from the
/// database.
fn hashes(caller: &Caller, request: &IdempotentRequest<'_>) -> (ClaimId, [u8; 32]) {
    let hash = |parts: [&[u8]; 3]| {
        let mut context = hmac::Context::with_key(&caller.project.print_key);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(context.sign().as_ref());
        hash
    };
    let IdempotentRequest { idempotency_key, path, query, body } = request;
    let name = hash([b"idempotency key", path.as_bytes(), idempotency_key.as_bytes()]);
    let id = ClaimId { project: caller.project.id(), key: caller.key.key.id, name };
    (id, hash([b"idempotent request", query.as_bytes(), body]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let headers = vec![("content-type".to_owned(), b"text/event-stream".to_vec())];
        let mut answer = KeptAnswer::new(200, headers);
        answer.body = b"data: {}\n\n\0\xff".to_vec();
        answer.dropped_attributes.push("user".to_owned());
        let stored = answer.write(&answer.body).unwrap();
        assert_eq!(KeptAnswer::read(&stored).as_ref(), Some(&answer));
        for cut in 0..stored.len() - answer.body.len() {
            assert_eq!(KeptAnswer::read(&stored[..cut]), None, "{cut}");
        }
    }
}
