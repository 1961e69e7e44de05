//! Fills `usage_groups`: an hour at a time, and a day when its hours are over.
//!
//! The steps of an hour that is over do not change, so its rows do not either: an hour that two nodes
//! sum has the same rows. Rows that a crash left behind while the clock was ahead are written anew.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use domain::ids::ProjectId;
use domain::money::Usd;
use domain::time::{HOUR, MINUTE, Timestamp};
use sqlx::AssertSqlSafe;

use super::alike::{Alike, ByValue, Sums, alike};
use super::{DAY_HOURS, SUMS};
use crate::Store;
use crate::db::{on, within};
use crate::error::Result;

/// An hour is summed this long after its end: by then all steps that ended in it are on disk.
const GRACE: i64 = 5 * MINUTE;
/// The parts of an hour whose steps are summed at once.
const SLICES: i64 = 12;
/// The most hours that are summed again after the clock was ahead. Steps of older hours may be gone: a clock
/// that is behind must not take their sums with it.
const MOST_TAKEN_BACK: i64 = DAY_HOURS - 2;
/// The most rows that one transaction writes, which keeps the writer waiting.
const BATCH_ROWS: usize = 200;

/// The hour up to which the steps of a project have rows.
pub(super) const UNTIL: &str = "SELECT until FROM usage_grouped WHERE project_id = $1";

/// A row of a day: dimension, value, and sums with the cost in dollars and nano-dollars.
type DayRow = (String, String, i64, i64, i64, i64, i64, i64, i64, i64);

impl Store {
    /// The hour up to which the steps of a project have rows; `None` if none has.
    pub async fn grouped_until(&self, project: ProjectId) -> Result<Option<i64>> {
        Ok(on!(&self.reader, db => {
            sqlx::query_scalar(UNTIL).bind(project.0).fetch_optional(db).await?
        }))
    }

    /// Sums the next hour of a project that is over and has steps. False if there is none: then all
    /// steps up to the hour that is not over have rows.
    #[boxed]
    pub async fn group_next_hour(&self, project: ProjectId, now: Timestamp) -> Result<bool> {
        let over = now.minus_micros(GRACE).hour();
        let known = self.grouped_until(project).await?;
        // Other nodes may be a little ahead: an hour that has ended by this clock, too, stays summed.
        let begun = now.hour();
        match known.map_or(0, |until| until - begun) {
            ..=0 => {}
            1..=MOST_TAKEN_BACK => {
                self.ungroup(project, begun).await?;
                return Ok(true);
            }
            _ => return Ok(false),
        }
        let since = known.unwrap_or(0);
        let Some(hour) = self.next_hour(project, since).await?.filter(|&hour| hour < over) else {
            // The day of the last hour may be over all the same. Time without steps is noted no further, so
            // that a clock that is days ahead leaves no gap.
            let day_end = since + (-since).rem_euclid(DAY_HOURS);
            let reach = over.min(day_end);
            if known.is_some_and(|until| until < reach) {
                self.finish_hours(project, since, reach).await?;
            }
            return Ok(false);
        };
        let rows = self.hour(project, hour).await?;
        self.write_rows(project, 1, hour, rows.0.into_iter().collect()).await?;
        // A day ends with its last hour that has steps.
        self.finish_hours(project, since, hour + 1).await?;
        Ok(true)
    }

    /// Takes back the sums of an hour and of all after it: the clock was ahead when they were made, and
    /// steps of theirs were still to come.
    async fn ungroup(&self, project: ProjectId, hour: i64) -> Result<()> {
        const FORGET: &str = "DELETE FROM usage_groups WHERE project_id = $1 AND start + span > $2";
        const UNTIL: &str = "UPDATE usage_grouped SET until = $2 WHERE project_id = $1";
        let mut tx = self.begin().await?;
        within!(tx, db => {
            for sql in [FORGET, UNTIL] {
                sqlx::query(sql).bind(project.0).bind(hour).execute(&mut *db).await?;
            }
        });
        tx.commit().await
    }

    /// The hour of the first step that ended in an hour or later.
    async fn next_hour(&self, project: ProjectId, since: i64) -> Result<Option<i64>> {
        const FIRST: &str = "
            SELECT min(finished_at) FROM steps WHERE project_id = $1 AND finished_at >= $2";
        let first: Option<i64> = on!(&self.reader, db => {
            sqlx::query_scalar(FIRST).bind(project.0).bind(since * HOUR).fetch_one(db).await?
        });
        Ok(first.map(|at| at.div_euclid(HOUR)))
    }

    /// Sums the steps of an hour.
    async fn hour(&self, project: ProjectId, hour: i64) -> Result<ByValue> {
        let sums = alike("finished_at >= $2 AND finished_at < $3");
        let mut rows = ByValue::default();
        let slice = HOUR / SLICES;
        for number in 0..SLICES {
            let from = hour * HOUR + number * slice;
            let alike: Vec<Alike> = on!(&self.reader, db => {
                sqlx::query_as(AssertSqlSafe(sums.clone()))
                    .bind(project.0).bind(from).bind(from + slice)
                    .fetch_all(db).await?
            });
            alike.into_iter().try_for_each(|alike| rows.count(alike))?;
        }
        Ok(rows)
    }

    /// Notes that hours have rows, and sums the days among them that are over with it.
    async fn finish_hours(&self, project: ProjectId, since: i64, until: i64) -> Result<()> {
        const UNTIL: &str = "
            INSERT INTO usage_grouped (project_id, until) VALUES ($1, $2)
            ON CONFLICT (project_id) DO UPDATE SET until = excluded.until
            WHERE usage_grouped.until < excluded.until";
        // Only the days of the first and of the last hour can have steps: no hour between them has.
        let day_of = |hour: i64| hour - hour.rem_euclid(DAY_HOURS);
        for day in BTreeSet::from([day_of(since), day_of(until - 1)]) {
            if day + DAY_HOURS <= until {
                let rows = self.day(project, day).await?;
                self.write_rows(project, DAY_HOURS, day, rows).await?;
            }
        }
        let mut tx = self.begin().await?;
        within!(tx, db => {
            sqlx::query(UNTIL).bind(project.0).bind(until).execute(&mut *db).await?;
        });
        tx.commit().await
    }

    /// Sums the hours of a day.
    async fn day(&self, project: ProjectId, day: i64) -> Result<Vec<((String, String), Sums)>> {
        let sums = format!(
            "SELECT dimension, value, {SUMS}
             FROM usage_groups
             WHERE project_id = $1 AND span = 1 AND start >= $2 AND start < $3
             GROUP BY dimension, value"
        );
        let rows: Vec<DayRow> = on!(&self.reader, db => {
            sqlx::query_as(AssertSqlSafe(sums))
                .bind(project.0).bind(day).bind(day + DAY_HOURS)
                .fetch_all(db).await?
        });
        let read = |(dimension, value, a, b, c, d, e, f, dollars, nanos): DayRow| {
            ((dimension, value), [a, b, c, d, e, f, Usd::of_parts(dollars, nanos).0])
        };
        Ok(rows.into_iter().map(read).collect())
    }

    /// Writes the rows of an hour or of a day.
    async fn write_rows(
        &self,
        project: ProjectId,
        span: i64,
        start: i64,
        rows: Vec<((String, String), Sums)>,
    ) -> Result<()> {
        const WRITE: &str = "
            INSERT INTO usage_groups (project_id, dimension, span, start, value, requests, blocked,
                failures, prompt_tokens, cached_tokens, completion_tokens, cost)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
            ON CONFLICT (project_id, dimension, span, start, value) DO UPDATE SET
                requests = excluded.requests, blocked = excluded.blocked, failures = excluded.failures,
                prompt_tokens = excluded.prompt_tokens, cached_tokens = excluded.cached_tokens,
                completion_tokens = excluded.completion_tokens, cost = excluded.cost
            WHERE usage_groups.requests < excluded.requests OR usage_groups.cost < excluded.cost";
        // Steps may be deleted while another node sums them a second time: its sums are less.
        for some in rows.chunks(BATCH_ROWS) {
            let mut tx = self.begin().await?;
            for ((dimension, value), sums) in some {
                let [requests, blocked, failures, prompt, cached, completion, cost] = *sums;
                within!(tx, db => {
                    sqlx::query(WRITE)
                        .bind(project.0)
                        .bind(dimension)
                        .bind(span)
                        .bind(start)
                        .bind(value)
                        .bind(requests)
                        .bind(blocked)
                        .bind(failures)
                        .bind(prompt)
                        .bind(cached)
                        .bind(completion)
                        .bind(cost)
                        .execute(&mut *db)
                        .await?;
                });
            }
            tx.commit().await?;
        }
        Ok(())
    }
}
