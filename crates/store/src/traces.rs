//! Traces.

use async_recursion::async_recursion as boxed;
use domain::grade::Assessment;
use domain::ids::{KeyId, ProjectId, TraceId};
use domain::money::Usd;
use domain::time::Timestamp;
use domain::trace::{AgentWork, Purged, Trace, TraceStatus};

use sqlx::AssertSqlSafe;

use crate::Store;
use crate::db::{AnyTx, Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;

/// The most traces that the total of a list counts.
pub const COUNT_LIMIT: i64 = 10_000;

/// The most traces that one transaction fails.
const BATCH_TRACES: usize = 50;

/// The data that a completed trace adds to the agent statistics.
#[derive(Clone, Copy, Debug)]
pub struct AgentFigures {
    /// The longest chain of tool calls.
    pub chain_depth: i64,
    /// The probability that it was stuck, 0 to 1.
    pub stall_probability: f64,
    /// The fit of its tool calls to the tools, 0 to 1.
    pub tool_fidelity: f64,
    /// The time from its opening to its last step, without the pauses of a person, in microseconds.
    pub latency: i64,
}

/// The effect of [`Tx::complete_trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The trace was pending, and is completed now.
    First,
    /// It was completed before, and has new grades.
    Again,
    /// Nothing was written.
    Unwritten,
}

/// Whether a trace of `traces` may have lost steps with a partition, and not know yet what they cost.
macro_rules! may_have_lost_steps {
    () => {
        "EXISTS (SELECT 1 FROM detached_partitions d WHERE d.newest >= traces.created_at)"
    };
}

/// The columns of a [`Row`].
pub(crate) const COLUMNS: &str = "
    id, project_id, key_id, status, created_at, completed_at, metadata, revenue, assessment, total_cost,
    stall_probability, tool_fidelity, purged_cost, purged_pii, purged_injection, purged_secret";

from_row! {
    /// A row of `traces`.
    pub(crate) struct Row {
        id: uuid::Uuid,
        project_id: i64,
        key_id: Option<i64>,
        status: String,
        created_at: i64,
        completed_at: Option<i64>,
        metadata: Option<String>,
        revenue: Option<i64>,
        assessment: Option<String>,
        total_cost: Option<i64>,
        stall_probability: Option<f64>,
        tool_fidelity: Option<f64>,
        purged_cost: Option<i64>,
        purged_pii: bool,
        purged_injection: bool,
        purged_secret: bool,
    }
}

impl Row {
    pub(crate) fn read(self) -> Result<Trace> {
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
                Some(text) => {
                    let stored: Assessment =
                        serde_json::from_str(text).map_err(|_| corrupt("assessment"))?;
                    // It grows by the cost of steps that went with their partition before the trace was completed.
                    let total_cost = self.total_cost.map_or(stored.total_cost, Usd);
                    Some(Assessment { total_cost, ..stored })
                }
                None => None,
            },
            work: self.stall_probability.zip(self.tool_fidelity).map(
                |(stall_probability, tool_fidelity)| AgentWork { stall_probability, tool_fidelity },
            ),
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
        let find = format!("SELECT {COLUMNS} FROM traces WHERE id = $1 AND project_id = $2");
        let row: Option<Row> = on!(&self.reader, db => {
            sqlx::query_as(AssertSqlSafe(find)).bind(id.0).bind(project.0).fetch_optional(db).await?
        });
        row.map(Row::read).transpose()
    }

    /// The status of a trace of a project; `None` if there is no such trace.
    #[boxed]
    pub async fn trace_status(
        &self,
        project: ProjectId,
        id: TraceId,
    ) -> Result<Option<TraceStatus>> {
        const FIND: &str = "SELECT status FROM traces WHERE id = $1 AND project_id = $2";
        let status: Option<String> = on!(&self.reader, db => {
            sqlx::query_scalar(FIND).bind(id.0).bind(project.0).fetch_optional(db).await?
        });
        let read = |status: String| {
            let corrupt = || Error::Corrupt(format!("trace {id}: status"));
            TraceStatus::parse(&status).ok_or_else(corrupt)
        };
        status.map(read).transpose()
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
        const IDLE: &str = concat!(
            "SELECT id FROM traces
             WHERE project_id = $1 AND status = 'pending' AND id < $4 AND active_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.trace_id = traces.id AND s.finished_at >= $2)
               AND NOT ",
            may_have_lost_steps!(),
            " ORDER BY id LIMIT $3"
        );
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
    /// found outside of this transaction, which keeps the writer waiting and must be short. Those that may have lost
    /// steps with a partition, and do not know yet what they cost, fail later.
    async fn fail_if_idle(&self, ids: &[uuid::Uuid], since: Timestamp) -> Result<Vec<TraceId>> {
        const FAIL: &str = concat!(
            "UPDATE traces
            SET status = 'failed',
                total_cost = COALESCE(purged_cost, 0)
                    + (SELECT COALESCE(sum(cost), 0) FROM steps WHERE trace_id = $1),
                latency = COALESCE(
                    (SELECT max(finished_at) FROM steps WHERE trace_id = $1) - created_at, 0)
            WHERE id = $1 AND status = 'pending' AND active_at IS NULL
              AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.trace_id = $1 AND s.finished_at >= $2)
              AND NOT ",
            may_have_lost_steps!()
        );
        let mut failed = Vec::with_capacity(ids.len());
        let mut tx = self.begin().await?;
        for id in ids {
            tx.hold_trace(*id).await?;
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
    /// was graded stay, because it cannot be graded again. The total of one that has lost steps is summed up here: its
    /// steps may have gone since they were graded. No partition is detached meanwhile, because the statement looks into
    /// all of them, and what is gathered later is added by the number of the last one that is detached.
    #[boxed]
    pub async fn complete_trace(
        &mut self,
        id: TraceId,
        at: Timestamp,
        assessment: &Assessment,
        agent: AgentFigures,
    ) -> Result<Completion> {
        const COMPLETE: &str = concat!(
            "UPDATE traces
            SET status = 'completed', completed_at = COALESCE(completed_at, $2), assessment = $3,
                chain_depth = $4, stall_probability = $5, tool_fidelity = $6,
                total_cost = CASE
                    WHEN purged_cost IS NULL AND NOT ",
            may_have_lost_steps!(),
            "       THEN $7
                    ELSE CAST(COALESCE(purged_cost, 0)
                        + (SELECT COALESCE(sum(cost), 0) FROM steps WHERE trace_id = $1) AS BIGINT)
                END,
                total_after = (SELECT value FROM counters WHERE name = 'detached'),
                latency = $8, grade = $9, session = NULL, active_at = NULL
            WHERE id = $1 AND status = $10
              AND (assessment IS NULL OR purged_cost IS NULL AND NOT ",
            may_have_lost_steps!(),
            ")"
        );
        let text =
            serde_json::to_string(assessment).map_err(|error| Error::Corrupt(error.to_string()))?;
        self.hold_trace(id.0).await?;
        // The first to write a trace that several complete at once finds it pending.
        for (status, completion) in
            [(TraceStatus::Pending, Completion::First), (TraceStatus::Completed, Completion::Again)]
        {
            let changed = within!(self, db => {
                sqlx::query(COMPLETE)
                    .bind(id.0)
                    .bind(at.0)
                    .bind(text.as_str())
                    .bind(agent.chain_depth)
                    .bind(agent.stall_probability)
                    .bind(agent.tool_fidelity)
                    .bind(assessment.total_cost.0)
                    .bind(agent.latency)
                    .bind(assessment.grades.overall.as_str())
                    .bind(status.as_str())
                    .execute(&mut *db)
                    .await?
                    .rows_affected()
            });
            if changed > 0 {
                return Ok(completion);
            }
        }
        Ok(Completion::Unwritten)
    }

    /// Lets whoever writes to a trace finish first, and nobody else from then on. PostgreSQL reads the row anew for a
    /// statement that has waited for it, and all other rows as they were before the wait: the sum of a total would
    /// have the steps that a purge has deleted meanwhile, beside what the trace keeps of them.
    async fn hold_trace(&mut self, id: uuid::Uuid) -> Result<()> {
        const HOLD: &str = "SELECT 1 FROM traces WHERE id = $1 FOR NO KEY UPDATE";
        match &mut self.0 {
            // Nobody else writes.
            AnyTx::Sqlite(_) => {}
            AnyTx::Postgres(tx) => {
                sqlx::query(HOLD).bind(id).execute(&mut tx.connection()).await?;
            }
        }
        Ok(())
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
            UPDATE traces
            SET completed_at = COALESCE(completed_at, $2), assessment = $3, total_cost = $4, grade = $5,
                latency = COALESCE(
                    (SELECT max(finished_at) FROM steps WHERE trace_id = $1) - created_at, 0)
            WHERE id = $1 AND status = 'replay'";
        let text =
            serde_json::to_string(assessment).map_err(|error| Error::Corrupt(error.to_string()))?;
        within!(self, db => {
            sqlx::query(GRADE)
                .bind(id.0)
                .bind(at.0)
                .bind(text)
                .bind(assessment.total_cost.0)
                .bind(assessment.grades.overall.as_str())
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }
}
