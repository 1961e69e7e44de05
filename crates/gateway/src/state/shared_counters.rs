//! The knowledge of this gateway about the counters that all gateways share.

use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::Mutex;
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
use crate::state::lost_projects::LostProjects;

/// How long a call waits for lost counters to be rebuilt.
const REBUILD_TIMEOUT: Duration = Duration::from_secs(1);

/// The counters in Redis, and the work that is due at them.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) counters: Counters,
    pub(crate) on_loss: OnCounterLoss,
    /// The projects whose counters are lost.
    lost: Mutex<LostProjects>,
    /// Notified when a project is added there.
    pub(crate) found_lost: Notify,
    /// Notified when counters were rebuilt.
    pub(crate) rebuilt: Notify,
    /// Calls that have ended and could not be sent to Redis.
    owed: Mutex<Vec<Owed>>,
    /// Held by whoever has taken some of these until they are paid, or owed again, and by whoever must see them all.
    /// No request waits for it.
    pub(crate) paying: tokio::sync::Mutex<()>,
}

/// A call that has ended, and whose reservations Redis still has.
#[derive(Debug)]
pub(crate) struct Owed {
    pub(crate) bounds: Bounds,
    pub(crate) holds: Vec<HoldId>,
    pub(crate) cost: Usd,
    /// The time of its end by the ledger.
    pub(crate) ended: Timestamp,
    pub(crate) since: std::time::Instant,
    /// Whether it was lost with a node that is gone: the ledger has it, with an estimated cost.
    pub(crate) is_lost: bool,
    /// The time at which it was sent to Redis without an answer, if it is lost: it may count there, and is not sent
    /// again.
    pub(crate) unanswered: Option<std::time::Instant>,
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
            paying: tokio::sync::Mutex::default(),
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
        // Nobody waits for what has not worked for as long as this would take.
        let failing = lock(&self.lost).failing_for(std::time::Instant::now(), project);
        if failing >= REBUILD_TIMEOUT {
            return Err(Failure::Lost);
        }
        timeout_at(deadline, rebuilt).await.map_err(|_| Failure::Lost)
    }

    /// Asks for the counters of a project to be rebuilt.
    pub(crate) fn note_lost(&self, project: ProjectId) {
        if lock(&self.lost).add(project) {
            self.found_lost.notify_one();
        }
    }

    /// The projects whose counters are lost.
    pub(crate) fn lost(&self) -> Vec<ProjectId> {
        lock(&self.lost).all()
    }

    /// Notes that the counters of a project are there again, or that nobody needs them.
    pub(crate) fn note_rebuilt(&self, project: ProjectId) {
        lock(&self.lost).remove(project);
        self.rebuilt.notify_waiters();
    }

    /// Notes that an attempt to rebuild the counters of some projects has failed for those that are still lost. Returns
    /// the pause before the next one.
    pub(crate) fn note_failed(&self, tried: &[ProjectId]) -> Duration {
        lock(&self.lost).note_failed(std::time::Instant::now(), tried)
    }

    pub(crate) fn owe(&self, owed: impl IntoIterator<Item = Owed>) {
        lock(&self.owed).extend(owed);
    }

    /// All that is owed; what cannot be paid is owed again.
    pub(crate) fn take_owed(&self) -> Vec<Owed> {
        std::mem::take(&mut lock(&self.owed))
    }

    /// The calls that are owed and were lost with nodes that are gone, of these projects.
    pub(crate) fn take_lost(&self, is_meant: impl Fn(ProjectId) -> bool) -> Vec<Owed> {
        let is_taken = |owed: &mut Owed| owed.is_lost && is_meant(owed.bounds.project);
        lock(&self.owed).extract_if(.., is_taken).collect()
    }

    /// The projects that calls are owed of.
    pub(crate) fn owing(&self) -> BTreeSet<ProjectId> {
        lock(&self.owed).iter().map(|owed| owed.bounds.project).collect()
    }

    /// Whether calls of a project are owed that were lost with nodes that are gone.
    pub(crate) fn owes_lost(&self, project: ProjectId) -> bool {
        lock(&self.owed).iter().any(|owed| owed.is_lost && owed.bounds.project == project)
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
