//! Projects, models and keys, read anew when they change.

use std::time::Duration;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::job::Job;

/// Notices changes by other processes.
pub(super) struct RegistryRefresh;

impl Job for RegistryRefresh {
    const NAME: &'static str = "registry";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_millis(500)
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        // Shared counters are built from the ledger when a new cap is first held against them: nothing waits here, so
        // that the next change is seen in time.
        if gateway.refresh().await? && gateway.fleet.is_none() {
            gateway.recount_whole_hours().await?;
        }
        Ok(())
    }
}

impl Gateway {
    /// Loads the stored projects, models and keys on this node.
    pub(crate) async fn reload(&self) -> Result<()> {
        for model in self.registry.reload(&self.store).await? {
            self.upstream.forget(model);
            self.start_journal.forget(model);
        }
        Ok(())
    }

    /// Reloads if another process has changed something. Returns whether it had.
    pub(crate) async fn refresh(&self) -> Result<bool> {
        let version = self.store.registry_version().await?;
        let changed = version != self.registry.version();
        if changed {
            self.reload().await?;
        }
        Ok(changed)
    }
}
