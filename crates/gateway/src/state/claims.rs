//! Requests with an `Idempotency-Key` that this node works on, and those that wait for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use domain::ids::KeyId;
use domain::time::Timestamp;
use store::ClaimId;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::lock::lock;

/// The most requests that this node works on at a time: they go on when their callers hang up.
const MOST_RUNNING: usize = 4096;
/// The most requests that wait for others.
const MOST_WAITING: usize = 256;
/// The most requests of one key that do.
const MOST_WAITING_OF_KEY: usize = 64;

/// The claim that a request is carried out under, as its calls see it.
#[derive(Debug)]
pub(crate) struct CallClaim {
    pub(crate) id: ClaimId,
    pub(crate) claimed_at: Timestamp,
    has_begun: AtomicBool,
    has_spent: AtomicBool,
}

impl CallClaim {
    pub(crate) fn new(id: ClaimId, claimed_at: Timestamp) -> Self {
        Self {
            id,
            claimed_at,
            has_begun: AtomicBool::new(false),
            has_spent: AtomicBool::new(false),
        }
    }

    /// Whether a model may have been called.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Notes that a model may be called from now on.
    pub(crate) fn note_begun(&self) {
        self.has_begun.store(true, Ordering::Release);
    }

    /// Whether a call has cost anything.
    pub(crate) fn has_spent(&self) -> bool {
        self.has_spent.load(Ordering::Acquire)
    }

    /// Notes that a call has cost something.
    pub(crate) fn note_spent(&self) {
        self.has_spent.store(true, Ordering::Release);
    }
}

/// A request that this node works on, as others with the same claim see it.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// The request that the claim is for, once the database has told.
    pub(crate) request: OnceLock<[u8; 32]>,
    /// Cancelled when this node works on it no more.
    pub(crate) ended: CancellationToken,
}

/// The requests that this node works on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    running: HashMap<ClaimId, Arc<Run>>,
    waiting: usize,
    waiting_of_key: HashMap<KeyId, usize>,
}

/// A request has come.
#[derive(Debug)]
pub(crate) enum Entered {
    /// This node works on none with its claim: it is the first.
    First(HeldRun),
    /// This node works on this one.
    Behind(Arc<Run>),
}

/// The work of this node on a request. Others wait until it is dropped.
#[derive(Debug)]
pub(crate) struct HeldRun {
    claims: Claims,
    id: ClaimId,
    pub(crate) run: Arc<Run>,
}

/// The place of a request that waits for another.
#[derive(Debug)]
pub(crate) struct WaitingPlace {
    claims: Claims,
    key: KeyId,
}

impl Claims {
    /// Begins to work on a request, unless this node works on one with its claim.
    pub(crate) fn enter(&self, id: ClaimId) -> Result<Entered> {
        let mut held = lock(&self.0);
        if let Some(run) = held.running.get(&id) {
            return Ok(Entered::Behind(run.clone()));
        }
        if held.running.len() >= MOST_RUNNING {
            let why = "Too many requests with an Idempotency-Key run";
            return Err(Error::Busy { why, retry_after: 1 });
        }
        let run = Arc::<Run>::default();
        held.running.insert(id, run.clone());
        Ok(Entered::First(HeldRun { claims: self.clone(), id, run }))
    }

    /// A place for a request of a key that waits for another.
    pub(crate) fn wait(&self, key: KeyId) -> Result<WaitingPlace> {
        let mut held = lock(&self.0);
        let of_key = held.waiting_of_key.get(&key).copied().unwrap_or(0);
        if held.waiting >= MOST_WAITING || of_key >= MOST_WAITING_OF_KEY {
            let why = "Too many requests wait for earlier ones with their Idempotency-Key";
            return Err(Error::Busy { why, retry_after: 1 });
        }
        held.waiting += 1;
        held.waiting_of_key.insert(key, of_key + 1);
        Ok(WaitingPlace { claims: self.clone(), key })
    }
}

impl Drop for HeldRun {
    fn drop(&mut self) {
        lock(&self.claims.0).running.remove(&self.id);
        self.run.ended.cancel();
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut held = lock(&self.claims.0);
        held.waiting -= 1;
        let of_key = held.waiting_of_key.remove(&self.key).unwrap_or(1);
        if of_key > 1 {
            held.waiting_of_key.insert(self.key, of_key - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::ProjectId;

    use super::*;

    fn id(name: u8) -> ClaimId {
        ClaimId { project: ProjectId(1), key: KeyId(7), name: [name; 32] }
    }

    #[tokio::test]
    async fn whoever_comes_later_waits_for_the_end() {
        let claims = Claims::default();
        let Entered::First(first) = claims.enter(id(1)).unwrap() else { panic!("there is none") };
        let Entered::Behind(run) = claims.enter(id(1)).unwrap() else { panic!("there is one") };
        assert!(matches!(claims.enter(id(2)).unwrap(), Entered::First(_)));
        assert!(!run.ended.is_cancelled());
        drop(first);
        run.ended.cancelled().await;
        assert!(matches!(claims.enter(id(1)).unwrap(), Entered::First(_)));
    }

    #[test]
    fn a_key_takes_some_of_the_places_and_gives_them_back() {
        let claims = Claims::default();
        let places: Vec<_> =
            (0..MOST_WAITING_OF_KEY).map(|_| claims.wait(KeyId(1)).unwrap()).collect();
        assert!(matches!(claims.wait(KeyId(1)), Err(Error::Busy { .. })));
        let others: Vec<_> = (0..MOST_WAITING - MOST_WAITING_OF_KEY)
            .map(|number| claims.wait(KeyId(number as u64 + 2)).unwrap())
            .collect();
        assert!(matches!(claims.wait(KeyId(9999)), Err(Error::Busy { .. })));
        drop((places, others));
        claims.wait(KeyId(1)).unwrap();
        assert_eq!(lock(&claims.0).waiting, 0);
        assert!(lock(&claims.0).waiting_of_key.is_empty());
    }

    #[test]
    fn what_runs_is_bounded() {
        let claims = Claims::default();
        let name = |number: usize| {
            let mut name = [0; 32];
            name[..8].copy_from_slice(&number.to_le_bytes());
            ClaimId { project: ProjectId(1), key: KeyId(7), name }
        };
        let runs: Vec<_> = (0..MOST_RUNNING).map(|n| claims.enter(name(n)).unwrap()).collect();
        assert!(matches!(claims.enter(name(MOST_RUNNING)), Err(Error::Busy { .. })));
        drop(runs);
        assert!(claims.enter(name(MOST_RUNNING)).is_ok());
    }
}
