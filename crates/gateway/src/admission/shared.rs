//! The gate, and what is spent, where all gateways count as one.

use std::sync::Arc;
use std::time::Instant;

use counters::{Admission, Bounds, Failure, Gate, HoldId, Request, Spend};
use domain::key::KeyStatus;
use domain::money::Usd;
use domain::time::{SECOND, Timestamp};
use limits::{LONGEST_LOOP_WINDOW, RequestQuota};
use tokio::sync::oneshot;

use crate::admission::admit::Spends;
use crate::config::OnCounterLoss;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::lock::lock;
use crate::state::caller::Caller;
use crate::state::shared_counters::{Fleet, Owed};

impl Gateway {
    /// The decisions about the windows and the spend of a key, in their order, by the shared counters.
    pub(super) async fn check_shared(
        &self,
        fleet: &Fleet,
        caller: &mut Caller,
        spends: Spends,
        now: Timestamp,
    ) -> Result<()> {
        lock(&caller.key.windows).note_use(now);
        let active = caller.key.check_active();
        let bounds = caller.bounds();
        let limits = &caller.project.settings.limits;
        let window = limits.loop_window_seconds.min(LONGEST_LOOP_WINDOW).cast_signed() * SECOND;
        let is_counted = spends != Spends::NoAndAsks;
        let is_checked = spends == Spends::Yes && active.is_ok();
        let request = Request {
            loops: limits.loop_requests.filter(|_| is_counted).map(|limit| (limit, window)),
            per_hour: limits.requests_per_hour,
            is_counted: active.is_ok(),
            spend: if is_checked { Spend::Checked } else { Spend::None },
        };
        let gate = fleet.gate(&bounds, request).await;
        if let (Ok(gate), Some(limit)) = (&gate, request.per_hour) {
            caller.quota = Some(quota(limit, *gate));
        }
        active?;
        match gate {
            Ok(gate) => self.admitted(caller, gate.admission, now).await,
            Err(failure)
                if is_checked && bounds.is_bounded() && fleet.on_loss == OnCounterLoss::Refuse =>
            {
                if matches!(failure, Failure::Lost) {
                    // The spend is not known, but Redis counts requests all the same.
                    caller.quota = fleet.quota(caller).await;
                }
                Err(Error::LimitsUnavailable)
            }
            // Requests are counted by this gateway alone for the moment.
            Err(_) => self.check_here(caller, spends, now).await,
        }
    }

    /// Holds what is spent against budget and cap, by the shared counters.
    pub(super) async fn check_settled_shared(
        &self,
        fleet: &Fleet,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<()> {
        let bounds = caller.bounds();
        if !bounds.is_bounded() {
            return Ok(());
        }
        let (spend, is_counted) = (Spend::Checked, false);
        let request = Request { loops: None, per_hour: None, is_counted, spend };
        match fleet.gate(&bounds, request).await {
            Ok(gate) => self.admitted(caller, gate.admission, now).await,
            Err(_) if fleet.on_loss == OnCounterLoss::Refuse => Err(Error::LimitsUnavailable),
            Err(_) => self.check_settled_here(caller, now).await,
        }
    }

    async fn admitted(&self, caller: &Caller, admission: Admission, now: Timestamp) -> Result<()> {
        let key = &caller.key.key;
        match admission {
            Admission::Admitted => Ok(()),
            Admission::Loop => {
                Box::pin(self.pause(key, KeyStatus::LoopDetected)).await?;
                Err(Error::LoopDetected)
            }
            Admission::RateExceeded { retry_after } => Err(Error::RateLimited { retry_after }),
            Admission::BudgetSpent => Err(Error::budget_exceeded(now)),
            Admission::CapSpent => {
                Box::pin(self.pause(key, KeyStatus::Tripped)).await?;
                Err(Error::SpendCapped { limit: key.hourly_limit })
            }
        }
    }

    /// Counts the cost of a call in the shared counters in the place of its reservations, if anything bounds its
    /// key by now. A task of the gateway's does it, whatever becomes of the caller; the receiver gets what the key
    /// has spent in the hour then, unless Redis could not be reached. The holds that the counters know the call by come
    /// with it: see [`counters::Counters::stored`].
    pub(crate) fn settle_shared(
        &self,
        fleet: &Arc<Fleet>,
        caller: &Caller,
        mut holds: Vec<HoldId>,
        cost: Usd,
        ended: Timestamp,
    ) -> Option<(oneshot::Receiver<Usd>, Vec<HoldId>)> {
        let bounds = self.bounds_now(caller.bounds());
        let is_reserved = !holds.is_empty();
        if !is_reserved {
            if !bounds.is_bounded() {
                return None;
            }
            holds.push(fleet.counters.without_reservation());
        }
        let (send, receive) = oneshot::channel();
        let (fleet, since, all) = (fleet.clone(), Instant::now(), holds.clone());
        self.tasks.spawn(async move {
            match fleet.counters.settle(&bounds, &holds, cost, ended, since.elapsed()).await {
                // The receiver is gone if its caller has hung up; the gate finds a spent cap as well.
                Ok(settled) => drop(send.send(settled.hour_spent)),
                // Nothing in Redis says that it was not counted before: its cost is taken from the ledger.
                Err(_) if !is_reserved => {}
                Err(_) => {
                    let (is_lost, unanswered) = (false, None);
                    fleet.owe([Owed { bounds, holds, cost, ended, since, is_lost, unanswered }]);
                }
            }
        });
        Some((receive, all))
    }

    /// The bounds of a key now: they may have changed while a call ran.
    pub(crate) fn bounds_now(&self, known: Bounds) -> Bounds {
        let key = self.registry.key(known.key);
        let project = self.registry.project(known.project).ok().flatten();
        Bounds {
            cap: key.as_ref().map_or(known.cap, |state| state.key.hourly_limit),
            reset_at: key.as_ref().map_or(known.reset_at, |state| state.key.reset_at),
            budget: project.map_or(known.budget, |state| state.settings.monthly_budget),
            ..known
        }
    }

    /// Trips the key if its spend, as the shared counters have it, has reached its cap.
    pub(crate) async fn trip_if_shared_spent(
        &self,
        caller: &Caller,
        settled: oneshot::Receiver<Usd>,
    ) {
        // A settlement is one decision, so it ends soon.
        let Ok(spent) = settled.await else { return };
        self.trip_at(caller, |_| spent).await;
    }
}

impl Fleet {
    /// The requests that are left to a key; `None` without a limit, or without an answer. Nothing is counted.
    pub(super) async fn quota(&self, caller: &Caller) -> Option<RequestQuota> {
        let limit = caller.project.settings.limits.requests_per_hour?;
        let (per_hour, is_counted, spend) = (Some(limit), false, Spend::None);
        let request = Request { loops: None, per_hour, is_counted, spend };
        let gate = self.gate(&caller.bounds(), request).await.ok()?;
        Some(quota(limit, gate))
    }
}

fn quota(limit: u64, gate: Gate) -> RequestQuota {
    let remaining = limit.saturating_sub(gate.requests);
    RequestQuota { limit, remaining, reset: gate.reset }
}
