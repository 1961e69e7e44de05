//! The traces of the steps of a partition that is detached are given what they keep of them, in batches and as they are
//! when steps are deleted one at a time. Then the tables are dropped.

use std::time::{Duration, Instant};

use async_recursion::async_recursion as boxed;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::{Maintenance, Part, change, while_in_use};
use crate::error::Result;
use crate::retention::{Source, aged};

/// The steps of a batch. Their traces are locked while it takes.
const BATCH_STEPS: i64 = 2_000;
/// How long batches follow each other before everything else has its turn.
const TURN: Duration = Duration::from_secs(40);

/// A partition that is detached and not dropped.
struct Detached {
    part: Part,
    /// The last step whose data its trace has.
    gathered: i64,
}

impl Maintenance {
    /// Gathers what is kept of the partitions that are detached, for a while, and drops those that are done. Goes on
    /// later if others have what it needs.
    #[boxed]
    pub async fn gather(&mut self) -> Result<()> {
        let began = Instant::now();
        let all = self.detached().await?;
        let tables: Vec<String> = all.iter().map(|one| one.part.of("steps")).collect();
        for (index, (one, table)) in all.iter().zip(&tables).enumerate() {
            // Nothing of a content is kept.
            let contents = format!("DROP TABLE IF EXISTS {}", one.part.of("step_contents"));
            if while_in_use!(self.connection, change(&mut self.connection, contents.clone()).await)
                .is_none()
            {
                return Ok(());
            }
            // Those before it are gone by now.
            let gather = Statements::of(table, &tables[index..]);
            let mut from = one.gathered;
            loop {
                let batch = Instant::now();
                match while_in_use!(
                    self.connection,
                    next(&mut self.connection, &gather, table, from).await
                ) {
                    Some(Some(to)) => from = to,
                    Some(None) => break,
                    None => return Ok(()),
                }
                if began.elapsed() > TURN {
                    return Ok(());
                }
                // The database has as much time for others.
                tokio::time::sleep(batch.elapsed()).await;
            }
            if while_in_use!(self.connection, forget(&mut self.connection, table).await).is_none() {
                return Ok(());
            }
            tracing::info!(partition = table, "the table of a dropped partition of steps is gone");
        }
        Ok(())
    }

    async fn detached(&mut self) -> Result<Vec<Detached>> {
        const ALL: &str = "SELECT name, gathered FROM detached_partitions ORDER BY newest, name";
        let rows: Vec<(String, i64)> = sqlx::query_as(ALL).fetch_all(&mut self.connection).await?;
        let detached = |(name, gathered): (String, i64)| {
            Some(Detached { part: Part::parse(&name)?, gathered })
        };
        Ok(rows.into_iter().filter_map(detached).collect())
    }
}

/// The statements of a batch: the steps of a table with ids above `$1`, and up to `$2`.
struct Statements {
    end: String,
    lock: String,
    keep: String,
    forget: [String; 2],
}

impl Statements {
    /// Those of one of the tables that are detached: parents and other steps of a trace may lie in another one.
    fn of(table: &str, tables: &[String]) -> Self {
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
                SET purged_cost = COALESCE(purged_cost, 0) + sums.cost,
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

/// Gathers the next batch, and notes in the same transaction how far that is. Returns its last step; `None` if there
/// is none left.
async fn next(
    connection: &mut PgConnection,
    statements: &Statements,
    table: &str,
    from: i64,
) -> sqlx::Result<Option<i64>> {
    const NOTE: &str = "UPDATE detached_partitions SET gathered = $2 WHERE name = $1";
    let Statements { end, lock, keep, forget } = statements;
    let mut tx = connection.begin().await?;
    let to: Option<i64> = sqlx::query_scalar(AssertSqlSafe(end.as_str()))
        .bind(from)
        .bind(BATCH_STEPS)
        .fetch_one(&mut *tx)
        .await?;
    let Some(to) = to else { return Ok(None) };
    for statement in [lock, keep].into_iter().chain(forget) {
        let query = sqlx::query(AssertSqlSafe(statement.as_str()));
        query.bind(from).bind(to).execute(&mut *tx).await?;
    }
    sqlx::query(NOTE).bind(table).bind(to).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(Some(to))
}

/// Drops a table of which everything is gathered.
async fn forget(connection: &mut PgConnection, table: &str) -> sqlx::Result<()> {
    let mut tx = connection.begin().await?;
    change(&mut tx, format!("DROP TABLE IF EXISTS {table}")).await?;
    let gone = sqlx::query("DELETE FROM detached_partitions WHERE name = $1").bind(table);
    gone.execute(&mut *tx).await?;
    tx.commit().await
}
