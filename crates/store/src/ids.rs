//! Step ids, taken in blocks, so that an id costs no query.

use std::ops::Range;

use domain::ids::{NodeId, StepId};
use tokio::sync::Mutex;

use crate::db::{WritePool, within};
use crate::error::Result;

/// Ids a process takes at once. What it does not use is a gap.
const BLOCK: i64 = 1000;

const TAKE: &str = "UPDATE counters SET value = value + $2 WHERE name = $1 RETURNING value";

/// A process's current block.
#[derive(Debug)]
pub(crate) struct StepIds {
    pool: WritePool,
    block: Mutex<Range<i64>>,
}

impl StepIds {
    pub(crate) fn new(pool: WritePool) -> Self {
        Self { pool, block: Mutex::new(0..0) }
    }

    pub(crate) async fn take(&self) -> Result<StepId> {
        let mut block = self.block.lock().await;
        if let Some(id) = block.next() {
            return Ok(StepId(id));
        }
        // Boxed, for the one call in a thousand: a query is kilobytes of state in every future above.
        let end = Box::pin(take(&self.pool, "step", BLOCK)).await?;
        *block = end - BLOCK + 1..end;
        Ok(StepId(end - BLOCK))
    }
}

/// Takes the next number for a run of the process.
pub(crate) async fn node(pool: &WritePool) -> Result<NodeId> {
    take(pool, "node", 1).await.map(NodeId)
}

async fn take(pool: &WritePool, name: &str, count: i64) -> Result<i64> {
    let mut tx = pool.begin().await?;
    let value = within!(tx, db => {
        sqlx::query_scalar(TAKE).bind(name).bind(count).fetch_one(&mut *db).await?
    });
    tx.commit().await?;
    Ok(value)
}
