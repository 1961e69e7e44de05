//! The usage of hours that are over, summed by what it can be grouped by, and then the end of steps whose
//! retention is over: one that is in no sum stays.

use std::time::Duration;

use domain::ids::ProjectId;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::job::{Job, log_failure};

/// The most slices of steps that one run deletes: the next one sums hours first.
const MOST_PURGES: usize = 200;

/// Sums the hours of every project, those of archived ones too: their statistics are read as well. Then
/// deletes steps.
pub(super) struct GroupUsage;

impl Job for GroupUsage {
    const NAME: &'static str = "group_usage";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_mins(1)
    }

    /// A project that fails does not keep the others from theirs.
    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        for project in gateway.registry.projects() {
            log_failure(Self::NAME, group(gateway, project.id()).await);
        }
        log_failure("retention", purge_steps(gateway).await);
        Ok(())
    }
}

/// Sums all hours of a project that are over and are not summed yet, and the quarters of its ledger.
async fn group(gateway: &Gateway, project: ProjectId) -> Result<()> {
    while !gateway.stopping.is_cancelled() {
        if !gateway.store.group_next_hour(project, gateway.clock.now()).await? {
            break;
        }
    }
    while !gateway.stopping.is_cancelled() {
        if !gateway.store.sum_next_quarter(project, gateway.clock.now()).await? {
            break;
        }
    }
    Ok(())
}

async fn purge_steps(gateway: &Gateway) -> Result<()> {
    let now = gateway.clock.now();
    for _ in 0..MOST_PURGES {
        if gateway.store.purge_steps(now).await? == 0 || gateway.stopping.is_cancelled() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use domain::time::{DAY, HOUR, Timestamp};
    use serde_json::json;
    use store::Dimension;

    use super::*;
    use crate::testing::Fresh;

    #[tokio::test]
    async fn steps_are_summed_before_they_go() {
        let noon = Timestamp::parse("2026-11-15T12:00:00Z").unwrap();
        let fresh = Fresh::at(noon, json!({})).await;
        let (gateway, project) = (&fresh.gateway, fresh.caller.project.id());
        let trace = fresh.trace().await;
        fresh.in_flight(&trace).await.finish().await.unwrap();
        // The gateway was down for longer than steps are kept.
        gateway.clock.set(noon.minus_micros(-40 * DAY));
        GroupUsage.run(gateway).await.unwrap();
        let left = gateway.store.steps(trace.parse().unwrap()).await.unwrap();
        assert_eq!(left.len(), 0, "they are gone");
        let usage = gateway.store.usage_by(
            project,
            &Dimension::Model,
            noon.0.div_euclid(HOUR),
            gateway.now(),
            9,
        );
        let usage = usage.await.unwrap();
        assert_eq!((usage.total.requests, usage.groups.len()), (1, 1));
    }
}
