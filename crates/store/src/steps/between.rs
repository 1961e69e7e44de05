//! The steps of a project that ended within a period, read page by page, with what a judge of their
//! contents needs to know beside them.

use std::collections::HashMap;
use std::sync::LazyLock;

use async_recursion::async_recursion as boxed;
use domain::ids::{ProjectId, StepId, TraceId};
use domain::step::Step;
use domain::time::Timestamp;
use serde_json::Value;
use sqlx::AssertSqlSafe;

use super::details::{STEPS_AT_ONCE, by_id, slots};
use super::row::StepRow;
use crate::Store;
use crate::db::on;
use crate::error::{Error, Result};

static SIZES_BY_ID: LazyLock<String> = LazyLock::new(|| {
    by_id("SELECT step_id, CAST(length(sealed) AS BIGINT) FROM step_contents WHERE step_id")
});
static SENSITIVITIES_BY_ID: LazyLock<String> = LazyLock::new(|| {
    // Few traces have one, and metadata may be long.
    let select = "SELECT id, metadata FROM traces WHERE metadata LIKE '%\"sensitivity\"%' AND id";
    by_id(select)
});

impl Store {
    /// How many steps of a project ended from one time up to but without another; counting ends above
    /// `most`.
    #[boxed]
    pub async fn count_steps_between(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
        most: i64,
    ) -> Result<i64> {
        const COUNT: &str = "
            SELECT count(*) FROM (
                SELECT 1 AS one FROM steps
                WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $3
                LIMIT $4) AS counted";
        Ok(on!(&self.reader, db => {
            sqlx::query_scalar(COUNT)
                .bind(project.0)
                .bind(from.0)
                .bind(to.0)
                .bind(most.saturating_add(1))
                .fetch_one(db)
                .await?
        }))
    }

    /// The steps of a project that ended from one time up to but without another, in the order in which
    /// they ended, at most [`STEPS_AT_ONCE`]. Those that ended at `from` itself begin behind `after`.
    #[boxed]
    pub async fn steps_between(
        &self,
        project: ProjectId,
        from: Timestamp,
        after: Option<StepId>,
        to: Timestamp,
    ) -> Result<Vec<Step>> {
        const PAGE: &str = "
            SELECT * FROM steps
            WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $4
              AND (finished_at > $2 OR id > $3)
            ORDER BY finished_at, id
            LIMIT $5";
        let rows: Vec<StepRow<String>> = on!(&self.reader, db => {
            sqlx::query_as(PAGE)
                .bind(project.0)
                .bind(from.0)
                .bind(after.map_or(i64::MIN, |step| step.0))
                .bind(to.0)
                .bind(STEPS_AT_ONCE as i64)
                .fetch_all(db)
                .await?
        });
        rows.into_iter().map(StepRow::read).collect()
    }

    /// The sizes of the sealed contents of steps, at most of [`STEPS_AT_ONCE`]. Steps without a content
    /// are left out.
    #[boxed]
    pub async fn sealed_sizes(&self, ids: &[StepId]) -> Result<HashMap<StepId, usize>> {
        let rows: Vec<(i64, i64)> = on!(&self.reader, db => {
            let query = sqlx::query_as(AssertSqlSafe(SIZES_BY_ID.as_str()));
            slots(ids).fold(query, sqlx::query::QueryAs::bind).fetch_all(db).await?
        });
        let size = |(id, size)| (StepId(id), usize::try_from(size).unwrap_or(usize::MAX));
        Ok(rows.into_iter().map(size).collect())
    }

    /// The `sensitivity` in the metadata of traces, at most of [`STEPS_AT_ONCE`]. Traces without one are
    /// left out.
    #[boxed]
    pub async fn sensitivities(&self, ids: &[TraceId]) -> Result<HashMap<TraceId, Value>> {
        let none = std::iter::repeat(uuid::Uuid::nil());
        let rows: Vec<(uuid::Uuid, String)> = on!(&self.reader, db => {
            let query = sqlx::query_as(AssertSqlSafe(SENSITIVITIES_BY_ID.as_str()));
            let ids = ids.iter().map(|id| id.0).chain(none).take(STEPS_AT_ONCE);
            ids.fold(query, sqlx::query::QueryAs::bind).fetch_all(db).await?
        });
        let read = |(id, metadata): (uuid::Uuid, String)| {
            let mut metadata: Value = serde_json::from_str(&metadata)
                .map_err(|_| Error::Corrupt(format!("trace {id}: metadata")))?;
            let sensitivity = metadata.get_mut("sensitivity").map(Value::take);
            Ok(sensitivity.map(|sensitivity| (TraceId(id), sensitivity)))
        };
        rows.into_iter().filter_map(|row| read(row).transpose()).collect()
    }
}
