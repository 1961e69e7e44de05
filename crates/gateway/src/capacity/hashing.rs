//! Room for password hashes, which take 19 MiB and tens of milliseconds each.

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{Error, Result};

/// The most hashes at a time.
const AT_A_TIME: usize = 2;
/// The most that wait for one of them.
const WAITING: usize = 64;
/// Those of them that strangers do not fill up: people whom the gateway knows find room.
const KEPT: usize = 16;

/// Somebody who has a password hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HashedFor {
    /// An attempt to sign in from anywhere, or the bearer of a good link, who may send it many times at once.
    Stranger,
    /// A session, or an attempt from an address that the account knows.
    Known,
}

/// Room for password hashes.
#[derive(Debug)]
pub(crate) struct Hashing {
    running: Semaphore,
    /// Places of those who wait; strangers have a part of them.
    all: Semaphore,
    strangers: Semaphore,
}

impl Hashing {
    pub(crate) const fn new() -> Self {
        Self {
            running: Semaphore::const_new(AT_A_TIME),
            all: Semaphore::const_new(WAITING),
            strangers: Semaphore::const_new(WAITING - KEPT),
        }
    }

    /// Waits for the turn of a hash, which lasts until the permit is dropped. Refuses it if too many wait.
    pub(crate) async fn turn(&self, who: HashedFor) -> Result<SemaphorePermit<'_>> {
        let busy = |_| Error::Busy { why: "Too many passwords are being checked", retry_after: 2 };
        let _strange = match who {
            HashedFor::Stranger => Some(self.strangers.try_acquire().map_err(busy)?),
            HashedFor::Known => None,
        };
        let _place = self.all.try_acquire().map_err(busy)?;
        self.running.acquire().await.map_err(|error| Error::Internal(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use futures_util::future::BoxFuture;

    use super::*;

    #[test]
    fn those_who_wait_are_bounded_and_strangers_leave_room() {
        let hashing = Hashing::new();
        let turn = |who| hashing.turn(who).now_or_never();
        let running: Vec<_> =
            (0..AT_A_TIME).map(|_| turn(HashedFor::Stranger).unwrap().unwrap()).collect();
        // A future waits once it was polled.
        let mut waiting: Vec<BoxFuture<'_, _>> = Vec::new();
        let mut wait = |who| {
            let mut turn: BoxFuture<'_, _> = Box::pin(hashing.turn(who));
            let refused = turn.as_mut().now_or_never();
            waiting.push(turn);
            refused
        };
        let is_busy = |refused: Option<Result<_>>| matches!(refused, Some(Err(Error::Busy { .. })));
        let strangers = WAITING - KEPT;
        for _ in 0..strangers {
            assert!(wait(HashedFor::Stranger).is_none());
        }
        assert!(is_busy(wait(HashedFor::Stranger)));
        for _ in 0..KEPT {
            assert!(wait(HashedFor::Known).is_none());
        }
        assert!(is_busy(wait(HashedFor::Known)));
        // Those who give up make room, and so do those who are done.
        waiting.truncate(strangers - 1);
        assert!(turn(HashedFor::Stranger).is_none());
        drop(waiting);
        drop(running);
        assert!(turn(HashedFor::Stranger).unwrap().is_ok());
    }
}
