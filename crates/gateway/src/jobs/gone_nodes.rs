//! The reservations of nodes that are gone: those of others are given back, and those of this node are added again when
//! it has only been taken for gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use domain::ids::{NodeId, ProjectId};

use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::jobs::fleet::{spawn, unreached};
use crate::jobs::job::{Job, log_failure};
use crate::state::shared_counters::Fleet;

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
            // A server that is away keeps no other from its work.
            let Ok(nodes) = fleet.counters.owners(project).await else { continue };
            for node in nodes {
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

/// Gives the reservations of a node back, if it is gone: its calls are recorded and counted first. Until that is done
/// it cannot come back, and reserve anew.
async fn take_over(
    gateway: &Gateway,
    fleet: &Arc<Fleet>,
    node: NodeId,
    projects: &[ProjectId],
) -> Result<()> {
    if !gateway.store.settle_if_gone(node, &gateway.clock).await? {
        return Ok(());
    }
    let given_back = give_back(gateway, fleet, node, projects).await;
    gateway.store.leave(node).await;
    gateway.settled.notify_waiters();
    given_back
}

async fn give_back(
    gateway: &Gateway,
    fleet: &Fleet,
    node: NodeId,
    projects: &[ProjectId],
) -> Result<()> {
    // Debts are paid first. Calls that it had ended and recorded while it could not reach Redis are known from the
    // ledger alone.
    let mut unraised = gateway.raise_whole_hours().await?;
    unraised.extend(gateway.raise_months().await?);
    let mut result = Ok(());
    for project in projects {
        // A server that is away keeps no other from its work.
        let forgotten = match unraised.remove(project) {
            Some(error) => Err(error),
            None => forget(fleet, *project, node).await,
        };
        match forgotten {
            Ok(count) => {
                tracing::info!(%node, %project, reservations = count, "what a node had reserved that is gone was given back");
            }
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Gives back what a node has reserved in a project, unless calls of nodes that are gone are still to be counted there.
pub(super) async fn forget(fleet: &Fleet, project: ProjectId, node: NodeId) -> Result<u64> {
    // Nobody has taken debts, to owe them again after this.
    let _alone = fleet.paying.lock().await;
    if fleet.owes_lost(project) {
        let why = "the calls of the node are not counted yet";
        return Err(Error::Unavailable(why.to_owned()));
    }
    fleet.counters.forget(project, node).await.map_err(unreached)
}

/// Starts the task that adds again what others may have given back.
pub(super) fn start(gateway: &Gateway) {
    spawn(gateway, come_back(gateway.clone()));
}

/// Has the reservations of this node added again whenever it has its lock back: without it, it may have been taken for
/// gone, and they may have been given back. Nobody does that from then on.
async fn come_back(gateway: Gateway) {
    let Some(fleet) = &gateway.fleet else { return };
    let mut held = gateway.store.held();
    while held.retaken().await {
        fleet.counters.note_absence();
    }
}
