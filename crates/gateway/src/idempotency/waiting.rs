//! The claim of a request, or the wait for the answer to another with it.

use std::sync::Arc;
use std::time::Duration;

use domain::time::{DAY, Timestamp};
use store::{ClaimId, ClaimState};
use tokio::time::{Instant, sleep, timeout_at};

use crate::bounded_read::bounded;
use crate::capacity::offload::offload;
use crate::error::{Error, IdempotencyFault, Result};
use crate::gateway::Gateway;
use crate::idempotency::claimed::ClaimedRequest;
use crate::idempotency::kept_answer::KeptAnswer;
use crate::state::caller::Caller;
use crate::state::claims::{CallClaim, Entered, HeldRun, WaitingPlace};

/// How long answers are kept, in microseconds.
pub(crate) const ANSWERS_KEPT: i64 = DAY;
/// How long a request waits for another with its claim.
const MOST_WAIT: Duration = Duration::from_secs(30);
/// The first pause between two looks at the claim of another node; each is twice as long as the one before.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// The longest of these pauses.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// The way to treat a request.
#[derive(Debug)]
pub enum Once {
    /// It is carried out under this claim.
    First(ClaimedRequest),
    /// It was answered before.
    Again(Box<KeptAnswer>),
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

impl Gateway {
    pub(super) async fn claim_or_answer(
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
        let length = match found.state {
            ClaimState::Running(node) if node == self.store.node() => return Ok(Look::Stray),
            ClaimState::Running(_) => return Ok(Look::Running),
            ClaimState::Lost => return Err(IdempotencyFault::Unknown.into()),
            ClaimState::Unkept => return Err(IdempotencyFault::Unkept.into()),
            ClaimState::Answered(length) => length,
        };
        let answer = self.kept_answer(caller, (id, request), length).await?;
        Ok(answer.map_or(Look::Free, Look::Answered))
    }

    /// The answer that is kept under a claim; `None` if it has gone meanwhile. The memory that it takes is charged
    /// before it is taken and until the answer has left.
    async fn kept_answer(
        &self,
        caller: &Caller,
        (id, request): (ClaimId, [u8; 32]),
        length: usize,
    ) -> Result<Option<Box<KeptAnswer>>> {
        let share = caller.share();
        let mut charge = self.replay_memory.charge(id.project, id.key);
        charge.begin(length).await?;
        let Some(sealed) = bounded(self.store.kept_answer(id, request)).await? else {
            return Ok(None);
        };
        let key = &caller.project.sealing;
        let packed = offload(share, length, || key.open_packed(&id.place(), sealed)).await??;
        let size = packed.size();
        charge.add(size)?;
        let read = offload(share, size, || {
            let stored = packed.unpack()?;
            drop(packed);
            charge.lower(size);
            Ok::<_, store::Error>(KeptAnswer::read(stored, charge))
        });
        let answer = read.await??;
        let damaged = || Error::Internal("a kept answer is damaged".to_owned());
        Ok(Some(Box::new(answer.ok_or_else(damaged)?)))
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
}
