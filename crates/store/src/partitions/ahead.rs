//! Partitions of today and the days after it, and the counter of step ids, which is moved to each day at its beginning.

use std::collections::BTreeSet;
use std::ops::Range;

use async_recursion::async_recursion as boxed;
use domain::time::Timestamp;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::layout::longest_rule;
use super::{
    DAY_IDS, DAYS_AHEAD, Maintenance, Part, TABLES, calm, change, change_all, day, other_owner,
    while_in_use,
};
use crate::error::{Result, is_slow};

/// The most rows that lie in the partition of all other ids and are moved to that of their day.
const MOST_MOVED: i64 = 10_000;

/// How long PostgreSQL may look for ids of a new partition among all others: nobody writes a step meanwhile.
const MOST_LOOKING: &str = "SET LOCAL statement_timeout = '300ms'";

/// The outcome of an attempt at a pair of partitions.
enum Made {
    Now,
    /// Its tables are detached and not dropped yet, or one of its rows was just written: its ids go to the partition of
    /// all others until the next attempt.
    Later,
    /// More of its rows lie in the partition of all others than are moved at once.
    TooManyRows,
    /// PostgreSQL looked for its ids in the partition of all others for too long.
    Slow,
}

impl Maintenance {
    /// Makes the partitions of today and of the next days that are missing, and moves the counter of ids to today. A day
    /// that others keep from getting its partitions is left to the next time.
    #[boxed]
    pub async fn make_ahead(&mut self, now: Timestamp) -> Result<()> {
        let (today, mut layout) = (day(now), self.layout().await?);
        let longest = longest_rule(&mut self.connection).await?;
        // Ids are ahead after a clock that was.
        let counted = self.next_id().await?.div_euclid(DAY_IDS);
        let wanted: BTreeSet<i64> =
            (today..=today + DAYS_AHEAD).chain(counted..=counted + 1).collect();
        for missing in wanted {
            if layout.has(missing) {
                continue;
            }
            let days = layout.days_from(missing, longest);
            match while_in_use!(self.connection, make(&mut self.connection, &days).await)? {
                Some(Made::Now) => {
                    let ids = days.start * DAY_IDS..days.end * DAY_IDS;
                    layout.parts.insert(Part::Day(missing), ids);
                    tracing::debug!(day = missing, "a partition of steps was made");
                }
                Some(Made::Later) | None => {}
                Some(Made::Slow) => {
                    tracing::warn!(
                        "steps_rest has so many steps that no partition can be made beside it: new steps are added to it"
                    );
                    break;
                }
                Some(Made::TooManyRows) => tracing::warn!(
                    day = missing,
                    "steps_rest has too many steps of a day for that day to get a partition: they are deleted one at \
                     a time when they are due"
                ),
            }
        }
        if layout.has(today) {
            const MOVE: &str = "UPDATE counters SET value = $1 WHERE name = 'step' AND value < $1";
            let moved = sqlx::query(MOVE).bind(today * DAY_IDS).execute(&mut self.connection);
            moved.await?;
        } else {
            tracing::warn!(
                day = today,
                "today has no partition of steps: new ones lie with those of another day, or in steps_rest"
            );
        }
        Ok(())
    }
}

/// Makes the partitions of some days in one transaction.
async fn make(connection: &mut PgConnection, days: &Range<i64>) -> sqlx::Result<Made> {
    const IS_THERE: &str = "SELECT to_regclass($1) IS NOT NULL";
    let (part, from, to) = (Part::Day(days.start), days.start * DAY_IDS, days.end * DAY_IDS);
    let mut tx = connection.begin().await?;
    calm(&mut tx, "steps_rest, step_contents_rest").await?;
    for (table, key) in TABLES {
        let part = part.of(table);
        if sqlx::query_scalar(IS_THERE).bind(&part).fetch_one(&mut *tx).await? {
            return Ok(Made::Later);
        }
        let make = format!(
            "CREATE TABLE {part} (LIKE {table} INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION)"
        );
        change(&mut tx, make).await?;
        if let Some(owner) = other_owner(&mut tx, table).await? {
            change(&mut tx, format!("ALTER TABLE {part} OWNER TO {owner}")).await?;
        }
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
    }
    change(&mut tx, MOST_LOOKING.to_owned()).await?;
    let attach = TABLES.map(|(table, _)| {
        let part = part.of(table);
        format!("ALTER TABLE {table} ATTACH PARTITION {part} FOR VALUES FROM ({from}) TO ({to})")
    });
    // Nobody reads or writes the partition of all others from the first one on.
    match change_all(&mut tx, attach.into()).await {
        Err(error) if is_slow(&error) => return Ok(Made::Slow),
        Err(sqlx::Error::Database(error)) if error.is_check_violation() => return Ok(Made::Later),
        attached => attached?,
    }
    tx.commit().await?;
    Ok(Made::Now)
}
