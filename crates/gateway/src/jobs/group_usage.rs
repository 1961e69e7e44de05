//! The usage of hours that are over, summed by what it can be grouped by.

use std::time::Duration;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::job::{Job, log_failure};

/// Sums the hours of every project, those of archived ones too: their statistics are read as well.
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
        Ok(())
    }
}

/// Sums all hours of a project that are over and are not summed yet.
async fn group(gateway: &Gateway, project: domain::ids::ProjectId) -> Result<()> {
    while !gateway.stopping.is_cancelled() {
        if !gateway.store.group_next_hour(project, gateway.clock.now()).await? {
            break;
        }
    }
    Ok(())
}
