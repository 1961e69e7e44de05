//! The rounds of a conversation whose tools the gateway runs, as the shadow calls of its rounds wait for their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The shadow calls of a conversation that wait for its end at a time: rounds are many, and slots few.
const MOST_WAITING: usize = 2;

/// The rounds of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    ended: CancellationToken,
    /// Whether they have ended by themselves: their caller gets an answer.
    is_answered: Arc<AtomicBool>,
    places: Arc<Semaphore>,
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            ended: CancellationToken::new(),
            is_answered: Arc::default(),
            places: Arc::new(Semaphore::new(MOST_WAITING)),
        }
    }
}

impl Rounds {
    /// A guard that ends them when it is dropped, also because the caller hung up.
    pub(crate) fn guard(&self) -> DropGuard {
        self.ended.clone().drop_guard()
    }

    /// Notes, before they end, that the caller has not hung up.
    pub(crate) fn note_answer(&self) {
        self.is_answered.store(true, Ordering::Release);
    }

    /// A place among the shadow calls that wait for their end; `None` if there is none.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Waits until they have ended. False if the caller hung up.
    pub(super) async fn end(&self) -> bool {
        self.ended.cancelled().await;
        self.is_answered.load(Ordering::Acquire)
    }
}
