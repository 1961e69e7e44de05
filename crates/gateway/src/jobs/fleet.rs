//! The work at the counters that all gateways share: what is lost is rebuilt from the ledger, what Redis could not
//! be told of is told, and what nodes that are gone have reserved is given back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use counters::{DECISION_TIMEOUT, Failure};
use domain::ids::{KeyId, NodeId, ProjectId};
use domain::money::Usd;
use domain::time::{HOUR, Timestamp};
use store::SpentSecond;

use crate::admission::shared::has_stored;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::jobs::job::{Job, log_failure};
use crate::state::shared_counters::{Fleet, Owed};

/// What the ledger had so long ago is settled in Redis, or will not be any more: a settlement leaves before its
/// call is stored, and has no effect after this.
pub(super) const SETTLING: Duration = DECISION_TIMEOUT.saturating_mul(2);
/// The pause between two attempts to rebuild counters.
const REBUILD_INTERVAL: Duration = Duration::from_millis(100);
/// A call that is not stored by now is settled without the ledger.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);

/// The spend of keys by second, as the ledger has it.
pub(super) struct Hours(BTreeMap<(ProjectId, KeyId), OfKey>);

struct OfKey {
    /// The reset that was known before the ledger was read.
    reset_at: Option<Timestamp>,
    seconds: Vec<(i64, Usd)>,
}

impl Hours {
    /// Sorts by keys what was read while no key could be reset.
    pub(super) fn of(gateway: &Gateway, spent: Vec<SpentSecond>) -> Self {
        let mut hours = BTreeMap::new();
        for SpentSecond { key, second, cost } in spent {
            let Some(state) = gateway.registry.key(key) else { continue };
            let of_key = hours
                .entry((state.key.project, key))
                .or_insert_with(|| OfKey { reset_at: state.key.reset_at, seconds: Vec::new() });
            of_key.seconds.push((second, cost));
        }
        Self(hours)
    }

    /// Raises what Redis has.
    pub(super) async fn raise(
        &self,
        fleet: &Fleet,
        is_meant: impl Fn(ProjectId) -> bool,
    ) -> Result<()> {
        for ((project, key), of_key) in self.0.iter().filter(|((project, _), _)| is_meant(*project))
        {
            let counters = &fleet.counters;
            let raised =
                counters.raise_hour(*project, *key, of_key.reset_at, &of_key.seconds).await;
            raised.map_err(unreached)?;
        }
        Ok(())
    }
}

/// The failure of background work at Redis.
pub(super) fn unreached(failure: Failure) -> Error {
    Error::Unavailable(failure.to_string())
}

/// Starts the task that rebuilds lost counters. It ends when the gateway stops.
pub(super) fn start(gateway: &Gateway) {
    let (gateway, stopping) = (gateway.clone(), gateway.stopping.clone());
    gateway
        .clone()
        .tasks
        .spawn(async move { stopping.run_until_cancelled(rebuild(gateway)).await });
}

async fn rebuild(gateway: Gateway) {
    let Some(fleet) = &gateway.fleet else { return };
    loop {
        let found = fleet.found_lost.notified();
        let lost = fleet.lost();
        if lost.is_empty() {
            found.await;
            continue;
        }
        match gateway.rebuild(fleet, &lost).await {
            Ok(()) => {
                tracing::info!(projects = lost.len(), "counters were rebuilt from the ledger");
            }
            Err(error) => {
                tracing::debug!(error = error.cause(), "counters cannot be rebuilt yet");
                tokio::time::sleep(REBUILD_INTERVAL).await;
            }
        }
    }
}

impl Gateway {
    pub(super) fn budget_of(&self, project: ProjectId) -> Option<Usd> {
        let state = self.registry.project(project).ok().flatten();
        state.and_then(|state| state.settings.monthly_budget)
    }

    /// Rebuilds the counters of some projects: the reservations of all nodes that live, then what the ledger has.
    async fn rebuild(&self, fleet: &Fleet, projects: &[ProjectId]) -> Result<()> {
        // First of all: what is reserved from here on is added by those who reserve it.
        let live = self.store.live_nodes().await?;
        let (mut meant, mut failed) = (BTreeSet::new(), None);
        for project in projects {
            match join(fleet, *project, &live).await {
                Ok(()) => drop(meant.insert(*project)),
                Err(error) => failed = Some(error),
            }
        }
        if meant.is_empty() {
            return failed.map_or(Ok(()), Err);
        }
        self.store.settle_lost_calls(&self.clock).await?;
        let (hours, capped, months, now) = {
            let _steady = self.registry.steady().await;
            let now = self.clock.now();
            // Before the ledger is read, which has the hours of these.
            let keys = self.registry.keys();
            let capped = keys.iter().filter(|state| state.key.hourly_limit.is_some());
            let capped: Vec<_> = capped.map(|state| (state.key.project, state.key.id)).collect();
            let spent = self.store.spent_seconds(now.minus_micros(HOUR)).await?;
            let months = self.store.spend_by_project(now).await?;
            (Hours::of(self, spent), capped, BTreeMap::from_iter(months), now)
        };
        tokio::time::sleep(SETTLING).await;
        hours.raise(fleet, |project| meant.contains(&project)).await?;
        for project in &meant {
            let has_budget = self.budget_of(*project).is_some();
            if has_budget && let Some(spent) = months.get(project) {
                fleet.counters.raise_month(*project, now, *spent).await.map_err(unreached)?;
            }
            let keys = capped.iter().filter(|(of, _)| of == project);
            let keys: Vec<KeyId> = keys.map(|(_, key)| *key).collect();
            fleet.counters.open_project(*project, has_budget, &keys).await.map_err(unreached)?;
            fleet.note_rebuilt(*project);
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Adds the reservations of this node in a project. Fails until all other nodes that live have added theirs.
async fn join(fleet: &Fleet, project: ProjectId, live: &[NodeId]) -> Result<()> {
    fleet.counters.join(project).await.map_err(unreached)?;
    let joined = fleet.counters.rejoined(project).await.map_err(unreached)?;
    match live.iter().find(|node| !joined.contains(node)) {
        None => Ok(()),
        Some(missing) => {
            let why = format!("node {missing} has not added its reservations again");
            Err(Error::Unavailable(why))
        }
    }
}

/// Settles calls that have ended while Redis could not be told.
pub(super) struct Debts;

impl Job for Debts {
    const NAME: &'static str = "calls that Redis was not told of";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_secs(1)
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let Some(fleet) = &gateway.fleet else { return Ok(()) };
        let owed = fleet.take_owed();
        if owed.is_empty() {
            return Ok(());
        }
        let (stored, others): (Vec<_>, Vec<_>) = owed.into_iter().partition(has_stored);
        let paid = pay_by_ledger(gateway, fleet, stored).await;
        for owed in others {
            if owed.since.elapsed() < STORE_TIMEOUT || !pay(fleet, &owed).await {
                fleet.owe(owed);
            }
        }
        paid
    }
}

/// Gives the reservations of calls back that the ledger has, once Redis counts at least as much as it.
async fn pay_by_ledger(gateway: &Gateway, fleet: &Fleet, stored: Vec<Owed>) -> Result<()> {
    if stored.is_empty() {
        return Ok(());
    }
    let mut counted = gateway.recount_whole_hours().await;
    if counted.is_ok() {
        counted = gateway.recount_months().await;
    }
    for owed in stored {
        let released = counted.is_ok()
            && fleet.counters.release(owed.bounds.project, &owed.holds).await.is_ok();
        if !released {
            fleet.owe(owed);
        }
    }
    counted
}

async fn pay(fleet: &Fleet, owed: &Owed) -> bool {
    let Owed { bounds, holds, cost, ended, since, .. } = owed;
    match fleet.counters.settle(bounds, holds, *cost, *ended, since.elapsed()).await {
        Ok(_) => true,
        Err(Failure::Lost) => {
            fleet.note_lost(bounds.project);
            false
        }
        Err(Failure::Away(_)) => false,
    }
}

/// Gives back what nodes have reserved that are gone.
pub(super) struct GoneNodes;

impl Job for GoneNodes {
    const NAME: &'static str = "reservations of nodes that are gone";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_secs(10)
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let Some(fleet) = &gateway.fleet else { return Ok(()) };
        let mut owners: BTreeMap<NodeId, Vec<ProjectId>> = BTreeMap::new();
        for project in bounded_projects(gateway) {
            for node in fleet.counters.owners(project).await.map_err(unreached)? {
                owners.entry(node).or_default().push(project);
            }
        }
        owners.remove(&gateway.store.node());
        for (node, projects) in owners {
            let taken_over = take_over(gateway, fleet, node, &projects).await;
            log_failure("reservations of a node", taken_over);
        }
        Ok(())
    }
}

fn bounded_projects(gateway: &Gateway) -> BTreeSet<ProjectId> {
    let keys = gateway.registry.keys();
    let capped = keys.iter().filter(|state| state.key.hourly_limit.is_some());
    let capped = capped.map(|state| state.key.project);
    let projects = gateway.registry.projects();
    let budgeted = projects.iter().filter(|state| state.settings.monthly_budget.is_some());
    budgeted.map(|state| state.id()).chain(capped).collect()
}

/// Gives the reservations of a node back, if it is gone: its calls are recorded and counted first.
async fn take_over(
    gateway: &Gateway,
    fleet: &Arc<Fleet>,
    node: NodeId,
    projects: &[ProjectId],
) -> Result<()> {
    if !gateway.store.settle_if_gone(node, &gateway.clock).await? {
        return Ok(());
    }
    gateway.recount_whole_hours().await?;
    gateway.recount_months().await?;
    for project in projects {
        let count = fleet.counters.forget(*project, node).await.map_err(unreached)?;
        tracing::info!(%node, %project, reservations = count, "what a node had reserved that is gone was given back");
    }
    gateway.settled.notify_waiters();
    Ok(())
}
