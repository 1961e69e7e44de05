//! The partitions of steps on PostgreSQL: made ahead, and dropped when all their steps are due.

use std::time::Duration;

use store::PartitionWatch;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::job::Job;

/// Keeps the partitions of steps. One node does, the others find that it does.
#[derive(Default)]
pub(super) struct Partitions {
    watch: PartitionWatch,
}

impl Job for Partitions {
    const NAME: &'static str = "partitions";

    /// A day has its partition soon after it has begun.
    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_mins(1)
    }

    /// The next run of any node goes on with work that is broken off: the first look at large tables takes minutes.
    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let now = gateway.clock.now();
        let work = gateway.store.keep_partitions(now, &mut self.watch);
        gateway.stopping.run_until_cancelled(work).await.unwrap_or(Ok(()))?;
        Ok(())
    }
}
