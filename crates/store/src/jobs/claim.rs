//! The claim of a job by a node, and claims of which the node does not know.

use async_recursion::async_recursion as boxed;
use domain::ids::{JobId, ProjectId};
use domain::job::{Job, JobKind};
use domain::time::{HOUR, Timestamp};

use crate::Store;
use crate::db::{on, within};
use crate::error::Result;
use crate::jobs::Row;

/// Projects whose longest waiting job is looked at when a job is claimed.
const CANDIDATES: i64 = 100;
/// The error of a job whose row cannot be read.
const UNREADABLE: &str = "Internal error";

impl Store {
    /// Claims the job of a kind for this node that waits longest, of a project that is not `busy`. One whose
    /// row is damaged fails.
    #[boxed]
    pub async fn claim_job(
        &self,
        kind: JobKind,
        busy: &[ProjectId],
        now: Timestamp,
    ) -> Result<Option<Job>> {
        const NEXT: &str = "
            SELECT id, project_id
            FROM (
                SELECT id, project_id, created_at,
                       row_number() OVER (PARTITION BY project_id ORDER BY created_at, id) AS place
                FROM jobs
                WHERE kind = $1 AND state = 'queued') AS waiting
            WHERE place = 1
            ORDER BY created_at, id
            LIMIT $2";
        const CLAIM: &str = "
            UPDATE jobs
            SET state = 'running', node = $2, runs = runs + 1, started_at = COALESCE(started_at, $3)
            WHERE id = $1 AND state = 'queued'
            RETURNING *";
        const FAIL: &str = "
            UPDATE jobs
            SET state = 'failed', node = NULL, error = $2, finished_at = $3, expires_at = $4
            WHERE id = $1";
        let next: Vec<(String, i64)> = on!(&self.reader, db => {
            sqlx::query_as(NEXT).bind(kind.as_str()).bind(CANDIDATES).fetch_all(db).await?
        });
        for (id, project) in next {
            if busy.contains(&ProjectId(project)) {
                continue;
            }
            let mut tx = self.begin().await?;
            let row: Option<Row> = within!(tx, db => {
                sqlx::query_as(CLAIM)
                    .bind(&id)
                    .bind(self.node.0)
                    .bind(now.0)
                    .fetch_optional(&mut *db)
                    .await?
            });
            let job = row.map(Row::read).transpose();
            if let Err(error) = &job {
                tracing::error!(job = id, %error, "a job that cannot be read has failed");
                within!(tx, db => {
                    sqlx::query(FAIL)
                        .bind(&id)
                        .bind(UNREADABLE)
                        .bind(now.0)
                        .bind(now.minus_micros(-HOUR).0)
                        .execute(&mut *db)
                        .await?;
                });
            }
            tx.commit().await?;
            // Without a row another node was quicker.
            if let Ok(Some(job)) = job {
                return Ok(Some(job));
            }
        }
        Ok(None)
    }

    /// Has the jobs of a kind wait again that this node has claimed and does not run: it is not told of a
    /// claim whose commit is done and whose answer is lost. `running` are those that it runs. Returns how
    /// many there were.
    #[boxed]
    pub async fn release_stray_jobs(&self, kind: JobKind, running: &[JobId]) -> Result<u64> {
        const CLAIMED: &str = "
            SELECT id, runs FROM jobs WHERE kind = $1 AND state = 'running' AND node = $2";
        const RELEASE: &str = "
            UPDATE jobs SET state = 'queued', node = NULL
            WHERE id = $1 AND node = $2 AND runs = $3 AND state = 'running'";
        let claimed: Vec<(String, i64)> = on!(&self.reader, db => {
            sqlx::query_as(CLAIMED).bind(kind.as_str()).bind(self.node.0).fetch_all(db).await?
        });
        let runs = |id: &str| running.iter().any(|job| job.to_string() == id);
        let mut released = 0;
        for (id, run) in claimed.into_iter().filter(|(id, _)| !runs(id)) {
            let mut tx = self.begin().await?;
            released += within!(tx, db => {
                sqlx::query(RELEASE)
                    .bind(id)
                    .bind(self.node.0)
                    .bind(run)
                    .execute(&mut *db)
                    .await?
                    .rows_affected()
            });
            tx.commit().await?;
        }
        Ok(released)
    }
}
