//! The request windows of keys, saved so that a restart forgets nothing.

use std::time::Duration;

use domain::ids::KeyId;
use domain::time::Timestamp;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::job::Job;
use crate::lock::lock;

/// Saves the windows that have changed, and reports the memory of bodies and of answers.
pub(super) struct KeyWindows;

impl Job for KeyWindows {
    const NAME: &'static str = "request windows";

    fn period(&self, _: &Gateway) -> Duration {
        Duration::from_secs(1)
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        gateway.body_memory.report();
        gateway.replay_memory.report();
        save(gateway).await
    }
}

/// Saves the windows that have changed, and when keys were last used.
pub(crate) async fn save(gateway: &Gateway) -> Result<()> {
    let changed: Vec<(KeyId, Vec<u8>, Timestamp)> = gateway
        .registry
        .keys()
        .iter()
        .filter_map(|state| {
            let (bytes, last_used) = lock(&state.windows).checkpoint()?;
            Some((state.key.id, bytes, last_used))
        })
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    Ok(gateway.store.save_windows(&changed, gateway.clock.now()).await?)
}
