//! The schema and its history, and which binaries may work with it.
//!
//! A migration is an "expand", which leaves the binaries before it working, or a "contract", which names the
//! oldest schema version whose binaries still do. The database records that version, so that an older binary may
//! start beside a newer schema or is refused with a reason.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{Connection as _, PgConnection, SqlSafeStr};

use crate::db::{self, Location, Pool, on};
use crate::error::{self, Error, Result};
use crate::lock::{CONTRACTS, Claim, MIGRATES, oldest_running};

/// A migration as `build.rs` finds it in `migrations/`. Old entries never change.
struct Change {
    version: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    /// The oldest schema version whose binaries work after it, if it is a contract.
    contract: Option<i64>,
}

const HISTORY: &[Change] = include!(concat!(env!("OUT_DIR"), "/history.rs"));

const APPLIED: &str = "SELECT version, checksum FROM _sqlx_migrations ORDER BY version";

/// How long one waits that meets another process at the same work. Building an index may take minutes.
const MIGRATION_TIMEOUT: Duration = Duration::from_mins(30);
/// How long a change of the schema waits for a table. All that use the table wait behind it.
const TABLE_LOCK_TIMEOUT: &str = "250ms";
/// The pause before the second attempt at either.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause: a table may be read for minutes, as a backup does, and all that use it wait at each attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The findings of a binary that would start on a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaState {
    /// The schema is the one that the binary knows.
    UpToDate {
        /// The version.
        version: i64,
    },
    /// The binary has migrations to apply. Gateways that run go on.
    Behind {
        /// The version of the database; 0 if it is empty.
        found: i64,
        /// The newest version that the binary knows.
        known: i64,
        /// The number of migrations to apply.
        pending: usize,
        /// The oldest version whose binaries work after that; 0 if all do that do now.
        oldest: i64,
        /// The oldest version of the gateways that run at a PostgreSQL; 33 for all from before versions were
        /// shown.
        running: Option<i64>,
    },
    /// The schema is newer, and the binary works with it.
    Ahead {
        /// The version of the database.
        found: i64,
        /// The newest version that the binary knows.
        known: i64,
    },
}

/// Reads a database's schema as a binary of this version would find it that starts. Changes nothing. Fails
/// as the start would.
#[boxed]
pub async fn inspect_schema(location: &Location) -> Result<SchemaState> {
    if matches!(location, Location::Sqlite(path) if !db::has_content(path)) {
        return Ok(behind(&Applied::default(), None));
    }
    let pool = db::connect_read_only(location).await?;
    let state = state(&pool).await;
    pool.close().await;
    state
}

async fn state(pool: &Pool) -> Result<SchemaState> {
    let applied = Applied::of(pool).await?.unwrap_or_default();
    applied.check_sums(pool)?;
    if applied.pending().next().is_some() {
        let running = match pool {
            Pool::Sqlite(_) => None,
            Pool::Postgres(pg) => oldest_running(pg).await?,
        };
        applied.refuse_beside_older(running)?;
        return Ok(behind(&applied, running));
    }
    check_support(pool, applied.latest()).await?;
    let (found, known) = (applied.latest(), newest());
    Ok(if found == known {
        SchemaState::UpToDate { version: found }
    } else {
        SchemaState::Ahead { found, known }
    })
}

fn behind(applied: &Applied, running: Option<i64>) -> SchemaState {
    SchemaState::Behind {
        found: applied.latest(),
        known: newest(),
        pending: applied.pending().count(),
        oldest: applied.oldest_after(),
        running,
    }
}

/// Applies what is outstanding on PostgreSQL, beside gateways that run. Returns the number of migrations.
#[boxed]
pub async fn apply_migrations(location: &Location) -> Result<usize> {
    let pool = db::connect_read_only(location).await?;
    let applied = Applied::of(&pool).await;
    pool.close().await;
    let pending = applied?.unwrap_or_default().pending().count();
    if pending > 0 {
        migrate_postgres(location).await?;
    }
    Ok(pending)
}

/// The migrations that a database has had: versions with the sums of their texts.
#[derive(Default)]
struct Applied(Vec<(i64, Vec<u8>)>);

impl Applied {
    /// Those of a database; `None` if it has no schema yet.
    async fn of(pool: &Pool) -> Result<Option<Self>> {
        Self::read(on!(pool, db => sqlx::query_as(APPLIED).fetch_all(db).await))
    }

    fn read(rows: sqlx::Result<Vec<(i64, Vec<u8>)>>) -> Result<Option<Self>> {
        match rows {
            Err(sqlx::Error::Database(error))
                if error.code().as_deref() == Some("42P01")
                    || error.message().contains("no such table") =>
            {
                Ok(None)
            }
            rows => Ok(Some(Self(rows?)).filter(|applied| !applied.0.is_empty())),
        }
    }

    /// The newest version; 0 if there is none.
    fn latest(&self) -> i64 {
        self.0.iter().map(|(version, _)| *version).max().unwrap_or(0)
    }

    /// The migrations of this binary that the database has not had.
    fn pending(&self) -> impl Iterator<Item = &'static Change> {
        let had = |change: &&Change| self.0.iter().any(|(version, _)| *version == change.version);
        HISTORY.iter().filter(move |change| !had(change))
    }

    /// The oldest schema version whose binaries work once everything is applied; 0 if all do that did before.
    fn oldest_after(&self) -> i64 {
        self.pending().filter_map(|change| change.contract).max().unwrap_or(0)
    }

    /// Refuses to apply migrations that a gateway which runs does not work with.
    fn refuse_beside_older(&self, running: Option<i64>) -> Result<()> {
        refuse_beside_older(self.oldest_after(), running)
    }

    /// Refuses a database in which something else has run than this binary would run.
    fn check_sums(&self, pool: &Pool) -> Result<()> {
        let migrator = migrator(matches!(pool, Pool::Sqlite(_)));
        let is_other = |version: i64, sum: &[u8]| {
            migrator.iter().any(|own| own.version == version && own.checksum[..] != *sum)
        };
        match self.0.iter().find(|(version, sum)| is_other(*version, sum)) {
            Some((version, _)) => Err(failed(MigrateError::VersionMismatch(*version))),
            None => Ok(()),
        }
    }
}

fn refuse_beside_older(oldest: i64, running: Option<i64>) -> Result<()> {
    match running {
        Some(running) if running < oldest => Err(Error::InUse(format!(
            "a gateway of schema {running} still runs at this PostgreSQL database, and the migrations of this \
             version need all to be of schema {oldest} or newer: upgrade it to a version between the two first, \
             or stop it"
        ))),
        _ => Ok(()),
    }
}

/// Refuses a database whose schema this binary cannot work with. Changes nothing.
pub(crate) async fn check(pool: &Pool) -> Result<()> {
    match Applied::of(pool).await? {
        None => Err(Error::Empty),
        Some(applied) if applied.pending().next().is_some() => {
            Err(Error::Older { found: applied.latest(), known: newest() })
        }
        Some(applied) => check_support(pool, applied.latest()).await,
    }
}

/// Refuses a schema that has left this binary behind.
async fn check_support(pool: &Pool, found: i64) -> Result<()> {
    let (known, oldest) = (newest(), oldest_supported(pool).await?);
    if oldest > known { Err(Error::Newer { found, known, oldest }) } else { Ok(()) }
}

const OLDEST: &str = "SELECT oldest FROM schema_support";

/// The oldest schema version whose binaries work with the database.
async fn oldest_supported(pool: &Pool) -> Result<i64> {
    Ok(on!(pool, db => sqlx::query_scalar(OLDEST).fetch_one(db).await?))
}

/// Refuses to go on once a newer node has changed the schema in a way that this binary does not know.
pub(crate) async fn check_still_supported(pool: &Pool) -> Result<()> {
    let (known, oldest) = (newest(), oldest_supported(pool).await?);
    if oldest > known {
        return Err(Error::Unavailable(format!(
            "its schema supports binaries of schema {oldest} and newer since a migration, and this one knows \
             {known}: upgrade this node"
        )));
    }
    Ok(())
}

/// Refuses, for a gateway whose version has just been shown, a schema that has left it behind meanwhile.
pub(crate) async fn check_shown(connection: &mut PgConnection) -> Result<()> {
    let oldest: i64 = sqlx::query_scalar(OLDEST).fetch_one(&mut *connection).await?;
    let known = newest();
    if oldest <= known {
        return Ok(());
    }
    let applied = Applied::read(sqlx::query_as(APPLIED).fetch_all(connection).await)?;
    Err(Error::Newer { found: applied.unwrap_or_default().latest(), known, oldest })
}

/// The newest version of the schema that this binary supports.
pub(crate) fn newest() -> i64 {
    HISTORY.last().map_or(0, |last| last.version)
}

/// Brings the schema up to date, but not under a gateway that may be running: a visitor makes the first
/// one only. A schema that is newer stays as it is.
pub(crate) async fn run(location: &Location, writer: &Pool, claim: Claim) -> Result<()> {
    let known = newest();
    match Applied::of(writer).await? {
        Some(applied) if applied.pending().next().is_none() => {}
        Some(applied) if claim == Claim::Visit => {
            return Err(Error::Older { found: applied.latest(), known });
        }
        _ => match writer {
            Pool::Sqlite(db) => migrator(true).run(db).await.map_err(failed)?,
            Pool::Postgres(_) => migrate_postgres(location).await?,
        },
    }
    let Some(applied) = Applied::of(writer).await? else {
        return Err(of_two_databases());
    };
    applied.check_sums(writer)?;
    let found = applied.latest();
    if found > known {
        tracing::info!(found, known, "the schema is newer than this binary, which works with it");
    }
    check_support(writer, found).await
}

/// Why nothing can be done where the locks would be in one database and the data in another.
pub(crate) fn of_two_databases() -> Error {
    Error::Unavailable(
        "SLUICE_DATABASE_URL and SLUICE_DATABASE_DIRECT_URL lead to different databases".to_owned(),
    )
}

fn migrator(is_sqlite: bool) -> Migrator {
    let migrations = HISTORY.iter().map(|change| {
        let text = if is_sqlite { change.sqlite } else { change.postgres };
        let (version, name) = (change.version, Cow::Borrowed(change.name));
        Migration::new(version, name, MigrationType::Simple, text.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    // Those of a newer binary: whether this one works with them is known by now.
    migrator.set_ignore_missing(true);
    migrator
}

/// Applies what is outstanding, over a connection of its own: one process at a time, and beside gateways that
/// run.
async fn migrate_postgres(location: &Location) -> Result<()> {
    let Some(url) = location.direct() else { return Ok(()) };
    let settings = [("lock_timeout", TABLE_LOCK_TIMEOUT), ("statement_timeout", "30000")];
    let mut connection = db::connect_direct(url, &settings).await?;
    let done = migrate_on(&mut connection).await;
    // The server ends it, and with it the lock, should this fail.
    let _ = connection.close().await;
    done
}

async fn migrate_on(connection: &mut PgConnection) -> Result<()> {
    let mut attempts = Attempts::begin();
    take_turn(connection, MIGRATES, &mut attempts).await?;
    loop {
        // The other one may have done it.
        let applied = sqlx::query_as(APPLIED).fetch_all(&mut *connection).await;
        let applied = Applied::read(applied)?.unwrap_or_default();
        if applied.pending().next().is_none() {
            return Ok(());
        }
        if applied.oldest_after() > 0 {
            // A gateway that starts now waits, and finds the schema that has left it behind.
            take_turn(connection, CONTRACTS, &mut attempts).await?;
        }
        applied.refuse_beside_older(oldest_running(&mut *connection).await?)?;
        match migrator(false).run_direct(None, connection, false).await {
            Ok(()) => return Ok(()),
            // Users of a table go first.
            Err(error) if is_in_use(&error) => {
                tracing::info!("a table is in use: its change is tried again");
                if applied.oldest_after() > 0 {
                    let give = sqlx::query("SELECT pg_advisory_unlock($1)").bind(CONTRACTS);
                    give.execute(&mut *connection).await?;
                }
                attempts.pause().await?;
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Takes a lock as soon as nobody else has it. Never stands in its queue: others would wait behind.
async fn take_turn(
    connection: &mut PgConnection,
    lock: i64,
    attempts: &mut Attempts,
) -> Result<()> {
    const LOCK: &str = "SELECT pg_try_advisory_lock($1)";
    let mut has_waited = false;
    while !sqlx::query_scalar::<_, bool>(LOCK).bind(lock).fetch_one(&mut *connection).await? {
        if lock == MIGRATES && !has_waited {
            tracing::info!("another process brings the schema up to date: this one waits");
        }
        has_waited = true;
        attempts.pause().await?;
    }
    attempts.pause = FIRST_PAUSE;
    Ok(())
}

/// Attempts at something that others may be in the way of.
struct Attempts {
    began: Instant,
    /// Before the next one.
    pause: Duration,
}

impl Attempts {
    fn begin() -> Self {
        Self { began: Instant::now(), pause: FIRST_PAUSE }
    }

    /// Waits before the next attempt, longer each time, unless they have taken too long.
    async fn pause(&mut self) -> Result<()> {
        if self.began.elapsed() > MIGRATION_TIMEOUT {
            return Err(Error::Unavailable(
                "the schema cannot be brought up to date: another process takes too long"
                    .to_owned(),
            ));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

fn is_in_use(error: &MigrateError) -> bool {
    let (MigrateError::Execute(cause) | MigrateError::ExecuteMigration(cause, _)) = error else {
        return false;
    };
    error::is_in_use(cause)
}

fn failed(error: MigrateError) -> Error {
    match error {
        MigrateError::VersionMismatch(version) => Error::Corrupt(format!(
            "migration {version} was changed after it ran; restore the original binary"
        )),
        other => Error::Unavailable(format!("the schema cannot be brought up to date: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_waits_for_the_gateways_that_it_would_leave_behind() {
        // None of the pending migrations is one.
        refuse_beside_older(0, Some(33)).unwrap();
        // No gateway runs, or none that is too old.
        refuse_beside_older(36, None).unwrap();
        refuse_beside_older(36, Some(36)).unwrap();
        let refused = refuse_beside_older(36, Some(35)).unwrap_err().to_string();
        assert!(
            refused.contains("schema 35 still runs") && refused.contains("schema 36"),
            "{refused}"
        );
    }
}
