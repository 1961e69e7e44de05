//! The ledger summed by quarters of an hour and by days, so that the figures of a month are read from some
//! hundred rows.
//!
//! A quarter is summed when it is over, and a day when its quarters are. The minutes of the ledger stay: they are
//! read where no sum is, at the ends of a period.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use domain::ids::ProjectId;
use domain::money::Usd;
use domain::sketch::Sketch;
use domain::time::Timestamp;

use crate::Store;
use crate::db::{Tx, bounded, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;
use crate::parts::Parts;

/// The minutes of a quarter of an hour.
const QUARTER: i64 = 15;
/// The minutes of a day.
const DAY: i64 = 1_440;
/// A quarter is summed so many minutes after its end: by then all its usage is on disk.
const GRACE: i64 = 5;

/// The minute up to which the ledger of a project has sums.
const UNTIL: &str = "SELECT until FROM usage_spanned WHERE project_id = $1";

from_row! {
    /// A row of the ledger or a sum.
    #[derive(Clone, Debug, Default)]
    struct Row {
        requests: i64,
        blocked: i64,
        failures: i64,
        prompt_tokens: i64,
        completion_tokens: i64,
        cost: i64,
        latency_sum: i64,
        latency_sketch: Vec<u8>,
    }
}

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

/// The ends of the parts of a period, in minutes: minutes up to the first quarter, quarters up to the first day,
/// days, quarters, and minutes up to the end.
type Ends = [i64; 6];

/// The parts of a period, where minutes before `until` have sums.
fn ends(from: i64, to: i64, until: i64) -> Ends {
    let first = from + (-from).rem_euclid(QUARTER);
    let last = to - to.rem_euclid(QUARTER);
    if first > last {
        return [from, to, to, to, to, to];
    }
    let parts =
        Parts::of(first / QUARTER, last / QUARTER, until.div_euclid(QUARTER), DAY / QUARTER);
    let [first, from_day, to_day, last] =
        [parts.from, parts.days.0, parts.days.1, parts.until].map(|quarter| quarter * QUARTER);
    [from, first, from_day, to_day, last, to]
}

/// The rows of the parts of a period: $1 is the project, and $2 to $7 are the [`Ends`].
macro_rules! rows {
    ($of_ledger:literal, $of_span:literal) => {
        concat!(
            "SELECT ",
            $of_ledger,
            " FROM usage_ledger
             WHERE project_id = $1 AND minute >= $2 AND minute < $3
             UNION ALL SELECT ",
            $of_span,
            " FROM usage_spans
             WHERE project_id = $1 AND span = 15 AND start >= $3 AND start < $4
             UNION ALL SELECT ",
            $of_span,
            " FROM usage_spans
             WHERE project_id = $1 AND span = 1440 AND start >= $4 AND start < $5
             UNION ALL SELECT ",
            $of_span,
            " FROM usage_spans
             WHERE project_id = $1 AND span = 15 AND start >= $5 AND start < $6
             UNION ALL SELECT ",
            $of_ledger,
            " FROM usage_ledger
             WHERE project_id = $1 AND minute >= $6 AND minute < $7"
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
        let ends = self.ends(project, from_minute, to_minute).await?;
        let one = self.buckets(project, ends, i64::MAX).await?;
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
        let mut ends = [from_minute, to_minute, to_minute, to_minute, to_minute, to_minute];
        if width % QUARTER == 0 {
            ends = self.ends(project, from_minute, to_minute).await?;
        }
        // A day is in one bucket only where buckets begin with days.
        if width % DAY != 0 {
            ends[2] = ends[4];
            ends[3] = ends[4];
        }
        self.buckets(project, ends, width).await
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
        let ends = self.ends(project, from_minute, to_minute).await?;
        let rows: Vec<Vec<u8>> = bounded!(&self.reader, db => {
            let mut query = sqlx::query_scalar(SKETCHES).bind(project.0);
            for end in ends {
                query = query.bind(end);
            }
            query.fetch_all(db).await?
        });
        merged(rows.iter().map(Vec::as_slice))
    }

    async fn ends(&self, project: ProjectId, from: i64, to: i64) -> Result<Ends> {
        Ok(ends(from, to, self.spanned_until(project).await?.unwrap_or(i64::MIN)))
    }

    #[boxed]
    async fn buckets(
        &self,
        project: ProjectId,
        ends: Ends,
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
        Ok(bounded!(&self.reader, db => {
            let mut query = sqlx::query_as(SUMS).bind(project.0);
            for end in ends {
                query = query.bind(end);
            }
            query.bind(width).fetch_all(db).await?
        }))
    }

    async fn spanned_until(&self, project: ProjectId) -> Result<Option<i64>> {
        Ok(on!(&self.reader, db => {
            sqlx::query_scalar(UNTIL).bind(project.0).fetch_optional(db).await?
        }))
    }

    /// Sums the next quarter of an hour of a project's ledger that is over and has usage. False if there is
    /// none: then all of the ledger that is over has sums.
    #[boxed]
    pub async fn sum_next_quarter(&self, project: ProjectId, now: Timestamp) -> Result<bool> {
        let quarter_of = |minute: i64| minute - minute.rem_euclid(QUARTER);
        let known = self.spanned_until(project).await?;
        // The clock was ahead when they were made: usage of theirs was still to come.
        let begun = quarter_of(now.minute());
        if known.is_some_and(|until| until > begun) {
            self.take_back_spans(project, begun).await?;
            return Ok(true);
        }
        let over = quarter_of(now.minute() - GRACE);
        let since = known.unwrap_or(0);
        let next = self.next_used_minute(project, since).await?.map(quarter_of);
        let Some(quarter) = next.filter(|&quarter| quarter < over) else {
            // The day of the last quarter may be over all the same.
            let reach = over.min(since + (-since).rem_euclid(DAY));
            if known.is_some_and(|until| until < reach) {
                self.finish_spans(project, since, reach, None).await?;
            }
            return Ok(false);
        };
        let sum = self.ledger_sum(project, quarter, quarter + QUARTER).await?;
        self.finish_spans(project, since, quarter + QUARTER, Some((quarter, sum))).await?;
        Ok(true)
    }

    /// The first minute with usage, from one on.
    async fn next_used_minute(&self, project: ProjectId, since: i64) -> Result<Option<i64>> {
        const NEXT: &str =
            "SELECT min(minute) FROM usage_ledger WHERE project_id = $1 AND minute >= $2";
        Ok(on!(&self.reader, db => {
            sqlx::query_scalar(NEXT).bind(project.0).bind(since).fetch_one(db).await?
        }))
    }

    async fn ledger_sum(&self, project: ProjectId, from: i64, to: i64) -> Result<Row> {
        const ROWS: &str = "
            SELECT requests, blocked, failures, prompt_tokens, completion_tokens, cost, latency_sum, latency_sketch
            FROM usage_ledger
            WHERE project_id = $1 AND minute >= $2 AND minute < $3";
        let rows: Vec<Row> = on!(&self.reader, db => {
            sqlx::query_as(ROWS).bind(project.0).bind(from).bind(to).fetch_all(db).await?
        });
        sum(&rows)
    }

    /// Writes the sum of a quarter, those of the days that are over with it, and that the ledger has sums up to
    /// here.
    async fn finish_spans(
        &self,
        project: ProjectId,
        since: i64,
        until: i64,
        quarter: Option<(i64, Row)>,
    ) -> Result<()> {
        const QUARTERS: &str = "
            SELECT requests, blocked, failures, prompt_tokens, completion_tokens, cost, latency_sum, latency_sketch
            FROM usage_spans
            WHERE project_id = $1 AND span = 15 AND start >= $2 AND start < $3";
        const REACH: &str = "
            INSERT INTO usage_spanned (project_id, until) VALUES ($1, $2)
            ON CONFLICT (project_id) DO UPDATE SET until = excluded.until
            WHERE usage_spanned.until < excluded.until";
        let mut tx = self.begin().await?;
        if let Some((start, row)) = quarter {
            add_span(&mut tx, project, QUARTER, start, row).await?;
        }
        // Only the days of the first and of the last quarter can have usage: no quarter between them has.
        let day_of = |minute: i64| minute - minute.rem_euclid(DAY);
        for day in BTreeSet::from([day_of(since), day_of(until - 1)]) {
            if day + DAY <= until {
                let rows: Vec<Row> = within!(tx, db => {
                    sqlx::query_as(QUARTERS)
                        .bind(project.0)
                        .bind(day)
                        .bind(day + DAY)
                        .fetch_all(&mut *db)
                        .await?
                });
                if !rows.is_empty() {
                    add_span(&mut tx, project, DAY, day, sum(&rows)?).await?;
                }
            }
        }
        within!(tx, db => {
            sqlx::query(REACH).bind(project.0).bind(until).execute(&mut *db).await?;
        });
        tx.commit().await
    }

    async fn take_back_spans(&self, project: ProjectId, begun: i64) -> Result<()> {
        const FORGET: &str = "DELETE FROM usage_spans WHERE project_id = $1 AND start + span > $2";
        const UNTIL: &str = "UPDATE usage_spanned SET until = $2 WHERE project_id = $1";
        let mut tx = self.begin().await?;
        within!(tx, db => {
            for sql in [FORGET, UNTIL] {
                sqlx::query(sql).bind(project.0).bind(begun).execute(&mut *db).await?;
            }
        });
        tx.commit().await
    }
}

async fn add_span(tx: &mut Tx, project: ProjectId, span: i64, start: i64, row: Row) -> Result<()> {
    const ADD: &str = "
        INSERT INTO usage_spans (project_id, span, start, requests, blocked, failures, prompt_tokens,
            completion_tokens, cost, latency_sum, latency_sketch)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
        ON CONFLICT (project_id, span, start) DO NOTHING";
    within!(tx, db => {
        sqlx::query(ADD)
            .bind(project.0)
            .bind(span)
            .bind(start)
            .bind(row.requests)
            .bind(row.blocked)
            .bind(row.failures)
            .bind(row.prompt_tokens)
            .bind(row.completion_tokens)
            .bind(row.cost)
            .bind(row.latency_sum)
            .bind(row.latency_sketch)
            .execute(&mut *db)
            .await?;
    });
    Ok(())
}

/// The sum of rows.
fn sum(rows: &[Row]) -> Result<Row> {
    let mut sum = Row::default();
    for row in rows {
        for (sum, more) in [
            (&mut sum.requests, row.requests),
            (&mut sum.blocked, row.blocked),
            (&mut sum.failures, row.failures),
            (&mut sum.prompt_tokens, row.prompt_tokens),
            (&mut sum.completion_tokens, row.completion_tokens),
            (&mut sum.cost, row.cost),
            (&mut sum.latency_sum, row.latency_sum),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
    sum.latency_sketch = merged(rows.iter().map(|row| &*row.latency_sketch))?.to_bytes();
    Ok(sum)
}

/// All latencies of sketches.
fn merged<'b>(sketches: impl Iterator<Item = &'b [u8]>) -> Result<Sketch> {
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
        let of = |until| ends(from, to, until).map(|minute| minute - day);
        let (next, last) = (DAY, 2 * DAY);
        assert_eq!(of(i64::MAX), [7, 15, next, last, last + 45, last + 50]);
        assert_eq!(of(day + 2 * DAY + 30), [7, 15, next, last, last + 30, last + 50]);
        assert_eq!(of(day + 60), [7, 15, 60, 60, 60, last + 50]);
        assert_eq!(of(i64::MIN), [7, 15, 15, 15, 15, last + 50]);
        // No whole quarter.
        assert_eq!(ends(day + 1, day + 9, i64::MAX).map(|minute| minute - day), [1, 9, 9, 9, 9, 9]);
    }
}
