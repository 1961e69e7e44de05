//! Advisory locks on PostgreSQL, held by a connection that does nothing else.
//!
//! They are released when the connection ends: the server ends both a moment after their process
//! has died. So a process that finds a lock taken waits for a while before it gives up.

use std::time::{Duration, Instant};

use domain::ids::NodeId;
use domain::secret::Secret;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection, PgConnection, PgExecutor};
use tokio::sync::Mutex;

use super::Claim;
use crate::db::{Pool, on};
use crate::error::{Error, Result, is_in_use};
use crate::{db, migrate, seal};

/// The number of the lock that a gateway holds which serves alone: "sluice" in ASCII.
const SERVES: i64 = 0x736c_7569_6365;
/// The number of the lock that all gateways share, however many serve. A process that holds it
/// exclusively keeps them away.
const RUNS: i64 = SERVES + 1;
/// The class of the lock that every node holds while it lives; the other number is the node's.
const LIVES: i32 = 0x736c_7569;

/// The number of the lock that whoever changes the schema holds meanwhile.
pub(crate) const MIGRATES: i64 = SERVES + 2;
/// The number of the lock that whoever applies a contract holds from before it looks for gateways that the
/// contract would leave behind. A gateway waits for it after it has shown its version, and looks at the schema then.
pub(crate) const CONTRACTS: i64 = SERVES + 3;
/// The number of the lock that whoever makes and drops partitions holds meanwhile.
pub(crate) const PARTITIONS: i64 = SERVES + 4;
/// The class of the lock that all gateways of one schema version share; the other number is the version.
const KNOWS: i32 = LIVES + 2;
/// The class of the lock by which a connection is found in its database; the other number is its own.
const IS_HERE: i32 = LIVES + 3;
/// The schema version of gateways before there was a lock for it: theirs is this one, or lower.
const BEFORE_LOCK: i64 = 33;

/// The class of the lock by which a node that counts with others is known to them: only it holds it, while the
/// lock of one that is gone is held by whoever has taken it over.
const IS: i32 = LIVES + 4;

const ONE_IS_WITHOUT_REDIS: &str = "another Sluice serves this PostgreSQL database without Redis, and the two would \
     make spend caps inexact: stop the other one, or set SLUICE_REDIS_URL there as well";
const ANOTHER_SERVES: &str = "another Sluice serves this PostgreSQL database, and without Redis the two would make \
     spend caps inexact: stop the other one, or set SLUICE_ALLOW_INEXACT_LIMITS=true";
const SOME_RUN: &str =
    "another Sluice serves this PostgreSQL database: stop every one that does first";
const ONE_IS_ALONE: &str = "a command needs this PostgreSQL database for itself, such as the rotation of the master \
     key: start Sluice again when it has ended";

/// The server settings of the connection. They limit the wait for a lock, and let the server notice
/// within half a minute that the machine at the other end is gone.
const OPTIONS: [(&str, &str); 5] = [
    ("lock_timeout", LOCK_TIMEOUT),
    ("statement_timeout", "10s"),
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
];
/// The wait for a lock at first, as the server prints it.
const LOCK_TIMEOUT: &str = "5s";
const NOT_A_SESSION: &str = "the connection that is to hold its locks leads to a connection pooler. \
     Give the pooler's URL in SLUICE_DATABASE_URL, and that of the PostgreSQL server itself in \
     SLUICE_DATABASE_DIRECT_URL";
const TAKEN_FOR_DEAD: &str = "another Sluice has taken this one for dead, and its place";
/// The time limit of an answer that waits for no lock.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit of an answer that may wait for one.
const LOCK_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for connecting and taking all locks.
const LOCKING_TIMEOUT: Duration = Duration::from_secs(20);
/// After a restart of the server every node takes its lock again. For this long no node is judged
/// gone because its lock is free.
const RESTART_GRACE_TIME: Duration = Duration::from_secs(30);
/// A node whose connection was cut takes its lock again within a second or so. For this long its lock has to be free
/// before it is judged gone.
const ABSENCE: Duration = Duration::from_secs(2);
/// For how long another node may hold the lock of one that comes back: it settles the calls of that one.
const LOAN: Duration = Duration::from_secs(30);

/// The connection, and with it the locks.
#[derive(Debug)]
pub(crate) struct Session {
    options: PgConnectOptions,
    /// The name of the connection at the server: no other has it.
    name: String,
    claim: Claim,
    locks: Mutex<Locks>,
}

#[derive(Debug, Default)]
struct Locks {
    /// None while it is lost.
    connection: Option<PgConnection>,
    /// The node that the session shows to be live.
    node: Option<NodeId>,
    /// The time at which the locks were last taken again.
    retaken: Option<Instant>,
    /// Since when another node has been seen to hold this node's lock.
    lent: Option<Instant>,
}

impl Session {
    /// Connects, and takes the locks of the claim.
    pub(super) async fn open(url: &Secret, claim: Claim) -> Result<Self> {
        let name = format!("sluice lock {:016x}", u64::from_be_bytes(seal::random::<8>()?));
        let options = db::postgres_options(url)?.options(OPTIONS).application_name(&name);
        // A wait for a lock is not logged: its outcome is reported.
        let options = options.disable_statement_logging();
        let session = Self { options, name, claim, locks: Mutex::default() };
        session.take(&mut *session.locks.lock().await).await?;
        Ok(session)
    }

    /// Connects, and takes every lock: at first, and when the connection was lost.
    /// [`Error::InUse`] when another process has one of them.
    async fn take(&self, held: &mut Locks) -> Result<()> {
        let (node, lent) = (held.node, &mut held.lent);
        let taking = async {
            let connected = PgConnection::connect_with(&self.options).await;
            let mut connection = connected.map_err(unreachable)?;
            check_session(&mut connection).await?;
            match self.take_on(&mut connection, node, lent).await {
                Ok(()) => Ok(connection),
                Err(error) => {
                    give_back(connection).await;
                    Err(error)
                }
            }
        };
        let slow = |_| Error::Unavailable("it does not answer".to_owned());
        held.connection = Some(tokio::time::timeout(LOCKING_TIMEOUT, taking).await.map_err(slow)??);
        Ok(())
    }

    async fn take_on(
        &self,
        connection: &mut PgConnection,
        node: Option<NodeId>,
        lent: &mut Option<Instant>,
    ) -> Result<()> {
        // A connection that was cut off may still have the locks: it is ours to end.
        const END: &str = "
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = $1 AND pid <> pg_backend_pid()";
        sqlx::query(END).bind(&self.name).execute(&mut *connection).await?;
        match self.claim {
            Claim::Serve => {
                exclusive(connection, SERVES, ANOTHER_SERVES).await?;
                shared(connection, RUNS, ONE_IS_ALONE).await?;
            }
            Claim::ServeFleet => {
                shared(connection, SERVES, ONE_IS_WITHOUT_REDIS).await?;
                shared(connection, RUNS, ONE_IS_ALONE).await?;
            }
            Claim::ServeShared => shared(connection, RUNS, ONE_IS_ALONE).await?,
            Claim::Alone => exclusive(connection, RUNS, SOME_RUN).await?,
            Claim::Visit | Claim::Look => {}
        }
        if matches!(self.claim, Claim::Serve | Claim::ServeFleet | Claim::ServeShared) {
            let known = sqlx::query("SELECT pg_advisory_lock_shared($1, $2)").bind(KNOWS);
            known.bind(migrate::newest() as i32).execute(&mut *connection).await?;
        }
        if let Some(node) = node {
            match live(connection, self.claim, node).await {
                // The node that settles the calls of this one gives it back.
                Err(Error::InUse(_)) if lent.get_or_insert_with(Instant::now).elapsed() < LOAN => {
                    return Err(Error::Unavailable("another node settles its calls".to_owned()));
                }
                answer => answer?,
            }
            *lent = None;
            is_supported(connection).await?;
        }
        Ok(())
    }

    /// Takes the lock of a node that has just got its number. Fails if the schema does not support it any more.
    pub(super) async fn show(&self, node: NodeId) -> Result<()> {
        let mut held = self.locks.lock().await;
        let shown = async |connection: &mut PgConnection| {
            live(connection, self.claim, node).await?;
            is_supported(connection).await
        };
        held.ask(shown).await?;
        held.node = Some(node);
        Ok(())
    }

    /// The nodes that live and count as one.
    pub(super) async fn live_nodes(&self) -> Result<Vec<NodeId>> {
        const LIVE: &str = "
            SELECT CAST(objid AS BIGINT) FROM pg_locks
            WHERE locktype = 'advisory' AND granted AND CAST(classid AS BIGINT) = $1 AND objsubid = 2
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let mut held = self.locks.lock().await;
        if held.retaken.is_some_and(|at| at.elapsed() < RESTART_GRACE_TIME) {
            let why = "the nodes that live have to show it again after a restart of the database";
            return Err(Error::Unavailable(why.to_owned()));
        }
        let asked = async |connection: &mut PgConnection| {
            let nodes = sqlx::query_scalar(LIVE).bind(i64::from(IS));
            Ok(nodes.fetch_all(connection).await?)
        };
        let nodes: Vec<i64> = held.ask(asked).await?;
        Ok(nodes.into_iter().map(NodeId).collect())
    }

    /// Takes the lock of a node that is gone. False while another connection has it, or has had it within the last
    /// two seconds. Never waits for the lock: whoever waits would have it before a node that comes back.
    pub(super) async fn succeeds(&self, node: NodeId) -> Result<bool> {
        if !self.try_lock_of(node).await? {
            return Ok(false);
        }
        self.leave(node).await;
        tokio::time::sleep(ABSENCE).await;
        self.try_lock_of(node).await
    }

    async fn try_lock_of(&self, node: NodeId) -> Result<bool> {
        let mut held = self.locks.lock().await;
        if held.retaken.is_some_and(|at| at.elapsed() < RESTART_GRACE_TIME) {
            return Ok(false);
        }
        let take = async |connection: &mut PgConnection| {
            let lock = sqlx::query_scalar("SELECT pg_try_advisory_lock($1, $2)").bind(LIVES);
            Ok(lock.bind(number(node)).fetch_one(connection).await?)
        };
        held.ask(take).await
    }

    /// Gives the lock of another node back. A connection that cannot is given up, and with it the lock.
    pub(super) async fn leave(&self, node: NodeId) {
        let mut held = self.locks.lock().await;
        let unlock = async |connection: &mut PgConnection| {
            let unlock = sqlx::query("SELECT pg_advisory_unlock($1, $2)").bind(LIVES);
            unlock.bind(number(node)).execute(connection).await?;
            Ok(())
        };
        if let Err(error) = held.ask(unlock).await {
            tracing::warn!(%error, node = node.0, "the lock of a node that is gone was not given back");
            held.connection = None;
        }
    }

    /// Whether the session is in the database of a pool.
    pub(super) async fn is_in(&self, pool: &Pool) -> Result<bool> {
        const FIND: &str = "
            SELECT COUNT(*) FROM pg_locks
            WHERE locktype = 'advisory' AND granted AND objsubid = 2
              AND CAST(classid AS BIGINT) = $1 AND CAST(objid AS BIGINT) = $2
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        // Nobody else has it.
        let own = i32::from_be_bytes(seal::random::<4>()?) & 0x7fff_ffff;
        let mut held = self.locks.lock().await;
        let mark = async |connection: &mut PgConnection| {
            let lock = sqlx::query("SELECT pg_try_advisory_lock($1, $2)").bind(IS_HERE).bind(own);
            lock.execute(connection).await?;
            Ok(())
        };
        held.ask(mark).await?;
        let found: i64 = on!(pool, db => {
            let find = sqlx::query_scalar(FIND).bind(i64::from(IS_HERE)).bind(i64::from(own));
            find.fetch_one(db).await?
        });
        let unmark = async |connection: &mut PgConnection| {
            let unlock = sqlx::query("SELECT pg_advisory_unlock($1, $2)").bind(IS_HERE).bind(own);
            unlock.execute(connection).await?;
            Ok(())
        };
        held.ask(unmark).await?;
        Ok(found > 0)
    }

    /// Whether the connection lives.
    pub(super) async fn is_alive(&self) -> bool {
        let mut held = self.locks.lock().await;
        let Some(connection) = &mut held.connection else { return false };
        let ping = sqlx::query("SELECT 1").execute(connection);
        let lives = matches!(tokio::time::timeout(ANSWER_TIMEOUT, ping).await, Ok(Ok(_)));
        if !lives {
            held.connection = None;
        }
        lives
    }

    /// Takes every lock again on a new connection. [`Error::InUse`] when another was faster, and not only to settle
    /// the calls of this node.
    pub(super) async fn retake(&self) -> Result<()> {
        let mut held = self.locks.lock().await;
        self.take(&mut held).await?;
        held.retaken = Some(Instant::now());
        Ok(())
    }

    /// Gives all locks back, and closes the connection.
    pub(super) async fn release(&self) {
        if let Some(connection) = self.locks.lock().await.connection.take() {
            give_back(connection).await;
        }
    }
}

impl Locks {
    /// Asks the server over the connection. One that does not answer is given up, so that nobody waits for it
    /// and the locks are taken again.
    async fn ask<T>(&mut self, ask: impl AsyncFnOnce(&mut PgConnection) -> Result<T>) -> Result<T> {
        let lost = || Error::Unavailable("the connection that holds the lock is lost".to_owned());
        let connection = self.connection.as_mut().ok_or_else(lost)?;
        match tokio::time::timeout(LOCK_ANSWER_TIMEOUT, ask(connection)).await {
            Ok(answer) => answer,
            Err(_) => {
                self.connection = None;
                Err(lost())
            }
        }
    }
}

/// Gives all locks of a connection back before it is closed. A connection that is merely dropped
/// has its locks until the server notices.
async fn give_back(mut connection: PgConnection) {
    let farewell = async {
        sqlx::query("SELECT pg_advisory_unlock_all()").execute(&mut connection).await?;
        connection.close().await
    };
    match tokio::time::timeout(ANSWER_TIMEOUT, farewell).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "the database lock was not given back"),
        Err(_) => tracing::warn!("the database lock was not given back in time"),
    }
}

async fn exclusive(connection: &mut PgConnection, lock: i64, otherwise: &str) -> Result<()> {
    let taken = sqlx::query("SELECT pg_advisory_lock($1)").bind(lock).execute(connection).await;
    if is_granted(taken)? { Ok(()) } else { Err(Error::InUse(otherwise.to_owned())) }
}

async fn shared(connection: &mut PgConnection, lock: i64, otherwise: &str) -> Result<()> {
    let taken = sqlx::query("SELECT pg_advisory_lock_shared($1)").bind(lock);
    let taken = taken.execute(connection).await;
    if is_granted(taken)? { Ok(()) } else { Err(Error::InUse(otherwise.to_owned())) }
}

/// Takes the lock that shows that a node lives.
async fn live(connection: &mut PgConnection, claim: Claim, node: NodeId) -> Result<()> {
    if lock_of(connection, LIVES, node).await?
        && (claim != Claim::ServeFleet || lock_of(connection, IS, node).await?)
    {
        return Ok(());
    }
    Err(Error::InUse(TAKEN_FOR_DEAD.to_owned()))
}

/// Refuses a schema that has left this binary behind, once no contract is being applied. A later one waits for the
/// gateways of this version, whose lock the connection has.
async fn is_supported(connection: &mut PgConnection) -> Result<()> {
    let wait = sqlx::query("SELECT pg_advisory_lock_shared($1)").bind(CONTRACTS);
    if !is_granted(wait.execute(&mut *connection).await)? {
        return Err(Error::Unavailable(
            "a newer version is changing its schema in a way that older ones do not know: try again when that is over"
                .to_owned(),
        ));
    }
    sqlx::query("SELECT pg_advisory_unlock_shared($1)")
        .bind(CONTRACTS)
        .execute(&mut *connection)
        .await?;
    migrate::check_shown(connection).await
}

/// A node's number as an advisory lock takes it.
fn number(node: NodeId) -> i32 {
    (node.0 & 0x7fff_ffff) as i32
}

/// The condition under which a row `runs` of `pg_locks` is that of a gateway that runs here: `$1` is [`RUNS`].
macro_rules! shows_gateway {
    () => {
        "runs.locktype = 'advisory' AND runs.objsubid = 1 AND runs.mode = 'ShareLock' AND runs.granted
              AND CAST(runs.classid AS BIGINT) = $1 >> 32
              AND CAST(runs.objid AS BIGINT) = $1 & 4294967295
              AND runs.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    };
}

/// The oldest schema version of the gateways that run; `None` if none does.
pub(crate) async fn oldest_running(db: impl PgExecutor<'_>) -> Result<Option<i64>> {
    const RUNNING: &str = concat!(
        "SELECT min(version) FROM (
            SELECT COALESCE(max(CAST(knows.objid AS BIGINT)), $3) AS version
            FROM pg_locks runs
            LEFT JOIN pg_locks knows
                ON knows.pid = runs.pid AND knows.locktype = 'advisory' AND knows.objsubid = 2
                AND knows.classid = CAST($2 AS OID) AND knows.database = runs.database
            WHERE ",
        shows_gateway!(),
        " GROUP BY runs.pid
        ) nodes"
    );
    let oldest = sqlx::query_scalar(RUNNING).bind(RUNS).bind(i64::from(KNOWS)).bind(BEFORE_LOCK);
    Ok(oldest.fetch_one(db).await?)
}

/// The number of gateways that run.
pub(crate) async fn running(db: impl PgExecutor<'_>) -> Result<i64> {
    const RUNNING: &str = concat!("SELECT count(*) FROM pg_locks runs WHERE ", shows_gateway!());
    Ok(sqlx::query_scalar(RUNNING).bind(RUNS).fetch_one(db).await?)
}

/// Whether a gateway has held its locks for some time. After a restart of the server all take theirs again within seconds,
/// and until then one that runs may not be seen. PostgreSQL shows the beginning of a session to nobody without the rights
/// of the role that signed in, and a gateway may work in another role (`SET role`). Then the start of the server stands in,
/// which is earlier after a crash that the server has recovered from by itself, and at a standby that was promoted.
pub(crate) async fn has_one_run_for(db: impl PgExecutor<'_>, least: Duration) -> Result<bool> {
    const SEEN: &str = concat!(
        "SELECT EXISTS (
            SELECT 1 FROM pg_locks runs JOIN pg_stat_activity a ON a.pid = runs.pid
            WHERE ",
        shows_gateway!(),
        "     AND COALESCE(a.backend_start, pg_postmaster_start_time())
                  < clock_timestamp() - make_interval(secs => $2))"
    );
    let seen = sqlx::query_scalar(SEEN).bind(RUNS).bind(least.as_secs_f64());
    Ok(seen.fetch_one(db).await?)
}

/// Refuses a connection that is no session of its own: a lock that it takes would be held by whichever
/// connection of a pooler was there, and for whoever gets that next.
async fn check_session(connection: &mut PgConnection) -> Result<()> {
    let setting = sqlx::query_scalar("SELECT current_setting('lock_timeout')");
    let found: String = setting.fetch_one(connection).await?;
    if found == LOCK_TIMEOUT { Ok(()) } else { Err(Error::Unavailable(NOT_A_SESSION.to_owned())) }
}

/// Why there is no connection. A pooler refuses the settings of a session.
fn unreachable(error: sqlx::Error) -> Error {
    let text = error.to_string();
    if text.contains("unsupported startup parameter") {
        return Error::Unavailable(NOT_A_SESSION.to_owned());
    }
    Error::Unavailable(format!("it cannot be reached: {text}"))
}

/// Takes the lock of a class for a node. False while another connection has it.
async fn lock_of(connection: &mut PgConnection, class: i32, node: NodeId) -> Result<bool> {
    let lock = sqlx::query("SELECT pg_advisory_lock($1, $2)").bind(class).bind(number(node));
    is_granted(lock.execute(connection).await)
}

/// Whether a lock was granted. Not when the wait for it timed out, or would have been a deadlock.
fn is_granted<T>(asked: sqlx::Result<T>) -> Result<bool> {
    match asked {
        Ok(_) => Ok(true),
        Err(error) if is_in_use(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
