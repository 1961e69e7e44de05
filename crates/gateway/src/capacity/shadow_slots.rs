//! Slots for shadow calls: nobody waits for one, so there are few, and one without a slot is not made.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Shadow calls that are made at a time.
const RUNNING: usize = 16;
/// Shadow calls that are made or wait for that.
const ACCEPTED: usize = 64;

/// The slots of a gateway.
#[derive(Debug)]
pub(crate) struct ShadowSlots {
    accepted: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

/// A slot, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct ShadowSlot {
    _accepted: OwnedSemaphorePermit,
    running: Arc<Semaphore>,
}

impl Default for ShadowSlots {
    fn default() -> Self {
        Self {
            accepted: Arc::new(Semaphore::new(ACCEPTED)),
            running: Arc::new(Semaphore::new(RUNNING)),
        }
    }
}

impl ShadowSlots {
    /// A slot for a call that will be made when others have ended; `None` if too many wait for that.
    pub(crate) fn accept(&self) -> Option<ShadowSlot> {
        let accepted = self.accepted.clone().try_acquire_owned().ok()?;
        Some(ShadowSlot { _accepted: accepted, running: self.running.clone() })
    }
}

impl ShadowSlot {
    /// Waits until the call may be made, and for as long as the permit lives. The longest waiter is next.
    pub(crate) async fn run(&self) -> Option<OwnedSemaphorePermit> {
        self.running.clone().acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_few_run_some_wait_and_the_rest_is_refused() {
        let slots = ShadowSlots::default();
        let mut accepted: Vec<_> = (0..ACCEPTED).map(|_| slots.accept().unwrap()).collect();
        assert!(slots.accept().is_none());
        let mut running = Vec::new();
        for slot in &accepted[..RUNNING] {
            running.push(slot.run().await.unwrap());
        }
        assert!(accepted[RUNNING].run().now_or_never().is_none());
        running.pop();
        assert!(accepted[RUNNING].run().now_or_never().is_some());
        accepted.pop();
        assert!(slots.accept().is_some());
    }
}
