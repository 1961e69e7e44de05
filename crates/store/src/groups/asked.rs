//! One question about usage: its SQL, and the state of the database that all its parts are about.

use std::collections::HashMap;
use std::sync::Arc;

use domain::ids::{KeyId, ProjectId};
use domain::time::{HOUR, Timestamp};
use sqlx::AssertSqlSafe;

use super::alike::{Alike, ByValue, alike};
use super::kept::{MOST_SINCE, Question, SummedHours};
use super::since::{Arrived, CountedSteps, KeptSteps, Recent};
use super::{ALL, DAY_HOURS, Dimension, GroupRow, Grouped, IS_COUNTED, OF_STEP, SUMS, fill};
use crate::db::{Pool, Tx, within};
use crate::error::Result;
use crate::parts::Parts;
use crate::pg::Begin;

/// Fewer steps are counted each time: that takes no longer than two questions about their number.
const WORTH_KEEPING: i64 = 500;

/// The columns of usage, in rows and of a step.
pub(super) struct Columns {
    of_row: &'static str,
    of_step: &'static str,
}

pub(super) const ALL_COLUMNS: Columns = Columns {
    of_row: "requests, blocked, failures, prompt_tokens, cached_tokens, completion_tokens, cost",
    of_step: OF_STEP,
};
const COST: Columns = Columns { of_row: "cost", of_step: "COALESCE(cost, 0) AS cost" };
/// Calls without a value come first: they are no group. Values of the same cost are in the order of their
/// bytes, as they are when they are joined.
fn dearest_first(is_sqlite: bool) -> String {
    let bytes = if is_sqlite { "BINARY" } else { "\"C\"" };
    format!(
        "ORDER BY CASE WHEN value = '' THEN 0 ELSE 1 END,
             sum(cost / 1000000000) + sum(cost % 1000000000) / 1e9 DESC, value COLLATE {bytes}"
    )
}

/// The rows of a dimension: of hours, days and hours.
pub(super) fn rows(columns: &Columns) -> String {
    let of_row = columns.of_row;
    let rows = |span: i64, from: &str, to: &str| {
        format!(
            "SELECT value, {of_row}
             FROM usage_groups
             WHERE project_id = $1 AND dimension = $2 AND span = {span}
                 AND start >= {from} AND start < {to}"
        )
    };
    let (before, days, after) =
        (rows(1, "$3", "$4"), rows(DAY_HOURS, "$4", "$5"), rows(1, "$5", "$6"));
    format!("{before} UNION ALL {days} UNION ALL {after}")
}

/// The steps that are in no row, with their value, if it fits a condition.
fn steps(columns: &Columns, value: &str, condition: &str) -> String {
    let of_step = columns.of_step;
    format!(
        "SELECT COALESCE({value}, '') AS value, {of_step}
         FROM steps
         WHERE project_id = $1 AND finished_at >= $7 AND finished_at < $8 AND {IS_COUNTED}
             {condition}"
    )
}

/// The usage of a dimension: its rows, and the steps whose value fits a condition.
fn usage(columns: &Columns, value: &str, condition: &str) -> String {
    format!("({} UNION ALL {}) AS parts", rows(columns), steps(columns, value, condition))
}

/// The dearest groups of usage, of which columns make the sums and the cost. There is one more than `most`:
/// calls without a value may come first.
fn dearest(usage: impl Fn(&Columns) -> String, most: usize, is_sqlite: bool) -> String {
    // The cost alone is summed first: with many groups all sums of each take longer than both questions.
    let (all, cost, limit) = (usage(&ALL_COLUMNS), usage(&COST), most + 1);
    let dearest_first = dearest_first(is_sqlite);
    format!(
        "SELECT value, {SUMS}
         FROM {all}
         WHERE value IN (
             SELECT value FROM {cost} GROUP BY value {dearest_first} LIMIT {limit})
         GROUP BY value {dearest_first}"
    )
}

/// The project whose usage is asked for, the parts of the period, and the state of the database.
pub(super) struct Asked {
    pub(super) project: ProjectId,
    /// Its whole hours.
    pub(super) parts: Parts,
    /// The moment after the last of the period.
    pub(super) end: Timestamp,
    pub(super) tx: Tx,
    pub(super) is_sqlite: bool,
}

impl Asked {
    /// Begins a question: all its parts are about the same rows and steps.
    pub(super) async fn begin(
        pool: &Pool,
        begin: Begin,
        project: ProjectId,
        from_hour: i64,
        end: Timestamp,
    ) -> Result<Self> {
        let mut tx = pool.read(begin).await?;
        let until: Option<i64> = within!(tx, db => {
            sqlx::query_scalar(fill::UNTIL).bind(project.0).fetch_optional(&mut *db).await?
        });
        let to_hour = end.hour();
        let parts = Parts::of(from_hour, to_hour, until.unwrap_or(from_hour), DAY_HOURS);
        Ok(Self { project, parts, end, tx, is_sqlite: matches!(pool, Pool::Sqlite(_)) })
    }

    /// The question about its rows.
    pub(super) fn question(&self, dimension: &Dimension, most: usize) -> Question {
        let hours = (self.parts.from, self.parts.until);
        Question { project: self.project, dimension: dimension.clone(), hours, most }
    }

    /// The sums of the rows of the period, which are `total` together: the dearest groups, at most so many.
    pub(super) async fn summed_hours(
        &mut self,
        dimension: &Dimension,
        total: GroupRow,
        most: usize,
    ) -> Result<SummedHours> {
        let usage = |columns: &Columns| format!("({}) AS parts", rows(columns));
        // One more shows whether there are others.
        let (mut groups, without) = self.dearest(dimension, &total, usage, most + 1, None).await?;
        let are_all = groups.len() <= most;
        groups.truncate(most);
        Ok(SummedHours { groups, are_all, without, total })
    }

    /// The groups of the steps that are in no row, calls without a value among them; `None` above `most`.
    pub(super) async fn since(
        &mut self,
        dimension: &Dimension,
        most: usize,
    ) -> Result<Option<Vec<GroupRow>>> {
        let of_step = dimension.of_step(self.is_sqlite);
        let (steps, limit) = (steps(&ALL_COLUMNS, of_step, ""), most + 1);
        let sql =
            format!("SELECT value, {SUMS} FROM ({steps}) AS since GROUP BY value LIMIT {limit}");
        let groups = self.rows(&dimension.name(), &sql, dimension.tag()).await?;
        Ok((groups.len() <= most).then_some(groups))
    }

    /// The usage of some keys in the steps that are in no row.
    pub(super) async fn since_of_keys(&mut self, keys: &[KeyId]) -> Result<Vec<GroupRow>> {
        let numbers: Vec<String> = keys.iter().map(|key| key.to_i64().to_string()).collect();
        let of_keys = format!("AND key_id IN ({})", numbers.join(", "));
        let steps = steps(&ALL_COLUMNS, Dimension::Key.of_step(self.is_sqlite), &of_keys);
        let sql = format!("SELECT value, {SUMS} FROM ({steps}) AS since GROUP BY value");
        self.rows(&Dimension::Key.name(), &sql, None).await
    }

    /// The groups of the steps that are in no row, by each of some dimensions; `None` if too many are unlike. Those
    /// that are complete are counted once.
    pub(super) async fn since_each(
        &mut self,
        dimensions: &[Dimension],
        arrived: Arrived,
        kept: &KeptSteps,
    ) -> Result<Option<Vec<Vec<GroupRow>>>> {
        let (from, end) = (self.parts.until * HOUR, self.end.0);
        let [complete, nearly] =
            [arrived.complete, arrived.nearly].map(|time| time.0.min(end).max(from));
        let mut counted = kept.get(self.project, (from, nearly), arrived.complete.0);
        let last = self.count_up_to(&mut counted, complete, nearly).await;
        let values = last.map(|last| last.map(|last| counted.with(&last)));
        // Whatever was counted before one of the questions failed is right.
        kept.keep(self.project, counted);
        Ok(values?.map(|values| dimensions.iter().map(|by| values.groups(by)).collect()))
    }

    /// Counts the steps that have not been counted, and returns those after the last part that is worth keeping;
    /// `None` if too many are unlike.
    async fn count_up_to(
        &mut self,
        counted: &mut CountedSteps,
        complete: i64,
        nearly: i64,
    ) -> Result<Option<ByValue>> {
        for part in &mut counted.recent {
            let steps = self.number(part.from, part.until).await?;
            if steps != part.steps {
                let Some(values) = self.counted(part.from, part.until).await? else {
                    return Ok(None);
                };
                (part.steps, part.values) = (steps, Arc::new(values));
            }
        }
        counted.settle(complete);
        if counted.end() < complete {
            let Some(values) = self.counted(counted.end(), complete).await? else {
                return Ok(None);
            };
            counted.add(complete, &values);
        }
        let from = counted.end();
        let steps = if from < nearly { self.number(from, nearly).await? } else { 0 };
        if steps >= WORTH_KEEPING {
            let Some(values) = self.counted(from, nearly).await? else { return Ok(None) };
            counted.add_recent(Recent { from, until: nearly, steps, values: Arc::new(values) });
        }
        self.counted(counted.end(), self.end.0).await
    }

    /// The number of the steps that ended from a time on and before another. An index has it: it takes a small part of
    /// the time in which they are counted.
    async fn number(&mut self, from: i64, until: i64) -> Result<i64> {
        const NUMBER: &str = "
            SELECT count(*) FROM steps WHERE project_id = $1 AND finished_at >= $2 AND finished_at < $3";
        let Self { project, tx, .. } = self;
        Ok(within!(tx, db => {
            sqlx::query_scalar(NUMBER)
                .bind(project.0)
                .bind(from)
                .bind(until)
                .fetch_one(&mut *db)
                .await?
        }))
    }

    /// Counts the steps that ended from a time on and before another; `None` if too many are unlike.
    async fn counted(&mut self, from: i64, until: i64) -> Result<Option<ByValue>> {
        let mut values = ByValue::default();
        if from >= until {
            return Ok(Some(values));
        }
        let steps = alike("finished_at >= $2 AND finished_at < $3");
        let sql = format!("{steps} LIMIT {}", MOST_SINCE + 1);
        let Self { project, tx, .. } = self;
        let alike: Vec<Alike> = within!(tx, db => {
            sqlx::query_as(AssertSqlSafe(sql))
                .bind(project.0)
                .bind(from)
                .bind(until)
                .fetch_all(&mut *db)
                .await?
        });
        if alike.len() > MOST_SINCE {
            return Ok(None);
        }
        alike.into_iter().try_for_each(|alike| values.count(alike))?;
        Ok(Some(values))
    }

    /// The usage of some values in the rows of the period, nothing for a value without rows. Each is looked up
    /// by itself, hour by hour and day by day.
    pub(super) async fn exact(
        &mut self,
        dimension: &Dimension,
        values: Vec<String>,
    ) -> Result<Vec<GroupRow>> {
        let of_none = |value| GroupRow { value, ..GroupRow::default() };
        let Parts { from, days: (first, last), until, .. } = self.parts;
        let list = |starts: &mut dyn Iterator<Item = i64>| {
            starts.map(|start| start.to_string()).collect::<Vec<_>>().join(", ")
        };
        let hours = list(&mut (from..first).chain(last..until));
        let days = list(&mut (first..last).step_by(DAY_HOURS as usize));
        let named: Vec<String> = (3..values.len() + 3).map(|number| format!("${number}")).collect();
        let (named, of_row) = (named.join(", "), ALL_COLUMNS.of_row);
        let rows = |span: i64, starts: &str| {
            format!(
                "SELECT value, {of_row}
                 FROM usage_groups
                 WHERE project_id = $1 AND dimension = $2 AND span = {span}
                     AND start IN ({starts}) AND value IN ({named})"
            )
        };
        let parts = [(1, hours), (DAY_HOURS, days)];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, starts)| !starts.is_empty())
            .map(|(span, starts)| rows(*span, starts))
            .collect();
        if values.is_empty() || parts.is_empty() {
            return Ok(values.into_iter().map(of_none).collect());
        }
        let parts = parts.join(" UNION ALL ");
        let sql = format!("SELECT value, {SUMS} FROM ({parts}) AS parts GROUP BY value");
        let Self { project, tx, .. } = self;
        let found: Vec<GroupRow> = within!(tx, db => {
            // The text has the hours and a parameter for each value, so it seldom comes again, and would have others
            // prepared anew.
            let query = sqlx::query_as(AssertSqlSafe(sql)).persistent(false);
            let mut query = query.bind(project.0).bind(dimension.name());
            for value in &values {
                query = query.bind(value.clone());
            }
            query.fetch_all(&mut *db).await?
        });
        let mut rows: HashMap<String, GroupRow> =
            values.into_iter().map(|value| (value.clone(), of_none(value))).collect();
        rows.extend(found.into_iter().map(|row| (row.value.clone(), row)));
        Ok(rows.into_values().collect())
    }

    /// The usage of rows and steps, summed together.
    pub(super) async fn at_once(&mut self, dimension: &Dimension, most: usize) -> Result<Grouped> {
        let total = self.sum(ALL, &usage(&ALL_COLUMNS, "''", ""), None).await?;
        let tag = dimension.tag();
        let of_step = dimension.of_step(self.is_sqlite);
        let condition = tag.map_or_else(String::new, |_| format!("AND {of_step} IS NOT NULL"));
        let usage = |columns: &Columns| usage(columns, of_step, &condition);
        let (groups, without) = self.dearest(dimension, &total, usage, most, tag).await?;
        Ok(Grouped::of(groups, without, total))
    }

    /// The dearest `most` groups of usage, which is `total` in all, and the calls without a value. `tag` is
    /// that of the dimension, if the usage is of steps.
    async fn dearest(
        &mut self,
        dimension: &Dimension,
        total: &GroupRow,
        usage: impl Fn(&Columns) -> String,
        most: usize,
        tag: Option<&str>,
    ) -> Result<(Vec<GroupRow>, GroupRow)> {
        let (name, sql) = (dimension.name(), dearest(&usage, most, self.is_sqlite));
        let mut groups = self.rows(&name, &sql, tag).await?;
        // Rows hold no calls without a tag: those are what is in none of its groups.
        let without = match dimension.tag() {
            Some(_) => total.without(&self.sum(&name, &usage(&ALL_COLUMNS), tag).await?),
            None if groups.first().is_some_and(|row| row.value.is_empty()) => groups.remove(0),
            None => GroupRow::default(),
        };
        groups.truncate(most);
        Ok((groups, without))
    }

    /// The sum of usage.
    pub(super) async fn sum(
        &mut self,
        dimension: &str,
        usage: &str,
        tag: Option<&str>,
    ) -> Result<GroupRow> {
        let sql = format!("SELECT '' AS value, {SUMS} FROM {usage}");
        let rows = self.rows(dimension, &sql, tag).await?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    async fn rows(
        &mut self,
        dimension: &str,
        sql: &str,
        tag: Option<&str>,
    ) -> Result<Vec<GroupRow>> {
        let Self { project, parts, end, tx, .. } = self;
        Ok(within!(tx, db => {
            let mut query = sqlx::query_as(AssertSqlSafe(sql.to_owned()))
                .bind(project.0)
                .bind(dimension)
                .bind(parts.from)
                .bind(parts.days.0)
                .bind(parts.days.1)
                .bind(parts.until)
                .bind(parts.until * HOUR)
                .bind(end.0);
            if let Some(tag) = tag {
                query = query.bind(tag);
            }
            query.fetch_all(&mut *db).await?
        }))
    }
}
