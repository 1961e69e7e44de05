//! Money that is set aside for one call.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use counters::HoldId;
use domain::ids::ProjectId;
use domain::money::Usd;
use limits::{KeyWindows, MonthSpend};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::gateway::Gateway;
use crate::lock::lock;
use crate::state::caller::Caller;
use crate::state::shared_counters::Fleet;

/// Money that is set aside for one call, in its key's hour and its project's month: here, or in the counters that
/// all gateways share.
#[derive(Debug)]
pub(super) struct Reservation {
    /// The amount set aside here.
    amount: AtomicI64,
    month: Arc<Mutex<MonthSpend>>,
    windows: Arc<Mutex<KeyWindows>>,
    settled: Arc<Notify>,
    /// The reservations in the shared counters, the own attempt first.
    shared: Mutex<Vec<(HoldId, Usd)>>,
    fleet: OnceLock<Shared>,
}

/// The shared counters, and the owner of later work at them.
#[derive(Clone, Debug)]
struct Shared {
    fleet: Arc<Fleet>,
    project: ProjectId,
    tasks: TaskTracker,
}

impl Reservation {
    /// An amount that was set aside here.
    pub(super) fn here(gateway: &Gateway, caller: &Caller, amount: Usd) -> Self {
        Self {
            amount: AtomicI64::new(amount.0),
            month: caller.project.month.clone(),
            windows: caller.key.windows.clone(),
            settled: gateway.settled.clone(),
            shared: Mutex::default(),
            fleet: OnceLock::new(),
        }
    }

    /// An amount that was set aside in the shared counters.
    pub(super) fn shared(
        gateway: &Gateway,
        caller: &Caller,
        fleet: &Arc<Fleet>,
        (hold, amount): (HoldId, Usd),
    ) -> Self {
        let (fleet, tasks) = (fleet.clone(), gateway.tasks.clone());
        let mut reservation = Self::here(gateway, caller, Usd::ZERO);
        reservation.fleet = OnceLock::from(Shared { fleet, project: caller.project.id(), tasks });
        reservation.shared = Mutex::new(vec![(hold, amount)]);
        reservation
    }

    /// Gives the money back, once: the actual cost of the call counts instead.
    pub(super) fn release(&self) {
        let amount = Usd(self.amount.swap(0, Ordering::Relaxed));
        lock(&self.month).set_aside.give_back(amount);
        lock(&self.windows).set_aside.give_back(amount);
        let holds = self.take_holds();
        match self.fleet.get() {
            Some(shared) if !holds.is_empty() => {
                let (to, settled) = (shared.clone(), self.settled.clone());
                shared.tasks.spawn(async move {
                    // If this fails it is done as soon as Redis can be reached: see `Counters::release`.
                    if let Err(error) = to.fleet.counters.release(to.project, &holds).await {
                        tracing::debug!(%error, "a reservation is given back later");
                    }
                    settled.notify_waiters();
                });
            }
            _ => self.settled.notify_waiters(),
        }
    }

    /// Takes the reservations in the shared counters, to be settled there: they are not given back any more.
    pub(super) fn take_holds(&self) -> Vec<HoldId> {
        std::mem::take(&mut *lock(&self.shared)).into_iter().map(|(hold, _)| hold).collect()
    }

    /// The money set aside.
    pub(super) fn amount(&self) -> Usd {
        let shared: Usd = lock(&self.shared).iter().map(|(_, amount)| *amount).sum();
        Usd(self.amount.load(Ordering::Relaxed)) + shared
    }

    /// Moves at most `most` of it to a new reservation: this one keeps the rest to give back. What is set aside in
    /// the shared counters moves by whole attempts, the latest first: those that another call has handed over.
    pub(super) fn moved(&self, most: Usd) -> Self {
        let all = self.amount.swap(0, Ordering::Relaxed);
        let moved = all.min(most.0);
        self.amount.fetch_add(all - moved, Ordering::Relaxed);
        let mut left = most - Usd(moved);
        let mut shared = lock(&self.shared);
        let mut from = shared.len();
        while from > 0 && left > Usd::ZERO {
            from -= 1;
            left = left - shared[from].1;
        }
        Self {
            amount: AtomicI64::new(moved),
            month: self.month.clone(),
            windows: self.windows.clone(),
            settled: self.settled.clone(),
            shared: Mutex::new(shared.split_off(from)),
            fleet: self.fleet.clone(),
        }
    }

    /// Adds the money that was set aside for another attempt of the same call.
    pub(super) fn take_in(&self, more: &Self) {
        self.amount.fetch_add(more.amount.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        let mut holds = std::mem::take(&mut *lock(&more.shared));
        lock(&self.shared).append(&mut holds);
        if let Some(shared) = more.fleet.get() {
            self.fleet.get_or_init(|| shared.clone());
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
    }
}
