//! Deletion over time: steps past their retention, rows of deleted projects.

use async_recursion::async_recursion as boxed;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use domain::ids::ProjectId;
use domain::time::{DAY, HOUR, MINUTE, Timestamp};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::Result;
use crate::from_row::from_row;
use crate::retention::{DEFAULT_DAYS, Source, aged};

/// Rows of one table that are deleted at once, so that no purge holds the writer for long.
const BATCH_ROWS: i64 = 500;

from_row! {
    /// The data of a deleted step that its trace keeps.
    struct Gone {
        trace_id: Uuid,
        cost: Option<i64>,
        pii: bool,
        injection: bool,
        secret: bool,
    }
}

/// The kept data of all steps of a trace that are deleted together.
#[derive(Default)]
struct Memory {
    cost: i64,
    /// The longest retention among them.
    days: i64,
    pii: bool,
    injection: bool,
    secret: bool,
}

impl Memory {
    fn take(&mut self, gone: &Gone, days: i64) {
        self.cost = self.cost.saturating_add(gone.cost.unwrap_or(0));
        self.days = self.days.max(days);
        self.pii |= gone.pii;
        self.injection |= gone.injection;
        self.secret |= gone.secret;
    }
}

impl Store {
    /// Deletes a slice of steps whose retention is over: that of their model, else of their parent's
    /// model, else the longest of their trace, else the default of 30 days. A step without a model
    /// whose parent is gone is deleted as soon as any step of the project would be. The ledger stays,
    /// and the trace keeps the data that is reported without its steps. In a database with partitions steps
    /// stay longer: for a day and three hours, and for as many days as a partition has, but not for more days than their
    /// retention has, or one. All stay while the clock may be ahead; and those
    /// that their trace decides on stay until that has what it keeps of partitions that are dropped. Returns the number
    /// of deleted steps; call again until it is 0.
    #[boxed]
    pub async fn purge_steps(&self, now: Timestamp) -> Result<u64> {
        static DUE: LazyLock<String> = LazyLock::new(|| {
            let source =
                Source::of("steps", "project_id = $4", "s.project_id = $4 AND s.finished_at < $5");
            let aged = aged(&source);
            // `Leave::of` in words that both databases know: the sooner of the two counts. Steps that are kept for no day
            // wait for the first others of their project.
            format!(
                "{aged}
                SELECT id, days FROM aged
                WHERE finished_at < $1 - $2 * (days + $6) OR finished_at < $1 - $2 * 2 * days
                LIMIT $3"
            )
        });
        const LEAST: &str = "
            SELECT p.id, min(m.data_retention_days)
            FROM projects p
            LEFT JOIN models m ON m.project_id = p.id
            WHERE p.deleted_at IS NULL
            GROUP BY p.id";
        // Whole partitions go first, without a deletion for each step.
        let Some(leave) = self.partition_leave(now).await? else { return Ok(0) };
        let late = now.minus_micros(leave.late);
        let projects: Vec<(i64, Option<i64>)> =
            on!(&self.reader, db => sqlx::query_as(LEAST).fetch_all(db).await?);
        for (project, least) in projects {
            // Nothing younger than the least rule can be due: the index leaves it unread.
            let days = least.unwrap_or(DEFAULT_DAYS).min(DEFAULT_DAYS);
            // Steps that are not in the sums of usage and findings yet would never be.
            let grouped = self.grouped_until(ProjectId(project)).await?.unwrap_or(0) * HOUR;
            let spanned = self.spanned_until(ProjectId(project)).await?.unwrap_or(0) * MINUTE;
            let least = now.minus_micros(days * DAY + leave.of(days));
            let oldest = Timestamp(least.0.min(grouped).min(spanned));
            let due: Vec<(i64, i64)> = on!(&self.reader, db => {
                sqlx::query_as(AssertSqlSafe(DUE.as_str()))
                    .bind(late.0)
                    .bind(DAY)
                    .bind(BATCH_ROWS)
                    .bind(project)
                    .bind(oldest.0)
                    .bind(leave.days)
                    .fetch_all(db)
                    .await?
            });
            if !due.is_empty() {
                return self.forget_due(due).await;
            }
        }
        Ok(0)
    }

    /// Deletes steps, each with the days of its retention, and has their traces keep their data. Rows
    /// are locked in the order of their ids, so neither another node nor the writer can deadlock with
    /// it.
    async fn forget_due(&self, mut due: Vec<(i64, i64)>) -> Result<u64> {
        due.sort_unstable();
        let mut traces: BTreeMap<Uuid, Memory> = BTreeMap::new();
        let mut tx = self.begin().await?;
        for (id, days) in &due {
            // Another node may have been quicker.
            if let Some(gone) = tx.forget_step(*id).await? {
                traces.entry(gone.trace_id).or_default().take(&gone, *days);
            }
        }
        for (trace, memory) in &traces {
            tx.remember(*trace, memory).await?;
        }
        tx.commit().await?;
        Ok(due.len() as u64)
    }

    /// Deletes a slice of the rows of deleted projects, and in the end their names and settings. Ids
    /// stay taken, and the ledger stays. Returns the number of deleted rows; call again until it is 0.
    #[boxed]
    pub async fn purge_deleted_projects(&self) -> Result<u64> {
        const DELETED: &str = "SELECT id FROM projects WHERE deleted_at IS NOT NULL ORDER BY id";
        // Each of one project: with all deleted ones in one statement PostgreSQL reads the whole table.
        const STEPS: &str = "SELECT id FROM steps WHERE project_id = $1 LIMIT $2";
        const ROWS: [&str; 6] = [
            "DELETE FROM idempotency_claims WHERE (project_id, key_id, name) IN (
                SELECT project_id, key_id, name FROM idempotency_claims WHERE project_id = $1 LIMIT $2 / 50)",
            "DELETE FROM trace_terms WHERE (project_id, term, trace_id) IN (
                SELECT project_id, term, trace_id FROM trace_terms WHERE project_id = $1 LIMIT $2)",
            "DELETE FROM usage_groups WHERE (project_id, dimension, span, start, value) IN (
                SELECT project_id, dimension, span, start, value FROM usage_groups
                WHERE project_id = $1 LIMIT $2)",
            "DELETE FROM usage_spans WHERE (project_id, span, start) IN (
                SELECT project_id, span, start FROM usage_spans WHERE project_id = $1 LIMIT $2)",
            "DELETE FROM traces_again WHERE (project_id, start, before) IN (
                SELECT project_id, start, before FROM traces_again WHERE project_id = $1 LIMIT $2)",
            "DELETE FROM traces WHERE id IN (SELECT id FROM traces WHERE project_id = $1 LIMIT $2)",
        ];
        let deleted: Vec<i64> = on!(&self.reader, db => {
            sqlx::query_scalar(DELETED).fetch_all(db).await?
        });
        for project in &deleted {
            let ids: Vec<i64> = on!(&self.reader, db => {
                sqlx::query_scalar(STEPS).bind(project).bind(BATCH_ROWS).fetch_all(db).await?
            });
            if ids.is_empty() {
                continue;
            }
            let mut tx = self.begin().await?;
            for id in &ids {
                tx.forget_step(*id).await?;
            }
            tx.commit().await?;
            return Ok(ids.len() as u64);
        }
        let mut tx = self.begin().await?;
        let mut gone = 0;
        for project in &deleted {
            within!(tx, db => {
                for rows in ROWS {
                    let done = sqlx::query(rows).bind(project).bind(BATCH_ROWS).execute(&mut *db).await?;
                    gone += done.rows_affected();
                }
            });
            if gone > 0 {
                break;
            }
        }
        let gone = if gone == 0 { tx.forget_projects().await? } else { gone };
        tx.commit().await?;
        Ok(gone)
    }
}

impl Tx {
    /// Deletes all data of deleted projects except their ids and those of their models: on SQLite the
    /// next project would get a deleted one's id. Returns the number of projects whose data was still
    /// there.
    async fn forget_projects(&mut self) -> Result<u64> {
        const OF_THEM: [&str; 9] = [
            "DELETE FROM usage_grouped WHERE project_id IN (
                SELECT id FROM projects WHERE deleted_at IS NOT NULL)",
            "DELETE FROM usage_spanned WHERE project_id IN (
                SELECT id FROM projects WHERE deleted_at IS NOT NULL)",
            "DELETE FROM jobs WHERE project_id IN (
                SELECT id FROM projects WHERE deleted_at IS NOT NULL)",
            "DELETE FROM key_windows WHERE key_id IN (
                SELECT k.id FROM projects p JOIN api_keys k ON k.project_id = p.id
                WHERE p.deleted_at IS NOT NULL)",
            "DELETE FROM api_keys WHERE project_id IN (
                SELECT id FROM projects WHERE deleted_at IS NOT NULL)",
            "DELETE FROM project_members WHERE project_id IN (
                SELECT id FROM projects WHERE deleted_at IS NOT NULL)",
            "DELETE FROM review_verdicts WHERE project_id IN (
                SELECT id FROM projects WHERE deleted_at IS NOT NULL)",
            "DELETE FROM insights WHERE project_id IN (
                SELECT id FROM projects WHERE deleted_at IS NOT NULL)",
            "UPDATE models SET name = '', identifier = '', base_url = NULL, config = '{}'
            WHERE identifier <> '' AND project_id IN (
                SELECT id FROM projects WHERE deleted_at IS NOT NULL)",
        ];
        const THEM: &str = "
            UPDATE projects SET name = '', description = NULL, settings = '{}'
            WHERE deleted_at IS NOT NULL AND name <> ''";
        self.lock_deleted_projects().await?;
        let forgotten = within!(self, db => {
            // Each time: another node may have added to a project before it had seen that it was
            // deleted.
            for rows in OF_THEM {
                sqlx::query(rows).execute(&mut *db).await?;
            }
            sqlx::query(THEM).execute(&mut *db).await?.rows_affected()
        });
        Ok(forgotten)
    }

    /// Deletes a step, its content, and the note of the verdict on it; `None` if it was gone. The verdict
    /// itself is a figure that advice is given by, and stays for its time.
    async fn forget_step(&mut self, id: i64) -> Result<Option<Gone>> {
        const FORGET: &str = "
            DELETE FROM steps WHERE id = $1 RETURNING trace_id, cost, pii, injection, secret";
        let gone: Option<Gone> = within!(self, db => {
            sqlx::query("DELETE FROM step_contents WHERE step_id = $1")
                .bind(id)
                .execute(&mut *db)
                .await?;
            let gone = sqlx::query_as(FORGET).bind(id).fetch_optional(&mut *db).await?;
            // After the step, which whoever judges it holds first. Its note may quote the content.
            sqlx::query("UPDATE review_verdicts SET note = NULL WHERE step_id = $1")
                .bind(id)
                .execute(&mut *db)
                .await?;
            gone
        });
        self.forget_stored_of(id).await?;
        Ok(gone)
    }

    /// Adds to the data that a trace keeps of deleted steps.
    async fn remember(&mut self, trace: Uuid, memory: &Memory) -> Result<()> {
        const REMEMBER: &str = "
            UPDATE traces
            SET purged_cost = COALESCE(purged_cost, 0) + $2,
                purged_days = CASE WHEN purged_days < $3 THEN $3 ELSE purged_days END,
                purged_pii = purged_pii OR $4,
                purged_injection = purged_injection OR $5,
                purged_secret = purged_secret OR $6
            WHERE id = $1";
        within!(self, db => {
            sqlx::query(REMEMBER)
                .bind(trace)
                .bind(memory.cost)
                .bind(memory.days)
                .bind(memory.pii)
                .bind(memory.injection)
                .bind(memory.secret)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }
}
