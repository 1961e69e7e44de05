//! Connections of event loops. A decision that is awaited on another runtime than that of the keeper goes over a
//! connection whose input and output are that runtime's: over the keeper's, two other threads would have to be woken
//! for each decision, which takes as long as the decision.
//!
//! They belong to a [`Live`](crate::link::Live) and end with it. They are made when they are first wanted, beside the
//! decision that wants one, which goes over the keeper's. No beat goes over them: one is forgotten when it fails, is
//! silent, or is not wanted for a while, and no other is made at once then.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use redis::aio::MultiplexedConnection;
use tokio::runtime::{Handle, Id};

/// A connection that nothing went over for so long is forgotten, in microseconds: before a server closes it that is set
/// to close idle ones.
const LONGEST_IDLE: i64 = 10_000_000;
/// A connection over which decisions were in vain for so long is forgotten, in microseconds. Many may wait at a time:
/// how many says little.
const LONGEST_SILENCE: i64 = 1_000_000;
/// None is made for so long after one could not be made, has failed, or was silent, in microseconds.
const REST: i64 = 5_000_000;
/// The most of them: a process has a runtime for each processor, and few others.
const MOST: usize = 256;

/// The connections of the runtimes but for the keeper's.
#[derive(Debug)]
pub(crate) struct Near {
    /// The keeper's runtime.
    home: Id,
    all: ArcSwap<Vec<Arc<One>>>,
    /// The time until which none is made, in microseconds.
    rests_until: AtomicI64,
}

/// The connection of a runtime.
#[derive(Debug)]
pub(crate) struct One {
    runtime: Id,
    /// Not set while it is being made, and if that has failed.
    connection: OnceLock<MultiplexedConnection>,
    /// The time at which it was last wanted, in microseconds.
    wanted: AtomicI64,
    /// The time since which no decision was answered in time though some should have been, in microseconds; the largest
    /// number while all are.
    silent_since: AtomicI64,
}

impl One {
    /// Has decisions go over a connection from now on.
    pub(crate) fn set(&self, connection: MultiplexedConnection) {
        // It is made by one task.
        let _ = self.connection.set(connection);
    }

    /// Notes that a decision was answered.
    pub(crate) fn note_answer(&self) {
        self.silent_since.store(i64::MAX, Ordering::Relaxed);
    }

    /// Notes that a decision that was asked for then is not answered in time. Returns whether none was for so long that
    /// another connection may do better.
    pub(crate) fn note_silence(&self, asked: i64, now: i64) -> bool {
        let since = self.silent_since.fetch_min(asked, Ordering::Relaxed).min(asked);
        now - since > LONGEST_SILENCE
    }
}

/// The connection for a decision.
pub(crate) enum Nearest {
    /// The keeper's.
    Keepers,
    /// The keeper's, this time; another is to be made.
    ToBeMade(Arc<One>),
    /// The runtime's own.
    Own(Arc<One>, MultiplexedConnection),
}

impl Near {
    /// None yet. To be called on the keeper's runtime.
    pub(crate) fn new() -> Self {
        Self {
            home: Handle::current().id(),
            all: ArcSwap::default(),
            rests_until: AtomicI64::new(i64::MIN),
        }
    }

    /// The connection for a decision that is awaited here.
    pub(crate) fn nearest(&self, now: i64) -> Nearest {
        let here = Handle::current().id();
        if here == self.home {
            return Nearest::Keepers;
        }
        let all = self.all.load();
        if let Some(one) = all.iter().find(|one| one.runtime == here) {
            one.wanted.store(now, Ordering::Relaxed);
            let connection = one.connection.get().cloned();
            return connection.map_or(Nearest::Keepers, |own| Nearest::Own(one.clone(), own));
        }
        if all.len() >= MOST || now < self.rests_until.load(Ordering::Relaxed) {
            return Nearest::Keepers;
        }
        let added = Arc::new(One {
            runtime: here,
            connection: OnceLock::new(),
            wanted: AtomicI64::new(now),
            silent_since: AtomicI64::new(i64::MAX),
        });
        // Another task of the runtime may be faster.
        let has_room =
            |all: &[Arc<One>]| all.len() < MOST && all.iter().all(|one| one.runtime != here);
        let before = self.all.rcu(|all| -> Vec<Arc<One>> {
            let own = has_room(all).then_some(&added);
            all.iter().chain(own).cloned().collect()
        });
        if has_room(&before) { Nearest::ToBeMade(added) } else { Nearest::Keepers }
    }

    /// Forgets a connection that cannot be made, fails, or is silent. Another is made when it is wanted after a rest:
    /// the server may be slow, or have no room.
    pub(crate) fn forget(&self, one: &Arc<One>, now: i64) {
        self.rests_until.fetch_max(now + REST, Ordering::Relaxed);
        self.all.rcu(|all| -> Vec<Arc<One>> {
            all.iter().filter(|other| !Arc::ptr_eq(other, one)).cloned().collect()
        });
    }

    /// Forgets those that nothing goes over.
    pub(crate) fn forget_idle(&self, now: i64) {
        let is_idle = |one: &Arc<One>| now - one.wanted.load(Ordering::Relaxed) > LONGEST_IDLE;
        if self.all.load().iter().any(is_idle) {
            self.all.rcu(|all| -> Vec<Arc<One>> {
                all.iter().filter(|one| !is_idle(one)).cloned().collect()
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn each_runtime_but_the_keepers_makes_one_and_forgets_it_when_it_is_idle() {
        let (home, other, third) = (runtime(), runtime(), runtime());
        let near = home.block_on(async { Near::new() });
        let asks =
            |runtime: &tokio::runtime::Runtime, now| runtime.block_on(async { near.nearest(now) });
        assert!(matches!(asks(&home, 0), Nearest::Keepers));
        let Nearest::ToBeMade(one) = asks(&other, 0) else { panic!("it has none") };
        assert!(matches!(asks(&other, 1), Nearest::Keepers), "it is being made");
        assert!(matches!(asks(&third, LONGEST_IDLE), Nearest::ToBeMade(_)), "it is another");
        near.forget(&one, 2);
        assert!(matches!(asks(&other, REST + 1), Nearest::Keepers), "it could not be made");
        assert!(matches!(asks(&other, REST + 2), Nearest::ToBeMade(_)), "that was long ago");
        near.forget_idle(LONGEST_IDLE + 2);
        assert!(matches!(asks(&other, LONGEST_IDLE + 2), Nearest::Keepers), "it was wanted");
        near.forget_idle(2 * LONGEST_IDLE + 1);
        assert!(matches!(asks(&third, 2 * LONGEST_IDLE + 1), Nearest::ToBeMade(_)), "it was idle");
        assert!(matches!(asks(&other, 2 * LONGEST_IDLE + 2), Nearest::Keepers), "it was not");
    }

    #[test]
    fn one_is_silent_that_answers_nothing_for_a_second_and_another_is_not_made_at_once() {
        let (home, other, third) = (runtime(), runtime(), runtime());
        let near = home.block_on(async { Near::new() });
        let asks =
            |runtime: &tokio::runtime::Runtime, now| runtime.block_on(async { near.nearest(now) });
        let Nearest::ToBeMade(one) = asks(&other, 0) else { panic!("it has none") };
        let idle = 5 * LONGEST_SILENCE;
        assert!(!one.note_silence(idle, idle + 50_000), "it was not asked before");
        one.note_answer();
        assert!(!one.note_silence(idle + LONGEST_SILENCE, idle + LONGEST_SILENCE + 50_000));
        let later = idle + 2 * LONGEST_SILENCE;
        assert!(one.note_silence(later, later + 50_000));
        near.forget(&one, later);
        for runtime in [&other, &third] {
            assert!(
                matches!(asks(runtime, later + REST - 1), Nearest::Keepers),
                "the server is slow"
            );
        }
        assert!(matches!(asks(&third, later + REST), Nearest::ToBeMade(_)));
    }
}
