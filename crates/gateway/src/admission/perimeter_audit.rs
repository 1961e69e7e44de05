//! Requests that were refused at the perimeter, or corrected there, as the audit reports them.
//!
//! Nothing that an attacker can repeat fills the disk: one row an address and minute for refused credentials and
//! addresses together and one for each attack on browsers, 60 a minute in all, 30 of them for the former. A row is written with the first block; later blocks are counted here, and the row is
//! updated from time to time.

use serde_json::{Map, Value};

use crate::audit::{Event, Noted};
use crate::error::Result;
use crate::gateway::Gateway;
use crate::request_id;
use crate::state::caller::Origin;
use crate::state::perimeter_counts::PerimeterReason;

impl Gateway {
    /// Notes a request that was refused at the perimeter, also if its sender hangs up meanwhile.
    pub async fn note_perimeter_block(&self, origin: &Origin, reason: PerimeterReason) {
        metrics::counter!("sluice_perimeter_blocks_total").increment(1);
        let Some(row) = self.perimeter_counts.note(origin.address, reason, self.clock.now()) else {
            return;
        };
        let (gateway, origin) = (self.clone(), origin.clone());
        let write = self.tasks.spawn(request_id::carried(async move {
            let written = gateway.write_block(&origin, row.metadata.clone()).await;
            let id = written.unwrap_or_else(|error| {
                tracing::warn!(error = error.cause(), "a perimeter block was not recorded");
                None
            });
            gateway.perimeter_counts.written(&row, id);
        }));
        // The task has logged its failure, if there was one.
        let _ = write.await;
    }

    async fn write_block(
        &self,
        origin: &Origin,
        metadata: Map<String, Value>,
    ) -> Result<Option<i64>> {
        let Some(org) = self.store.first_org().await? else { return Ok(None) };
        let noted =
            Noted { org, event: Event::PerimeterBlock, actor: None, target: None, metadata };
        let mut tx = self.store.begin().await?;
        let id = self.note(&mut tx, origin, noted).await?;
        tx.commit().await?;
        Ok(Some(id))
    }

    /// Updates the counts in the audit rows of perimeter blocks.
    pub(crate) async fn flush_perimeter_audit(&self) {
        let unwritten = self.perimeter_counts.unwritten();
        if unwritten.is_empty() {
            return;
        }
        let told = async {
            let mut tx = self.store.begin().await?;
            for row in &unwritten {
                if let Some(id) = row.id {
                    tx.retell_audit(id, row.metadata.clone()).await?;
                }
            }
            tx.commit().await
        };
        match told.await {
            Ok(()) => self.perimeter_counts.told(&unwritten),
            Err(error) => tracing::warn!(%error, "perimeter blocks were not counted"),
        }
    }
}
