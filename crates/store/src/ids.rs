//! Step ids, taken in blocks, so that an id costs no query.

use std::ops::Range;
use std::time::Duration;

use domain::ids::{NodeId, StepId};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::db::{ACQUIRE_TIMEOUT, WritePool, within};
use crate::error::{Error, Result};

/// Ids that a process takes at once. Unused ones are a gap.
const BLOCK_IDS: i64 = 1000;

/// How long a block is used. On PostgreSQL the ids of a day lie in a partition that is dropped when all its steps are
/// due: a step that gets an old id late keeps the others waiting.
const BLOCK_LIFE: Duration = Duration::from_mins(30);

/// How long an old block is used on when no other could be had.
const LONGER_LIFE: Duration = Duration::from_mins(1);

const TAKE: &str = "UPDATE counters SET value = value + $2 WHERE name = $1 RETURNING value";

/// Ids that are not used yet.
#[derive(Debug)]
struct Block {
    ids: Range<i64>,
    /// The time from which on another block is to be taken.
    old_from: Instant,
}

/// A process's current block.
#[derive(Debug)]
pub(crate) struct StepIds {
    pool: WritePool,
    block: Mutex<Block>,
    /// The runtime on which blocks are taken: all callers wait for one, and a thread that serves
    /// requests may be busy with the largest of them.
    runtime: Handle,
}

impl StepIds {
    /// An allocator without ids. Blocks will be taken on the runtime of this call.
    pub(crate) fn new(pool: WritePool) -> Self {
        let block = Mutex::new(Block { ids: 0..0, old_from: Instant::now() });
        Self { pool, block, runtime: Handle::current() }
    }

    pub(crate) async fn take(&self) -> Result<StepId> {
        let mut block = match self.block.try_lock() {
            Ok(block) => block,
            // While the database is away, each of many that need a block would wait for its own attempt.
            Err(_) => tokio::time::timeout(ACQUIRE_TIMEOUT, self.block.lock())
                .await
                .map_err(|_| Error::Unavailable("no step id can be had".to_owned()))?,
        };
        if Instant::now() < block.old_from
            && let Some(id) = block.ids.next()
        {
            return Ok(StepId(id));
        }
        let taken_at = Instant::now();
        let pool = self.pool.clone();
        let taken = self.runtime.spawn(async move { take(&pool, "step", BLOCK_IDS).await });
        let stopped = |_| Error::Unavailable("the gateway is stopping".to_owned());
        match taken.await.map_err(stopped).flatten() {
            Ok(end) => {
                let old_from = taken_at + BLOCK_LIFE;
                *block = Block { ids: end - BLOCK_IDS + 1..end, old_from };
                Ok(StepId(end - BLOCK_IDS))
            }
            // A step with an old id keeps a partition for longer, and one without an id is lost.
            Err(error) => {
                block.old_from = Instant::now() + LONGER_LIFE;
                block.ids.next().map(StepId).ok_or(error)
            }
        }
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
