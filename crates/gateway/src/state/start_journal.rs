//! The starts of open calls that are not written yet.
//!
//! One task looks after them while there are any:
//!
//! ```text
//!           a call is added: start the task
//!        +-----------------------------------+
//!        |                                   v
//!      idle                                tended --+ a call is added
//!        ^                                   |  ^   | or settled
//!        +-----------------------------------+  +---+
//!           no call is left, or the task panics
//! ```
//!
//! The states of one start are described in the `pending_start` module of the pipeline.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::sync::{Mutex, Weak};

use domain::ids::ModelId;
use store::Writer;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::lock::lock;

/// An open call whose start may still have to be written.
pub(crate) trait PendingStart: Debug + Send + Sync {
    /// Writes the start if it still has to be. Returns whether it needs no further look.
    fn settle(&self, writer: &Writer) -> bool;
}

/// The calls whose start may have to be written, the oldest first.
#[derive(Debug)]
pub(crate) struct StartJournal {
    waiting: Mutex<Waiting>,
    /// The models whose last answered call was a short one.
    short: Mutex<HashSet<ModelId>>,
    /// The runtime of the task: a loop that serves connections may be busy with one of them.
    pub(crate) runtime: Handle,
}

#[derive(Debug, Default)]
struct Waiting {
    calls: VecDeque<(Instant, Weak<dyn PendingStart>)>,
    /// Whether a task looks after them.
    tended: bool,
}

impl StartJournal {
    /// An empty journal. Its task will run on the current runtime.
    pub(crate) fn here() -> Self {
        Self { waiting: Mutex::default(), short: Mutex::default(), runtime: Handle::current() }
    }

    /// Notes whether the last call of a model was a short one.
    pub(crate) fn note(&self, model: ModelId, is_short: bool) {
        let mut short = lock(&self.short);
        if is_short {
            short.insert(model);
        } else {
            short.remove(&model);
        }
    }

    /// Whether the last answered call of a model was a short one.
    pub(crate) fn is_short(&self, model: ModelId) -> bool {
        lock(&self.short).contains(&model)
    }

    /// Forgets the last call of a model that was changed or deleted.
    pub(crate) fn forget(&self, model: ModelId) {
        lock(&self.short).remove(&model);
    }

    /// Adds a call. Returns whether a task has to be started to look after it.
    pub(crate) fn add(&self, due: Instant, call: Weak<dyn PendingStart>) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.calls.push_back((due, call));
        !std::mem::replace(&mut waiting.tended, true)
    }

    /// The time at which the oldest is due. If there is none, the task ends.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let mut waiting = lock(&self.waiting);
        let due = waiting.calls.front().map(|(due, _)| *due);
        waiting.tended = due.is_some();
        due
    }

    /// The oldest, if it is due.
    pub(crate) fn take_due(&self, now: Instant) -> Option<Weak<dyn PendingStart>> {
        lock(&self.waiting).calls.pop_front_if(|(due, _)| *due <= now).map(|(_, call)| call)
    }
}

/// Held by the task. A defect in one call must not keep the starts of later ones from being
/// written: the next call starts the task anew.
pub(crate) struct Tends<'a>(pub(crate) &'a StartJournal);

impl Drop for Tends<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.waiting).tended = false;
        }
    }
}
