//! The spend of keys and projects, from the steps and from the ledger.

use std::sync::LazyLock;

use async_recursion::async_recursion as boxed;
use domain::ids::{KeyId, ProjectId};
use domain::money::Usd;
use domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use crate::Store;
use crate::db::on;
use crate::error::Result;
use crate::steps::{STEPS_AT_ONCE, id_slots, slots};

/// The spend of a key in one second, for the rolling hour.
#[derive(Clone, Copy, Debug)]
pub struct SpentSecond {
    /// The key.
    pub key: KeyId,
    /// Unix seconds.
    pub second: i64,
    /// The amount.
    pub cost: Usd,
}

/// Above so many projects one statement for all is cheaper than those for some of them.
const MOST_APART: usize = 10 * STEPS_AT_ONCE;

static SECONDS: LazyLock<String> = LazyLock::new(|| seconds_where(""));
static SECONDS_OF_PROJECTS: LazyLock<String> =
    LazyLock::new(|| seconds_where(&format!("AND k.project_id IN {}", id_slots(2))));
static MONTHS: LazyLock<String> = LazyLock::new(|| months_where(""));
static MONTHS_OF_PROJECTS: LazyLock<String> =
    LazyLock::new(|| months_where(&format!("WHERE p.id IN {}", id_slots(3))));

/// A statement for the spend of keys with a cap since `$1`, second by second, under one more condition.
fn seconds_where(condition: &str) -> String {
    format!(
        "
        SELECT s.key_id, s.finished_at / 1000000 AS second,
               CAST(sum(s.cost / 1000000000) AS BIGINT), CAST(sum(s.cost % 1000000000) AS BIGINT)
        FROM api_keys k
        JOIN steps s ON s.project_id = k.project_id AND s.finished_at >= $1 AND s.key_id = k.id
        WHERE k.hourly_limit IS NOT NULL AND k.revoked_at IS NULL AND s.cost > 0
          AND (k.reset_at IS NULL OR s.finished_at >= k.reset_at) {condition}
        GROUP BY s.key_id, s.finished_at / 1000000
        ORDER BY second"
    )
}

/// A statement for the spend of projects from the minute `$1` on and before `$2`, under a condition. It joins
/// the projects, so that the minutes before are not read: the ledger is never purged.
fn months_where(condition: &str) -> String {
    format!(
        "
        SELECT u.project_id, CAST(sum(u.cost / 1000000000) AS BIGINT),
               CAST(sum(u.cost % 1000000000) AS BIGINT)
        FROM projects p
        JOIN usage_ledger u ON u.project_id = p.id AND u.minute >= $1 AND u.minute < $2
        {condition}
        GROUP BY u.project_id"
    )
}

/// A key, a second, and its spend in dollars and nano-dollars.
type SecondRow = (i64, i64, i64, i64);
/// A project, and its spend in dollars and nano-dollars.
type MonthRow = (i64, i64, i64);

fn second((key, second, dollars, nanos): SecondRow) -> SpentSecond {
    SpentSecond { key: KeyId::from_i64(key), second, cost: Usd::of_parts(dollars, nanos) }
}

fn month((project, dollars, nanos): MonthRow) -> (ProjectId, Usd) {
    (ProjectId(project), Usd::of_parts(dollars, nanos))
}

impl Store {
    /// The spend of keys with a cap since a time, second by second.
    #[boxed]
    pub async fn spent_seconds(&self, since: Timestamp) -> Result<Vec<SpentSecond>> {
        let rows: Vec<SecondRow> = on!(&self.reader, db => {
            sqlx::query_as(AssertSqlSafe(SECONDS.as_str())).bind(since.0).fetch_all(db).await?
        });
        Ok(rows.into_iter().map(second).collect())
    }

    /// The spend of keys with a cap in some projects since a time. The seconds of a key are in order. If the projects
    /// are many hundreds, the keys of others are among them.
    #[boxed]
    pub async fn spent_seconds_of(
        &self,
        projects: &[ProjectId],
        since: Timestamp,
    ) -> Result<Vec<SpentSecond>> {
        if projects.len() > MOST_APART {
            return self.spent_seconds(since).await;
        }
        let mut spent = Vec::new();
        for some in projects.chunks(STEPS_AT_ONCE) {
            let rows: Vec<SecondRow> = on!(&self.reader, db => {
                let query = sqlx::query_as(AssertSqlSafe(SECONDS_OF_PROJECTS.as_str()));
                let query = query.bind(since.0);
                let ids = slots(some.iter().map(|id| id.0));
                ids.fold(query, sqlx::query::QueryAs::bind).fetch_all(db).await?
            });
            spent.extend(rows.into_iter().map(second));
        }
        Ok(spent)
    }

    /// The spend of each project in the calendar month of a time, from the ledger. A clock that has
    /// gone back leaves rows of later months.
    #[boxed]
    pub async fn spend_by_project(&self, now: Timestamp) -> Result<Vec<(ProjectId, Usd)>> {
        let (from, until) = (now.month_start().minute(), now.next_month_start().minute());
        let rows: Vec<MonthRow> = on!(&self.reader, db => {
            let query = sqlx::query_as(AssertSqlSafe(MONTHS.as_str()));
            query.bind(from).bind(until).fetch_all(db).await?
        });
        Ok(rows.into_iter().map(month).collect())
    }

    /// The spend of some projects in the calendar month of a time, like [`Store::spend_by_project`]. If they are many
    /// hundreds, others are among them.
    #[boxed]
    pub async fn spend_of_projects(
        &self,
        projects: &[ProjectId],
        now: Timestamp,
    ) -> Result<Vec<(ProjectId, Usd)>> {
        if projects.len() > MOST_APART {
            return self.spend_by_project(now).await;
        }
        let (from, until) = (now.month_start().minute(), now.next_month_start().minute());
        let mut spent = Vec::new();
        for some in projects.chunks(STEPS_AT_ONCE) {
            let rows: Vec<MonthRow> = on!(&self.reader, db => {
                let query = sqlx::query_as(AssertSqlSafe(MONTHS_OF_PROJECTS.as_str()));
                let query = query.bind(from).bind(until);
                let ids = slots(some.iter().map(|id| id.0));
                ids.fold(query, sqlx::query::QueryAs::bind).fetch_all(db).await?
            });
            spent.extend(rows.into_iter().map(month));
        }
        Ok(spent)
    }
}
