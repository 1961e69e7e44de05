//! The complexities that steps were routed by.

use async_recursion::async_recursion as boxed;
use domain::ids::ProjectId;
use domain::time::Timestamp;

use crate::Store;
use crate::db::bounded;
use crate::error::Result;

impl Store {
    /// The complexities of those of a project's latest `most` steps that ended since a time and were routed by
    /// them.
    #[boxed]
    pub async fn complexities(
        &self,
        project: ProjectId,
        since: Timestamp,
        most: i64,
    ) -> Result<Vec<f64>> {
        const LATEST: &str = "
            SELECT complexity
            FROM (
                SELECT complexity, tier
                FROM steps
                WHERE project_id = $1 AND finished_at >= $2
                ORDER BY finished_at DESC
                LIMIT $3) AS latest
            WHERE complexity IS NOT NULL AND tier IN ('simple', 'complex')";
        Ok(bounded!(&self.reports, db => {
            sqlx::query_scalar(LATEST)
                .bind(project.0).bind(since.0).bind(most)
                .fetch_all(db).await?
        }))
    }
}
