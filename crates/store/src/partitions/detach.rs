//! The detachment of a partition whose steps are all due.

use async_recursion::async_recursion as boxed;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::due::{RULES, newest};
use super::{DuePartition, Maintenance, TABLES, calm, change, change_all, while_in_use};
use crate::error::Result;

impl Maintenance {
    /// Detaches a partition: its steps are gone then for everybody. False, and nothing is changed, if a rule has changed
    /// since it was found, if a step was added, or if others had a table each time.
    #[boxed]
    pub async fn detach(&mut self, due: &DuePartition) -> Result<bool> {
        let Some(is_detached) =
            while_in_use!(self.connection, detach(&mut self.connection, due).await)
        else {
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
    let [steps, contents] = TABLES.map(|(table, _)| due.part.of(table));
    let mut tx = connection.begin().await?;
    calm(&mut tx, &format!("{steps}, {contents}, steps_rest, step_contents_rest")).await?;
    // Rules that are being changed are waited for, and none is changed until the end.
    change(&mut tx, "LOCK TABLE models IN SHARE MODE".to_owned()).await?;
    let rules: Vec<u8> = sqlx::query_scalar(RULES).fetch_one(&mut *tx).await?;
    if rules != due.rules {
        return Ok(false);
    }
    let changes = vec![
        format!("ALTER TABLE steps DETACH PARTITION {steps}"),
        format!("ALTER TABLE step_contents DETACH PARTITION {contents}"),
    ];
    change_all(&mut tx, changes).await?;
    // Nobody writes to it any more. A step that was written late has ended after all others of its project.
    let note = format!(
        "{}
        INSERT INTO detached_partitions (name, newest, gathered)
        SELECT $1, COALESCE(max(own.newest), $2), $2
        FROM own
        HAVING count(*) = (
            SELECT count(*)
            FROM own o
            LEFT JOIN unnest(CAST($3 AS BIGINT[]), CAST($4 AS BIGINT[])) AS known (project, newest) ON known.project = o.project_id
            LEFT JOIN projects p ON p.id = o.project_id
            WHERE o.newest <= known.newest OR p.deleted_at IS NOT NULL)",
        newest(&steps)
    );
    let (projects, ends): (Vec<i64>, Vec<i64>) = due.newest.iter().unzip();
    let noted = sqlx::query(AssertSqlSafe(note))
        .bind(&steps)
        .bind(i64::MIN)
        .bind(&projects[..])
        .bind(&ends[..])
        .execute(&mut *tx)
        .await?;
    if noted.rows_affected() == 0 {
        return Ok(false);
    }
    tx.commit().await?;
    Ok(true)
}
