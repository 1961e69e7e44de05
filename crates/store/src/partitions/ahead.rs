//! Partitions of today and the days after it, and the counter of step ids, which is moved to each day at its beginning.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use domain::time::Timestamp;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::{DAY_IDS, DAYS_AHEAD, Maintenance, Part, TABLES, calm, change, day, while_in_use};
use crate::error::Result;

/// The most rows that lie in the partition of all other ids and are moved to that of their day.
const MOST_MOVED: i64 = 10_000;

/// The outcome of an attempt at the partitions of a day.
enum Made {
    Now,
    /// Its tables are detached and not dropped yet, or one of its rows was just written: its ids go to the partition of
    /// all others until the next attempt.
    Later,
    /// More of its rows lie in the partition of all others than are moved at once.
    TooManyRows,
}

impl Maintenance {
    /// Makes the partitions of today and of the next days that are missing, and moves the counter of ids to today. A day
    /// that others keep from getting its partitions is left to the next time.
    #[boxed]
    pub async fn make_ahead(&mut self, now: Timestamp) -> Result<()> {
        let (today, layout) = (day(now), self.layout().await?);
        // Ids are ahead after a clock that was.
        let counted = self.next_id().await?.div_euclid(DAY_IDS);
        let wanted: BTreeSet<i64> =
            (today..=today + DAYS_AHEAD).chain(counted..=counted + 1).collect();
        for missing in wanted.into_iter().filter(|day| !layout.has(*day)) {
            match while_in_use!(self.connection, make(&mut self.connection, missing).await) {
                Some(Made::Now) => tracing::debug!(day = missing, "a partition of steps was made"),
                Some(Made::Later) | None => {}
                Some(Made::TooManyRows) => tracing::warn!(
                    day = missing,
                    "steps_rest has too many steps of a day for that day to get a partition: they are deleted one at \
                     a time when they are due"
                ),
            }
        }
        if self.layout().await?.has(today) {
            const MOVE: &str = "UPDATE counters SET value = $1 WHERE name = 'step' AND value < $1";
            let moved = sqlx::query(MOVE).bind(today * DAY_IDS).execute(&mut self.connection);
            moved.await?;
        }
        Ok(())
    }
}

/// Makes the partitions of a day in one transaction.
async fn make(connection: &mut PgConnection, day: i64) -> sqlx::Result<Made> {
    const IS_THERE: &str = "SELECT to_regclass($1) IS NOT NULL";
    let (from, to) = (day * DAY_IDS, (day + 1) * DAY_IDS);
    let mut tx = connection.begin().await?;
    calm(&mut tx, "steps_rest, step_contents_rest").await?;
    for (table, key) in TABLES {
        let part = Part::Day(day).of(table);
        if sqlx::query_scalar(IS_THERE).bind(&part).fetch_one(&mut *tx).await? {
            return Ok(Made::Later);
        }
        let make = format!(
            "CREATE TABLE {part} (LIKE {table} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION)"
        );
        change(&mut tx, make).await?;
        let lying = format!("SELECT 1 FROM {table}_rest WHERE {key} >= $1 AND {key} < $2 LIMIT $3");
        let count = format!("SELECT count(*) FROM ({lying}) AS lying");
        let lying: i64 = sqlx::query_scalar(AssertSqlSafe(count))
            .bind(from)
            .bind(to)
            .bind(MOST_MOVED + 1)
            .fetch_one(&mut *tx)
            .await?;
        if lying > MOST_MOVED {
            return Ok(Made::TooManyRows);
        }
        if lying > 0 {
            let moved = format!(
                "WITH moved AS (DELETE FROM {table}_rest WHERE {key} >= $1 AND {key} < $2 RETURNING *)
                INSERT INTO {part} SELECT * FROM moved"
            );
            sqlx::query(AssertSqlSafe(moved)).bind(from).bind(to).execute(&mut *tx).await?;
        }
        // Writers of other partitions go on beside this.
        let attach = format!(
            "ALTER TABLE {table} ATTACH PARTITION {part} FOR VALUES FROM ({from}) TO ({to})"
        );
        match change(&mut tx, attach).await {
            Err(sqlx::Error::Database(error)) if error.is_check_violation() => {
                return Ok(Made::Later);
            }
            attached => attached?,
        }
    }
    tx.commit().await?;
    Ok(Made::Now)
}
