//! The detachment of a partition whose steps are all due.

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::due::{RULES, newest};
use super::{DuePartition, Maintenance, TABLES, calm, change, while_in_use};
use crate::error::Result;

impl Maintenance {
    /// Detaches a partition: its steps are gone then for everybody. False, and nothing is changed, if a rule has changed
    /// since it was found, if a step was added, or if others had a table each time.
    #[boxed]
    pub async fn detach(&mut self, due: &DuePartition) -> Result<bool> {
        let Some(is_detached) = while_in_use!(detach(&mut self.connection, due).await) else {
            tracing::info!(
                partition = due.part.of("steps"),
                "a partition of steps that are all due is in use: it is dropped later"
            );
            return Ok(false);
        };
        if is_detached {
            tracing::info!(
                partition = due.part.of("steps"),
                "a partition of steps was dropped: all were due"
            );
        }
        Ok(is_detached)
    }
}

async fn detach(connection: &mut PgConnection, due: &DuePartition) -> sqlx::Result<bool> {
    const NOTE: &str = "
        INSERT INTO detached_partitions (name, newest, gathered) VALUES ($1, $2, $3)";
    let [steps, contents] = TABLES.map(|(table, _)| due.part.of(table));
    let mut tx = connection.begin().await?;
    calm(&mut tx, &format!("{steps}, {contents}, steps_rest, step_contents_rest")).await?;
    // Rules that are being changed are waited for, and none is changed until the end.
    change(&mut tx, "LOCK TABLE models IN SHARE MODE".to_owned()).await?;
    let rules: Vec<u8> = sqlx::query_scalar(RULES).fetch_one(&mut *tx).await?;
    if rules != due.rules {
        return Ok(false);
    }
    for (table, _) in TABLES {
        let part = due.part.of(table);
        change(&mut tx, format!("ALTER TABLE {table} DETACH PARTITION {part}")).await?;
    }
    // Nobody writes to it any more. A step that was written late has ended after all others of its project.
    let query = format!("{} SELECT project_id, newest FROM own", newest(&steps));
    let found: Vec<(i64, i64)> = sqlx::query_as(AssertSqlSafe(query)).fetch_all(&mut *tx).await?;
    let deleted: Vec<i64> =
        sqlx::query_scalar("SELECT id FROM projects WHERE deleted_at IS NOT NULL")
            .fetch_all(&mut *tx)
            .await?;
    if !found
        .iter()
        .all(|(project, end)| deleted.contains(project) || is_known(&due.newest, *project, *end))
    {
        return Ok(false);
    }
    let last = found.iter().map(|(_, end)| *end).max().unwrap_or(i64::MIN);
    sqlx::query(NOTE).bind(steps).bind(last).bind(i64::MIN).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(true)
}

/// Whether the last step of a project was there when all were found due.
fn is_known(newest: &BTreeMap<i64, i64>, project: i64, end: i64) -> bool {
    newest.get(&project).is_some_and(|known| end <= *known)
}
