//! A batch of the steps of a partition that is detached: its traces are given what they keep of them. Batches become
//! smaller where they take long, and larger again.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::change;
use crate::retention::{Source, aged};

/// The steps of a batch. Their traces are locked while it takes.
pub(super) const BATCH_STEPS: i64 = 2_000;
/// The steps of a batch that is not made smaller although it takes too long.
pub(super) const LEAST_BATCH: i64 = 60;
/// How long a batch may take before the next ones are made smaller: requests that write to its traces wait.
const LONG_BATCH: Duration = Duration::from_millis(200);

/// The steps of a batch.
#[derive(Clone, Copy)]
pub(super) struct Range<'a> {
    pub(super) table: &'a str,
    /// The last step before them.
    pub(super) from: i64,
    /// The most of them.
    pub(super) most: i64,
    /// The number of their partition among all that are detached.
    pub(super) number: i64,
}

/// A batch that is gathered.
#[derive(Clone, Copy)]
pub(super) struct Batch {
    /// Its last step.
    pub(super) to: i64,
    /// How long its transaction took.
    pub(super) took: Duration,
}

/// The statements of a batch: the steps of a table with ids above `$1`, and up to `$2`.
pub(super) struct Statements {
    end: String,
    lock: String,
    keep: String,
    forget: [String; 2],
}

impl Statements {
    /// Those of one of the tables that are detached: parents and other steps of a trace may lie in another one.
    pub(super) fn of(table: &str, tables: &[String]) -> Self {
        // Most parents are near, and those that are not are looked for one at a time.
        let near = union(tables, |table| {
            format!("SELECT d.id, d.model FROM wanted w JOIN {table} d ON d.id = w.id")
        });
        let with = format!(
            "wanted AS MATERIALIZED (
                SELECT DISTINCT parent_step_id AS id FROM {table}
                WHERE id > $1 AND id <= $2 AND model IS NULL AND parent_step_id IS NOT NULL),
            near AS MATERIALIZED ({near}),
            parents AS MATERIALIZED (
                SELECT id, model FROM near
                UNION ALL
                SELECT p.id, p.model FROM wanted w JOIN steps p ON p.id = w.id
                WHERE w.id NOT IN (SELECT id FROM near)),"
        );
        let all = union(tables, |table| format!("SELECT trace_id, model FROM {table}"));
        let aged = aged(&Source {
            with: &with,
            parents: "parents",
            others: &format!("(SELECT trace_id, model FROM steps UNION ALL {all})"),
            of: table,
            models: "TRUE",
            only: "s.id > $1 AND s.id <= $2",
            // Those that are not gathered are among the others.
            is_settled: "TRUE",
        });
        let ids = format!("SELECT id FROM {table} WHERE id > $1 AND id <= $2");
        Self {
            end: format!(
                "SELECT max(id) FROM (SELECT id FROM {table} WHERE id > $1 ORDER BY id LIMIT $2) AS batch"
            ),
            // In order, as all who write several traces have them: nobody waits for the other in a circle.
            lock: format!(
                "SELECT count(*) FROM (
                    SELECT 1 FROM traces
                    WHERE id IN (SELECT trace_id FROM {table} WHERE id > $1 AND id <= $2)
                    ORDER BY id
                    FOR NO KEY UPDATE) AS locked"
            ),
            keep: format!(
                "{aged},
                sums AS (
                    SELECT trace_id, max(days) AS days, bool_or(pii) AS pii, bool_or(injection) AS injection,
                           bool_or(secret) AS secret,
                           CAST(LEAST(COALESCE(sum(cost), 0), 9223372036854775807) AS BIGINT) AS cost
                    FROM aged
                    GROUP BY trace_id)
                UPDATE traces
                SET total_cost = CASE WHEN total_after >= $3 THEN total_cost + sums.cost ELSE total_cost END,
                    purged_cost = COALESCE(purged_cost, 0) + sums.cost,
                    purged_days = GREATEST(purged_days, sums.days),
                    purged_pii = purged_pii OR sums.pii,
                    purged_injection = purged_injection OR sums.injection,
                    purged_secret = purged_secret OR sums.secret
                FROM sums
                WHERE traces.id = sums.trace_id"
            ),
            forget: [
                format!("DELETE FROM kept_responses WHERE step_id IN ({ids})"),
                format!("UPDATE review_verdicts SET note = NULL WHERE note IS NOT NULL AND step_id IN ({ids})"),
            ],
        }
    }
}

/// The rows of all tables.
fn union(tables: &[String], select: impl Fn(&String) -> String) -> String {
    tables.iter().map(select).collect::<Vec<_>>().join(" UNION ALL ")
}

/// The steps of the batch after one that took too long.
pub(super) fn smaller(most: i64) -> i64 {
    (most / 4).max(LEAST_BATCH)
}

/// The steps of the batch after one of so many that took so long.
pub(super) fn following(most: i64, took: Duration) -> i64 {
    if took > LONG_BATCH {
        smaller(most)
    } else if took < LONG_BATCH / 4 {
        (most * 2).min(BATCH_STEPS)
    } else {
        most
    }
}

/// Gathers the next batch, and notes in the same transaction how far that is. `None` if there is none left.
pub(super) async fn next(
    connection: &mut PgConnection,
    statements: &Statements,
    range: Range<'_>,
) -> sqlx::Result<Option<Batch>> {
    const NOTE: &str = "UPDATE detached_partitions SET gathered = $2 WHERE name = $1";
    let (Statements { end, lock, keep, forget }, Range { from, .. }) = (statements, range);
    let began = Instant::now();
    let mut tx = connection.begin().await?;
    // Traces wait for it, and with them the requests that write to them.
    let bound = if range.most > LEAST_BATCH { "1s" } else { "5s" };
    change(&mut tx, format!("SET LOCAL statement_timeout = '{bound}'")).await?;
    let to: Option<i64> = sqlx::query_scalar(AssertSqlSafe(end.as_str()))
        .bind(from)
        .bind(range.most)
        .fetch_one(&mut *tx)
        .await?;
    let Some(to) = to else { return Ok(None) };
    let lock = sqlx::query(AssertSqlSafe(lock.as_str())).bind(from).bind(to);
    lock.execute(&mut *tx).await?;
    let keep = sqlx::query(AssertSqlSafe(keep.as_str())).bind(from).bind(to).bind(range.number);
    keep.execute(&mut *tx).await?;
    for statement in forget {
        let query = sqlx::query(AssertSqlSafe(statement.as_str()));
        query.bind(from).bind(to).execute(&mut *tx).await?;
    }
    sqlx::query(NOTE).bind(range.table).bind(to).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(Some(Batch { to, took: began.elapsed() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_become_smaller_where_they_take_long_and_larger_again() {
        let millis = Duration::from_millis;
        for (most, took, then) in [
            (BATCH_STEPS, 201, 500),
            (BATCH_STEPS, 200, BATCH_STEPS),
            (BATCH_STEPS, 1, BATCH_STEPS),
            (LEAST_BATCH, 900, LEAST_BATCH),
            (500, 50, 500),
            (500, 49, 1_000),
            (1_500, 49, BATCH_STEPS),
        ] {
            assert_eq!(following(most, millis(took)), then, "{most} steps in {took} ms");
        }
    }
}
