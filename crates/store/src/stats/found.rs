//! Traces, those with findings among them, and their revenue over a period: from the sums of its quarters and days,
//! and from the rows at its ends.
//!
//! A trace counts once, in however many quarters it has steps. Each quarter therefore holds the number of its
//! traces, and beside it the number of those that counted before, by the last quarter in which they did: a trace is
//! counted twice in a period exactly when that quarter is in the period too.

use std::ops::{Add, Sub};

use async_recursion::async_recursion as boxed;
use domain::ids::{ProjectId, TraceId};
use domain::money::Usd;
use domain::time::{MINUTE, Timestamp};
use sqlx::query::{QueryAs, QueryScalar};

use super::first_after;
use super::span_fill::GRACE;
use super::spans::{DAY, Quarters, quarter_of, spans};
use crate::Store;
use crate::db::bounded;
use crate::error::Result;
use crate::from_row::from_row;

from_row! {
    /// The traces of a project with findings over a period.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FindingCounts {
        /// Traces with any finding.
        pub found: i64,
        /// Traces with personal data.
        pub pii: i64,
        /// Traces with an injection.
        pub injection: i64,
        /// Traces with a secret.
        pub secret: i64,
    }
}

impl FindingCounts {
    fn combined(self, other: Self, combine: fn(i64, i64) -> i64) -> Self {
        Self {
            found: combine(self.found, other.found),
            pii: combine(self.pii, other.pii),
            injection: combine(self.injection, other.injection),
            secret: combine(self.secret, other.secret),
        }
    }
}

/// Steps with findings in a period. The condition is that of the index `steps_with_findings`, word for word.
macro_rules! found {
    ($from:literal, $to:literal) => {
        concat!(
            "SELECT trace_id, pii, injection, secret FROM steps
             WHERE project_id = $1 AND finished_at >= ",
            $from,
            " AND finished_at < ",
            $to,
            " AND (pii OR injection OR secret)"
        )
    };
}

/// The findings of deleted steps of the traces between two ids.
macro_rules! purged {
    ($from:literal, $to:literal) => {
        concat!(
            "SELECT id AS trace_id, purged_pii AS pii, purged_injection AS injection, purged_secret AS secret
             FROM traces
             WHERE project_id = $1 AND id >= ",
            $from,
            " AND id < ",
            $to,
            " AND purged_cost IS NOT NULL"
        )
    };
}

impl Store {
    /// The traces with findings in a period. Those of deleted steps that are in no sum count in the period in
    /// which the trace was opened: it keeps the findings and not their times. A period that begins over a day
    /// before the sums end counts from its quarter of an hour on: steps of its first minutes may be deleted.
    pub async fn finding_counts(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<FindingCounts> {
        let quarters = self.counted_quarters(project, from, to).await?;
        if quarters.is_empty() {
            return self.findings_of_steps(project, from, to).await;
        }
        let (whole, again, ends) = tokio::try_join!(
            self.findings_of_quarters(project, quarters),
            self.findings_again(project, quarters),
            self.findings_at_ends(project, (from, to), quarters),
        )?;
        Ok(whole.combined(again, Sub::sub).combined(ends, Add::add))
    }

    /// The traces that were opened or had steps in a period, which begins as in [`Self::finding_counts`].
    pub(super) async fn traces_seen(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<i64> {
        let quarters = self.counted_quarters(project, from, to).await?;
        if quarters.is_empty() {
            return self.traces_of_steps(project, from, to).await;
        }
        let (summed, ends) = tokio::try_join!(
            self.traces_of_quarters(project, quarters),
            self.traces_at_ends(project, (from, to), quarters),
        )?;
        Ok(summed + ends)
    }

    /// Revenue of the traces that were opened in a period.
    #[boxed]
    pub async fn revenue(&self, project: ProjectId, from: Timestamp, to: Timestamp) -> Result<Usd> {
        const SUM: &str = concat!(
            "SELECT CAST(COALESCE(sum(revenue / 1000000000), 0) AS BIGINT),
                    CAST(COALESCE(sum(revenue % 1000000000), 0) AS BIGINT)
             FROM (",
            spans!("revenue"),
            " UNION ALL
             SELECT revenue FROM traces
             WHERE project_id = $1 AND id >= $6 AND id < $7 AND revenue IS NOT NULL
             UNION ALL
             SELECT revenue FROM traces
             WHERE project_id = $1 AND id >= $8 AND id < $9 AND revenue IS NOT NULL) AS earned"
        );
        let quarters = Quarters::between(from, to, self.spanned_until(project).await?);
        // Without one they reach to the end of the minute that the period begins in, which may be after it.
        let (first, last) = if quarters.is_empty() { (to, to) } else { quarters.reach() };
        let (dollars, nanos): (i64, i64) = bounded!(&self.reports, db => {
            let query = sqlx::query_as(SUM).bind(project.0);
            let query = quarters.0.into_iter().fold(query, QueryAs::bind);
            let ids = [from, first, last, to].map(|at| TraceId::first_at(at).0);
            ids.into_iter().fold(query, QueryAs::bind).fetch_one(db).await?
        });
        Ok(Usd::of_parts(dollars, nanos))
    }

    /// The quarters of a period that have sums, with the one in which it begins where its steps may be deleted.
    async fn counted_quarters(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Quarters> {
        let until = self.spanned_until(project).await?;
        let is_old = until.is_some_and(|until| from.minute() < until - DAY);
        let from = if is_old { Timestamp(quarter_of(from.minute()) * MINUTE) } else { from };
        Ok(Quarters::between(from, to, until))
    }

    /// The traces that were opened or had steps in a period, from its steps.
    #[boxed]
    pub(super) async fn traces_of_steps(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<i64> {
        const COUNT: &str = "
            SELECT (SELECT count(*) FROM traces WHERE project_id = $1 AND id >= $4 AND id < $5)
                 + (SELECT count(DISTINCT trace_id)
                    FROM steps
                    WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $3 AND trace_id < $4)";
        Ok(bounded!(&self.reports, db => {
            sqlx::query_scalar(COUNT)
                .bind(project.0)
                .bind(from.0)
                .bind(to.0)
                .bind(TraceId::first_at(from).0)
                .bind(first_after(to).0)
                .fetch_one(db).await?
        }))
    }

    /// The traces of quarters.
    #[boxed]
    async fn traces_of_quarters(&self, project: ProjectId, quarters: Quarters) -> Result<i64> {
        const COUNT: &str = concat!(
            "SELECT CAST(COALESCE((SELECT sum(traces) FROM (",
            spans!("traces"),
            ") AS spans), 0) - COALESCE((
                SELECT sum(traces) FROM traces_again
                WHERE project_id = $1 AND start >= $2 AND start < $5 AND before >= $2), 0) AS BIGINT)"
        );
        Ok(bounded!(&self.reports, db => {
            let query = sqlx::query_scalar(COUNT).bind(project.0);
            quarters.0.into_iter().fold(query, QueryScalar::bind).fetch_one(db).await?
        }))
    }

    /// The traces before and after the quarters of a period that are in none of them.
    #[boxed]
    async fn traces_at_ends(
        &self,
        project: ProjectId,
        (from, to): (Timestamp, Timestamp),
        quarters: Quarters,
    ) -> Result<i64> {
        const COUNT: &str = "
            SELECT count(*) FROM (
                SELECT id AS trace_id FROM traces WHERE project_id = $1 AND id >= $6 AND id < $7
                UNION
                SELECT id FROM traces WHERE project_id = $1 AND id >= $8 AND id < $9
                UNION
                SELECT trace_id FROM steps WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $3
                UNION
                SELECT trace_id FROM steps WHERE project_id = $1 AND finished_at >= $4 AND finished_at < $5
             ) AS ended
             WHERE NOT (ended.trace_id >= $7 AND ended.trace_id < $8) AND NOT EXISTS (
                SELECT 1 FROM steps
                WHERE steps.trace_id = ended.trace_id AND steps.finished_at >= $3 AND steps.finished_at < $4)";
        let (first, last) = quarters.reach();
        let [from_id, first_id, last_id] = [from, first, last].map(TraceId::first_at);
        let ids = [from_id, first_id, last_id, first_after(to)].map(|id| id.0);
        let ends = [from, first, last, to].map(|end| end.0);
        Ok(bounded!(&self.reports, db => {
            let query = sqlx::query_scalar(COUNT).bind(project.0);
            let query = ends.into_iter().fold(query, QueryScalar::bind);
            ids.into_iter().fold(query, QueryScalar::bind).fetch_one(db).await?
        }))
    }

    /// The traces with findings in a period, from its steps.
    #[boxed]
    pub(super) async fn findings_of_steps(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<FindingCounts> {
        const COUNTS: &str = concat!(
            "SELECT count(DISTINCT CASE WHEN pii OR injection OR secret THEN trace_id END) AS found,
                    count(DISTINCT CASE WHEN pii THEN trace_id END) AS pii,
                    count(DISTINCT CASE WHEN injection THEN trace_id END) AS injection,
                    count(DISTINCT CASE WHEN secret THEN trace_id END) AS secret
             FROM (",
            found!("$2", "$3"),
            " UNION ALL ",
            purged!("$4", "$5"),
            ") AS found"
        );
        Ok(bounded!(&self.reports, db => {
            sqlx::query_as(COUNTS)
                .bind(project.0)
                .bind(from.0)
                .bind(to.0)
                .bind(TraceId::first_at(from).0)
                .bind(first_after(to).0)
                .fetch_one(db).await?
        }))
    }

    /// The traces with findings of each quarter, added: one with findings in several counts in each.
    #[boxed]
    async fn findings_of_quarters(
        &self,
        project: ProjectId,
        quarters: Quarters,
    ) -> Result<FindingCounts> {
        const SUMS: &str = concat!(
            "SELECT CAST(COALESCE(sum(found), 0) AS BIGINT) AS found,
                    CAST(COALESCE(sum(pii), 0) AS BIGINT) AS pii,
                    CAST(COALESCE(sum(injection), 0) AS BIGINT) AS injection,
                    CAST(COALESCE(sum(secret), 0) AS BIGINT) AS secret
             FROM (",
            spans!("found, pii, injection, secret"),
            ") AS spans"
        );
        Ok(bounded!(&self.reports, db => {
            let query = sqlx::query_as(SUMS).bind(project.0);
            quarters.0.into_iter().fold(query, QueryAs::bind).fetch_one(db).await?
        }))
    }

    /// How often a trace that counts in one of the quarters counts in an earlier one too.
    #[boxed]
    async fn findings_again(
        &self,
        project: ProjectId,
        quarters: Quarters,
    ) -> Result<FindingCounts> {
        const SUMS: &str = "
            SELECT CAST(COALESCE(sum(found), 0) AS BIGINT) AS found,
                   CAST(COALESCE(sum(pii), 0) AS BIGINT) AS pii,
                   CAST(COALESCE(sum(injection), 0) AS BIGINT) AS injection,
                   CAST(COALESCE(sum(secret), 0) AS BIGINT) AS secret
            FROM traces_again
            WHERE project_id = $1 AND start >= $2 AND start < $3 AND before >= $2";
        let Quarters([first, .., last]) = quarters;
        Ok(bounded!(&self.reports, db => {
            sqlx::query_as(SUMS).bind(project.0).bind(first).bind(last).fetch_one(db).await?
        }))
    }

    /// The traces with findings before and after the quarters of a period that have none in them. Those of deleted
    /// steps before them have no time, and may be in the quarters: they do not count again.
    #[boxed]
    async fn findings_at_ends(
        &self,
        project: ProjectId,
        (from, to): (Timestamp, Timestamp),
        quarters: Quarters,
    ) -> Result<FindingCounts> {
        // Each trace is looked up in the quarters once, and not if it was opened when their sums were due: with
        // partitions by day, a lookup goes into each of them.
        const COUNTS: &str = concat!(
            "WITH ended AS MATERIALIZED (
                SELECT trace_id, pii, injection, secret,
                       CASE WHEN trace_id < $8 THEN COALESCE((
                           SELECT max(CASE WHEN steps.pii THEN 1 ELSE 0 END)
                                + max(CASE WHEN steps.injection THEN 2 ELSE 0 END)
                                + max(CASE WHEN steps.secret THEN 4 ELSE 0 END)
                           FROM steps
                           WHERE steps.trace_id = found.trace_id
                               AND steps.finished_at >= $3 AND steps.finished_at < $4
                               AND (steps.pii OR steps.injection OR steps.secret)), 0) ELSE 0 END AS before
                FROM (
                    SELECT trace_id,
                           max(CASE WHEN pii THEN 1 ELSE 0 END) AS pii,
                           max(CASE WHEN injection THEN 1 ELSE 0 END) AS injection,
                           max(CASE WHEN secret THEN 1 ELSE 0 END) AS secret
                    FROM (",
            found!("$2", "$3"),
            " UNION ALL ",
            found!("$4", "$5"),
            " UNION ALL ",
            purged!("$6", "$7"),
            ") AS each_found
                    WHERE pii OR injection OR secret
                    GROUP BY trace_id) AS found)
             SELECT count(CASE WHEN before = 0 THEN 1 END) AS found,
                    count(CASE WHEN pii = 1 AND before % 2 = 0 THEN 1 END) AS pii,
                    count(CASE WHEN injection = 1 AND before / 2 % 2 = 0 THEN 1 END) AS injection,
                    count(CASE WHEN secret = 1 AND before / 4 = 0 THEN 1 END) AS secret
             FROM ended"
        );
        let (first, last) = quarters.reach();
        let ends = [from, first, last, to].map(|end| end.0);
        let opened_after = TraceId::first_at(last.minus_micros(-GRACE * MINUTE));
        let ids = [TraceId::first_at(last), first_after(to), opened_after].map(|id| id.0);
        Ok(bounded!(PlannedRead, &self.reports, db => {
            let query = sqlx::query_as(COUNTS).bind(project.0);
            let query = ends.into_iter().fold(query, QueryAs::bind);
            ids.into_iter().fold(query, QueryAs::bind).fetch_one(db).await?
        }))
    }
}
