//! Jobs: asked for once, run by one node at a time, found for a while after they are over.
//!
//! ```text
//! queued --claim--> running --finish--> completed | failed --expiry--> gone
//!    ^                 |
//!    +-----------------+  released at a stop, or taken from a node that is gone
//! ```
//!
//! A claim begins a run, and what a run writes of its job is fenced by its node and its number: a node may lose a
//! job and claim it again while the earlier run has not noticed.

mod claim;
mod list;

use async_recursion::async_recursion as boxed;
use domain::ids::{JobId, KeyId, NodeId, ProjectId};
use domain::job::{Job, JobKind, JobState, Progress};
use domain::time::Timestamp;

use crate::Store;
use crate::db::{AnyTx, Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;

/// Bounds each wait of a transaction of PostgreSQL for a lock, as the wait to write is bounded on SQLite.
const LOCK_TIMEOUT: &str = "SET LOCAL lock_timeout = '5s'";

/// A job that is asked for.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Its id, if there is none for the same request.
    pub id: JobId,
    /// Its kind.
    pub kind: JobKind,
    /// The project that it belongs to.
    pub project: ProjectId,
    /// The key that asks for it.
    pub key: Option<KeyId>,
    /// The hash of what is asked for: jobs of one project, kind and hash are the same.
    pub request: [u8; 32],
    /// What is asked for, as JSON of its kind.
    pub payload: String,
    /// The time of the request.
    pub created_at: Timestamp,
}

/// The answer to a request for a job.
#[derive(Debug)]
pub enum AddedJob {
    /// The job: a new one, or that of an earlier request for the same.
    Job(Job),
    /// None: too many of the project wait or run.
    TooMany,
}

/// The end of a job.
#[derive(Clone, Debug)]
pub struct JobEnd {
    /// Why it has failed, if it has.
    pub error: Option<String>,
    /// Its result, as JSON of its kind.
    pub result: Option<String>,
    /// When it was over.
    pub at: Timestamp,
    /// The time until which it is found.
    pub expires_at: Timestamp,
}

from_row! {
    struct Row {
        id: String,
        kind: String,
        project_id: i64,
        key_id: Option<i64>,
        payload: String,
        state: String,
        done: i64,
        total: i64,
        runs: i64,
        losses: i64,
        result: Option<String>,
        error: Option<String>,
        created_at: i64,
        started_at: Option<i64>,
        finished_at: Option<i64>,
    }
}

impl Row {
    fn read(self) -> Result<Job> {
        let corrupt = |what: &str| Error::Corrupt(format!("job {}: {what}", self.id));
        Ok(Job {
            id: self.id.parse().map_err(|_| corrupt("id"))?,
            kind: JobKind::parse(&self.kind).ok_or_else(|| corrupt("kind"))?,
            project: ProjectId(self.project_id),
            key: self.key_id.map(KeyId::from_i64),
            payload: self.payload,
            state: JobState::parse(&self.state).ok_or_else(|| corrupt("state"))?,
            progress: Progress { done: self.done.unsigned_abs(), total: self.total.unsigned_abs() },
            runs: self.runs.unsigned_abs(),
            losses: self.losses.unsigned_abs(),
            result: self.result,
            error: self.error,
            created_at: Timestamp(self.created_at),
            started_at: self.started_at.map(Timestamp),
            finished_at: self.finished_at.map(Timestamp),
        })
    }
}

impl Store {
    /// Adds a job, unless there is one for the same request that has not failed and is still found. At
    /// most `most` jobs of a kind and project wait or run.
    #[boxed]
    pub async fn add_job(&self, job: NewJob, most: i64) -> Result<AddedJob> {
        let mut tx = self.begin().await?;
        let added = tx.add_job(&job, most).await?;
        tx.commit().await?;
        Ok(added)
    }

    /// A job of a project, unless it has expired.
    #[boxed]
    pub async fn job(&self, project: ProjectId, id: JobId, now: Timestamp) -> Result<Option<Job>> {
        const FIND: &str = "
            SELECT * FROM jobs
            WHERE id = $1 AND project_id = $2 AND (expires_at IS NULL OR expires_at > $3)";
        let row: Option<Row> = on!(&self.reader, db => {
            sqlx::query_as(FIND)
                .bind(id.to_string())
                .bind(project.0)
                .bind(now.0)
                .fetch_optional(db)
                .await?
        });
        row.map(Row::read).transpose()
    }

    /// Notes how far this run of a job has come. False if the job is in this run no more: then the run must
    /// do no further part of it.
    #[boxed]
    pub async fn note_job_progress(&self, job: &Job, progress: Progress) -> Result<bool> {
        let mut tx = self.begin().await?;
        let noted = tx.note_job_progress(self.node, job, progress).await?;
        tx.commit().await?;
        Ok(noted)
    }

    /// Ends a job by this run of it. False if the job is in this run no more.
    #[boxed]
    pub async fn finish_job(&self, job: &Job, end: JobEnd) -> Result<bool> {
        const FINISH: &str = "
            UPDATE jobs
            SET state = $4, node = NULL, error = $5, result = $6, finished_at = $7, expires_at = $8
            WHERE id = $1 AND node = $2 AND runs = $3 AND state = 'running'";
        let state = if end.error.is_some() { JobState::Failed } else { JobState::Completed };
        let mut tx = self.begin().await?;
        let changed = within!(tx, db => {
            sqlx::query(FINISH)
                .bind(job.id.to_string())
                .bind(self.node.0)
                .bind(count(job.runs))
                .bind(state.as_str())
                .bind(end.error)
                .bind(end.result)
                .bind(end.at.0)
                .bind(end.expires_at.0)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        tx.commit().await?;
        Ok(changed > 0)
    }

    /// Whether this run has ended its job. To be asked when it is not known whether [`Store::finish_job`] was
    /// done.
    #[boxed]
    pub async fn has_finished_job(&self, job: &Job) -> Result<bool> {
        // A run that ends its job is its last.
        const ENDED: &str = "
            SELECT count(*)
            FROM jobs
            WHERE id = $1 AND runs = $2 AND state IN ('completed', 'failed')";
        let ended: i64 = on!(&self.reader, db => {
            sqlx::query_scalar(ENDED)
                .bind(job.id.to_string())
                .bind(count(job.runs))
                .fetch_one(db)
                .await?
        });
        Ok(ended > 0)
    }

    /// Has the job of this run wait again, for this node or another, unless it is in the run no more.
    #[boxed]
    pub async fn release_job(&self, job: &Job) -> Result<()> {
        const RELEASE: &str = "
            UPDATE jobs SET state = 'queued', node = NULL
            WHERE id = $1 AND node = $2 AND runs = $3 AND state = 'running'";
        let mut tx = self.begin().await?;
        within!(tx, db => {
            sqlx::query(RELEASE)
                .bind(job.id.to_string())
                .bind(self.node.0)
                .bind(count(job.runs))
                .execute(&mut *db)
                .await?;
        });
        tx.commit().await
    }

    /// Has the jobs of a kind wait again that nodes have which are gone, once the calls are settled that
    /// these nodes have left. Returns how many there were.
    #[boxed]
    pub async fn release_lost_jobs(&self, kind: JobKind, now: Timestamp) -> Result<u64> {
        const NODES: &str = "
            SELECT DISTINCT node FROM jobs WHERE kind = $1 AND state = 'running' AND node <> $2";
        let nodes: Vec<i64> = on!(&self.reader, db => {
            sqlx::query_scalar(NODES).bind(kind.as_str()).bind(self.node.0).fetch_all(db).await?
        });
        let mut released = 0;
        for node in nodes.into_iter().map(NodeId) {
            let of_node = self.in_place_of(node, self.release_jobs_of(node, kind, now)).await?;
            released += of_node.unwrap_or_default();
        }
        Ok(released)
    }

    /// Has the jobs of a node that is gone wait again, once the calls that it has left are settled.
    async fn release_jobs_of(&self, node: NodeId, kind: JobKind, now: Timestamp) -> Result<u64> {
        const RELEASE: &str = "
            UPDATE jobs SET state = 'queued', node = NULL, losses = losses + 1
            WHERE kind = $1 AND node = $2 AND state = 'running'";
        self.settle_lost_calls_of(node, now).await?;
        let mut tx = self.begin().await?;
        let released = within!(tx, db => {
            sqlx::query(RELEASE)
                .bind(kind.as_str())
                .bind(node.0)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        tx.commit().await?;
        Ok(released)
    }

    /// How many jobs of a kind wait for a node.
    #[boxed]
    pub async fn count_waiting_jobs(&self, kind: JobKind) -> Result<u64> {
        const COUNT: &str = "SELECT count(*) FROM jobs WHERE kind = $1 AND state = 'queued'";
        let count: i64 = on!(&self.reader, db => {
            sqlx::query_scalar(COUNT).bind(kind.as_str()).fetch_one(db).await?
        });
        Ok(count.unsigned_abs())
    }

    /// Deletes the jobs that have expired. Returns how many there were.
    #[boxed]
    pub async fn purge_jobs(&self, now: Timestamp) -> Result<u64> {
        const PURGE: &str = "DELETE FROM jobs WHERE expires_at IS NOT NULL AND expires_at <= $1";
        let mut tx = self.begin().await?;
        let gone = within!(tx, db => {
            sqlx::query(PURGE).bind(now.0).execute(&mut *db).await?.rows_affected()
        });
        tx.commit().await?;
        Ok(gone)
    }
}

impl Tx {
    /// Adds a job as [`Store::add_job`] does, together with what else its request writes. Other requests for
    /// jobs of the project wait until this transaction ends, for up to 5 seconds.
    #[boxed]
    pub async fn add_job(&mut self, job: &NewJob, most: i64) -> Result<AddedJob> {
        self.lock_project(job.project).await?;
        Ok(match self.same_job(job).await? {
            Some(same) => AddedJob::Job(same),
            None if self.count_open_jobs(job.kind, job.project).await? >= most => AddedJob::TooMany,
            None => AddedJob::Job(self.insert_job(job).await?),
        })
    }

    /// Has all jobs of a kind and project expire that are over, but the latest `keep`.
    #[boxed]
    pub async fn expire_old_jobs(
        &mut self,
        kind: JobKind,
        project: ProjectId,
        keep: i64,
        now: Timestamp,
    ) -> Result<()> {
        const EXPIRE: &str = "
            UPDATE jobs SET expires_at = $4
            WHERE kind = $1 AND project_id = $2 AND expires_at > $4 AND id NOT IN (
                SELECT id
                FROM jobs
                WHERE kind = $1 AND project_id = $2 AND expires_at > $4
                ORDER BY created_at DESC, id DESC
                LIMIT $3)";
        within!(self, db => {
            sqlx::query(EXPIRE)
                .bind(kind.as_str())
                .bind(project.0)
                .bind(keep)
                .bind(now.0)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Notes how far a node's run of a job has come. False if the job is in this run no more.
    pub(crate) async fn note_job_progress(
        &mut self,
        node: NodeId,
        job: &Job,
        progress: Progress,
    ) -> Result<bool> {
        const NOTE: &str = "
            UPDATE jobs SET done = $4, total = $5
            WHERE id = $1 AND node = $2 AND runs = $3 AND state = 'running'";
        let changed = within!(self, db => {
            sqlx::query(NOTE)
                .bind(job.id.to_string())
                .bind(node.0)
                .bind(count(job.runs))
                .bind(count(progress.done))
                .bind(count(progress.total))
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        Ok(changed > 0)
    }

    /// Has other transactions that add jobs of a project wait for this one: what they count is what it adds.
    /// The lock lets through what only refers to the project, as steps do. It comes before any lock of a job.
    async fn lock_project(&mut self, project: ProjectId) -> Result<()> {
        const LOCK: &str = "SELECT id FROM projects WHERE id = $1 FOR NO KEY UPDATE";
        match &mut self.0 {
            // One transaction writes at a time.
            AnyTx::Sqlite(_) => {}
            AnyTx::Postgres(tx) => {
                let db = &mut tx.connection();
                sqlx::query(LOCK_TIMEOUT).execute(&mut *db).await?;
                sqlx::query(LOCK).bind(project.0).execute(&mut *db).await?;
            }
        }
        Ok(())
    }

    /// Locks the deleted projects that have data left, as [`Tx::add_job`] locks its project: the jobs of a
    /// project are locked after it, so that neither waits for the other.
    pub(crate) async fn lock_deleted_projects(&mut self) -> Result<()> {
        const LOCK: &str = "
            SELECT p.id
            FROM projects p
            WHERE p.deleted_at IS NOT NULL
              AND (p.name <> '' OR EXISTS (SELECT 1 FROM jobs j WHERE j.project_id = p.id))
            ORDER BY p.id
            FOR NO KEY UPDATE";
        match &mut self.0 {
            AnyTx::Sqlite(_) => {}
            AnyTx::Postgres(tx) => {
                let db = &mut tx.connection();
                sqlx::query(LOCK_TIMEOUT).execute(&mut *db).await?;
                sqlx::query(LOCK).execute(&mut *db).await?;
            }
        }
        Ok(())
    }

    /// The job of an earlier request for the same; one that has expired is deleted.
    async fn same_job(&mut self, job: &NewJob) -> Result<Option<Job>> {
        const FORGET: &str = "
            DELETE FROM jobs
            WHERE project_id = $1 AND kind = $2 AND request = $3 AND state <> 'failed'
              AND expires_at <= $4";
        const FIND: &str = "
            SELECT * FROM jobs
            WHERE project_id = $1 AND kind = $2 AND request = $3 AND state <> 'failed'";
        let row: Option<Row> = within!(self, db => {
            sqlx::query(FORGET)
                .bind(job.project.0)
                .bind(job.kind.as_str())
                .bind(hex(&job.request))
                .bind(job.created_at.0)
                .execute(&mut *db)
                .await?;
            sqlx::query_as(FIND)
                .bind(job.project.0)
                .bind(job.kind.as_str())
                .bind(hex(&job.request))
                .fetch_optional(&mut *db)
                .await?
        });
        row.map(Row::read).transpose()
    }

    async fn count_open_jobs(&mut self, kind: JobKind, project: ProjectId) -> Result<i64> {
        const COUNT: &str = "
            SELECT count(*) FROM jobs
            WHERE kind = $1 AND project_id = $2 AND state IN ('queued', 'running')";
        Ok(within!(self, db => {
            sqlx::query_scalar(COUNT)
                .bind(kind.as_str())
                .bind(project.0)
                .fetch_one(&mut *db)
                .await?
        }))
    }

    async fn insert_job(&mut self, job: &NewJob) -> Result<Job> {
        const ADD: &str = "
            INSERT INTO jobs (
                id, kind, project_id, key_id, request, payload, state, done, total, runs,
                created_at)
            VALUES ($1, $2, $3, $4, $5, $6, 'queued', 0, 0, 0, $7)
            RETURNING *";
        let row: Row = within!(self, db => {
            sqlx::query_as(ADD)
                .bind(job.id.to_string())
                .bind(job.kind.as_str())
                .bind(job.project.0)
                .bind(job.key.map(KeyId::to_i64))
                .bind(hex(&job.request))
                .bind(&job.payload)
                .bind(job.created_at.0)
                .fetch_one(&mut *db)
                .await?
        });
        row.read()
    }
}

/// A number as the databases hold it.
fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
