//! The calls of nodes that are gone.

use std::time::Duration;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::jobs::job::Job;

/// How often they are looked for where other nodes may end: the money that they have set aside waits for it.
const BESIDE_OTHERS: Duration = Duration::from_secs(5);
/// How often they are looked for where none can.
const ALONE: Duration = Duration::from_mins(1);

/// Records the calls of nodes that are gone as failed.
pub(super) struct LostCalls;

impl Job for LostCalls {
    const NAME: &'static str = "lost calls";

    fn period(&self, gateway: &Gateway) -> Duration {
        if gateway.store.may_have_other_nodes() { BESIDE_OTHERS } else { ALONE }
    }

    async fn run(&mut self, gateway: &Gateway) -> Result<()> {
        let lost = gateway.store.settle_lost_calls(&gateway.clock).await?;
        if lost > 0 {
            tracing::warn!(calls = lost, "calls of a node that is gone were recorded as failed");
        }
        Ok(())
    }
}
