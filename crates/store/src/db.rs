//! Two databases behind one set of queries.

use async_recursion::async_recursion as boxed;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use domain::ids::NodeId;
use domain::secret::Secret;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{Connection as _, PgConnection, Sqlite, SqlitePool, Transaction};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::error::{Error, Result};
use crate::pg::{Begin, Pg, PgTx};

/// Runs the same tokens against whichever driver is in use.
macro_rules! on {
    ($pool:expr, $db:ident => $query:expr) => {
        match $pool {
            $crate::db::Pool::Sqlite($db) => $query,
            $crate::db::Pool::Postgres($db) => $query,
        }
    };
}

/// Runs the same tokens inside a transaction of whichever driver is in use.
macro_rules! within {
    ($tx:expr, $db:ident => $query:expr) => {
        match &mut $tx.0 {
            $crate::db::AnyTx::Sqlite(tx) => {
                let $db = &mut **tx;
                $query
            }
            $crate::db::AnyTx::Postgres(tx) => {
                let $db = &mut tx.connection();
                $query
            }
        }
    };
}

/// Runs the same tokens against whichever driver is in use, as a read that PostgreSQL ends itself after
/// [`READ_BOUND`].
macro_rules! bounded {
    ($pool:expr, $db:ident => $query:expr) => {
        $crate::db::bounded!(BoundedRead, $pool, $db => $query)
    };
    ($begin:ident, $pool:expr, $db:ident => $query:expr) => {
        match $pool {
            $crate::db::Pool::Sqlite($db) => $query,
            $crate::db::Pool::Postgres(pool) => {
                let mut tx = pool.begin($crate::pg::Begin::$begin).await?;
                let found = {
                    let $db = &mut tx.connection();
                    $query
                };
                tx.commit().await?;
                found
            }
        }
    };
}

pub(crate) use {bounded, on, within};

/// The bound on a long read. Whoever waits for one stops then; a read that goes on in PostgreSQL would take one
/// of the few connections until its statement ended.
pub const READ_BOUND: Duration = Duration::from_secs(5);

/// A pool of either driver.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    Sqlite(SqlitePool),
    Postgres(Pg),
}

/// The lock for writes to a SQLite database, which takes one writer: the group-commit writer or a
/// transaction of the control plane. Fair, so that neither waits for ever.
pub(crate) type WriteLock = Arc<Mutex<()>>;

/// The source of write transactions.
#[derive(Clone, Debug)]
pub(crate) struct WritePool {
    pub(crate) pool: Pool,
    pub(crate) turn: WriteLock,
    /// The node that writes; 0 until it has its number.
    pub(crate) node: NodeId,
}

/// A write transaction. Functions that must be atomic take one and cannot be called without.
#[derive(Debug)]
pub struct Tx(
    pub(crate) AnyTx,
    #[expect(dead_code, reason = "held")] Option<OwnedMutexGuard<()>>,
    /// The node that writes; 0 where nothing is written.
    pub(crate) NodeId,
);

#[derive(Debug)]
pub(crate) enum AnyTx {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(PgTx),
}

impl Tx {
    /// Makes the changes of the transaction durable.
    #[boxed]
    pub async fn commit(self) -> Result<()> {
        match self.0 {
            AnyTx::Sqlite(tx) => tx.commit().await?,
            AnyTx::Postgres(tx) => tx.commit().await?,
        }
        Ok(())
    }
}

/// The location of the data.
#[derive(Clone, Debug)]
pub enum Location {
    /// A file in the data folder.
    Sqlite(PathBuf),
    /// A connection URL. Holds a password: never printed.
    Postgres(Secret),
    /// A PostgreSQL behind a pooler that may give every transaction another session, as PgBouncer does in
    /// transaction mode.
    Pooled {
        /// The connection URL of the pooler.
        pooler: Secret,
        /// The URL of the server itself, for what needs a session of its own: locks and migrations.
        direct: Secret,
    },
}

impl Location {
    /// The URL of the PostgreSQL server itself, if there is one.
    pub(crate) fn direct(&self) -> Option<&Secret> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(url) | Self::Pooled { direct: url, .. } => Some(url),
        }
    }

    /// Whether it is a PostgreSQL, however it is reached.
    pub fn is_postgres(&self) -> bool {
        self.direct().is_some()
    }
}

/// The pragmas of every connection to SQLite. The write-ahead log is trimmed after a checkpoint.
pub(crate) const PRAGMAS: [(&str, &str); 5] = [
    ("synchronous", "full"),
    ("foreign_keys", "on"),
    ("cache_size", "-4000"),
    ("journal_size_limit", "67108864"),
    ("wal_autocheckpoint", "2000"),
];

/// The cache of a connection that only reads SQLite, in KiB: its pages are in the cache of the system, too.
const SMALL_CACHE: &str = "-1000";

/// How long a connection that reads SQLite is kept without use: it is opened in a millisecond, and holds
/// memory.
const READER_IDLE: Duration = Duration::from_secs(30);

/// Bytes of a page of a new database: a step with its content fills few of them, and every page
/// that a commit touches is two writes to the log.
const PAGE_BYTES: u32 = 8192;

/// Connections of a node to PostgreSQL, beside those of its writer and of its locks.
pub(crate) const MOST_CONNECTIONS: u32 = 10;

/// Those of them that are for statistics.
const REPORT_CONNECTIONS: u32 = 4;

/// How long anything waits for a connection.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// The pools to read from and to write to. On SQLite the writer is a pool of one connection; on
/// PostgreSQL they are the same pool.
pub(crate) async fn connect(location: &Location) -> Result<(Pool, WritePool)> {
    match location {
        Location::Sqlite(path) => sqlite(path).await,
        Location::Postgres(_) | Location::Pooled { .. } => {
            let most = MOST_CONNECTIONS - REPORT_CONNECTIONS;
            let (pool, options, is_pooled) = postgres(location, most)?;
            let pool = pool.connect_with(options).await.map_err(unreachable)?;
            let pool = Pool::Postgres(Pg::new(pool, is_pooled));
            Ok((pool.clone(), WritePool::new(pool)))
        }
    }
}

/// The pool for statistics; on SQLite that to read from.
///
/// Slow ones leave the other connections to PostgreSQL to calls. Their statements, which take longer to plan than to
/// execute where each looks into all partitions, are planned in few sessions then: a pool gives its connections in
/// turn, so each has to plan all that the pool executes.
pub(crate) fn reports(location: &Location, reader: &Pool) -> Result<Pool> {
    Ok(match reader {
        Pool::Sqlite(_) => reader.clone(),
        Pool::Postgres(_) => Pool::Postgres(lazy_postgres(location, REPORT_CONNECTIONS)?),
    })
}

/// Whether there is a file with anything in it.
pub(crate) fn has_content(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.len() > 0)
}

/// A pool that can only read, and leaves no trace in the folder of a SQLite database.
pub(crate) async fn connect_read_only(location: &Location) -> Result<Pool> {
    match location {
        Location::Sqlite(path) => {
            let pool = SqlitePoolOptions::new().max_connections(2).acquire_timeout(ACQUIRE_TIMEOUT);
            let pool = pool.connect_with(read_only_sqlite(path)).await.map_err(unreachable)?;
            Ok(Pool::Sqlite(pool))
        }
        // A look is short, and has a session to itself.
        Location::Postgres(url) | Location::Pooled { direct: url, .. } => {
            let (pool, options) = direct(url, 2)?;
            let options = options.options([("default_transaction_read_only", "on")]);
            let pool = pool.connect_with(options).await.map_err(unreachable)?;
            Ok(Pool::Postgres(Pg::new(pool, false)))
        }
    }
}

/// A connection to SQLite that cannot write. Without a log there is no writer either: then the file
/// is read as it is, since a connection would leave an empty log behind.
pub(crate) fn read_only_sqlite(path: &Path) -> SqliteConnectOptions {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .immutable(!Path::new(&log).exists())
        .busy_timeout(ACQUIRE_TIMEOUT)
}

/// The writer's own connection to PostgreSQL. It is opened on the writer's runtime: one that a
/// request has opened would answer no sooner than the thread of that request, when it computes.
pub(crate) fn postgres_of_writer(location: &Location) -> Result<Pg> {
    lazy_postgres(location, 1)
}

/// A pool whose connections are opened when they are first wanted.
fn lazy_postgres(location: &Location, most: u32) -> Result<Pg> {
    let (pool, options, is_pooled) = postgres(location, most)?;
    Ok(Pg::new(pool.connect_lazy_with(options), is_pooled))
}

/// How to reach PostgreSQL for statements, and whether that is through a pooler.
fn postgres(location: &Location, most: u32) -> Result<(PgPoolOptions, PgConnectOptions, bool)> {
    match location {
        Location::Sqlite(_) => Err(Error::Unavailable("it is no PostgreSQL".to_owned())),
        Location::Postgres(url) => direct(url, most).map(|(pool, options)| (pool, options, false)),
        Location::Pooled { pooler, .. } => {
            // A pooler knows few parameters of a session, and refuses connections that set others.
            let options = postgres_options(pooler)?.extra_float_digits(None);
            Ok((pool_of(most), options, true))
        }
    }
}

fn direct(url: &Secret, most: u32) -> Result<(PgPoolOptions, PgConnectOptions)> {
    // A statement of ours that runs longer is a defect, not work. None is so long that compiling it pays: that
    // takes 15 to 100 ms where PostgreSQL takes a filter for a long one.
    // Workers take some 40 ms to begin, more than a statement takes that PostgreSQL takes for long because it looks into
    // some 60 partitions: by an index that costs a few thousand. One that reads much costs more than ten thousand.
    let options = postgres_options(url)?.options([
        ("statement_timeout", "30000"),
        ("jit", "off"),
        ("parallel_setup_cost", "10000"),
    ]);
    Ok((pool_of(most), options))
}

fn pool_of(most: u32) -> PgPoolOptions {
    PgPoolOptions::new().max_connections(most).acquire_timeout(ACQUIRE_TIMEOUT)
}

/// A connection to the PostgreSQL server itself, for what needs a session of its own. Should the machine at this end be
/// gone, the server notices, and gives its locks to the next.
pub(crate) async fn connect_direct(
    url: &Secret,
    settings: &[(&str, &str)],
) -> Result<PgConnection> {
    let options = postgres_options(url)?.options(settings.iter().copied()).options([
        ("tcp_keepalives_idle", "10"),
        ("tcp_keepalives_interval", "5"),
        ("tcp_keepalives_count", "3"),
    ]);
    let connecting = PgConnection::connect_with(&options);
    tokio::time::timeout(ACQUIRE_TIMEOUT, connecting)
        .await
        .map_err(|_| Error::Unavailable("it does not answer".to_owned()))?
        .map_err(unreachable)
}

/// The options that a database URL holds.
pub(crate) fn postgres_options(url: &Secret) -> Result<PgConnectOptions> {
    url.expose()
        .parse()
        .map_err(|error| Error::Unavailable(format!("the database URL cannot be read: {error}")))
}

async fn sqlite(path: &PathBuf) -> Result<(Pool, WritePool)> {
    let mut options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .page_size(PAGE_BYTES)
        .busy_timeout(ACQUIRE_TIMEOUT);
    for (pragma, value) in PRAGMAS {
        options = options.pragma(pragma, value);
    }
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .connect_with(options.clone())
        .await
        .map_err(unreachable)?;
    let reader = SqlitePoolOptions::new()
        .max_connections(4)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(READER_IDLE)
        .test_before_acquire(false)
        .connect_lazy_with(options.pragma("query_only", "on").pragma("cache_size", SMALL_CACHE));
    Ok((Pool::Sqlite(reader), WritePool::new(Pool::Sqlite(writer))))
}

pub(crate) fn unreachable(error: sqlx::Error) -> Error {
    Error::Unavailable(format!("it cannot be opened: {error}"))
}

impl WritePool {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { pool, turn: WriteLock::default(), node: NodeId(0) }
    }

    pub(crate) async fn begin(&self) -> Result<Tx> {
        Ok(match &self.pool {
            Pool::Sqlite(pool) => {
                let turn = tokio::time::timeout(ACQUIRE_TIMEOUT, self.turn.clone().lock_owned());
                let turn = turn
                    .await
                    .map_err(|_| Error::Unavailable("other writes take too long".to_owned()))?;
                Tx(AnyTx::Sqlite(begin_sqlite(pool).await?), Some(turn), self.node)
            }
            Pool::Postgres(pool) => {
                Tx(AnyTx::Postgres(pool.begin(Begin::Write).await?), None, self.node)
            }
        })
    }
}

/// Begins to write. A deferred transaction could fail half way, when it first writes.
async fn begin_sqlite(pool: &SqlitePool) -> Result<Transaction<'static, Sqlite>> {
    const BEGIN: &str = "BEGIN IMMEDIATE";
    let error = match pool.begin_with(BEGIN).await {
        Ok(tx) => return Ok(tx),
        Err(error) => error,
    };
    // A connection whose last transaction met a full disk may still be inside it.
    tracing::warn!(%error, "a database connection is opened anew");
    pool.acquire().await?.close().await?;
    Ok(pool.begin_with(BEGIN).await?)
}

impl Pool {
    /// Begins to read one state of the database, whatever is written meanwhile.
    pub(crate) async fn snapshot(&self) -> Result<Tx> {
        self.read(Begin::Snapshot).await
    }

    /// Begins a transaction of a kind that reads.
    pub(crate) async fn read(&self, begin: Begin) -> Result<Tx> {
        let tx = match self {
            Self::Sqlite(pool) => AnyTx::Sqlite(pool.begin().await?),
            Self::Postgres(pool) => AnyTx::Postgres(pool.begin(begin).await?),
        };
        Ok(Tx(tx, None, NodeId(0)))
    }

    pub(crate) async fn close(&self) {
        on!(self, db => db.close().await);
    }
}
