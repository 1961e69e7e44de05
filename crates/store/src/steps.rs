//! Steps, read. They are written by the [group-commit writer](crate::writer).

mod details;
mod ended;
mod reviews;
pub(crate) mod row;

use async_recursion::async_recursion as boxed;
use domain::grade::LatencyBaseline;
use domain::ids::{ProjectId, StepId, TraceId};
use domain::step::{Content, Step};
use domain::time::Timestamp;

use crate::Store;
use crate::db::on;
use crate::error::{Error, Result};
use crate::seal::SealingKey;
use crate::steps::row::StepRow;

pub use details::{Outline, STEPS_AT_ONCE, SealedContent};
pub(crate) use details::{by_id, id_slots, slots};
pub use ended::{EndedStep, StepCursor};
pub use reviews::{ListedVerdict, ReviewPage};

/// The most steps of one trace that are read.
const MOST_STEPS: i64 = 10_000;

impl Store {
    /// The steps of a trace in the order they began, at most 10,000.
    #[boxed]
    pub async fn steps(&self, trace: TraceId) -> Result<Vec<Step>> {
        const ALL: &str = "
            SELECT * FROM steps WHERE trace_id = $1 ORDER BY started_at, id LIMIT $2";
        let rows: Vec<StepRow<String>> = on!(&self.reader, db => {
            sqlx::query_as(ALL).bind(trace.0).bind(MOST_STEPS).fetch_all(db).await?
        });
        rows.into_iter().map(StepRow::read).collect()
    }

    /// Whether a step belongs to a trace.
    #[boxed]
    pub async fn step_is_of(&self, step: StepId, trace: TraceId) -> Result<bool> {
        let found: Option<i64> = on!(&self.reader, db => {
            sqlx::query_scalar("SELECT id FROM steps WHERE id = $1 AND trace_id = $2")
                .bind(step.0).bind(trace.0)
                .fetch_optional(db).await?
        });
        Ok(found.is_some())
    }

    /// One step of a trace.
    #[boxed]
    pub async fn step(&self, step: StepId, trace: TraceId) -> Result<Option<Step>> {
        let row: Option<StepRow<String>> = on!(&self.reader, db => {
            sqlx::query_as("SELECT * FROM steps WHERE id = $1 AND trace_id = $2")
                .bind(step.0).bind(trace.0)
                .fetch_optional(db).await?
        });
        row.map(StepRow::read).transpose()
    }

    /// The steps of its trace that began before and after a step, next to it.
    #[boxed]
    pub async fn steps_beside(&self, step: &Step) -> Result<(Option<StepId>, Option<StepId>)> {
        const BEFORE: &str = "
            SELECT id FROM steps
            WHERE trace_id = $1 AND (started_at, id) < ($2, $3)
            ORDER BY started_at DESC, id DESC
            LIMIT 1";
        const NEXT: &str = "
            SELECT id FROM steps
            WHERE trace_id = $1 AND (started_at, id) > ($2, $3)
            ORDER BY started_at, id
            LIMIT 1";
        let (trace, began, id) = (step.trace.0, step.started_at.0, step.id.0);
        let (before, next): (Option<i64>, Option<i64>) = on!(&self.reader, db => {
            let before = sqlx::query_scalar(BEFORE).bind(trace).bind(began).bind(id);
            let before = before.fetch_optional(db).await?;
            let next = sqlx::query_scalar(NEXT).bind(trace).bind(began).bind(id);
            (before, next.fetch_optional(db).await?)
        });
        Ok((before.map(StepId), next.map(StepId)))
    }

    /// The first `most` steps of a trace of a project, in the order they began.
    #[boxed]
    pub async fn first_steps(
        &self,
        trace: TraceId,
        project: ProjectId,
        most: i64,
    ) -> Result<Vec<Step>> {
        const FIRST: &str = "
            SELECT * FROM steps
            WHERE trace_id = $1 AND project_id = $2
            ORDER BY started_at, id
            LIMIT $3";
        let rows: Vec<StepRow<String>> = on!(&self.reader, db => {
            let query = sqlx::query_as(FIRST).bind(trace.0).bind(project.0);
            query.bind(most).fetch_all(db).await?
        });
        rows.into_iter().map(StepRow::read).collect()
    }

    /// One step of a project.
    #[boxed]
    pub async fn step_of_project(&self, step: StepId, project: ProjectId) -> Result<Option<Step>> {
        let row: Option<StepRow<String>> = on!(&self.reader, db => {
            sqlx::query_as("SELECT * FROM steps WHERE id = $1 AND project_id = $2")
                .bind(step.0).bind(project.0)
                .fetch_optional(db).await?
        });
        row.map(StepRow::read).transpose()
    }

    /// The content of a step, opened; `None` if none is stored.
    #[boxed]
    pub async fn content(&self, step: StepId, key: &SealingKey) -> Result<Option<Content>> {
        let sealed: Option<Vec<u8>> = on!(&self.reader, db => {
            sqlx::query_scalar("SELECT sealed FROM step_contents WHERE step_id = $1")
                .bind(step.0)
                .fetch_optional(db).await?
        });
        sealed.map(|sealed| open(step, sealed, key)).transpose()
    }

    /// How many steps a trace has; counting ends above `most`.
    #[boxed]
    pub async fn count_steps(&self, trace: TraceId, most: i64) -> Result<i64> {
        const COUNT: &str = "
            SELECT count(*) FROM (SELECT 1 AS one FROM steps WHERE trace_id = $1 LIMIT $2) AS counted";
        Ok(on!(&self.reader, db => {
            sqlx::query_scalar(COUNT).bind(trace.0).bind(most.saturating_add(1)).fetch_one(db).await?
        }))
    }

    /// The steps of a trace whose content is not stored, at most 10,000.
    #[boxed]
    pub async fn steps_without_content(&self, trace: TraceId) -> Result<Vec<StepId>> {
        const ALL: &str = "
            SELECT s.id
            FROM steps s
            LEFT JOIN step_contents c ON c.step_id = s.id
            WHERE s.trace_id = $1 AND c.step_id IS NULL
            LIMIT $2";
        let ids: Vec<i64> = on!(&self.reader, db => {
            sqlx::query_scalar(ALL).bind(trace.0).bind(MOST_STEPS).fetch_all(db).await?
        });
        Ok(ids.into_iter().map(StepId).collect())
    }

    /// The 95th percentile of each model's run steps in a project since a time.
    #[boxed]
    pub async fn latency_baselines(
        &self,
        project: ProjectId,
        models: &[&str],
        since: Timestamp,
    ) -> Result<Vec<LatencyBaseline>> {
        const P95: &str = "
            SELECT CAST(min(latency) FILTER (WHERE share >= 0.95) AS BIGINT), count(*)
            FROM (
                SELECT latency, cume_dist() OVER (ORDER BY latency) AS share
                FROM (
                    SELECT finished_at - started_at AS latency
                    FROM steps
                    WHERE project_id = $1 AND finished_at >= $3 AND model = $2 AND status = 'completed'
                    ORDER BY finished_at DESC
                    LIMIT 2000) AS recent) AS ranked";
        let mut baselines = Vec::with_capacity(models.len());
        for model in models {
            let (p95, samples): (Option<i64>, i64) = on!(&self.reader, db => {
                sqlx::query_as(P95).bind(project.0).bind(*model).bind(since.0).fetch_one(db).await?
            });
            baselines.push(LatencyBaseline {
                model: (*model).to_owned(),
                p95_ms: domain::time::millis(p95.unwrap_or(0)),
                samples: samples.unsigned_abs(),
            });
        }
        Ok(baselines)
    }

    /// The median pause between two steps of one trace, in milliseconds, by the last steps of a project
    /// since a time; steps that overlap have none. `None` if there are too few for a median.
    #[boxed]
    pub async fn typical_gap(&self, project: ProjectId, since: Timestamp) -> Result<Option<f64>> {
        const MEDIAN: &str = "
            SELECT CAST(min(gap) FILTER (WHERE share >= 0.5) AS BIGINT), count(*)
            FROM (
                SELECT gap, cume_dist() OVER (ORDER BY gap) AS share
                FROM (
                    SELECT CASE WHEN since < 0 THEN 0 ELSE since END AS gap
                    FROM (
                        SELECT started_at - lag(finished_at) OVER (
                                   PARTITION BY trace_id ORDER BY started_at, id) AS since
                        FROM (
                            SELECT id, trace_id, started_at, finished_at
                            FROM steps
                            WHERE project_id = $1 AND finished_at >= $2
                                AND COALESCE(shadow, FALSE) = FALSE
                            ORDER BY finished_at DESC
                            LIMIT 2000) AS recent) AS followed
                    WHERE since IS NOT NULL) AS gaps) AS ranked";
        let (median, gaps): (Option<i64>, i64) = on!(&self.reader, db => {
            sqlx::query_as(MEDIAN).bind(project.0).bind(since.0).fetch_one(db).await?
        });
        Ok(median.filter(|_| gaps >= ENOUGH_GAPS).map(domain::time::millis))
    }
}

/// The least number of pauses for a median.
const ENOUGH_GAPS: i64 = 20;

fn open(step: StepId, sealed: Vec<u8>, key: &SealingKey) -> Result<Content> {
    let plain = key.open_content(&place(step), sealed)?;
    serde_json::from_slice(&plain)
        .map_err(|error| Error::Corrupt(format!("the content of step {step}: {error}")))
}

/// The location that ties a sealed content to its step.
pub(crate) fn place(step: StepId) -> String {
    format!("step:{step}")
}
