//! Spend that this process has not counted: before it began, on other nodes, in lost calls that
//! were recovered. The database holds it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use domain::ids::ProjectId;
use domain::time::{HOUR, SECOND, Timestamp};

use crate::error::{Error, Result};
use crate::evidence::usage::OVERLAP;
use crate::gateway::Gateway;
use crate::jobs::fleet::{Hours, SETTLING, Unraised, all_raised, unreached};
use crate::jobs::job::Job;
use crate::lock::lock;
use crate::state::shared_counters::Fleet;

/// Reads the spend of keys that other processes recorded.
pub(super) struct SpendSync;

impl Job for SpendSync {
    const NAME: &'static str = "spend of keys";

    /// If no other process spends, all spend is counted: lost calls were settled before the start.
    fn period(&self, gateway: &Gateway) -> Duration {
        if gateway.store.may_have_other_nodes() {
            Duration::from_secs(5)
        } else {
            Duration::from_mins(1)
        }
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        gateway.recount_hours().await
    }
}

impl Gateway {
    /// Reads the spend of keys with a cap since the last time.
    pub(crate) async fn recount_hours(&self) -> Result<()> {
        let now = self.clock.now();
        let last = Timestamp(self.recounted.0.load(Ordering::Relaxed)).minus_micros(OVERLAP);
        // A clock that went back has counted less than it seems.
        let since = if last > now { Timestamp::default() } else { last };
        all_raised(self.raise_hours(since.max(now.minus_micros(HOUR))).await?)?;
        self.recounted.0.store(now.0, Ordering::Relaxed);
        Ok(())
    }

    /// Reads the spend of keys with a cap in the whole hour: a key that had no cap until now starts
    /// from its spend.
    pub(crate) async fn recount_whole_hours(&self) -> Result<()> {
        all_raised(self.raise_whole_hours().await?)
    }

    /// Does what [`Gateway::recount_whole_hours`] does on this node alone: nothing waits for Redis.
    pub(crate) async fn recount_own_hours(&self) -> Result<()> {
        self.read_hours(self.clock.now().minus_micros(HOUR)).await.map(drop)
    }

    /// Does what [`Gateway::recount_whole_hours`] does, and returns the projects that Redis was not raised for.
    pub(super) async fn raise_whole_hours(&self) -> Result<Unraised> {
        self.raise_hours(self.clock.now().minus_micros(HOUR)).await
    }

    async fn raise_hours(&self, since: Timestamp) -> Result<Unraised> {
        let hours = self.read_hours(since).await?;
        let Some(fleet) = &self.fleet else { return Ok(Unraised::new()) };
        let owing = self.pay_before_raise(fleet).await;
        let meant = |project: ProjectId| (!owing.contains(&project)).then_some(None);
        let unraised = hours.raise(fleet, meant).await;
        Ok(with_owing(unraised, owing))
    }

    /// Pays what this node owes, [`SETTLING`] after the ledger was read: a figure that is raised to the ledger holds
    /// these calls, and they would count twice if they were paid after it. Returns the projects that calls are still
    /// owed of.
    async fn pay_before_raise(&self, fleet: &Fleet) -> BTreeSet<ProjectId> {
        tokio::time::sleep(SETTLING).await;
        self.store.lost_calls_are_listed().await;
        self.pay_all(fleet).await
    }

    /// Reads the spend of keys with a cap since a time, and counts it on this node.
    async fn read_hours(&self, since: Timestamp) -> Result<Hours> {
        // A read from before a reset must not count after it.
        let _steady = self.registry.steady().await;
        // Spend that a fast clock has dated later, before it went back, counts here already, and
        // not by its date.
        let latest = self.clock.now().minus_micros(-HOUR).unix_seconds();
        let spent = self.store.spent_seconds(since).await?;
        for spent in spent.iter().filter(|spent| spent.second <= latest) {
            if let Some(state) = self.registry.key(spent.key) {
                let at = Timestamp(spent.second * SECOND);
                lock(&state.windows).raise_spent(at, spent.cost);
            }
        }
        Ok(Hours::of(self, spent))
    }

    /// Reads the spend of projects in this month.
    pub(crate) async fn recount_months(&self) -> Result<()> {
        all_raised(self.raise_months().await?)
    }

    /// Does what [`Gateway::recount_months`] does, and returns the projects that Redis was not raised for.
    pub(super) async fn raise_months(&self) -> Result<Unraised> {
        let now = self.clock.now();
        let spent = self.store.spend_by_project(now).await?;
        let spent: HashMap<_, _> = spent.into_iter().collect();
        for project in self.registry.projects() {
            if let Some(spent) = spent.get(&project.id()) {
                let mut month = lock(&project.month);
                // A clock that went back shows a month that was not queried yet.
                month.total(self.clock.now());
                month.raise(now, *spent);
            }
        }
        let Some(fleet) = &self.fleet else { return Ok(Unraised::new()) };
        let owing = self.pay_before_raise(fleet).await;
        let is_meant = |id: &&ProjectId| !owing.contains(*id) && self.budget_of(**id).is_some();
        let mut unraised = Unraised::new();
        for project in spent.keys().filter(is_meant) {
            // One server that is away keeps no other from its work.
            let raised = fleet.counters.raise_month(*project, None, now, spent[project]).await;
            if let Err(failure) = raised {
                unraised.insert(*project, unreached(failure));
            }
        }
        Ok(with_owing(unraised, owing))
    }
}

/// Adds the projects that calls are owed of. All that is only in the ledger counts there once these are paid: an
/// attempt that has left a project out is made again.
fn with_owing(mut unraised: Unraised, owing: BTreeSet<ProjectId>) -> Unraised {
    let owed = || Error::Unavailable("calls are still to be counted in Redis".to_owned());
    unraised.extend(owing.into_iter().map(|project| (project, owed())));
    unraised
}

#[cfg(test)]
mod tests {
    use domain::money::Usd;
    use serde_json::json;

    use super::*;
    use crate::testing::Fresh;

    #[tokio::test]
    async fn what_was_spent_out_of_sight_counts_once() {
        let fresh = Fresh::with(json!({})).await;
        let (gateway, caller) = (&fresh.gateway, &fresh.caller);
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let own = fresh.steps(&trace).await.remove(0);
        let cost = own.cost();
        assert!(cost > Usd::ZERO);
        // As another node writes it, or the recovery of a lost call.
        let mut foreign = own;
        foreign.id = gateway.store.step_id().await.unwrap();
        gateway.store.writer().step(foreign, None).await.unwrap();

        let id = caller.key.key.id;
        let hour = || lock(&gateway.registry.key(id).unwrap().windows).spent(gateway.clock.now());
        let month = || caller.project.month_spend(gateway.clock.now());
        gateway.recount_hours().await.unwrap();
        assert_eq!((hour(), month()), (cost, cost), "nobody asks what a key without a cap spends");
        let mut tx = gateway.store.begin().await.unwrap();
        let mut key = tx.key(id).await.unwrap().unwrap();
        key.hourly_limit = Some(Usd(1));
        tx.save_key(&key).await.unwrap();
        gateway.publish(tx).await.unwrap();
        for _ in 0..2 {
            gateway.recount_whole_hours().await.unwrap();
            gateway.recount_hours().await.unwrap();
            gateway.recount_months().await.unwrap();
            assert_eq!((hour(), month()), (cost + cost, cost + cost));
        }

        // A reset is a fresh start; what was spent before it stays forgotten.
        let mut tx = gateway.store.begin().await.unwrap();
        key.reset_at = Some(gateway.clock.now());
        tx.save_key(&key).await.unwrap();
        gateway.publish(tx).await.unwrap();
        gateway.recount_whole_hours().await.unwrap();
        assert_eq!(hour(), Usd::ZERO);

        // Spend that a wrong clock has dated far ahead does not count after a restart either.
        let now = gateway.clock.now();
        let mut ahead = fresh.steps(&trace).await.remove(0);
        for (days, counts) in [(365, false), (0, true)] {
            ahead.id = gateway.store.step_id().await.unwrap();
            ahead.finished_at = now.plus(std::time::Duration::from_secs(86_400 * days + 1_800));
            gateway.store.writer().step(ahead.clone(), None).await.unwrap();
            let again = crate::state::registry::Registry::load(&gateway.store, &gateway.clock)
                .await
                .unwrap();
            let spent = lock(&again.key(id).unwrap().windows).spent(now);
            assert_eq!(spent, if counts { cost } else { Usd::ZERO }, "{days} days");
        }
    }

    #[tokio::test]
    async fn a_month_that_a_clock_goes_back_to_counts_at_once() {
        let at = |text: &str| Timestamp::parse(text).unwrap();
        let november = at("2026-11-30T23:58:00Z");
        let fresh = Fresh::at(november, json!({})).await;
        let (gateway, project) = (&fresh.gateway, &fresh.caller.project);
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        let month = || lock(&project.month).total(gateway.clock.now());
        let spent = month();
        assert!(spent > Usd::ZERO);
        // As after a start with the clock in the next month.
        let mut of_december = limits::MonthSpend::default();
        assert_eq!(of_december.total(at("2026-12-01T00:01:00Z")), Usd::ZERO);
        *lock(&project.month) = of_december;
        gateway.recount_months().await.unwrap();
        assert_eq!(month(), spent);
    }
}
