//! Traces with findings, and the revenue of traces, over a period: from the sums of its quarters and days, and from
//! the rows at its ends.
//!
//! A trace counts once, in however many quarters it has findings. Each quarter therefore holds the number of its
//! traces with findings, and beside it the number of those that had the same finding before, by the last quarter
//! in which they had: a trace is counted twice in a period exactly when that quarter is in the period too.

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use domain::ids::{ProjectId, TraceId};
use domain::money::Usd;
use domain::time::{MINUTE, Timestamp};

use super::first_after;
use super::spans::{QUARTER, Quarters, spans};
use crate::Store;
use crate::db::{bounded, on};
use crate::error::Result;
use crate::from_row::from_row;

from_row! {
    /// The traces of a project with findings over a period.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct FindingCounts {
        /// Traces with personal data.
        pub pii: i64,
        /// Traces with an injection.
        pub injection: i64,
        /// Traces with a secret.
        pub secret: i64,
    }
}

impl FindingCounts {
    fn plus(self, more: Self) -> Self {
        Self {
            pii: self.pii + more.pii,
            injection: self.injection + more.injection,
            secret: self.secret + more.secret,
        }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            pii: self.pii - less.pii,
            injection: self.injection - less.injection,
            secret: self.secret - less.secret,
        }
    }
}

/// Traces with findings in a period, $2 to $3, or opened in it and deleted in part, $4 to $5. The condition of
/// the steps is that of the index `steps_with_findings`, word for word.
macro_rules! found {
    ($from:literal, $to:literal, $first_id:literal, $last_id:literal) => {
        concat!(
            "SELECT trace_id, pii, injection, secret
             FROM steps
             WHERE project_id = $1 AND finished_at >= ",
            $from,
            " AND finished_at < ",
            $to,
            "
                 AND (pii OR injection OR secret)
             UNION ALL
             SELECT id, purged_pii, purged_injection, purged_secret
             FROM traces
             WHERE project_id = $1 AND id >= ",
            $first_id,
            " AND id < ",
            $last_id,
            "
                 AND purged_cost IS NOT NULL"
        )
    };
}

/// The steps of a trace in the quarters between, $3 to $4, that have a finding.
macro_rules! between {
    ($finding:literal) => {
        concat!(
            "SELECT 1 FROM steps
             WHERE steps.trace_id = traces.trace_id AND steps.",
            $finding,
            "
                 AND steps.finished_at >= $3 AND steps.finished_at < $4"
        )
    };
}

/// The last moment before $2 at which a trace had a finding that it has in the quarter too.
macro_rules! before {
    ($finding:literal) => {
        concat!(
            "SELECT max(steps.finished_at) FROM steps
             WHERE traces.",
            $finding,
            " = 1 AND steps.trace_id = traces.trace_id
                 AND steps.",
            $finding,
            " AND steps.finished_at < $2"
        )
    };
}

from_row! {
    /// The moments at which a trace last had each finding before.
    struct FoundBefore {
        pii: Option<i64>,
        injection: Option<i64>,
        secret: Option<i64>,
    }
}

impl Store {
    /// The traces with findings in a period. Those of deleted steps that are in no sum count in the period in
    /// which the trace was opened: it keeps the findings and not their times.
    pub async fn finding_counts(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<FindingCounts> {
        let quarters = self.whole_quarters(project, from, to).await?;
        if quarters.is_empty() {
            return self.findings_of_steps(project, from, to).await;
        }
        let (whole, again, ends) = tokio::try_join!(
            self.findings_of_quarters(project, quarters),
            self.findings_again(project, quarters),
            self.findings_at_ends(project, (from, to), quarters),
        )?;
        Ok(whole.minus(again).plus(ends))
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
        let quarters = self.whole_quarters(project, from, to).await?;
        let (first, last) = quarters.reach();
        let (dollars, nanos): (i64, i64) = bounded!(&self.reader, db => {
            let mut query = sqlx::query_as(SUM).bind(project.0);
            for end in quarters.0 {
                query = query.bind(end);
            }
            for at in [from, first, last, to] {
                query = query.bind(TraceId::first_at(at).0);
            }
            query.fetch_one(db).await?
        });
        Ok(Usd::of_parts(dollars, nanos))
    }

    /// The quarters that are wholly between two moments and have sums.
    async fn whole_quarters(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Quarters> {
        let first = from.minus_micros(1).minute() + 1;
        self.quarters(project, first, to.minute().max(first)).await
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
            "SELECT count(DISTINCT CASE WHEN pii THEN trace_id END) AS pii,
                    count(DISTINCT CASE WHEN injection THEN trace_id END) AS injection,
                    count(DISTINCT CASE WHEN secret THEN trace_id END) AS secret
             FROM (",
            found!("$2", "$3", "$4", "$5"),
            ") AS found"
        );
        Ok(bounded!(&self.reader, db => {
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
            "SELECT CAST(COALESCE(sum(pii), 0) AS BIGINT) AS pii,
                    CAST(COALESCE(sum(injection), 0) AS BIGINT) AS injection,
                    CAST(COALESCE(sum(secret), 0) AS BIGINT) AS secret
             FROM (",
            spans!("pii, injection, secret"),
            ") AS spans"
        );
        Ok(bounded!(&self.reader, db => {
            let mut query = sqlx::query_as(SUMS).bind(project.0);
            for end in quarters.0 {
                query = query.bind(end);
            }
            query.fetch_one(db).await?
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
            SELECT CAST(COALESCE(sum(pii), 0) AS BIGINT) AS pii,
                   CAST(COALESCE(sum(injection), 0) AS BIGINT) AS injection,
                   CAST(COALESCE(sum(secret), 0) AS BIGINT) AS secret
            FROM findings_again
            WHERE project_id = $1 AND start >= $2 AND start < $3 AND before >= $2";
        let Quarters([first, .., last]) = quarters;
        Ok(bounded!(&self.reader, db => {
            sqlx::query_as(SUMS).bind(project.0).bind(first).bind(last).fetch_one(db).await?
        }))
    }

    /// The traces with findings before and after the quarters of a period that have none in them.
    #[boxed]
    async fn findings_at_ends(
        &self,
        project: ProjectId,
        (from, to): (Timestamp, Timestamp),
        quarters: Quarters,
    ) -> Result<FindingCounts> {
        const COUNTS: &str = concat!(
            "SELECT count(CASE WHEN pii = 1 AND NOT EXISTS (",
            between!("pii"),
            ") THEN 1 END) AS pii,
                    count(CASE WHEN injection = 1 AND NOT EXISTS (",
            between!("injection"),
            ") THEN 1 END) AS injection,
                    count(CASE WHEN secret = 1 AND NOT EXISTS (",
            between!("secret"),
            ") THEN 1 END) AS secret
             FROM (
                SELECT trace_id,
                       max(CASE WHEN pii THEN 1 ELSE 0 END) AS pii,
                       max(CASE WHEN injection THEN 1 ELSE 0 END) AS injection,
                       max(CASE WHEN secret THEN 1 ELSE 0 END) AS secret
                FROM (",
            found!("$2", "$3", "$6", "$7"),
            " UNION ALL ",
            found!("$4", "$5", "$8", "$9"),
            ") AS found GROUP BY trace_id) AS traces"
        );
        let (first, last) = quarters.reach();
        let ids = [from, first, last].map(TraceId::first_at);
        Ok(bounded!(&self.reader, db => {
            let mut query = sqlx::query_as(COUNTS).bind(project.0);
            for end in [from, first, last, to] {
                query = query.bind(end.0);
            }
            for id in ids.into_iter().chain([first_after(to)]) {
                query = query.bind(id.0);
            }
            query.fetch_one(db).await?
        }))
    }

    /// Of the traces with findings in a quarter, those that had the same finding before it, by the quarter in
    /// which they had it last.
    #[boxed]
    pub(super) async fn findings_before(
        &self,
        project: ProjectId,
        quarter: i64,
    ) -> Result<BTreeMap<i64, FindingCounts>> {
        // A trace that was opened in the quarter had none before.
        const BEFORE: &str = concat!(
            "SELECT (",
            before!("pii"),
            ") AS pii, (",
            before!("injection"),
            ") AS injection, (",
            before!("secret"),
            ") AS secret
             FROM (
                SELECT trace_id,
                       max(CASE WHEN pii THEN 1 ELSE 0 END) AS pii,
                       max(CASE WHEN injection THEN 1 ELSE 0 END) AS injection,
                       max(CASE WHEN secret THEN 1 ELSE 0 END) AS secret
                FROM steps
                WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $3
                    AND (pii OR injection OR secret) AND trace_id < $4
                GROUP BY trace_id) AS traces"
        );
        let [from, to] = [quarter, quarter + QUARTER].map(|minute| Timestamp(minute * MINUTE));
        let rows: Vec<FoundBefore> = on!(&self.reader, db => {
            sqlx::query_as(BEFORE)
                .bind(project.0)
                .bind(from.0)
                .bind(to.0)
                .bind(TraceId::first_at(from).0)
                .fetch_all(db).await?
        });
        let mut counts = BTreeMap::<i64, FindingCounts>::new();
        for FoundBefore { pii, injection, secret } in rows {
            let mut count = |at: Option<i64>, one: fn(&mut FindingCounts) -> &mut i64| {
                if let Some(at) = at {
                    let minute = Timestamp(at).minute();
                    *one(counts.entry(minute - minute.rem_euclid(QUARTER)).or_default()) += 1;
                }
            };
            count(pii, |counts| &mut counts.pii);
            count(injection, |counts| &mut counts.injection);
            count(secret, |counts| &mut counts.secret);
        }
        Ok(counts)
    }
}
