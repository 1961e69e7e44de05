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
/// The most requests of one key that it works on.
const MOST_RUNNING_OF_KEY: usize = 1024;
/// The most bytes of answers that are held to be kept.
const MOST_HELD_BYTES: usize = 128 * 1024 * 1024;
/// The largest answer that is kept, in bytes of its body.
pub(crate) const MOST_KEPT_BYTES: usize = 8 * 1024 * 1024;
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
    has_failed: AtomicBool,
}

impl CallClaim {
    pub(crate) fn new(id: ClaimId, claimed_at: Timestamp) -> Self {
        Self {
            id,
            claimed_at,
            has_begun: AtomicBool::new(false),
            has_spent: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
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

    /// Whether its last call has failed: a stream that had begun is broken then.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Notes how a call has ended.
    pub(crate) fn note_end(&self, has_failed: bool) {
        self.has_failed.store(has_failed, Ordering::Release);
    }

    /// Whether a call has cost anything, or may have.
    pub(crate) fn has_spent(&self) -> bool {
        self.has_spent.load(Ordering::Acquire)
    }

    /// Notes that a call has cost something, or may have.
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
    running_of_key: HashMap<KeyId, usize>,
    bytes: usize,
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
        let of_key = held.running_of_key.get(&id.key).copied().unwrap_or(0);
        if held.running.len() >= MOST_RUNNING || of_key >= MOST_RUNNING_OF_KEY {
            let why = "Too many requests with an Idempotency-Key run";
            return Err(Error::Busy { why, retry_after: 1 });
        }
        let run = Arc::<Run>::default();
        held.running.insert(id, run.clone());
        held.running_of_key.insert(id.key, of_key + 1);
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
        let mut held = lock(&self.claims.0);
        held.running.remove(&self.id);
        give_back(&mut held.running_of_key, self.id.key);
        drop(held);
        self.run.ended.cancel();
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut held = lock(&self.claims.0);
        held.waiting -= 1;
        give_back(&mut held.waiting_of_key, self.key);
    }
}

/// Gives the place of a key back.
fn give_back(places: &mut HashMap<KeyId, usize>, key: KeyId) {
    let taken = places.remove(&key).unwrap_or(1);
    if taken > 1 {
        places.insert(key, taken - 1);
    }
}

/// The bytes of an answer that is to be kept, within the bounds of one and of all of them.
#[derive(Debug)]
pub struct AnswerBytes {
    claims: Claims,
    bytes: Vec<u8>,
}

impl AnswerBytes {
    pub(crate) fn new(claims: Claims) -> Self {
        Self { claims, bytes: Vec::new() }
    }

    /// Adds bytes. False if there are too many: the answer is not kept.
    pub fn add(&mut self, more: &[u8]) -> bool {
        if self.bytes.len() + more.len() > MOST_KEPT_BYTES {
            return false;
        }
        {
            let mut held = lock(&self.claims.0);
            if held.bytes + more.len() > MOST_HELD_BYTES {
                return false;
            }
            held.bytes += more.len();
        }
        self.bytes.extend_from_slice(more);
        true
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for AnswerBytes {
    fn drop(&mut self) {
        lock(&self.claims.0).bytes -= self.bytes.len();
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
            let key = KeyId((number / MOST_RUNNING_OF_KEY) as u64);
            ClaimId { project: ProjectId(1), key, name }
        };
        let runs: Vec<_> = (0..MOST_RUNNING).map(|n| claims.enter(name(n)).unwrap()).collect();
        assert!(matches!(claims.enter(name(MOST_RUNNING)), Err(Error::Busy { .. })));
        drop(runs);
        let of_one: Vec<_> =
            (0..MOST_RUNNING_OF_KEY).map(|n| claims.enter(name(n)).unwrap()).collect();
        let more = ClaimId { key: KeyId(0), ..name(MOST_RUNNING) };
        assert!(matches!(claims.enter(more), Err(Error::Busy { .. })));
        assert!(claims.enter(name(MOST_RUNNING)).is_ok(), "others have room");
        drop(of_one);
        assert!(claims.enter(more).is_ok());
        assert!(lock(&claims.0).running_of_key.is_empty());
    }

    #[test]
    fn the_bytes_of_answers_are_bounded_one_by_one_and_in_all() {
        let claims = Claims::default();
        let piece = vec![0; MOST_KEPT_BYTES / 2];
        let full = || {
            let mut answer = AnswerBytes::new(claims.clone());
            assert!(answer.add(&piece) && answer.add(&piece) && !answer.add(b"x"));
            answer
        };
        let mut all: Vec<_> = (0..MOST_HELD_BYTES / MOST_KEPT_BYTES).map(|_| full()).collect();
        let mut more = AnswerBytes::new(claims.clone());
        assert!(!more.add(b"x"));
        all.pop();
        assert!(more.add(b"x"));
        drop((all, more));
        assert_eq!(lock(&claims.0).bytes, 0);
    }
}
