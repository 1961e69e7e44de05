//! The detachment of a partition whose steps are all due, but for a few that are moved.

use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use domain::time::MINUTE;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::due::{LONGEST_REST, RULES, SEEN, Seen, newest};
use super::obstacles::dependants;
use super::{
    DuePartition, Maintenance, TABLES, all_know_detached, calm, change, change_all, keep,
    while_in_use,
};
use crate::error::{Result, is_slow};

/// How long a statement takes at most while all who use steps wait.
const MOST_HELD: &str = "SET LOCAL statement_timeout = '300ms'";
/// How long nobody writes to the partition at most: a verdict on one of its steps, or a step that is written days late.
/// Most of it goes into the count of the steps that a rule could keep, which an index answers.
const MOST_CLOSED: Duration = Duration::from_secs(5);
/// How long nobody does where some of its steps are moved.
const MOST_CLOSED_TO_MOVE: Duration = Duration::from_secs(10);
/// The time before another attempt at a partition that is in use, or that something keeps.
const REFUSED_REST: i64 = 10 * MINUTE;

/// The outcome of an attempt to detach a partition. Nothing is changed by any but the first.
enum Attempt {
    Detached,
    /// Something has changed since it was found, or depends on it.
    Refused,
    /// Others have what it needs.
    InUse,
    /// PostgreSQL looked for too long for the ids of the steps that stay among those without a partition.
    SlowBesideRest,
}

/// The moment until which nobody writes to a partition at most.
#[derive(Clone, Copy)]
pub(super) struct Closed(Instant);

impl Closed {
    fn from_now(due: &DuePartition) -> Self {
        let most = if due.steps.kept.is_empty() { MOST_CLOSED } else { MOST_CLOSED_TO_MOVE };
        Self(Instant::now() + most)
    }

    /// Ends each of the next statements that takes longer than what is left of the time.
    pub(super) async fn bound(self, connection: &mut PgConnection) -> sqlx::Result<()> {
        // None at all would be no bound.
        let left = self.0.saturating_duration_since(Instant::now()).as_millis().max(1);
        change(connection, format!("SET LOCAL statement_timeout = '{left}ms'")).await
    }
}

impl Maintenance {
    /// Detaches a partition: its steps are gone then for everybody. False, and nothing is changed, if a rule has changed
    /// since it was found, if a step was added, if something else depends on it that would keep its tables from being
    /// dropped, if PostgreSQL refuses, if it takes too long, or if others had a table each time.
    #[boxed]
    pub async fn detach(&mut self, due: &DuePartition) -> Result<bool> {
        Ok(self.try_detach(due).await?.is_none())
    }

    /// Detaches a partition. If it stays, returns for how long it is to be left alone, in microseconds.
    #[boxed]
    pub(super) async fn try_detach(&mut self, due: &DuePartition) -> Result<Option<i64>> {
        let part = due.part.of("steps");
        match while_in_use!(self.connection, detach(&mut self.connection, due).await) {
            Ok(Some(Attempt::Detached)) => {
                tracing::info!(
                    partition = part,
                    kept = due.steps.kept.len(),
                    "a partition of steps was dropped: all were due but those that are kept"
                );
                Ok(None)
            }
            Ok(Some(Attempt::Refused)) => Ok(Some(REFUSED_REST)),
            Ok(Some(Attempt::InUse) | None) => {
                tracing::info!(
                    partition = part,
                    "a partition of steps that are all due is in use: it is dropped later"
                );
                Ok(Some(REFUSED_REST))
            }
            Ok(Some(Attempt::SlowBesideRest)) => {
                tracing::warn!(
                    partition = part,
                    kept = due.steps.kept.len(),
                    "steps_rest has so many steps that those that stay of a partition cannot be put beside it: the \
                     partition is tried again in an hour"
                );
                Ok(Some(LONGEST_REST))
            }
            // Each attempt keeps writers waiting.
            Err(error) if is_slow(&error) => {
                tracing::warn!(
                    partition = part,
                    kept = due.steps.kept.len(),
                    "the steps of a partition take too long to be counted again, or those that stay to be moved: it is \
                     tried again in an hour"
                );
                Ok(Some(LONGEST_REST))
            }
            // It keeps no other waiting.
            Err(error @ sqlx::Error::Database(_)) => {
                tracing::warn!(
                    %error,
                    partition = part,
                    "a partition of steps that are all due cannot be dropped"
                );
                Ok(Some(REFUSED_REST))
            }
            Err(error) => Err(error.into()),
        }
    }
}

async fn detach(connection: &mut PgConnection, due: &DuePartition) -> sqlx::Result<Attempt> {
    const NUMBER: &str = "
        INSERT INTO counters (name, value) VALUES ('detached', 1)
        ON CONFLICT (name) DO UPDATE SET value = counters.value + 1
        RETURNING value";
    const NOTE: &str = "
        INSERT INTO detached_partitions (name, newest, gathered, number) VALUES ($1, $2, $3, $4)";
    let [steps, contents] = TABLES.map(|(table, _)| due.part.of(table));
    let mut tx = connection.begin().await?;
    calm(&mut tx, &format!("{steps}, {contents}, steps_rest, step_contents_rest")).await?;
    // It is looked at again without keeping anybody who reads, or writes to another one.
    change(&mut tx, format!("LOCK TABLE {steps}, {contents} IN SHARE MODE")).await?;
    let closed = Closed::from_now(due);
    closed.bound(&mut tx).await?;
    if let Some(dependant) = dependants(&mut tx, [&steps, &contents]).await?.first() {
        tracing::warn!(
            partition = steps,
            dependant,
            "a partition of steps that are all due cannot be dropped, because something of yours depends on it: drop \
             that, or make it anew on the whole table"
        );
        return Ok(Attempt::Refused);
    }
    if has_changed(&mut tx, due).await? {
        return Ok(Attempt::Refused);
    }
    let mut changes = vec![
        format!("ALTER TABLE steps DETACH PARTITION {steps}"),
        format!("ALTER TABLE step_contents DETACH PARTITION {contents}"),
    ];
    if !due.steps.kept.is_empty() {
        changes.extend(keep::copy(&mut tx, due, closed).await?);
    }
    closed.bound(&mut tx).await?;
    // Rules that are being changed are waited for, and none is changed until the end.
    change(&mut tx, "LOCK TABLE models IN SHARE MODE".to_owned()).await?;
    let rules: Vec<u8> = sqlx::query_scalar(RULES).fetch_one(&mut *tx).await?;
    if rules != due.rules {
        return Ok(Attempt::Refused);
    }
    let number: i64 = sqlx::query_scalar(NUMBER).fetch_one(&mut *tx).await?;
    sqlx::query(NOTE)
        .bind(&steps)
        .bind(due.steps.newest)
        .bind(i64::MIN)
        .bind(number)
        .execute(&mut *tx)
        .await?;
    // One may have started since. It counts as started if that cannot be asked.
    if !all_know_detached(&mut tx).await.unwrap_or(false) {
        return Ok(Attempt::Refused);
    }
    change(&mut tx, MOST_HELD.to_owned()).await?;
    // All who use steps wait from here on. Nothing is read any more but steps_rest, and that only if steps are kept:
    // PostgreSQL looks for ids of their new partition there.
    match change_all(&mut tx, changes).await {
        Err(error) if is_slow(&error) && due.steps.kept.is_empty() => return Ok(Attempt::InUse),
        Err(error) if is_slow(&error) => return Ok(Attempt::SlowBesideRest),
        changed => changed?,
    }
    tx.commit().await?;
    Ok(Attempt::Detached)
}

/// Whether a step has come to a partition, or has gone, that a rule could keep.
async fn has_changed(connection: &mut PgConnection, due: &DuePartition) -> sqlx::Result<bool> {
    let table = due.part.of("steps");
    let query = format!(
        "{}
        SELECT EXISTS (
            SELECT 1
            FROM own o
            LEFT JOIN projects p ON p.id = o.project_id
            LEFT JOIN unnest(
                CAST($1 AS BIGINT[]), CAST($2 AS BIGINT[]), CAST($3 AS BIGINT[]), CAST($4 AS BIGINT[])
            ) AS known (project, start, steps, sum) ON known.project = o.project_id
            CROSS JOIN LATERAL (
                SELECT {SEEN} FROM {table} r
                WHERE r.project_id = o.project_id AND r.finished_at >= known.start) AS found
            WHERE p.deleted_at IS NULL
              AND (known.project IS NULL OR found.steps <> known.steps OR found.sum <> known.sum))",
        newest(&table),
    );
    let projects: Vec<i64> = due.steps.projects.keys().copied().collect();
    let of_each = |figure: fn(&Seen) -> i64| -> Vec<i64> {
        due.steps.projects.values().map(figure).collect()
    };
    sqlx::query_scalar(AssertSqlSafe(query))
        .bind(projects)
        .bind(of_each(|seen| seen.from))
        .bind(of_each(|seen| seen.steps))
        .bind(of_each(|seen| seen.sum))
        .fetch_one(connection)
        .await
}
