//! What this gateway knows about the counters that all gateways share.

use std::collections::HashSet;
use std::pin::{Pin, pin};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use counters::{Bounds, Counters, Failure, Gate, HoldId, Request, Reserved};
use domain::ids::ProjectId;
use domain::money::Usd;
use domain::time::Timestamp;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout_at};

use crate::config::{OnCounterLoss, SharedCounters};
use crate::lock::lock;
use crate::state::caller::Caller;

/// How long a call waits for lost counters to be rebuilt.
const REBUILD_TIMEOUT: Duration = Duration::from_secs(1);

/// The counters in Redis, and the work that is due at them.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) counters: Counters,
    pub(crate) on_loss: OnCounterLoss,
    /// The projects whose counters are lost.
    lost: Mutex<HashSet<ProjectId>>,
    /// Notified when a project is added there.
    pub(crate) found_lost: Notify,
    /// Notified when counters were rebuilt.
    pub(crate) rebuilt: Notify,
    /// Calls that have ended and that Redis could not be told of.
    owed: Mutex<Vec<Owed>>,
}

/// A call that has ended, and whose reservations Redis still has.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) bounds: Bounds,
    pub(crate) holds: Vec<HoldId>,
    pub(crate) cost: Usd,
    /// When it ended by the ledger.
    pub(crate) ended: Timestamp,
    pub(crate) since: std::time::Instant,
    /// Whether the ledger has it.
    pub(crate) is_stored: Arc<AtomicBool>,
}

impl Fleet {
    pub(crate) fn new(shared: SharedCounters) -> Self {
        Self {
            counters: shared.counters,
            on_loss: shared.on_loss,
            lost: Mutex::default(),
            found_lost: Notify::new(),
            rebuilt: Notify::new(),
            owed: Mutex::default(),
        }
    }

    /// The gate. Counters that are lost are waited for.
    pub(crate) async fn gate(&self, bounds: &Bounds, request: Request) -> Result<Gate, Failure> {
        let deadline = Instant::now() + REBUILD_TIMEOUT;
        loop {
            // The waiter is registered before the question, so that no end of a rebuild is missed.
            let mut rebuilt = pin!(self.rebuilt.notified());
            rebuilt.as_mut().enable();
            match self.counters.gate(bounds, request).await {
                Err(Failure::Lost) => self.built(bounds.project, rebuilt, deadline).await?,
                other => return other,
            }
        }
    }

    /// Sets an amount aside. Counters that are lost are waited for.
    pub(crate) async fn reserve(&self, bounds: &Bounds, amount: Usd) -> Result<Reserved, Failure> {
        let deadline = Instant::now() + REBUILD_TIMEOUT;
        loop {
            let mut rebuilt = pin!(self.rebuilt.notified());
            rebuilt.as_mut().enable();
            match self.counters.reserve(bounds, amount).await {
                Err(Failure::Lost) => self.built(bounds.project, rebuilt, deadline).await?,
                other => return other,
            }
        }
    }

    /// Waits until some counters were rebuilt.
    async fn built(
        &self,
        project: ProjectId,
        rebuilt: Pin<&mut Notified<'_>>,
        deadline: Instant,
    ) -> Result<(), Failure> {
        self.note_lost(project);
        timeout_at(deadline, rebuilt).await.map_err(|_| Failure::Lost)
    }

    /// Asks for the counters of a project to be rebuilt.
    pub(crate) fn note_lost(&self, project: ProjectId) {
        lock(&self.lost).insert(project);
        self.found_lost.notify_one();
    }

    /// The projects whose counters are lost.
    pub(crate) fn lost(&self) -> Vec<ProjectId> {
        lock(&self.lost).iter().copied().collect()
    }

    /// Notes that the counters of a project are there again, or that nobody needs them.
    pub(crate) fn note_rebuilt(&self, project: ProjectId) {
        lock(&self.lost).remove(&project);
        self.rebuilt.notify_waiters();
    }

    pub(crate) fn owe(&self, owed: Owed) {
        lock(&self.owed).push(owed);
    }

    /// All that is owed; what cannot be paid is owed again.
    pub(crate) fn take_owed(&self) -> Vec<Owed> {
        std::mem::take(&mut lock(&self.owed))
    }
}

impl Caller {
    /// The key, and what bounds its calls.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            project: self.project.id(),
            key: self.key.key.id,
            reset_at: self.key.key.reset_at,
            cap: self.key.key.hourly_limit,
            budget: self.project.settings.monthly_budget,
        }
    }
}
