//! Partitions of `steps` and `step_contents` on PostgreSQL: one of each for every day, made ahead, and dropped when all
//! their steps are due instead of deleted one at a time.
//!
//! The key is the id of the step. A day, counted from 1970 on, owns the [`DAY_IDS`] ids from its number times
//! [`DAY_IDS`] on, and at its beginning the counter of step ids is moved there, once its partitions exist. Processes
//! go on taking ids from that counter, as all versions do. An id that is used on another day than it was taken
//! lies in the partition of that earlier day, and keeps it a little longer: what is dropped is decided by the steps
//! that a partition has.
//!
//! ```text
//! steps ----+-- steps_before   all ids up to the day after the conversion: the table that `steps` was
//!           +-- steps_d20787   a day, or several from that one on where a rule keeps steps for long (`layout.rs`)
//!           +-- ...
//!           +-- steps_k20780   what a longer rule keeps of partitions up to that day that are dropped
//!           +-- steps_rest     ids without a partition: ids of days that are dropped, written late
//! ```
//!
//! `step_contents` has the same ones. A partition that is dropped is detached first, from when on its steps are gone
//! for everybody, and is listed in `detached_partitions`. The few that a longer rule keeps are moved to a small
//! partition in its place. Its traces are given what they keep of it in batches, and then the table is dropped. Each
//! step of this is a transaction of its own that leaves the database in order, so whoever stops it loses nothing, and
//! the next one goes on.
//!
//! One process at a time does this, over a connection of its own to the server. Statements that need a table for
//! themselves wait for it for a moment only, because all who use the table wait behind them, and are tried again a
//! minute later.

mod ahead;
mod batch;
mod clocks;
mod convert;
mod detach;
mod due;
mod gather;
mod keep;
mod layout;
mod obstacles;
mod statistics;

use std::collections::BTreeMap;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use domain::time::{DAY, Timestamp};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::Store;
use crate::db::{self, Pool};
use crate::error::{Error, Result};
use crate::lock::{PARTITIONS, has_one_run_for, oldest_running};
pub(crate) use clocks::HeldPurge;
use clocks::Witness;
use convert::Converted;
pub use due::DuePartition;
pub(crate) use gather::ungathered;
use layout::{Layout, Leave, Part};

/// The ids of a day. Those of all days are below 2^53: a number of JSON is exact.
const DAY_IDS: i64 = 1_000_000_000;
/// The days after today whose partitions are made.
const DAYS_AHEAD: i64 = 7;
/// The partitioned tables, each with its key.
const TABLES: [(&str, &str); 2] = [("steps", "id"), ("step_contents", "step_id")];
/// How long a change of a table waits for it. All who use it wait behind the change.
const TABLE_LOCK_TIMEOUT: &str = "100ms";
/// The settings of the connection. Workers would take the place of those that requests wait for.
/// A process that stops in a transaction does not keep what it has locked.
const SETTINGS: [(&str, &str); 5] = [
    ("lock_timeout", TABLE_LOCK_TIMEOUT),
    ("idle_in_transaction_session_timeout", "2000"),
    ("statement_timeout", "30000"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
];
/// The longest time that a run takes where there are partitions: a server that is gone never answers, and a first look
/// at a large partition of thousands of projects takes an hour.
const LONGEST_RUN: Duration = Duration::from_hours(3);
/// The longest time that a run takes where there are none yet: for their conversion it reads tables of terabytes once.
/// The counter of ids, which each run moves, is in doubt only two days later.
const LONGEST_CONVERSION: Duration = Duration::from_hours(12);
/// How long a gateway has to have shown itself before a partition is dropped.
const SHOWN_FOR: Duration = Duration::from_mins(1);
/// How often a change is tried before it is left to the next run.
const ATTEMPTS: usize = 3;
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Tries a change over a connection a few times. The value is the result of the change, or `Ok(None)` if others had a
/// table each time.
macro_rules! while_in_use {
    ($connection:expr, $change:expr) => {
        async {
            for attempt in 0..$crate::partitions::ATTEMPTS {
                if attempt > 0 {
                    tokio::time::sleep($crate::partitions::PAUSE).await;
                }
                let tried = $change;
                // A transaction that is given up holds what it has locked until the server learns it, and that is with
                // the next message.
                sqlx::Connection::ping(&mut $connection).await?;
                match tried {
                    Ok(done) => return Ok(Some(done)),
                    Err(error) if $crate::error::is_in_use(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            sqlx::Result::Ok(None)
        }
        .await
    };
}
use while_in_use;

/// The oldest version of PostgreSQL whose tables get partitions, and that has the settings [`SINCE_FIRST`].
const FIRST_VERSION: u32 = 140_000;
/// The schema of the versions that know partitions that are detached.
const KNOWS_DETACHED: i64 = 37;
/// The partitions that a run drops at most: should anything be wrong with its reasons, somebody may see it in time.
const MOST_OF_A_RUN: usize = 2;
/// The partitions that are not gathered from which on no other is dropped.
const MOST_UNGATHERED: i64 = 3;

/// The findings of a process that need no look for a while.
#[derive(Debug, Default)]
pub struct PartitionWatch {
    /// The time before which a partition has a step that is not due, or is in use.
    looks: BTreeMap<Part, Timestamp>,
    /// The time before which a detached partition that cannot be dropped is left alone.
    stuck: BTreeMap<Part, Timestamp>,
    /// The time of the next work that is done once a day.
    daily: Option<Timestamp>,
    /// The time before which no table is analyzed: it took too long.
    unanalyzed: Option<Timestamp>,
    /// The time before which the log does not repeat why there are no partitions.
    refused: Option<Timestamp>,
    /// The time before which tables without partitions stay as they are: it took too long to put others in their place.
    unconverted: Option<Timestamp>,
}

/// The right to change partitions, which one process has at a time. It ends with the connection.
#[derive(Debug)]
pub struct Maintenance {
    connection: PgConnection,
}

impl Store {
    /// Makes what is missing of the partitions, and drops those whose steps are all due. Does nothing while another
    /// process does, on SQLite, and where the time is far from that of the server.
    #[boxed]
    pub async fn keep_partitions(&self, now: Timestamp, watch: &mut PartitionWatch) -> Result<()> {
        let slow = |_| Error::Unavailable("partitions of steps take too long".to_owned());
        let begun = async {
            let Some(mut maintenance) = self.maintain_partitions().await? else { return Ok(None) };
            let has_partitions = maintenance.has_partitions().await?;
            let longest = if has_partitions { LONGEST_RUN } else { LONGEST_CONVERSION };
            Ok::<_, Error>(Some((maintenance, longest)))
        };
        let begun = tokio::time::timeout(LONGEST_RUN, begun).await.map_err(slow)??;
        let Some((mut maintenance, longest)) = begun else { return Ok(()) };
        let work = async {
            let done = maintenance.run_if_time_is_right(now, watch).await;
            maintenance.end().await;
            done
        };
        tokio::time::timeout(longest, work).await.map_err(slow)?
    }

    /// Takes the right to change partitions; `None` while another process has it, and on SQLite.
    #[boxed]
    pub async fn maintain_partitions(&self) -> Result<Option<Maintenance>> {
        let Some(url) = &self.direct else { return Ok(None) };
        let mut connection = db::connect_direct(url, &SETTINGS).await?;
        if version(&connection) >= FIRST_VERSION {
            for setting in SINCE_FIRST {
                // Some systems have no way to notice that a process is gone.
                let _ = sqlx::query(setting).execute(&mut connection).await;
            }
        }
        let lock = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)").bind(PARTITIONS);
        let is_ours: bool = lock.fetch_one(&mut connection).await?;
        if is_ours {
            return Ok(Some(Maintenance { connection }));
        }
        // Nothing is left to do should it fail.
        let _ = connection.close().await;
        Ok(None)
    }

    /// How much longer than their retention steps stay before they are deleted one at a time. `None` while none is
    /// deleted, because the clock may be ahead or partitions go first: then the log has it once an hour.
    pub(crate) async fn partition_leave(&self, now: Timestamp) -> Result<Option<Leave>> {
        match &self.reader {
            Pool::Sqlite(_) => Ok(Some(Leave::default())),
            Pool::Postgres(db) => {
                if !Witness::read(db).await?.may_delete(now) {
                    self.held_purge.warn(now);
                    return Ok(None);
                }
                Ok(Some(Layout::read(db).await?.leave()))
            }
        }
    }
}

/// Settings that versions of PostgreSQL before [`FIRST_VERSION`] do not have. The server looks every few seconds
/// whether the process is still there, ends its statement if not, and ends the session of one that has stopped, with
/// the lock that it holds for all. No pause between two statements is near to that long.
const SINCE_FIRST: [&str; 2] =
    ["SET client_connection_check_interval = '5s'", "SET idle_session_timeout = '60s'"];

impl Maintenance {
    async fn run_if_time_is_right(
        &mut self,
        now: Timestamp,
        watch: &mut PartitionWatch,
    ) -> Result<()> {
        if !self.clocks_agree(now).await? {
            return Ok(());
        }
        // A clock that is in doubt is noted in any case.
        let mut may_detach = self.may_detach(now).await?;
        if may_detach && !self.has_one_run_for(SHOWN_FOR).await? {
            tracing::debug!(
                "no partition of steps is dropped: no gateway has shown itself for a minute"
            );
            may_detach = false;
        }
        self.run(now, may_detach, watch).await
    }

    /// Whether a gateway has shown itself for some time.
    #[boxed]
    pub async fn has_one_run_for(&mut self, least: Duration) -> Result<bool> {
        has_one_run_for(&mut self.connection, least).await
    }

    /// Whether the tables have partitions.
    async fn has_partitions(&mut self) -> Result<bool> {
        const HAS: &str = "
            SELECT EXISTS (SELECT 1 FROM pg_class WHERE oid = to_regclass('steps') AND relkind = 'p')";
        Ok(sqlx::query_scalar(HAS).fetch_one(&mut self.connection).await?)
    }

    /// Does all that is to be done by a time, of which partitions are dropped only if that may be.
    #[boxed]
    pub async fn run(
        &mut self,
        now: Timestamp,
        may_detach: bool,
        watch: &mut PartitionWatch,
    ) -> Result<()> {
        match self.convert(now, watch).await? {
            Converted::Done => {}
            Converted::InUse => {
                tracing::info!(
                    "steps have no partitions yet: the tables were in use, and the change is tried again in a minute"
                );
                return Ok(());
            }
            Converted::Refused => return Ok(()),
        }
        // Days that cannot be made keep no others from being dropped.
        let made = self.make_ahead(now).await;
        self.look_once_a_day(now, watch).await?;
        let mut is_free = self.gather(now, watch).await?;
        let mut detached = 0;
        while may_detach
            && is_free
            && detached < MOST_OF_A_RUN
            && self.ungathered().await? < MOST_UNGATHERED
            && all_know_detached(&mut self.connection).await?
            && let Some(due) = self.due_partition(now, watch).await?
        {
            if let Some(rest) = self.try_detach(&due).await? {
                watch.looks.insert(due.part, now.minus_micros(-rest));
            } else {
                detached += 1;
                is_free = self.gather(now, watch).await?;
            }
        }
        made
    }

    /// Gives the right back.
    #[boxed]
    pub async fn end(self) {
        // The server ends it, and with it the lock, should this fail.
        let _ = self.connection.close().await;
    }

    async fn layout(&mut self) -> Result<Layout> {
        Ok(Layout::read(&mut self.connection).await?)
    }

    /// The next id that is taken by a process.
    async fn next_id(&mut self) -> Result<i64> {
        const NEXT: &str = "SELECT value FROM counters WHERE name = 'step'";
        Ok(sqlx::query_scalar(NEXT).fetch_one(&mut self.connection).await?)
    }
}

/// Whether all gateways that run know partitions that are detached: others would show their steps as gone, and leave it
/// so. That of this process is one of them: if none is seen, the server has lost their locks, and others may run.
async fn all_know_detached(connection: &mut PgConnection) -> Result<bool> {
    let oldest = oldest_running(connection).await?;
    Ok(oldest.is_some_and(|oldest| oldest >= KNOWS_DETACHED))
}

/// Whether the time before which something is left alone is to come. One that is further away than the longest rest was
/// set by a clock that was ahead, and is over.
fn rests(until: Option<Timestamp>, now: Timestamp, longest: i64) -> bool {
    until.is_some_and(|until| now < until && until.0 - now.0 <= longest)
}

/// The version of the server, as `server_version_num` has it; 0 if it has sent none that can be read.
fn version(connection: &PgConnection) -> u32 {
    connection.server_version_num().unwrap_or_default()
}

/// The day that it is, counted from 1970 on.
fn day(now: Timestamp) -> i64 {
    now.0.div_euclid(DAY)
}

/// Runs a statement that has no values: those that change tables take none. Names in it are of this module, or
/// quoted.
async fn change(connection: &mut PgConnection, statement: String) -> sqlx::Result<()> {
    let query = sqlx::query(AssertSqlSafe(statement)).persistent(false);
    query.execute(connection).await?;
    Ok(())
}

/// Runs statements in one message: nobody waits for this process while they have a table for themselves.
async fn change_all(connection: &mut PgConnection, statements: Vec<String>) -> sqlx::Result<()> {
    let all = sqlx::raw_sql(AssertSqlSafe(statements.join(";\n")));
    all.execute(connection).await?;
    Ok(())
}

/// Has vacuum leave tables, as it does a second after somebody waits for what it holds. The wait for this lock keeps no
/// request waiting, which the one for a table would.
async fn calm(connection: &mut PgConnection, tables: &str) -> sqlx::Result<()> {
    for statement in [
        "SET LOCAL lock_timeout = '5s'".to_owned(),
        format!("LOCK TABLE {tables} IN SHARE UPDATE EXCLUSIVE MODE"),
        format!("SET LOCAL lock_timeout = '{TABLE_LOCK_TIMEOUT}'"),
    ] {
        change(&mut *connection, statement).await?;
    }
    Ok(())
}

/// The owner of a table, quoted, if it is another role than that of the connection: tables that this one makes are to
/// be that one's.
async fn other_owner(connection: &mut PgConnection, table: &str) -> sqlx::Result<Option<String>> {
    const OWNER: &str = "
        SELECT quote_ident(pg_get_userbyid(relowner))
        FROM pg_class
        WHERE oid = to_regclass($1) AND pg_get_userbyid(relowner) <> current_user";
    sqlx::query_scalar(OWNER).bind(table).fetch_optional(connection).await
}
