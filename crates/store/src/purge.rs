//! What goes with time: steps past their retention, rows of deleted projects.

use domain::time::{DAY, Timestamp};

use crate::Store;
use crate::db::{on, within};
use crate::error::Result;

/// Rows of one table that go at once, so that no purge holds the writer for long.
const SLICE: i64 = 500;

/// Days that steps are kept where no rule says anything.
const DEFAULT_DAYS: i64 = 30;

impl Store {
    /// Deletes a slice of steps whose retention is over: that of their model, else of their
    /// parent's model, else the longest of their trace, else the default of 30 days. The ledger
    /// stays. Returns how many went; call again until it is 0.
    pub async fn purge_steps(&self, now: Timestamp) -> Result<u64> {
        const LEAST: &str = "
            SELECT p.id, min(m.data_retention_days)
            FROM projects p
            LEFT JOIN models m ON m.project_id = p.id
            WHERE p.deleted_at IS NULL
            GROUP BY p.id";
        const DUE: &str = "
            SELECT s.id
            FROM steps s
            LEFT JOIN steps p ON p.id = s.parent_step_id
            WHERE s.project_id = $4 AND s.finished_at < $5
              AND s.finished_at < $1 - $2 * COALESCE(
                (SELECT max(m.data_retention_days) FROM models m
                 WHERE m.project_id = s.project_id AND m.identifier = COALESCE(s.model, p.model)
                   AND m.id = (SELECT max(l.id) FROM models l
                               WHERE l.project_id = m.project_id AND l.identifier = m.identifier)),
                (SELECT max(m.data_retention_days) FROM steps o
                 JOIN models m ON m.project_id = o.project_id AND m.identifier = o.model
                 WHERE o.trace_id = s.trace_id),
                30)
            LIMIT $3";
        let projects: Vec<(i64, Option<i64>)> =
            on!(&self.reader, db => sqlx::query_as(LEAST).fetch_all(db).await?);
        for (project, least) in projects {
            // Nothing younger than the least rule can be due: the index leaves it unread.
            let days = least.unwrap_or(DEFAULT_DAYS).min(DEFAULT_DAYS);
            let oldest = now.minus_micros(days * DAY);
            let ids: Vec<i64> = on!(&self.reader, db => {
                sqlx::query_scalar(DUE)
                    .bind(now.0)
                    .bind(DAY)
                    .bind(SLICE)
                    .bind(project)
                    .bind(oldest.0)
                    .fetch_all(db)
                    .await?
            });
            if !ids.is_empty() {
                return self.forget_steps(&ids).await;
            }
        }
        Ok(0)
    }

    /// Deletes a slice of the rows of deleted projects. Returns how many went; call again until it
    /// is 0.
    pub async fn purge_deleted_projects(&self) -> Result<u64> {
        const STEPS: &str = "
            SELECT s.id FROM projects p JOIN steps s ON s.project_id = p.id
            WHERE p.deleted_at IS NOT NULL LIMIT $1";
        const TRACES: &str = "
            DELETE FROM traces WHERE id IN (
                SELECT t.id FROM projects p JOIN traces t ON t.project_id = p.id
                WHERE p.deleted_at IS NOT NULL LIMIT $1)";
        let ids: Vec<i64> = on!(&self.reader, db => {
            sqlx::query_scalar(STEPS).bind(SLICE).fetch_all(db).await?
        });
        if !ids.is_empty() {
            return self.forget_steps(&ids).await;
        }
        let mut tx = self.begin().await?;
        let gone = within!(tx, db => {
            sqlx::query(TRACES).bind(SLICE).execute(&mut *db).await?.rows_affected()
        });
        tx.commit().await?;
        Ok(gone)
    }

    async fn forget_steps(&self, ids: &[i64]) -> Result<u64> {
        if ids.is_empty() {
            return Ok(0);
        }
        let mut tx = self.begin().await?;
        for id in ids {
            within!(tx, db => {
                sqlx::query("DELETE FROM step_contents WHERE step_id = $1")
                    .bind(id)
                    .execute(&mut *db)
                    .await?;
                sqlx::query("DELETE FROM steps WHERE id = $1").bind(id).execute(&mut *db).await?;
            });
        }
        tx.commit().await?;
        Ok(ids.len() as u64)
    }
}
