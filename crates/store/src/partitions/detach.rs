//! The detachment of a partition whose steps are all due, but for a few that are moved.

use async_recursion::async_recursion as boxed;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::due::{RULES, SEEN, Seen, newest};
use super::{
    DuePartition, Maintenance, TABLES, all_know_detached, calm, change, change_all, keep,
    while_in_use,
};
use crate::error::{Result, is_in_use_or_slow};

/// How long a statement takes at most while all who use steps wait.
const MOST_HELD: &str = "SET LOCAL statement_timeout = '300ms'";
/// How long a statement takes at most while nobody writes to the partition: a verdict on one of its steps, or a step that
/// is written days late.
const MOST_CLOSED: &str = "SET LOCAL statement_timeout = '10s'";

impl Maintenance {
    /// Detaches a partition: its steps are gone then for everybody. False, and nothing is changed, if a rule has changed
    /// since it was found, if a step was added, if something else depends on it that would keep its tables from being
    /// dropped, if PostgreSQL refuses, or if others had a table each time.
    #[boxed]
    pub async fn detach(&mut self, due: &DuePartition) -> Result<bool> {
        let part = due.part.of("steps");
        let detached: sqlx::Result<Option<bool>> = async {
            let detached = while_in_use!(
                self.connection,
                detach(&mut self.connection, due).await,
                is_in_use_or_slow
            );
            Ok(detached)
        }
        .await;
        match detached {
            Ok(Some(is_detached)) => {
                if is_detached {
                    tracing::info!(
                        partition = part,
                        kept = due.steps.kept.len(),
                        "a partition of steps was dropped: all were due but those that are kept"
                    );
                }
                Ok(is_detached)
            }
            Ok(None) => {
                tracing::info!(
                    partition = part,
                    "a partition of steps that are all due is in use: it is dropped later"
                );
                Ok(false)
            }
            // It keeps no other waiting.
            Err(error @ sqlx::Error::Database(_)) => {
                tracing::warn!(
                    %error,
                    partition = part,
                    "a partition of steps that are all due cannot be dropped"
                );
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

async fn detach(connection: &mut PgConnection, due: &DuePartition) -> sqlx::Result<bool> {
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
    change(&mut tx, MOST_CLOSED.to_owned()).await?;
    if let Some(dependant) = dependant(&mut tx, [&steps, &contents]).await? {
        tracing::warn!(
            partition = steps,
            dependant,
            "a partition of steps that are all due cannot be dropped, because something of yours depends on it: drop \
             that, or make it anew on the whole table"
        );
        return Ok(false);
    }
    if has_changed(&mut tx, due).await? {
        return Ok(false);
    }
    let mut changes = vec![
        format!("ALTER TABLE steps DETACH PARTITION {steps}"),
        format!("ALTER TABLE step_contents DETACH PARTITION {contents}"),
    ];
    if !due.steps.kept.is_empty() {
        changes.extend(keep::copy(&mut tx, due).await?);
    }
    // Rules that are being changed are waited for, and none is changed until the end.
    change(&mut tx, "LOCK TABLE models IN SHARE MODE".to_owned()).await?;
    let rules: Vec<u8> = sqlx::query_scalar(RULES).fetch_one(&mut *tx).await?;
    if rules != due.rules {
        return Ok(false);
    }
    let number: i64 = sqlx::query_scalar(NUMBER).fetch_one(&mut *tx).await?;
    sqlx::query(NOTE)
        .bind(&steps)
        .bind(due.steps.newest)
        .bind(i64::MIN)
        .bind(number)
        .execute(&mut *tx)
        .await?;
    // One may have started since. Where that cannot be asked it counts as if.
    if !all_know_detached(&mut tx).await.unwrap_or(false) {
        return Ok(false);
    }
    change(&mut tx, MOST_HELD.to_owned()).await?;
    // All who use steps wait from here on: nothing is read any more.
    change_all(&mut tx, changes).await?;
    tx.commit().await?;
    Ok(true)
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

/// Something else that depends on one of two tables and does not go with it, by the words of PostgreSQL: a view, a
/// foreign key, a function.
pub(super) async fn dependant(
    connection: &mut PgConnection,
    tables: [&str; 2],
) -> sqlx::Result<Option<String>> {
    const FIND: &str = "
        SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
        FROM pg_depend d
        WHERE d.refclassid = CAST('pg_class' AS REGCLASS) AND d.deptype = 'n'
          AND d.refobjid IN (to_regclass($1), to_regclass($2))
          AND NOT EXISTS (
              SELECT 1 FROM pg_depend o
              WHERE o.classid = d.classid AND o.objid = d.objid AND o.refclassid = d.refclassid
                AND o.refobjid = d.refobjid AND o.deptype <> 'n')
        ORDER BY d.classid, d.objid
        LIMIT 1";
    let found = sqlx::query_scalar(FIND).bind(tables[0]).bind(tables[1]);
    found.fetch_optional(connection).await
}
