//! What exports read, in bounded batches, and the pieces of their files.
//!
//! The steps themselves are read by `steps/ended.rs`. The pieces of a file belong to
//! one run of its job, so that a job that begins again overwrites nothing and needs no clearing.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use async_recursion::async_recursion as boxed;
use domain::grade::Grade;
use domain::ids::{JobId, KeyId, ProjectId, TraceId};
use domain::job::{Job, Progress};
use domain::trace::TraceStatus;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::Store;
use crate::db::{bounded, on, within};
use crate::error::{Error, Result};
use crate::steps::{STEPS_AT_ONCE, by_id};

/// The most pieces that one transaction deletes, which keeps the writer waiting.
const BATCH_PIECES: i64 = 20;

static TRACES_BY_ID: LazyLock<String> =
    LazyLock::new(|| by_id("SELECT id, status, grade FROM traces WHERE id"));

impl Store {
    /// The stage and the grade of traces, at most of [`STEPS_AT_ONCE`]. Traces that are
    /// not there are left out.
    #[boxed]
    pub async fn trace_grades(
        &self,
        traces: &[TraceId],
    ) -> Result<HashMap<TraceId, (TraceStatus, Option<Grade>)>> {
        let ids: HashSet<Uuid> = traces.iter().map(|trace| trace.0).collect();
        let ids = ids.into_iter().chain(std::iter::repeat(Uuid::nil())).take(STEPS_AT_ONCE);
        let rows: Vec<(Uuid, String, Option<String>)> = bounded!(&self.reader, db => {
            let query = sqlx::query_as(AssertSqlSafe(TRACES_BY_ID.as_str()));
            ids.fold(query, sqlx::query::QueryAs::bind).fetch_all(db).await?
        });
        let read = |(id, status, grade): (Uuid, String, Option<String>)| {
            let corrupt = || Error::Corrupt(format!("trace {id}: status or grade"));
            let status = TraceStatus::parse(&status).ok_or_else(corrupt)?;
            let grade = grade.map(|grade| Grade::parse(&grade).ok_or_else(corrupt)).transpose()?;
            Ok((TraceId(id), (status, grade)))
        };
        rows.into_iter().map(read).collect()
    }

    /// The names of the keys of a project, revoked ones included.
    #[boxed]
    pub async fn key_names(&self, project: ProjectId) -> Result<HashMap<KeyId, String>> {
        let rows: Vec<(i64, String)> = bounded!(&self.reader, db => {
            sqlx::query_as("SELECT id, name FROM api_keys WHERE project_id = $1")
                .bind(project.0)
                .fetch_all(db)
                .await?
        });
        Ok(rows.into_iter().map(|(id, name)| (KeyId::from_i64(id), name)).collect())
    }

    /// Adds the next piece of the file of this run of a job, and notes the job's progress.
    /// False if the job is in this run no more. May be done again if it is not known whether it was done.
    #[boxed]
    pub async fn add_export_piece(
        &self,
        job: &Job,
        number: u64,
        sealed: &[u8],
        progress: Progress,
    ) -> Result<bool> {
        const ADD: &str = "
            INSERT INTO export_pieces (job_id, run, number, sealed)
            VALUES ($1, $2, $3, $4)
            ON CONFLICT (job_id, run, number) DO NOTHING";
        const IS_SAME: &str = "
            SELECT count(*)
            FROM export_pieces
            WHERE job_id = $1 AND run = $2 AND number = $3 AND sealed = $4";
        let mut tx = self.begin().await?;
        if !tx.note_job_progress(self.node, job, progress).await? {
            return Ok(false);
        }
        let is_stored = within!(tx, db => {
            let added = sqlx::query(ADD)
                .bind(job.id.to_string())
                .bind(job.runs as i64)
                .bind(number as i64)
                .bind(sealed)
                .execute(&mut *db)
                .await?;
            added.rows_affected() > 0 || {
                let same: i64 = sqlx::query_scalar(IS_SAME)
                    .bind(job.id.to_string())
                    .bind(job.runs as i64)
                    .bind(number as i64)
                    .bind(sealed)
                    .fetch_one(&mut *db)
                    .await?;
                same > 0
            }
        });
        if !is_stored {
            // No two pieces are sealed alike, and a run has one writer.
            return Err(Error::Corrupt(format!("piece {number} of export {}: another", job.id)));
        }
        tx.commit().await?;
        Ok(true)
    }

    /// A piece of the file of a job; `None` if there is none.
    #[boxed]
    pub async fn export_piece(&self, job: JobId, run: u64, number: u64) -> Result<Option<Vec<u8>>> {
        const FIND: &str =
            "SELECT sealed FROM export_pieces WHERE job_id = $1 AND run = $2 AND number = $3";
        Ok(on!(&self.reader, db => {
            sqlx::query_scalar(FIND)
                .bind(job.to_string())
                .bind(run as i64)
                .bind(number as i64)
                .fetch_optional(db)
                .await?
        }))
    }

    /// Deletes some pieces of a file whose job is gone or has begun again. Returns how many there were;
    /// call again until it is 0.
    #[boxed]
    pub async fn purge_export_pieces(&self) -> Result<u64> {
        const LEFT_OVER: &str = "
            SELECT p.job_id, p.run
            FROM export_pieces p
            WHERE p.number = 0
              AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = p.job_id AND j.runs = p.run)
            LIMIT 1";
        // From the end on: the first piece leads to the others.
        const PURGE: &str = "
            DELETE FROM export_pieces
            WHERE job_id = $1 AND run = $2 AND number IN (
                SELECT number
                FROM export_pieces
                WHERE job_id = $1 AND run = $2
                ORDER BY number DESC
                LIMIT $3)";
        let left_over: Option<(String, i64)> = on!(&self.reader, db => {
            sqlx::query_as(LEFT_OVER).fetch_optional(db).await?
        });
        let Some((job, run)) = left_over else { return Ok(0) };
        let mut tx = self.begin().await?;
        let gone = within!(tx, db => {
            sqlx::query(PURGE)
                .bind(job)
                .bind(run)
                .bind(BATCH_PIECES)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        tx.commit().await?;
        Ok(gone)
    }
}
