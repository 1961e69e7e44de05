//! The store: SQL on SQLite or PostgreSQL, and nowhere else.
//!
//! Reads and control-plane writes are plain functions; traces and steps go through the
//! [group-commit writer](writer). Row types stay in here, public functions use the types of
//! `domain`. The store does not depend on HTTP, providers or limits.

mod accounts;
mod answers;
mod audit;
mod claimed;
mod db;
mod error;
mod exports;
mod file_health;
mod from_row;
mod groups;
mod idempotency;
mod identities;
mod ids;
mod insights;
mod jobs;
mod keys;
mod links;
mod lock;
mod migrate;
mod models;
mod organizations;
mod partitions;
mod parts;
mod passkeys;
mod people;
mod pg;
mod projects;
mod purge;
mod retention;
mod seal;
mod search;
mod second_factors;
mod service_tokens;
mod session_traces;
mod sessions;
mod sign_on;
mod spend;
mod stats;
mod steps;
mod stored_responses;
mod traces;
mod vault;
mod writer;

use async_recursion::async_recursion as boxed;
use domain::ids::{NodeId, ProjectId, StepId};
use domain::secret::Secret;
use domain::time::{Clock, Timestamp};
use futures_util::{StreamExt as _, stream};
use tokio_util::task::TaskTracker;

pub use accounts::{Account, Session};
pub use answers::{ANSWER_BINS, AlikeAnswers};
pub use audit::chain::{ChainHead, LinkHash};
pub use audit::check::{ChainBreak, ChainCheck, ChainFault, ChainReport};
pub use audit::list::{Audit, AuditRecord, ChainPlace};
pub use audit::question::AuditFilter;
pub use audit::{Actor, NewAudit};
pub use claimed::Claimed;
pub use db::{Location, READ_BOUND, Tx};
pub use error::{Error, Result};
pub use file_health::{FileHealth, Pages, inspect_file};
pub use groups::{Arrived, Dimension, GroupRow, Grouped};
pub use idempotency::{ClaimEnd, ClaimId, ClaimState, FoundClaim};
pub use identities::LinkedIdentity;
pub use insights::{IntentUsage, ModelLatencies};
pub use jobs::{AddedJob, JobEnd, NewJob};
pub use keys::MadeKey;
pub use links::{LinkPurpose, OneTimeLink};
pub use lock::{Claim, Held};
pub use migrate::{SchemaState, apply_migrations, inspect_schema};
pub use models::ModelRow;
pub use organizations::Organization;
pub use partitions::{DuePartition, Maintenance, PartitionWatch};
pub use passkeys::StoredPasskey;
pub use people::Person;
pub use seal::{PackedContent, SealingKey, random};
pub use search::{Order, Page, Term, TraceFilter};
pub use second_factors::{AccountState, Authenticator, RemovedFactors};
pub use service_tokens::ServiceToken;
pub use session_traces::{IdleSession, SessionHash};
pub use sessions::{EndedSession, ListedSession, NewSession};
pub use sign_on::SignOnProvider;
pub use spend::SpentSecond;
pub use stats::{AgentCounts, FindingCounts, LedgerRow, SecurityCounts, ToolTimes, UsageBucket};
pub use steps::{
    EndedStep, ListedVerdict, Outline, ReviewPage, STEPS_AT_ONCE, SealedContent, StepCursor,
};
pub use stored_responses::StoredResource;
pub use traces::{AgentFigures, COUNT_LIMIT, Completion};
pub use writer::{LostCall, ObservedStep, Start, StepObserver, Writer};
use writer::{PostgresCommits, SqliteCommits};

use db::{Pool, WritePool, on};
use groups::{KeptSteps, KeptSums};
use ids::StepIds;
use lock::Lock;
use partitions::HeldPurge;

/// The most nodes that are looked for at a time: whether one is gone shows after two seconds.
const NODES_AT_ONCE: usize = 16;

/// Rows, each with the project that owns it and cannot be served when the row cannot be read. An
/// invalid one hides no other.
pub type PerProject<T> = Vec<(ProjectId, Result<T>)>;

/// The options for opening a store.
#[derive(Debug)]
pub struct Options {
    /// The location of the data.
    pub location: Location,
    /// The master key.
    pub master: SealingKey,
    /// The intended use of the database.
    pub claim: Claim,
    /// The source of the time.
    pub clock: Clock,
}

/// An open database.
#[derive(Debug)]
pub struct Store {
    reader: Pool,
    /// The connections for statistics.
    reports: Pool,
    writer: WritePool,
    master: SealingKey,
    node: NodeId,
    step_ids: StepIds,
    hot: Writer,
    tasks: TaskTracker,
    lock: Lock,
    kept_sums: KeptSums,
    kept_steps: KeptSteps,
    serves_beside_others: bool,
    /// The URL of the PostgreSQL server itself, if there is one and it may be changed.
    direct: Option<Secret>,
    held_purge: HeldPurge,
    /// Held while the calls of a node are settled, until they are in `lost_calls`. Each is for some of the nodes, by
    /// their numbers: a node that comes back waits for its own calls alone.
    settling: [tokio::sync::Mutex<()>; NODES_AT_ONCE],
    /// The calls of nodes that are gone that shared counters do not have yet; `None` where none are shared.
    lost_calls: Option<std::sync::Mutex<Vec<LostCall>>>,
}

impl Store {
    /// Claims and opens a database, brings its schema up to date, and starts the writer.
    #[boxed]
    pub async fn open(options: Options) -> Result<Self> {
        let claimed = Claimed::take(options.location, options.claim).await?;
        claimed.open(options.master, options.clock).await
    }

    /// Opens a database that is claimed. The store does not hold the claim yet.
    pub(crate) async fn open_claimed(
        claimed: &Claimed,
        master: SealingKey,
        clock: Clock,
    ) -> Result<Self> {
        let Claimed { location, claim, lock } = claimed;
        let looks_only = *claim == Claim::Look;
        let (reader, reports, mut writer) = if looks_only {
            let pool = db::connect_read_only(location).await?;
            (pool.clone(), pool.clone(), WritePool::new(pool))
        } else {
            let (reader, writer) = connect(claimed).await?;
            (reader.clone(), db::reports(location, &reader)?, writer)
        };
        let node = if looks_only {
            migrate::check(&writer.pool).await?;
            NodeId(0)
        } else {
            if matches!(location, Location::Pooled { .. }) && !lock.is_in(&writer.pool).await? {
                return Err(migrate::of_two_databases());
            }
            migrate::run(location, &writer.pool, *claim).await?;
            ids::node(&writer).await?
        };
        writer.node = node;
        lock.show(node).await?;
        let tasks = TaskTracker::new();
        let hot = start_writer(location, &writer, lock.held(), clock, &tasks)?;
        let step_ids = StepIds::new(writer.clone());
        let lock = Lock::None;
        let kept_sums = KeptSums::default();
        let is_shared = matches!(claim, Claim::ServeFleet | Claim::ServeShared);
        let serves_beside_others = is_shared && matches!(reader, Pool::Postgres(_));
        let direct = if looks_only { None } else { location.direct().cloned() };
        let lost_calls = (*claim == Claim::ServeFleet).then(std::sync::Mutex::default);
        let store = Self {
            reader,
            reports,
            writer,
            master,
            node,
            step_ids,
            hot,
            tasks,
            lock,
            kept_sums,
            kept_steps: KeptSteps::default(),
            serves_beside_others,
            direct,
            held_purge: HeldPurge::default(),
            settling: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            lost_calls,
        };
        // Proves the master key before anything is written with it.
        store.pepper().await?;
        Ok(store)
    }

    /// The writer of traces and steps.
    pub fn writer(&self) -> &Writer {
        &self.hot
    }

    /// The number of this run of the process.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// A step id that no other step has.
    #[boxed]
    pub async fn step_id(&self) -> Result<StepId> {
        self.step_ids.take().await
    }

    /// Whether other gateways may record calls in this database while this one does.
    pub fn may_have_other_nodes(&self) -> bool {
        match self.reader {
            Pool::Sqlite(_) => false,
            Pool::Postgres(_) => true,
        }
    }

    /// Whether other gateways serve this database while this one does.
    pub fn serves_beside_others(&self) -> bool {
        self.serves_beside_others
    }

    /// Begins a write transaction.
    #[boxed]
    pub async fn begin(&self) -> Result<Tx> {
        self.writer.begin().await
    }

    /// Whether the database answers, the schema still supports this binary, the writer is well, and the claim
    /// holds. After a failed commit only a write can show that the writer is well.
    #[boxed]
    pub async fn ping(&self) -> Result<()> {
        if !self.hot.is_alive() {
            return Err(Error::Unavailable("the writer is behind or has stopped".to_owned()));
        }
        if !self.lock.held().is_so() {
            return Err(Error::Unavailable(
                "the connection that holds the database lock is lost".to_owned(),
            ));
        }
        // Its writes may fail for just that reason, while the one below succeeds.
        migrate::check_still_supported(&self.reader).await?;
        if self.hot.is_failing() {
            let mut tx = self.begin().await?;
            tx.touch().await?;
            tx.commit().await?;
        }
        Ok(())
    }

    /// A number that grows with every change of projects, models or keys, by any process.
    #[boxed]
    pub async fn registry_version(&self) -> Result<i64> {
        Ok(on!(&self.reader, db => {
            sqlx::query_scalar("SELECT value FROM counters WHERE name = 'registry'").fetch_one(db).await?
        }))
    }

    /// Records the provider calls whose end was lost with their node, as failed steps with an
    /// estimated cost. Calls of live nodes are left alone. Returns how many there were.
    #[boxed]
    pub async fn settle_lost_calls(&self, clock: &Clock) -> Result<usize> {
        let nodes = writer::nodes_with_open_calls(&self.reader, self.node).await?;
        let settled = stream::iter(nodes).map(async |node| {
            // The time is that at which the node is known to be gone.
            let settle = async { self.settle_lost_calls_of(node, clock.now()).await };
            self.in_place_of(node, settle).await.map(Option::unwrap_or_default)
        });
        let settled: Vec<Result<usize>> = settled.buffer_unordered(NODES_AT_ONCE).collect().await;
        settled.into_iter().sum()
    }

    /// Does work in the place of a node, if it is gone; `None` while it lives. The node may only have been cut off, so
    /// it gets its lock back.
    pub(crate) async fn in_place_of<T>(
        &self,
        node: NodeId,
        work: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        if !self.lock.succeeds(node).await? {
            return Ok(None);
        }
        let done = work.await;
        self.lock.leave(node).await;
        done.map(Some)
    }

    /// Records the calls of a node whose end was lost, if it is gone. Returns whether it is: then it is kept from
    /// coming back until [`Store::leave`].
    #[boxed]
    pub async fn settle_if_gone(&self, node: NodeId, clock: &Clock) -> Result<bool> {
        if !self.lock.succeeds(node).await? {
            return Ok(false);
        }
        if let Err(error) = self.settle_lost_calls_of(node, clock.now()).await {
            self.lock.leave(node).await;
            return Err(error);
        }
        Ok(true)
    }

    /// Ends what [`Store::settle_if_gone`] began: the node may only have been cut off, and then it comes back.
    #[boxed]
    pub async fn leave(&self, node: NodeId) {
        self.lock.leave(node).await;
    }

    /// Waits for whoever is recording calls of nodes that are gone, and so for the database. All that the ledger had
    /// when this was called are among those of [`Store::take_lost_calls`] from then on, or were before. No request may
    /// call it.
    #[boxed]
    pub async fn lost_calls_are_listed(&self) {
        for settling in &self.settling {
            drop(settling.lock().await);
        }
    }

    /// The calls of nodes that are gone that this one has recorded since the last time, where nodes count as one.
    pub fn take_lost_calls(&self) -> Vec<LostCall> {
        let Some(lost) = &self.lost_calls else { return Vec::new() };
        std::mem::take(&mut *lost.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// The nodes that live and count as one, this one included. Fails while some that do may not have shown it again.
    #[boxed]
    pub async fn live_nodes(&self) -> Result<Vec<NodeId>> {
        let mut nodes = self.lock.live().await?;
        if !nodes.contains(&self.node) {
            nodes.push(self.node);
        }
        Ok(nodes)
    }

    /// Records the calls of a node that is gone and whose end was lost. Once this returns they are among
    /// those of [`Store::take_lost_calls`], whichever task of this process has recorded them.
    pub(crate) async fn settle_lost_calls_of(&self, node: NodeId, now: Timestamp) -> Result<usize> {
        let place = node.0.rem_euclid(NODES_AT_ONCE as i64) as usize;
        // The lock of the node keeps other processes out, and no other task of this one. No request waits for this, and
        // whoever holds it waits for the database alone.
        let _alone = self.settling[place].lock().await;
        let mut lost = Vec::new();
        let settled =
            writer::settle_lost(&self.reader, &self.writer, &self.hot, node, now, &mut lost).await;
        if let Some(all) = &self.lost_calls {
            all.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut lost);
        }
        settled
    }

    /// Follows whether the node has its lock.
    pub fn held(&self) -> Held {
        self.lock.held()
    }

    /// Waits until another process has taken the place of this one, while the connection to the
    /// database was lost. A serving process has to stop then.
    #[boxed]
    pub async fn displaced(&self) {
        self.lock.displaced().await;
    }

    /// Gives up the claim of a command that only reads from now on, so that a gateway may start beside
    /// it however long that takes.
    #[boxed]
    pub async fn release_claim(&mut self) {
        std::mem::replace(&mut self.lock, Lock::None).release().await;
    }

    /// Waits until the queue is written, and closes the database. Another process can open it
    /// once this returns.
    #[boxed]
    pub async fn close(self) {
        drop(self.hot);
        self.tasks.close();
        self.tasks.wait().await;
        self.reports.close().await;
        self.reader.close().await;
        self.writer.pool.close().await;
        self.lock.release().await;
    }
}

/// Connects to a database in order to change it.
async fn connect(claimed: &Claimed) -> Result<(Pool, WritePool)> {
    let Location::Sqlite(path) = &claimed.location else {
        return db::connect(&claimed.location).await;
    };
    if !claimed.may_set_up() && !db::has_content(path) {
        return Err(Error::InUse(
            "another Sluice is setting this data folder up: try again in a moment".to_owned(),
        ));
    }
    let was_without_log = file_health::is_without_log(path);
    let (reader, writer) = db::connect(&claimed.location).await?;
    if claimed.may_set_up() {
        file_health::note_last_end(path, was_without_log, &writer).await?;
    }
    Ok((reader, writer))
}

/// Starts the group-commit writer: on SQLite on a thread that may block, on PostgreSQL as a task.
fn start_writer(
    location: &Location,
    pool: &WritePool,
    held: Held,
    clock: Clock,
    tasks: &TaskTracker,
) -> Result<Writer> {
    let node = pool.node;
    Ok(match location {
        Location::Postgres(_) | Location::Pooled { .. } => {
            let own = db::postgres_of_writer(location)?;
            let (hot, run) = Writer::new(PostgresCommits::new(own.clone(), held), node, clock);
            tasks.spawn(async move {
                run.await;
                own.close().await;
            });
            hot
        }
        Location::Sqlite(path) => {
            let commits = SqliteCommits::new(path.clone(), pool.turn.clone());
            let (hot, run) = Writer::new(commits, node, clock);
            let runtime = tokio::runtime::Handle::current();
            tasks.spawn_blocking(move || runtime.block_on(run));
            hot
        }
    })
}
