//! Starts are written before their calls, or a little later if calls are short: most of the work of a
//! short call would be to write that it began.
//!
//! The states of a start:
//!
//! ```text
//!            last call of the model was not short       room in the queue
//! new call -----------------------------------> write -------------------> written
//!    |                                          ^   |                         |
//!    | last call was short               when due   | queue full, or          | call ends
//!    |                                          |   v no live writer          v
//!    +--------------------------------------> waiting -------------------> ended
//!                                                      call ends: no start
//! ```
//!
//! Under strict limits, and while the writer is slow or failing, a start is on disk before the call.
//!
//! One task looks after all calls that are open. A timer for each would wake a thread for each.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use store::Writer;
use tokio::time::{Instant, sleep_until};

use crate::gateway::Gateway;
use crate::lock::lock;
use crate::pipeline::fund::Funded;
use crate::state::start_journal::{PendingStart, StartJournal, Tends};

/// A start is written when its call has been open for this long. A call that ends sooner because the
/// gateway dies leaves nothing.
const GRACE: Duration = Duration::from_millis(2);
/// After a call that took longer, starts of calls of its model are not deferred: the next one is
/// probably long too.
const SHORT_CALL: Duration = Duration::from_millis(10);

/// A funded call, and whether its start still has to be written.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) funded: Funded,
    began: Instant,
    /// Whether the start is written, or need not be.
    settled: Mutex<bool>,
}

impl Call {
    pub(super) fn new(funded: Funded, written: bool) -> Self {
        Self { funded, began: Instant::now(), settled: Mutex::new(written) }
    }

    /// From here on the start is not written: the end of the call comes next, and must not come before
    /// it. Returns whether the start is written.
    pub(super) fn end(&self, starts: &StartJournal, answered: bool) -> bool {
        let written = std::mem::replace(&mut *lock(&self.settled), true);
        let is_short = self.began.elapsed() < SHORT_CALL;
        // A call that failed at once is no measure of those that do not.
        if answered || !is_short {
            starts.note(self.funded.model().id, is_short);
        }
        written
    }
}

impl PendingStart for Call {
    fn settle(&self, writer: &Writer) -> bool {
        if *lock(&self.settled) {
            return true;
        }
        if !writer.is_alive() {
            return false;
        }
        // Made before the lock is taken, for which the end of the call would wait.
        let start = self.funded.start();
        let mut settled = lock(&self.settled);
        *settled = *settled || writer.enqueue_start(start);
        *settled
    }
}

impl Gateway {
    /// Writes the start of a call now, or later if the call turns out not to be short.
    pub(super) fn write_start(&self, call: &Arc<Call>) {
        let may_wait = self.start_journal.is_short(call.funded.model().id);
        if !may_wait && call.settle(self.store.writer()) {
            return;
        }
        let pending: Weak<Call> = Arc::downgrade(call);
        if self.start_journal.add(call.began + GRACE, pending) {
            let gateway = self.clone();
            self.tasks
                .spawn_on(async move { gateway.write_starts().await }, &self.start_journal.runtime);
        }
    }

    async fn write_starts(&self) {
        let _tends = Tends(&self.start_journal);
        while let Some(due) = self.start_journal.next_due() {
            sleep_until(due).await;
            let now = Instant::now();
            while let Some(call) = self.start_journal.take_due(now) {
                // If the queue of the writer is full, there may be room later.
                if call.upgrade().is_some_and(|call| !call.settle(self.store.writer())) {
                    self.start_journal.add(now + GRACE, call);
                }
            }
        }
    }
}
