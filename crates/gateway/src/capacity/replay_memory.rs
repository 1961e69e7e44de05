//! The memory that kept answers take from when they are read again until they have left: bounded for a key, a project
//! and all of them, and apart from that of bodies, so that callers who read slowly keep no request out.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::ids::{KeyId, ProjectId};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Result};
use crate::lock::lock;

/// The parts of the memory for bodies, beside it, that all answers may take, and those of one project and one key.
const PART_OF_ALL: usize = 4;
const PART_OF_PROJECT: usize = 8;
const PART_OF_KEY: usize = 16;
/// The most that the head of an answer and the frames of compressing and sealing it take.
const HEAD_BYTES: usize = 512 * 1024;
/// The longest wait for memory.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The memory for answers that come again.
#[derive(Debug)]
pub(crate) struct ReplayMemory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    most_of_project: usize,
    most_of_key: usize,
    held: Mutex<Held>,
    /// Told whenever some is given back.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    projects: HashMap<ProjectId, usize>,
    keys: HashMap<KeyId, usize>,
}

/// Memory that is held for one answer. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ReplayCharge {
    shared: Arc<Shared>,
    project: ProjectId,
    key: KeyId,
    bytes: usize,
}

impl ReplayMemory {
    /// Memory beside so many bytes for bodies. However few these are, every key has room for the largest answer:
    /// sealed and plain, since both are there for a moment.
    pub(crate) fn new(body_memory: usize, largest_answer: usize) -> Self {
        let least = 2 * (largest_answer + HEAD_BYTES);
        let part = |part: usize| (body_memory / part).max(least * (PART_OF_KEY / part));
        Self(Arc::new(Shared {
            most: part(PART_OF_ALL),
            most_of_project: part(PART_OF_PROJECT),
            most_of_key: part(PART_OF_KEY),
            held: Mutex::default(),
            freed: Notify::new(),
        }))
    }

    /// The charge for an answer, which holds nothing yet.
    pub(crate) fn charge(&self, project: ProjectId, key: KeyId) -> ReplayCharge {
        ReplayCharge { shared: self.0.clone(), project, key, bytes: 0 }
    }

    /// Sets the gauge of what is held.
    pub(crate) fn report(&self) {
        metrics::gauge!("sluice_replay_memory_bytes").set(lock(&self.0.held).all as f64);
    }
}

impl ReplayCharge {
    /// Holds the first bytes of an answer, and waits for them a moment: many who waited for one answer read it at
    /// once. Nothing is held meanwhile, so nobody waits for another who waits.
    pub(crate) async fn begin(&mut self, bytes: usize) -> Result<()> {
        let shared = self.shared.clone();
        let until = Instant::now() + LONGEST_WAIT;
        loop {
            let mut freed = pin!(shared.freed.notified());
            // Before the look: what is given back after it is not missed.
            freed.as_mut().enable();
            let Err(busy) = self.add(bytes) else { return Ok(()) };
            if timeout_at(until, freed).await.is_err() {
                return Err(busy);
            }
        }
    }

    /// Holds so many bytes more, if there are any.
    pub(crate) fn add(&mut self, more: usize) -> Result<()> {
        let held = &mut *lock(&self.shared.held);
        let all = held.all.saturating_add(more);
        let of_project = held.projects.get(&self.project).unwrap_or(&0).saturating_add(more);
        let of_key = held.keys.get(&self.key).unwrap_or(&0).saturating_add(more);
        if all > self.shared.most
            || of_project > self.shared.most_of_project
            || of_key > self.shared.most_of_key
        {
            let why = "As many kept answers are on their way as there is memory for";
            return Err(Error::Busy { why, retry_after: 1 });
        }
        held.all = all;
        held.projects.insert(self.project, of_project);
        held.keys.insert(self.key, of_key);
        self.bytes += more;
        Ok(())
    }

    /// Lowers the charge to `bytes`, if it is more.
    pub(crate) fn lower(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less == 0 {
            return;
        }
        self.bytes -= less;
        let held = &mut *lock(&self.shared.held);
        held.all = held.all.saturating_sub(less);
        let of_project = held.projects.remove(&self.project).unwrap_or(0).saturating_sub(less);
        if of_project > 0 {
            held.projects.insert(self.project, of_project);
        }
        let of_key = held.keys.remove(&self.key).unwrap_or(0).saturating_sub(less);
        if of_key > 0 {
            held.keys.insert(self.key, of_key);
        }
        self.shared.freed.notify_waiters();
    }
}

impl Drop for ReplayCharge {
    fn drop(&mut self) {
        self.lower(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: usize = 8 << 20;

    #[test]
    fn a_key_leaves_room_for_other_keys_and_a_project_for_other_projects() {
        let memory = ReplayMemory::new(1 << 30, LARGEST);
        let taken = |project: i64, key: u64| {
            let mut charge = memory.charge(ProjectId(project), KeyId(key));
            charge.add(64 << 20).map(|()| charge)
        };
        let mut held = vec![taken(1, 1).unwrap()];
        assert!(matches!(taken(1, 1), Err(Error::Busy { .. })), "a sixteenth of a key");
        held.push(taken(1, 2).unwrap());
        assert!(taken(1, 3).is_err(), "an eighth of a project");
        held.push(taken(2, 4).unwrap());
        held.push(taken(3, 5).unwrap());
        assert!(taken(4, 6).is_err(), "a quarter of all");
        held.remove(1);
        held.push(taken(1, 3).unwrap());
        drop(held);
        let rest = lock(&memory.0.held);
        assert!(rest.all == 0 && rest.projects.is_empty() && rest.keys.is_empty(), "{rest:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_a_moment_for_its_memory() {
        let memory = ReplayMemory::new(1 << 30, LARGEST);
        let mut held = memory.charge(ProjectId(1), KeyId(1));
        held.begin(64 << 20).await.unwrap();
        let mut waiting = memory.charge(ProjectId(1), KeyId(1));
        let began = Instant::now();
        assert!(matches!(waiting.begin(1).await, Err(Error::Busy { .. })));
        assert_eq!(began.elapsed(), LONGEST_WAIT);
        let (given, ()) = tokio::join!(waiting.begin(1), async { drop(held) });
        given.unwrap();
        assert_eq!(began.elapsed(), LONGEST_WAIT, "as soon as there is some");
    }

    #[test]
    fn the_largest_answer_has_room_beside_the_least_memory() {
        let memory = ReplayMemory::new(0, LARGEST);
        for (project, key) in [(1, 1), (1, 2), (2, 3), (2, 4)] {
            let mut charge = memory.charge(ProjectId(project), KeyId(key));
            charge.add(LARGEST + HEAD_BYTES).unwrap();
            charge.add(LARGEST + HEAD_BYTES).unwrap();
            assert!(charge.add(1).is_err());
            charge.lower(LARGEST);
            charge.add(LARGEST).unwrap();
            std::mem::forget(charge);
        }
    }
}
