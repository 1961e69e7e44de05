//! The traces of the steps of a partition that is detached are given what they keep of them, in batches and as they are
//! when steps are deleted one at a time. Then the tables are dropped.

use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use domain::time::{HOUR, Timestamp};
use sqlx::{Connection as _, PgConnection};

use super::batch::{BATCH_STEPS, Batch, LEAST_BATCH, Range, Statements, following, next, smaller};
use super::{Maintenance, Part, PartitionWatch, TABLES, change, rests, while_in_use};
use crate::error::{Result, is_slow};

/// The longest pause between two batches: far below the time after which the server ends a session that is idle.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long batches follow each other before everything else has its turn.
const TURN: Duration = Duration::from_secs(40);
/// The time before another attempt at a partition that cannot be gathered or dropped.
const STUCK_REST: i64 = HOUR;
/// The place of the last step whose data a trace has, for a table that nothing is left to gather of.
const GATHERED: i64 = i64::MAX;

/// The partitions that are detached and not gathered yet, as SQL: those that are have [`GATHERED`].
macro_rules! ungathered {
    () => {
        "detached_partitions WHERE gathered < 9223372036854775807"
    };
}
pub(crate) use ungathered;

/// Advice for a table that is not dropped.
const ADVICE: &str = "drop whatever of yours depends on it, a view for example: the table is dropped within an hour then";

/// A partition that is detached and not dropped.
struct Detached {
    part: Part,
    /// The last step whose data its trace has.
    gathered: i64,
    /// Its number among all that are detached.
    number: i64,
}

/// The outcome of work on a detached partition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Others have what it needs, or have their turn.
    Later,
    /// It fails, and may fail again.
    Stuck,
}

impl Maintenance {
    /// Gathers what is kept of the partitions that are detached, for a while, and drops those that are done. One that
    /// fails is left alone for an hour, and keeps no other waiting. False if some is left to be gone on with.
    #[boxed]
    pub async fn gather(&mut self, now: Timestamp, watch: &mut PartitionWatch) -> Result<bool> {
        let began = Instant::now();
        let all = self.detached().await?;
        watch.stuck.retain(|part, _| all.iter().any(|one| one.part == *part));
        let mut tables: Vec<String> = all.iter().map(|one| one.part.of("steps")).collect();
        let mut is_done = true;
        for one in all {
            if rests(watch.stuck.get(&one.part).copied(), now, STUCK_REST) {
                continue;
            }
            let table = one.part.of("steps");
            match self.finish(&one, &tables, began).await? {
                Outcome::Done => {
                    tables.retain(|other| *other != table);
                    tracing::info!(
                        partition = table,
                        "the table of a dropped partition of steps is gone"
                    );
                }
                Outcome::Later => is_done = false,
                Outcome::Stuck => {
                    watch.stuck.insert(one.part, now.minus_micros(-STUCK_REST));
                }
            }
            if began.elapsed() > TURN {
                return Ok(false);
            }
        }
        Ok(is_done)
    }

    /// Gathers what is kept of a partition, and drops its tables.
    async fn finish(
        &mut self,
        one: &Detached,
        tables: &[String],
        began: Instant,
    ) -> Result<Outcome> {
        let [table, contents] = TABLES.map(|(table, _)| one.part.of(table));
        if one.gathered < GATHERED {
            // Nothing of a content is kept.
            if self.remove(&contents).await? == Outcome::Later {
                return Ok(Outcome::Later);
            }
            let gathered = self.gather_steps(one, &table, tables, began).await?;
            if gathered != Outcome::Done {
                return Ok(gathered);
            }
        }
        let forgotten =
            while_in_use!(self.connection, forget(&mut self.connection, &table, &contents).await);
        match forgotten {
            Ok(Some(())) => Ok(Outcome::Done),
            Ok(None) => Ok(Outcome::Later),
            Err(error @ sqlx::Error::Database(_)) => {
                tracing::warn!(%error, table, "a dropped partition of steps keeps its table: {ADVICE}");
                self.empty(&table).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Drops a table, or else empties it.
    async fn remove(&mut self, table: &str) -> Result<Outcome> {
        for change_of_table in ["DROP TABLE IF EXISTS", "TRUNCATE TABLE"] {
            let statement = format!("{change_of_table} {table}");
            let done = while_in_use!(
                self.connection,
                change(&mut self.connection, statement.clone()).await
            );
            match done {
                Ok(Some(())) => return Ok(Outcome::Done),
                Ok(None) => return Ok(Outcome::Later),
                Err(error @ sqlx::Error::Database(_)) => tracing::warn!(
                    %error,
                    statement,
                    "the contents of a dropped partition of steps keep their table: {ADVICE}"
                ),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Outcome::Stuck)
    }

    /// Empties a table of steps that cannot be dropped, and notes that nothing is to be gathered of it.
    async fn empty(&mut self, table: &str) -> Result<Outcome> {
        match while_in_use!(self.connection, empty(&mut self.connection, table).await) {
            Ok(Some(())) => Ok(Outcome::Stuck),
            Ok(None) => Ok(Outcome::Later),
            Err(error @ sqlx::Error::Database(_)) => {
                tracing::warn!(%error, table, "steps that are past their retention cannot be deleted");
                Ok(Outcome::Stuck)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn gather_steps(
        &mut self,
        one: &Detached,
        table: &str,
        tables: &[String],
        began: Instant,
    ) -> Result<Outcome> {
        let gather = Statements::of(table, tables);
        let (mut from, mut most) = (one.gathered, BATCH_STEPS);
        let mut is_first = true;
        loop {
            let attempts = Instant::now();
            let range = Range { table, from, most, number: one.number };
            let done =
                while_in_use!(self.connection, next(&mut self.connection, &gather, range).await);
            match done {
                Ok(Some(Some(Batch { to, took }))) => {
                    from = to;
                    // The first one has its statements planned, over a connection that has read nothing of it yet.
                    if !is_first {
                        most = following(most, took);
                    }
                    is_first = false;
                }
                Ok(Some(None)) => return Ok(Outcome::Done),
                Ok(None) => return Ok(Outcome::Later),
                Err(error) if is_slow(&error) && most > LEAST_BATCH => most = smaller(most),
                Err(error @ sqlx::Error::Database(_)) => {
                    tracing::warn!(
                        %error,
                        table,
                        "traces are not given what they keep of a dropped partition of steps: it is tried again in an \
                         hour. Until it works the table stays, and so do all steps that follow the longest rule of their \
                         trace, past their retention"
                    );
                    return Ok(Outcome::Stuck);
                }
                Err(error) => return Err(error.into()),
            }
            if began.elapsed() > TURN {
                return Ok(Outcome::Later);
            }
            // The database has as much time for others.
            tokio::time::sleep(attempts.elapsed().min(LONGEST_PAUSE)).await;
        }
    }

    /// Those that are detached. One whose table somebody has dropped is forgotten: nothing can be gathered of it.
    async fn detached(&mut self) -> Result<Vec<Detached>> {
        const ALL: &str = "
            SELECT name, gathered, number, to_regclass(name) IS NULL
            FROM detached_partitions
            ORDER BY newest, name";
        const FORGET: &str = "DELETE FROM detached_partitions WHERE name = $1";
        let rows: Vec<(String, i64, i64, bool)> =
            sqlx::query_as(ALL).fetch_all(&mut self.connection).await?;
        let mut all = Vec::with_capacity(rows.len());
        for (name, gathered, number, is_missing) in rows {
            let Some(part) = Part::parse(&name) else { continue };
            if !is_missing {
                all.push(Detached { part, gathered, number });
                continue;
            }
            if self.remove(&part.of("step_contents")).await? == Outcome::Later {
                continue;
            }
            tracing::warn!(
                table = name,
                "the table of a dropped partition of steps is gone before all was gathered of it: traces show less than \
                 they cost"
            );
            sqlx::query(FORGET).bind(&name).execute(&mut self.connection).await?;
        }
        Ok(all)
    }

    /// The number of partitions that are detached and not gathered yet.
    pub(super) async fn ungathered(&mut self) -> Result<i64> {
        const UNGATHERED: &str = concat!("SELECT count(*) FROM ", ungathered!());
        Ok(sqlx::query_scalar(UNGATHERED).fetch_one(&mut self.connection).await?)
    }
}

/// Drops the tables of a partition of which everything is gathered.
async fn forget(connection: &mut PgConnection, steps: &str, contents: &str) -> sqlx::Result<()> {
    let mut tx = connection.begin().await?;
    change(&mut tx, format!("DROP TABLE IF EXISTS {steps}, {contents}")).await?;
    let gone = sqlx::query("DELETE FROM detached_partitions WHERE name = $1").bind(steps);
    gone.execute(&mut *tx).await?;
    tx.commit().await
}

/// Empties a table of which everything is gathered. No trace waits for it any more.
async fn empty(connection: &mut PgConnection, table: &str) -> sqlx::Result<()> {
    const NOTE: &str = "
        UPDATE detached_partitions SET newest = $2, gathered = $3 WHERE name = $1";
    let mut tx = connection.begin().await?;
    change(&mut tx, format!("TRUNCATE TABLE {table}")).await?;
    let note = sqlx::query(NOTE).bind(table).bind(i64::MIN).bind(GATHERED);
    note.execute(&mut *tx).await?;
    tx.commit().await
}
