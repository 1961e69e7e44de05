//! Callers who hang up while long work for them runs on a thread of its own.
//!
//! Such a thread cannot be interrupted: dropping the request's future takes effect when the work is done. So the work
//! asks now and then whether the caller is still there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task_local;

task_local! {
    /// Whether the caller of the request that this task serves has hung up.
    static HANG_UP: HangUp;
}

/// Whether a caller has hung up. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct HangUp(Arc<AtomicBool>);

impl HangUp {
    /// The flag of the request which the current task serves; for work that must not be abandoned,
    /// one that is never set.
    pub(crate) fn of_current_request() -> Self {
        HANG_UP.try_with(Self::clone).unwrap_or_default()
    }

    /// Whether it has happened.
    pub(crate) fn has_happened(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Kept while the caller waits for the answer to a request; dropping it stops long work on that
/// request.
#[derive(Debug)]
#[must_use]
pub struct CallerWaits(HangUp);

impl Drop for CallerWaits {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Serves a request while its caller waits. Tasks that it spawns are not stopped.
pub fn until_hang_up<F: Future>(request: F) -> (CallerWaits, impl Future<Output = F::Output>) {
    let hang_up = HangUp::default();
    (CallerWaits(hang_up.clone()), HANG_UP.scope(hang_up, request))
}
