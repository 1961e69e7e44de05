//! The jobs of a project, as people look at them.

use async_recursion::async_recursion as boxed;
use domain::ids::ProjectId;
use domain::job::Job;
use domain::time::Timestamp;

use crate::Store;
use crate::db::bounded;
use crate::error::Result;
use crate::jobs::Row;

impl Store {
    /// The jobs of a project that people have asked for and that have not expired, newest first, without their
    /// results, which may be large.
    #[boxed]
    pub async fn jobs_of(&self, project: ProjectId, now: Timestamp, most: i64) -> Result<Vec<Job>> {
        const LIST: &str = "
            SELECT id, kind, project_id, key_id, payload, state, done, total, runs, losses,
                   CAST(NULL AS TEXT) AS result, error, created_at, started_at, finished_at
            FROM jobs
            WHERE project_id = $1 AND (expires_at IS NULL OR expires_at > $2)
              AND kind IN ('replay', 'export', 'backtest')
            ORDER BY created_at DESC, id DESC
            LIMIT $3";
        let rows: Vec<Row> = bounded!(&self.reader, db => {
            sqlx::query_as(LIST).bind(project.0).bind(now.0).bind(most).fetch_all(db).await?
        });
        rows.into_iter().map(Row::read).collect()
    }
}
