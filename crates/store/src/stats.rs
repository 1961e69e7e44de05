//! Statistics: sums from the ledger, agent figures from the steps' columns.

mod again;
mod complexities;
mod found;
mod span_fill;
mod spans;

use async_recursion::async_recursion as boxed;
use domain::ids::{ProjectId, TraceId};
use domain::money::Usd;
use domain::time::Timestamp;

use crate::Store;
use crate::db::bounded;
use crate::error::Result;
use crate::from_row::from_row;
pub use found::FindingCounts;
pub use spans::UsageBucket;

/// Usage of one model on one infrastructure over a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerRow {
    /// The model's identifier; empty for requests that reached none.
    pub model: String,
    /// The infrastructure label; empty for requests that reached none.
    pub infrastructure: String,
    /// Requests, blocked ones included.
    pub requests: i64,
    /// The cost of the calls.
    pub cost: Usd,
    /// The sum of their latencies in microseconds.
    pub latency_sum: i64,
}

/// The activity in a project's traces over a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecurityCounts {
    /// Traces with steps in the period, or opened in it if their steps are gone.
    pub traces: i64,
    /// Traces among them with personal data.
    pub pii: i64,
    /// Traces among them with an injection.
    pub injection: i64,
    /// Traces among them with a secret.
    pub secret: i64,
}

from_row! {
    /// Agent figures of a project's completed traces over a period.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct AgentCounts {
        /// The mean fidelity of tool calls, 0 to 1; `None` without completed traces.
        pub fidelity: Option<f64>,
        /// The mean chain depth.
        pub depth_avg: Option<f64>,
        /// The deepest chain.
        pub depth_max: Option<i64>,
        /// Traces whose chain was deeper than the threshold.
        pub deep: i64,
        /// The mean stall probability.
        pub stall_avg: Option<f64>,
        /// Traces above 0.7.
        pub alerts: i64,
        /// Traces from 0.4 to 0.7.
        pub monitored: i64,
    }
}

from_row! {
    /// How long a project waited for tools over a period.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct ToolTimes {
        /// The number of tool calls by models.
        pub calls: i64,
        /// The number of rounds of tools that were waited for: run here, or answered by a follow-up.
        pub rounds: i64,
        /// The mean time of a round, in microseconds.
        pub mean: Option<f64>,
        /// Its 95th percentile, in microseconds.
        pub p95: Option<i64>,
    }
}

impl Store {
    /// Usage of a project per model and infrastructure, from one minute up to but without another.
    #[boxed]
    pub async fn usage(
        &self,
        project: ProjectId,
        from_minute: i64,
        to_minute: i64,
    ) -> Result<Vec<LedgerRow>> {
        const SUMS: &str = "
            SELECT model, infrastructure, CAST(sum(requests) AS BIGINT),
                   CAST(sum(cost / 1000000000) AS BIGINT), CAST(sum(cost % 1000000000) AS BIGINT),
                   CAST(sum(latency_sum) AS BIGINT)
            FROM usage_ledger
            WHERE project_id = $1 AND minute >= $2 AND minute < $3
            GROUP BY model, infrastructure";
        let rows: Vec<(String, String, i64, i64, i64, i64)> = bounded!(&self.reports, db => {
            sqlx::query_as(SUMS)
                .bind(project.0).bind(from_minute).bind(to_minute)
                .fetch_all(db).await?
        });
        let read = |(model, infrastructure, requests, dollars, nanos, latency_sum)| LedgerRow {
            model,
            infrastructure,
            requests,
            cost: Usd::of_parts(dollars, nanos),
            latency_sum,
        };
        let mut rows: Vec<LedgerRow> = rows.into_iter().map(read).collect();
        rows.sort_by(|a, b| {
            (b.cost, &a.model, &a.infrastructure).cmp(&(a.cost, &b.model, &b.infrastructure))
        });
        Ok(rows)
    }

    /// The traces that were opened or had steps in a period, and the findings in them.
    pub async fn security_counts(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<SecurityCounts> {
        let traces = self.traces_seen(project, from, to).await?;
        let FindingCounts { pii, injection, secret, .. } =
            self.finding_counts(project, from, to).await?;
        Ok(SecurityCounts { traces, pii, injection, secret })
    }

    /// The mean similarity of the answers of shadow calls that ended in a period to those beside them, of the
    /// latest ones, at most `most`; `None` without any.
    #[boxed]
    pub async fn shadow_score(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
        most: i64,
    ) -> Result<Option<f64>> {
        const MEAN: &str = "
            SELECT CAST(avg(similarity) AS DOUBLE PRECISION)
            FROM (
                SELECT similarity
                FROM steps
                WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $3
                    AND similarity IS NOT NULL
                ORDER BY finished_at DESC
                LIMIT $4) AS latest";
        Ok(bounded!(&self.reports, db => {
            sqlx::query_scalar(MEAN)
                .bind(project.0)
                .bind(from.0)
                .bind(to.0)
                .bind(most)
                .fetch_one(db)
                .await?
        }))
    }

    /// Agent figures of the traces that were opened in a period and are completed.
    #[boxed]
    pub async fn agent_counts(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
        deep: i64,
    ) -> Result<AgentCounts> {
        const COUNTS: &str = "
            SELECT CAST(avg(tool_fidelity) AS DOUBLE PRECISION) AS fidelity,
                   CAST(avg(chain_depth) AS DOUBLE PRECISION) AS depth_avg,
                   max(chain_depth) AS depth_max,
                   count(*) FILTER (WHERE chain_depth > $4) AS deep,
                   CAST(avg(stall_probability) AS DOUBLE PRECISION) AS stall_avg,
                   count(*) FILTER (WHERE stall_probability > 0.7) AS alerts,
                   count(*) FILTER (WHERE stall_probability BETWEEN 0.4 AND 0.7) AS monitored
            FROM traces
            WHERE project_id = $1 AND id >= $2 AND id < $3 AND stall_probability IS NOT NULL";
        Ok(bounded!(&self.reports, db => {
            sqlx::query_as(COUNTS)
                .bind(project.0)
                .bind(TraceId::first_at(from).0)
                .bind(TraceId::first_at(to).0)
                .bind(deep)
                .fetch_one(db).await?
        }))
    }

    /// The times of tools whose steps ended in a period: their own if the gateway ran them, else the
    /// wait for the follow-up that carried their results.
    #[boxed]
    pub async fn tool_times(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<ToolTimes> {
        const TIMES: &str = "
            WITH waits AS (
                SELECT CASE
                    WHEN t.finished_at > t.started_at THEN t.finished_at - t.started_at
                    ELSE (
                        SELECT min(c.started_at)
                        FROM steps c
                        WHERE c.trace_id = t.trace_id AND c.parent_step_id = t.id) - t.finished_at
                    END AS took
                FROM steps t
                WHERE t.project_id = $1 AND t.finished_at >= $2 AND t.finished_at < $3
                    AND t.kind = 'tool_call'),
            ranked AS (
                SELECT took, cume_dist() OVER (ORDER BY took) AS share
                FROM waits
                WHERE took IS NOT NULL)
            SELECT (SELECT CAST(COALESCE(sum(tool_calls), 0) AS BIGINT)
                    FROM steps
                    WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $3
                        AND COALESCE(shadow, FALSE) = FALSE) AS calls,
                   count(*) AS rounds,
                   CAST(avg(took) AS DOUBLE PRECISION) AS mean,
                   CAST(min(took) FILTER (WHERE share >= 0.95) AS BIGINT) AS p95
            FROM ranked";
        Ok(bounded!(&self.reports, db => {
            sqlx::query_as(TIMES).bind(project.0).bind(from.0).bind(to.0).fetch_one(db).await?
        }))
    }
}

/// Ids have a resolution of milliseconds: the one in which a period ends is within it, as its steps are.
fn first_after(to: Timestamp) -> TraceId {
    TraceId::first_at(to.minus_micros(-999))
}
