//! Starts, written before their calls, or a little after where calls are short: most of the work of a
//! short call would be to write that it began.
//!
//! One task looks after all calls that are open. A timer for each would wake a thread for each.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use domain::ids::ModelId;
use store::Writer;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::Gateway;
use crate::pipeline::fund::Funded;
use crate::state::registry::lock;

/// A start is written when its call has been open for so long. A call that the gateway's death ends
/// sooner leaves nothing.
const GRACE: Duration = Duration::from_millis(2);
/// After a call that took longer, starts of calls of its model are not put off: the next one will be
/// wanted too.
const SHORT: Duration = Duration::from_millis(10);

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

    /// From here on the start is not written: the end of the call comes next, and must not come
    /// before it. Whether it has been.
    pub(super) fn end(&self, starts: &Starts, answered: bool) -> bool {
        let written = std::mem::replace(&mut *lock(&self.settled), true);
        let is_short = self.began.elapsed() < SHORT;
        // That a call failed at once says nothing of those that do not.
        if answered || !is_short {
            starts.note(self.funded.model().id, is_short);
        }
        written
    }

    /// Writes the start if it still has to be. Whether it needs no further look.
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
        *settled = *settled || writer.note_start(start);
        *settled
    }
}

/// The calls whose start may have to be written, the oldest first.
#[derive(Debug)]
pub(crate) struct Starts {
    waiting: Mutex<Waiting>,
    /// The models whose last answered call was a short one.
    short: Mutex<HashSet<ModelId>>,
    /// Where the task runs: a loop that serves connections may be busy with one of them.
    runtime: Handle,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: VecDeque<(Instant, Weak<Call>)>,
    /// Whether a task looks after them.
    tended: bool,
}

impl Starts {
    /// None yet. Their task will run where this is called.
    pub(crate) fn here() -> Self {
        Self { waiting: Mutex::default(), short: Mutex::default(), runtime: Handle::current() }
    }

    /// Notes whether the last call of a model was a short one.
    fn note(&self, model: ModelId, is_short: bool) {
        let mut short = lock(&self.short);
        if is_short {
            short.insert(model);
        } else {
            short.remove(&model);
        }
    }

    /// Forgets how a model's calls were that was changed or deleted.
    pub(crate) fn forget(&self, model: ModelId) {
        lock(&self.short).remove(&model);
    }

    /// Adds a call. Says whether a task is needed to look after it.
    fn add(&self, due: Instant, call: Weak<Call>) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.calls.push_back((due, call));
        !std::mem::replace(&mut waiting.tended, true)
    }

    /// When the oldest is due. Where there is none, the task ends.
    fn next_due(&self) -> Option<Instant> {
        let mut waiting = lock(&self.waiting);
        let due = waiting.calls.front().map(|(due, _)| *due);
        waiting.tended = due.is_some();
        due
    }

    /// The oldest, if it is due.
    fn take_due(&self, now: Instant) -> Option<Weak<Call>> {
        lock(&self.waiting).calls.pop_front_if(|(due, _)| *due <= now).map(|(_, call)| call)
    }
}

impl Gateway {
    /// Sees to it that the start of a call is written, if the call is not a short one.
    pub(super) fn write_start(&self, call: &Arc<Call>) {
        let may_wait = lock(&self.starts.short).contains(&call.funded.model().id);
        if !may_wait && call.settle(self.store.writer()) {
            return;
        }
        if self.starts.add(call.began + GRACE, Arc::downgrade(call)) {
            let gateway = self.clone();
            self.tasks.spawn_on(async move { gateway.write_starts().await }, &self.starts.runtime);
        }
    }

    async fn write_starts(&self) {
        let _tends = Tends(&self.starts);
        while let Some(due) = self.starts.next_due() {
            sleep_until(due).await;
            let now = Instant::now();
            while let Some(call) = self.starts.take_due(now) {
                // Where the queue of the writer is full there may be a place later.
                if call.upgrade().is_some_and(|call| !call.settle(self.store.writer())) {
                    self.starts.add(now + GRACE, call);
                }
            }
        }
    }
}

/// Held by the task. A defect that one call meets must not keep the starts of later ones from being
/// written: the next call starts the task anew.
struct Tends<'a>(&'a Starts);

impl Drop for Tends<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.waiting).tended = false;
        }
    }
}
