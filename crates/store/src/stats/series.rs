//! Figures of a project over time, as charts show them.

use async_recursion::async_recursion as boxed;
use domain::ids::ProjectId;
use domain::money::Usd;
use domain::time::Timestamp;

use crate::Store;
use crate::db::bounded;
use crate::error::Result;
use crate::from_row::from_row;

/// The usage of a project over some minutes of its ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageBucket {
    /// Its first minute since the epoch, divided by the width of the buckets.
    pub index: i64,
    /// Requests, blocked ones included.
    pub requests: i64,
    /// Requests that safety refused.
    pub blocked: i64,
    /// Requests that failed.
    pub failures: i64,
    /// Prompt and completion tokens.
    pub tokens: i64,
    /// The cost.
    pub cost: Usd,
    /// The sum of the latencies, in microseconds.
    pub latency_sum: i64,
}

from_row! {
    struct Row {
        bucket: i64,
        requests: i64,
        blocked: i64,
        failures: i64,
        tokens: i64,
        dollars: i64,
        nanos: i64,
        latency_sum: i64,
    }
}

impl Store {
    /// Usage of a project from one minute up to but without another, in buckets of `width` minutes, which
    /// begin at multiples of it. Buckets without usage are left out.
    #[boxed]
    pub async fn usage_series(
        &self,
        project: ProjectId,
        from_minute: i64,
        to_minute: i64,
        width: i64,
    ) -> Result<Vec<UsageBucket>> {
        const SUMS: &str = "
            SELECT minute / $4 AS bucket,
                   CAST(sum(requests) AS BIGINT) AS requests,
                   CAST(sum(blocked) AS BIGINT) AS blocked,
                   CAST(sum(failures) AS BIGINT) AS failures,
                   CAST(sum(prompt_tokens + completion_tokens) AS BIGINT) AS tokens,
                   CAST(sum(cost / 1000000000) AS BIGINT) AS dollars,
                   CAST(sum(cost % 1000000000) AS BIGINT) AS nanos,
                   CAST(sum(latency_sum) AS BIGINT) AS latency_sum
            FROM usage_ledger
            WHERE project_id = $1 AND minute >= $2 AND minute < $3
            GROUP BY bucket
            ORDER BY bucket";
        let rows: Vec<Row> = bounded!(&self.reader, db => {
            sqlx::query_as(SUMS)
                .bind(project.0).bind(from_minute).bind(to_minute).bind(width.max(1))
                .fetch_all(db).await?
        });
        let read = |row: Row| UsageBucket {
            index: row.bucket,
            requests: row.requests,
            blocked: row.blocked,
            failures: row.failures,
            tokens: row.tokens,
            cost: Usd::of_parts(row.dollars, row.nanos),
            latency_sum: row.latency_sum,
        };
        Ok(rows.into_iter().map(read).collect())
    }

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
        Ok(bounded!(&self.reader, db => {
            sqlx::query_scalar(LATEST)
                .bind(project.0).bind(since.0).bind(most)
                .fetch_all(db).await?
        }))
    }
}
