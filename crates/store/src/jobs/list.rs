//! The jobs of a project, as people look at them.

use async_recursion::async_recursion as boxed;
use domain::ids::{JobId, ProjectId};
use domain::job::Job;
use domain::time::Timestamp;
use uuid::Uuid;

use crate::Store;
use crate::db::bounded;
use crate::error::Result;
use crate::jobs::Row;

impl Store {
    /// The jobs of a project that people have asked for and that have not expired, newest first, without their
    /// results, which may be large. `after` has the time and the id of a job: those behind it are listed.
    #[boxed]
    pub async fn jobs_of(
        &self,
        project: ProjectId,
        now: Timestamp,
        after: Option<(Timestamp, JobId)>,
        most: i64,
    ) -> Result<Vec<Job>> {
        const LIST: &str = "
            SELECT id, kind, project_id, key_id, payload, state, done, total, runs, losses,
                   CAST(NULL AS TEXT) AS result, error, created_at, started_at, finished_at
            FROM jobs
            WHERE project_id = $1 AND (expires_at IS NULL OR expires_at > $2)
              AND kind IN ('replay', 'export', 'backtest')
              AND (created_at < $3 OR (created_at = $3 AND id < $4))
            ORDER BY created_at DESC, id DESC
            LIMIT $5";
        let (made, id) = after.unwrap_or((Timestamp(i64::MAX), JobId(Uuid::max())));
        let rows: Vec<Row> = bounded!(&self.reader, db => {
            let query = sqlx::query_as(LIST).bind(project.0).bind(now.0);
            query.bind(made.0).bind(id.to_string()).bind(most).fetch_all(db).await?
        });
        rows.into_iter().map(Row::read).collect()
    }
}
