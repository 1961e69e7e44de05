//! The steps of a project by the order in which they ended, and what backtests and exports read beside
//! them. Each batch is read from where the one before it stopped: no statement runs long, and no
//! transaction is open between two of them.

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
use crate::db::bounded;
use crate::error::{Error, Result};

static SIZES_BY_ID: LazyLock<String> = LazyLock::new(|| {
    by_id("SELECT step_id, CAST(length(sealed) AS BIGINT) FROM step_contents WHERE step_id")
});
static SENSITIVITIES_BY_ID: LazyLock<String> = LazyLock::new(|| {
    // Few traces have one, and metadata may be long.
    let select = "SELECT id, metadata FROM traces WHERE metadata LIKE '%\"sensitivity\"%' AND id";
    by_id(select)
});

/// A place in the order in which the steps of a project ended. The first step behind it is the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepCursor {
    /// The end of the last step that was read.
    pub finished_at: Timestamp,
    /// The last step that was read.
    pub id: StepId,
}

impl StepCursor {
    /// Before all steps that ended at a time or later.
    pub fn at(from: Timestamp) -> Self {
        Self { finished_at: from, id: StepId(i64::MIN) }
    }

    /// Behind a step.
    pub fn after(step: &EndedStep) -> Self {
        Self { finished_at: step.finished_at, id: step.id }
    }
}

/// A step as it is read in this order. One that cannot be read has its place all the same.
#[derive(Debug)]
pub struct EndedStep {
    /// Its id.
    pub id: StepId,
    /// Its end.
    pub finished_at: Timestamp,
    /// The step, unless its row is damaged.
    pub step: Result<Step>,
}

impl EndedStep {
    fn of(row: StepRow<String>) -> Self {
        let (id, finished_at) = (StepId(row.id), Timestamp(row.finished_at));
        Self { id, finished_at, step: row.read() }
    }
}

impl Store {
    /// How many steps of a project ended from a time on and before another; counting ends above `most`.
    #[boxed]
    pub async fn count_ended_steps(
        &self,
        project: ProjectId,
        from: Timestamp,
        until: Timestamp,
        most: i64,
    ) -> Result<i64> {
        const COUNT: &str = "
            SELECT count(*)
            FROM (
                SELECT 1 AS one
                FROM steps
                WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $3
                LIMIT $4) AS counted";
        Ok(bounded!(&self.reader, db => {
            sqlx::query_scalar(COUNT)
                .bind(project.0)
                .bind(from.0)
                .bind(until.0)
                .bind(most.saturating_add(1))
                .fetch_one(db)
                .await?
        }))
    }

    /// The next steps of a project behind a cursor that ended before a time, at most [`STEPS_AT_ONCE`],
    /// in the order in which they ended.
    #[boxed]
    pub async fn next_ended_steps(
        &self,
        project: ProjectId,
        after: StepCursor,
        until: Timestamp,
    ) -> Result<Vec<EndedStep>> {
        // The first comparison bounds the range of the index; the second leaves out what was read of
        // its first moment.
        const NEXT: &str = "
            SELECT *
            FROM steps
            WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $4
              AND (finished_at > $2 OR id > $3)
            ORDER BY finished_at, id
            LIMIT $5";
        let rows: Vec<StepRow<String>> = bounded!(&self.reader, db => {
            sqlx::query_as(NEXT)
                .bind(project.0)
                .bind(after.finished_at.0)
                .bind(after.id.0)
                .bind(until.0)
                .bind(STEPS_AT_ONCE as i64)
                .fetch_all(db)
                .await?
        });
        Ok(rows.into_iter().map(EndedStep::of).collect())
    }

    /// The sizes of the sealed contents of steps, at most of [`STEPS_AT_ONCE`]. Steps without a content
    /// are left out.
    #[boxed]
    pub async fn sealed_sizes(&self, ids: &[StepId]) -> Result<HashMap<StepId, usize>> {
        let rows: Vec<(i64, i64)> = bounded!(&self.reader, db => {
            let query = sqlx::query_as(AssertSqlSafe(SIZES_BY_ID.as_str()));
            let ids = slots(ids.iter().map(|id| id.0));
            ids.fold(query, sqlx::query::QueryAs::bind).fetch_all(db).await?
        });
        let size = |(id, size)| (StepId(id), usize::try_from(size).unwrap_or(usize::MAX));
        Ok(rows.into_iter().map(size).collect())
    }

    /// The `sensitivity` in the metadata of traces, at most of [`STEPS_AT_ONCE`]. Traces without one are
    /// left out.
    #[boxed]
    pub async fn sensitivities(&self, ids: &[TraceId]) -> Result<HashMap<TraceId, Value>> {
        let none = std::iter::repeat(uuid::Uuid::nil());
        let rows: Vec<(uuid::Uuid, String)> = bounded!(&self.reader, db => {
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
