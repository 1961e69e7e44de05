//! The ledger summed by quarters of an hour and by days, so that the figures of a month are read from some
//! hundred rows.
//!
//! A quarter is summed when it is over, and a day when its quarters are. The minutes of the ledger stay: they are
//! read where no sum is, at the ends of a period.

use async_recursion::async_recursion as boxed;
use domain::ids::ProjectId;
use domain::money::Usd;
use domain::sketch::Sketch;
use domain::time::{MINUTE, Timestamp};
use sqlx::query::{QueryAs, QueryScalar};

use crate::Store;
use crate::db::{bounded, on};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::parts::Parts;

/// The minutes of a quarter of an hour.
pub(super) const QUARTER: i64 = 15;
/// The minutes of a day.
pub(super) const DAY: i64 = 1_440;

/// The minute up to which the ledger of a project has sums.
const UNTIL: &str = "SELECT until FROM usage_spanned WHERE project_id = $1";

from_row! {
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
        /// Prompt tokens.
        pub prompt_tokens: i64,
        /// Completion tokens.
        pub completion_tokens: i64,
        dollars: i64,
        nanos: i64,
        /// The sum of the latencies, in microseconds.
        pub latency_sum: i64,
    }
}

impl UsageBucket {
    /// A bucket without usage.
    pub fn empty(index: i64) -> Self {
        Self { index, ..Self::default() }
    }

    /// Prompt and completion tokens.
    pub fn tokens(&self) -> i64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// The cost.
    pub fn cost(&self) -> Usd {
        Usd::of_parts(self.dollars, self.nanos)
    }
}

/// The whole quarters of a period that have sums, in minutes: the first one, the first day of which they are all
/// of them, the end of the days, and that of the quarters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quarters(pub(super) [i64; 4]);

impl Quarters {
    /// Those between two minutes, where minutes before `until` have sums.
    fn of(from: i64, to: i64, until: i64) -> Self {
        let first = from + (-from).rem_euclid(QUARTER);
        let last = to - to.rem_euclid(QUARTER);
        if first > last {
            return Self([to; 4]);
        }
        let parts =
            Parts::of(first / QUARTER, last / QUARTER, until.div_euclid(QUARTER), DAY / QUARTER);
        let quarters = [parts.from, parts.days.0, parts.days.1, parts.until];
        Self(quarters.map(|quarter| quarter * QUARTER))
    }

    /// Those wholly between two moments.
    pub(super) fn between(from: Timestamp, to: Timestamp, until: Option<i64>) -> Self {
        let first = from.minus_micros(1).minute() + 1;
        Self::of(first, to.minute().max(first), until.unwrap_or(i64::MIN))
    }

    /// The same, none of them read as part of its day.
    fn without_days(self) -> Self {
        let Self([first, .., last]) = self;
        Self([first, last, last, last])
    }

    pub(super) fn is_empty(&self) -> bool {
        let Self([first, .., last]) = self;
        first == last
    }

    /// The first moment of the first one, and that after the last one.
    pub(super) fn reach(&self) -> (Timestamp, Timestamp) {
        let Self([first, .., last]) = *self;
        (Timestamp(first * MINUTE), Timestamp(last * MINUTE))
    }
}

/// The rows of [`Quarters`], which are $2 to $5, of the project $1.
macro_rules! spans {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM usage_spans
             WHERE project_id = $1 AND span = 15 AND start >= $2 AND start < $3
             UNION ALL SELECT ",
            $columns,
            " FROM usage_spans
             WHERE project_id = $1 AND span = 1440 AND start >= $3 AND start < $4
             UNION ALL SELECT ",
            $columns,
            " FROM usage_spans
             WHERE project_id = $1 AND span = 15 AND start >= $4 AND start < $5"
        )
    };
}
pub(super) use spans;

/// The rows of a period from the minute $6 up to but without $7: those of its [`Quarters`], and of the ledger
/// before and after them.
macro_rules! rows {
    ($of_ledger:literal, $of_span:literal) => {
        concat!(
            spans!($of_span),
            " UNION ALL SELECT ",
            $of_ledger,
            " FROM usage_ledger
             WHERE project_id = $1 AND minute >= $6 AND minute < $2
             UNION ALL SELECT ",
            $of_ledger,
            " FROM usage_ledger
             WHERE project_id = $1 AND minute >= $5 AND minute < $7"
        )
    };
}

impl Store {
    /// Usage of a project from one minute up to but without another.
    pub async fn usage_total(
        &self,
        project: ProjectId,
        from_minute: i64,
        to_minute: i64,
    ) -> Result<UsageBucket> {
        let quarters = self.quarters(project, from_minute, to_minute).await?;
        let one = self.buckets(project, quarters, (from_minute, to_minute), i64::MAX).await?;
        Ok(one.into_iter().next().unwrap_or_default())
    }

    /// Usage of a project from one minute up to but without another, in buckets of `width` minutes, which
    /// begin at multiples of it. Buckets without usage are left out.
    pub async fn usage_series(
        &self,
        project: ProjectId,
        from_minute: i64,
        to_minute: i64,
        width: i64,
    ) -> Result<Vec<UsageBucket>> {
        let width = width.max(1);
        let mut quarters = Quarters([to_minute; 4]);
        if width % QUARTER == 0 {
            quarters = self.quarters(project, from_minute, to_minute).await?;
        }
        // A day is in one bucket only where buckets begin with days.
        if width % DAY != 0 {
            quarters = quarters.without_days();
        }
        self.buckets(project, quarters, (from_minute, to_minute), width).await
    }

    /// The latencies of a project's requests over a period.
    #[boxed]
    pub async fn latencies(
        &self,
        project: ProjectId,
        from_minute: i64,
        to_minute: i64,
    ) -> Result<Sketch> {
        const SKETCHES: &str = rows!("latency_sketch", "latency_sketch");
        let quarters = self.quarters(project, from_minute, to_minute).await?;
        let rows: Vec<Vec<u8>> = bounded!(&self.reports, db => {
            let query = sqlx::query_scalar(SKETCHES).bind(project.0);
            let query = quarters.0.into_iter().fold(query, QueryScalar::bind);
            query.bind(from_minute).bind(to_minute).fetch_all(db).await?
        });
        merged(rows.iter().map(Vec::as_slice))
    }

    /// The whole quarters between two minutes that have sums.
    async fn quarters(&self, project: ProjectId, from: i64, to: i64) -> Result<Quarters> {
        Ok(Quarters::of(from, to, self.spanned_until(project).await?.unwrap_or(i64::MIN)))
    }

    #[boxed]
    async fn buckets(
        &self,
        project: ProjectId,
        quarters: Quarters,
        (from, to): (i64, i64),
        width: i64,
    ) -> Result<Vec<UsageBucket>> {
        const SUMS: &str = concat!(
            r#"SELECT bucket AS "index",
                    CAST(sum(requests) AS BIGINT) AS requests,
                    CAST(sum(blocked) AS BIGINT) AS blocked,
                    CAST(sum(failures) AS BIGINT) AS failures,
                    CAST(sum(prompt_tokens) AS BIGINT) AS prompt_tokens,
                    CAST(sum(completion_tokens) AS BIGINT) AS completion_tokens,
                    CAST(sum(cost / 1000000000) AS BIGINT) AS dollars,
                    CAST(sum(cost % 1000000000) AS BIGINT) AS nanos,
                    CAST(sum(latency_sum) AS BIGINT) AS latency_sum
             FROM ("#,
            rows!(
                "minute / $8 AS bucket, requests, blocked, failures, prompt_tokens, completion_tokens, cost,
                     latency_sum",
                "start / $8 AS bucket, requests, blocked, failures, prompt_tokens, completion_tokens, cost,
                     latency_sum"
            ),
            ") AS parts GROUP BY bucket ORDER BY bucket"
        );
        Ok(bounded!(&self.reports, db => {
            let query = sqlx::query_as(SUMS).bind(project.0);
            let query = quarters.0.into_iter().fold(query, QueryAs::bind);
            query.bind(from).bind(to).bind(width).fetch_all(db).await?
        }))
    }

    /// The minute up to which the ledger of a project has sums; `None` if it has none.
    pub(crate) async fn spanned_until(&self, project: ProjectId) -> Result<Option<i64>> {
        Ok(on!(&self.reader, db => {
            sqlx::query_scalar(UNTIL).bind(project.0).fetch_optional(db).await?
        }))
    }
}

/// The first minute of the quarter of a minute.
pub(super) fn quarter_of(minute: i64) -> i64 {
    minute - minute.rem_euclid(QUARTER)
}

/// All latencies of sketches.
pub(super) fn merged<'b>(sketches: impl Iterator<Item = &'b [u8]>) -> Result<Sketch> {
    let mut all = Sketch::default();
    for bytes in sketches {
        let one = Sketch::from_bytes(bytes)
            .ok_or_else(|| Error::Corrupt("a latency sketch".to_owned()))?;
        all.merge(&one);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_read_where_no_sum_is() {
        let day = 20_000 * DAY;
        // From minute 7 of a day to minute 50 of the day after the next.
        let (from, to) = (day + 7, day + 2 * DAY + 50);
        let of = |until| Quarters::of(from, to, until).0.map(|minute| minute - day);
        let (next, last) = (DAY, 2 * DAY);
        assert_eq!(of(i64::MAX), [15, next, last, last + 45]);
        assert_eq!(of(day + 2 * DAY + 30), [15, next, last, last + 30]);
        assert_eq!(of(day + 60), [15, 60, 60, 60]);
        assert_eq!(of(i64::MIN), [15, 15, 15, 15]);
        // No whole quarter.
        assert_eq!(Quarters::of(day + 1, day + 9, i64::MAX).0, [day + 9; 4]);
    }
}
