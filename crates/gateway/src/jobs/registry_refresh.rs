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

#[cfg(test)]
mod tests {
    use domain::money::Usd;
    use serde_json::json;

    use super::*;
    use crate::testing::Fresh;

    #[tokio::test]
    async fn what_another_node_has_changed_holds_within_half_a_second() {
        let fresh = Fresh::idle(json!({})).await;
        let (gateway, id) = (&fresh.gateway, fresh.caller.key.key.id);
        // Twice in the second that docs/fleet.md promises, and one look is enough.
        assert_eq!(RegistryRefresh.period(gateway), Duration::from_millis(500));
        let (other, now) = (fresh.other_node().await, gateway.clock.now());
        let mut tx = other.begin().await.unwrap();
        let mut key = tx.key(id).await.unwrap().unwrap();
        (key.hourly_limit, key.reset_at) = (Some(Usd(7)), Some(now));
        tx.save_key(&key).await.unwrap();
        tx.bump_registry().await.unwrap();
        tx.commit().await.unwrap();
        RegistryRefresh.run(gateway).await.unwrap();
        let known = gateway.registry.key(id).unwrap();
        assert_eq!((known.key.hourly_limit, known.key.reset_at), (Some(Usd(7)), Some(now)));
        let mut tx = other.begin().await.unwrap();
        assert!(tx.revoke_key(id, now).await.unwrap());
        tx.bump_registry().await.unwrap();
        tx.commit().await.unwrap();
        RegistryRefresh.run(gateway).await.unwrap();
        assert!(gateway.registry.key(id).is_none(), "it is revoked");
        other.close().await;
    }
}
