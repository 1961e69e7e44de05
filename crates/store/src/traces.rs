//! Traces.

use async_recursion::async_recursion as boxed;
use domain::grade::Assessment;
use domain::ids::{KeyId, ProjectId, TraceId};
use domain::money::Usd;
use domain::time::Timestamp;
use domain::trace::{Purged, Trace, TraceStatus};

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;

/// The most traces that the total of a list counts.
pub const COUNT_LIMIT: i64 = 10_000;

/// The most traces that one transaction fails.
const BATCH_TRACES: usize = 50;

/// The page of a project's traces, newest first.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Only traces of this status.
    pub status: Option<TraceStatus>,
    /// Only traces older than this one.
    pub before: Option<TraceId>,
    /// The number of traces to skip.
    pub offset: i64,
    /// The number of traces to return.
    pub limit: i64,
}

/// The data that a completed trace adds to the agent statistics.
#[derive(Clone, Copy, Debug)]
pub struct AgentFigures {
    /// The longest chain of tool calls.
    pub chain_depth: i64,
    /// The probability that it was stuck, 0 to 1.
    pub stall_probability: f64,
    /// The fit of its tool calls to the tools, 0 to 1.
    pub tool_fidelity: f64,
}

from_row! {
    struct Row {
        id: uuid::Uuid,
        project_id: i64,
        key_id: Option<i64>,
        status: String,
        created_at: i64,
        completed_at: Option<i64>,
        metadata: Option<String>,
        revenue: Option<i64>,
        assessment: Option<String>,
        purged_cost: Option<i64>,
        purged_pii: bool,
        purged_injection: bool,
        purged_secret: bool,
    }
}

impl Row {
    fn read(self) -> Result<Trace> {
        let corrupt = |what: &str| Error::Corrupt(format!("trace {}: {what}", self.id));
        Ok(Trace {
            id: TraceId(self.id),
            project: ProjectId(self.project_id),
            key: self.key_id.map(KeyId::from_i64),
            status: TraceStatus::parse(&self.status).ok_or_else(|| corrupt("status"))?,
            created_at: Timestamp(self.created_at),
            completed_at: self.completed_at.map(Timestamp),
            metadata: match &self.metadata {
                Some(text) => Some(serde_json::from_str(text).map_err(|_| corrupt("metadata"))?),
                None => None,
            },
            revenue: self.revenue.map(Usd),
            assessment: match &self.assessment {
                Some(text) => Some(serde_json::from_str(text).map_err(|_| corrupt("assessment"))?),
                None => None,
            },
            purged: self.purged_cost.map(|cost| Purged {
                cost: Usd(cost),
                pii: self.purged_pii,
                injection: self.purged_injection,
                secret: self.purged_secret,
            }),
        })
    }
}

impl Store {
    /// One trace of a project.
    #[boxed]
    pub async fn trace(&self, project: ProjectId, id: TraceId) -> Result<Option<Trace>> {
        const FIND: &str = "
            SELECT id, project_id, key_id, status, created_at, completed_at, metadata, revenue, assessment,
                   purged_cost, purged_pii, purged_injection, purged_secret
            FROM traces
            WHERE id = $1 AND project_id = $2";
        let row: Option<Row> = on!(&self.reader, db => {
            sqlx::query_as(FIND).bind(id.0).bind(project.0).fetch_optional(db).await?
        });
        row.map(Row::read).transpose()
    }

    /// A page of a project's traces, newest first.
    ///
    /// The page is found in an index that holds all it needs, so that a deep page costs the scan
    /// of that index and no more.
    #[boxed]
    pub async fn traces(&self, project: ProjectId, page: Page) -> Result<Vec<Trace>> {
        const ALL: &str = "
            SELECT id, project_id, key_id, status, created_at, completed_at, metadata, revenue, assessment,
                   purged_cost, purged_pii, purged_injection, purged_secret
            FROM traces
            WHERE id IN (
                SELECT id FROM traces
                WHERE project_id = $1 AND id < $2
                ORDER BY id DESC LIMIT $3 OFFSET $4)
            ORDER BY id DESC";
        const OF_STATUS: &str = "
            SELECT id, project_id, key_id, status, created_at, completed_at, metadata, revenue, assessment,
                   purged_cost, purged_pii, purged_injection, purged_secret
            FROM traces
            WHERE id IN (
                SELECT id FROM traces
                WHERE project_id = $1 AND id < $2 AND status = $5
                ORDER BY id DESC LIMIT $3 OFFSET $4)
            ORDER BY id DESC";
        let before = page.before.map_or(uuid::Uuid::max(), |id| id.0);
        let rows: Vec<Row> = on!(&self.reader, db => match page.status {
            None => sqlx::query_as(ALL)
                .bind(project.0).bind(before).bind(page.limit).bind(page.offset)
                .fetch_all(db).await?,
            Some(status) => sqlx::query_as(OF_STATUS)
                .bind(project.0).bind(before).bind(page.limit).bind(page.offset).bind(status.as_str())
                .fetch_all(db).await?,
        });
        rows.into_iter().map(Row::read).collect()
    }

    /// How many traces a project has, of one status or of all; `None` above [`COUNT_LIMIT`].
    #[boxed]
    pub async fn count_traces(
        &self,
        project: ProjectId,
        status: Option<TraceStatus>,
    ) -> Result<Option<i64>> {
        const ALL: &str = "
            SELECT count(*) FROM (SELECT 1 AS one FROM traces WHERE project_id = $1 LIMIT $2) AS counted";
        const OF_STATUS: &str = "
            SELECT count(*)
            FROM (SELECT 1 AS one FROM traces WHERE project_id = $1 AND status = $3 LIMIT $2) AS counted";
        let most = COUNT_LIMIT + 1;
        let count: i64 = on!(&self.reader, db => match status {
            None => sqlx::query_scalar(ALL).bind(project.0).bind(most).fetch_one(db).await?,
            Some(status) => sqlx::query_scalar(OF_STATUS)
                .bind(project.0).bind(most).bind(status.as_str())
                .fetch_one(db).await?,
        });
        Ok((count <= COUNT_LIMIT).then_some(count))
    }

    /// Marks pending traces failed that were opened before `opened` and whose last step, if any,
    /// ended before it too. Those of sessions never fail: they are completed. At most `most` at a time; returns those that failed.
    #[boxed]
    pub async fn fail_idle_traces(
        &self,
        project: ProjectId,
        opened: Timestamp,
        most: i64,
    ) -> Result<Vec<TraceId>> {
        const IDLE: &str = "
            SELECT t.id FROM traces t
            WHERE t.project_id = $1 AND t.status = 'pending' AND t.id < $4 AND t.active_at IS NULL
              AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.trace_id = t.id AND s.finished_at >= $2)
            ORDER BY t.id LIMIT $3";
        let ids: Vec<uuid::Uuid> = on!(&self.reader, db => {
            sqlx::query_scalar(IDLE)
                .bind(project.0)
                .bind(opened.0)
                .bind(most)
                // Ids begin with the time: the index alone shows which were opened before.
                .bind(TraceId::first_at(opened).0)
                .fetch_all(db)
                .await?
        });
        let mut failed = Vec::with_capacity(ids.len());
        for some in ids.chunks(BATCH_TRACES) {
            failed.extend(self.fail_if_idle(some, opened).await?);
        }
        Ok(failed)
    }

    /// Marks those failed that are still pending and have still no step after `since`: they were
    /// found outside of this transaction, which keeps the writer waiting and must be short.
    async fn fail_if_idle(&self, ids: &[uuid::Uuid], since: Timestamp) -> Result<Vec<TraceId>> {
        const FAIL: &str = "
            UPDATE traces SET status = 'failed'
            WHERE id = $1 AND status = 'pending' AND active_at IS NULL
              AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.trace_id = $1 AND s.finished_at >= $2)";
        let mut failed = Vec::with_capacity(ids.len());
        let mut tx = self.begin().await?;
        for id in ids {
            let changed = within!(tx, db => {
                sqlx::query(FAIL).bind(id).bind(since.0).execute(&mut *db).await?.rows_affected()
            });
            if changed > 0 {
                failed.push(TraceId(*id));
            }
        }
        tx.commit().await?;
        Ok(failed)
    }
}

impl Tx {
    /// Writes the end of a trace, or its new grades; those of a trace that has lost steps since it
    /// was graded stay, because it cannot be graded again. Returns whether anything was written.
    #[boxed]
    pub async fn complete_trace(
        &mut self,
        id: TraceId,
        at: Timestamp,
        assessment: &Assessment,
        agent: AgentFigures,
    ) -> Result<bool> {
        const COMPLETE: &str = "
            UPDATE traces
            SET status = 'completed', completed_at = COALESCE(completed_at, $2), assessment = $3,
                chain_depth = $4, stall_probability = $5, tool_fidelity = $6,
                session = NULL, active_at = NULL
            WHERE id = $1 AND status IN ('pending', 'completed')
              AND (assessment IS NULL OR purged_cost IS NULL)";
        let text =
            serde_json::to_string(assessment).map_err(|error| Error::Corrupt(error.to_string()))?;
        let changed = within!(self, db => {
            sqlx::query(COMPLETE)
                .bind(id.0)
                .bind(at.0)
                .bind(text)
                .bind(agent.chain_depth)
                .bind(agent.stall_probability)
                .bind(agent.tool_fidelity)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        Ok(changed > 0)
    }

    /// Writes the end and the grades of the trace of a replay. It adds nothing to the agent statistics:
    /// it repeats an agent's work and is none.
    #[boxed]
    pub async fn grade_replay(
        &mut self,
        id: TraceId,
        at: Timestamp,
        assessment: &Assessment,
    ) -> Result<()> {
        const GRADE: &str = "
            UPDATE traces SET completed_at = COALESCE(completed_at, $2), assessment = $3
            WHERE id = $1 AND status = 'replay'";
        let text =
            serde_json::to_string(assessment).map_err(|error| Error::Corrupt(error.to_string()))?;
        within!(self, db => {
            sqlx::query(GRADE).bind(id.0).bind(at.0).bind(text).execute(&mut *db).await?;
        });
        Ok(())
    }
}
