//! Usage by user, session, tag, model, key, tier or endpoint.
//!
//! Steps are the truth, and too many of them to be summed for each question. Once an hour is over, its
//! steps are summed by every dimension into rows of `usage_groups`, and once a day is over, its hours
//! are; such rows never change, so that none is hot. A question is answered from whole days, from the
//! hours before and after them, and from the steps since. The sums of the rows of a period are kept for
//! the next question about it.

mod alike;
mod asked;
mod bounded;
mod fill;
mod kept;
mod since;

use std::ops::{Add, Sub};

use async_recursion::async_recursion as boxed;
use domain::attributes::AttributeName;
use domain::ids::{KeyId, ProjectId};
use domain::money::Usd;
use domain::time::Timestamp;

use crate::Store;
use crate::db::on;
use crate::error::Result;
use crate::from_row::from_row;
use crate::pg::Begin;
use alike::Sums;
use asked::{ALL_COLUMNS, Asked, rows};
use kept::KeptRows;
pub(crate) use kept::KeptSums;
pub use since::Arrived;
pub(crate) use since::KeptSteps;

/// The dimension of rows that hold all usage.
const ALL: &str = "";
/// The hours of a day.
const DAY_HOURS: i64 = 24;
/// Keys whose usage is read by one query.
const KEYS_AT_ONCE: usize = 500;

/// A dimension that usage is grouped by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// The model that was called.
    Model,
    /// The key of the caller.
    Key,
    /// The tier that the call was routed to.
    Tier,
    /// The endpoint that it came in by.
    Endpoint,
    /// One of its attributes.
    Attribute(AttributeName),
}

impl Dimension {
    /// Reads a name: `model`, `key`, `tier`, `endpoint`, `user`, `session` or `tag:NAME`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "model" => Some(Self::Model),
            "key" => Some(Self::Key),
            "tier" => Some(Self::Tier),
            "endpoint" => Some(Self::Endpoint),
            _ => AttributeName::parse(text).map(Self::Attribute),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Model => "model".to_owned(),
            Self::Key => "key".to_owned(),
            Self::Tier => "tier".to_owned(),
            Self::Endpoint => "endpoint".to_owned(),
            Self::Attribute(name) => name.to_string(),
        }
    }

    /// The name of the tag, if it is one.
    fn tag(&self) -> Option<&str> {
        match self {
            Self::Attribute(AttributeName::Tag(name)) => Some(name),
            _ => None,
        }
    }

    /// The value of a step. That of a tag has its name as the ninth parameter.
    fn of_step(&self, is_sqlite: bool) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Key => "CAST(key_id AS TEXT)",
            Self::Tier => "tier",
            Self::Endpoint => "api_endpoint",
            Self::Attribute(AttributeName::User) => "attr_user",
            Self::Attribute(AttributeName::Session) => "attr_session",
            // Names of tags have no quotes.
            Self::Attribute(AttributeName::Tag(_)) if is_sqlite => {
                "json_extract(attr_tags, '$.\"' || $9 || '\"')"
            }
            Self::Attribute(AttributeName::Tag(_)) => "CAST(attr_tags AS JSON) ->> $9",
        }
    }
}

from_row! {
    /// The usage of one group.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GroupRow {
        /// Its value of the dimension; empty for calls without one.
        pub value: String,
        /// Requests, blocked ones included; without shadow calls.
        pub requests: i64,
        /// Requests that were blocked.
        pub blocked: i64,
        /// Requests that failed.
        pub failures: i64,
        /// Prompt tokens.
        pub prompt_tokens: i64,
        /// Prompt tokens that were read from a cache.
        pub cached_tokens: i64,
        /// Completion tokens.
        pub completion_tokens: i64,
        dollars: i64,
        nanos: i64,
    }
}

impl GroupRow {
    fn of(value: &str, sums: Sums) -> Self {
        let [requests, blocked, failures, prompt_tokens, cached_tokens, completion_tokens, cost] =
            sums;
        let (dollars, nanos) = (cost / 1_000_000_000, cost % 1_000_000_000);
        let value = value.to_owned();
        Self {
            value,
            requests,
            blocked,
            failures,
            prompt_tokens,
            cached_tokens,
            completion_tokens,
            dollars,
            nanos,
        }
    }

    /// The cost of its calls, shadow calls included.
    pub fn cost(&self) -> Usd {
        Usd::of_parts(self.dollars, self.nanos)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        let Self { requests, prompt_tokens, cached_tokens, completion_tokens, .. } = *self;
        [requests, prompt_tokens, cached_tokens, completion_tokens].iter().all(|&count| count == 0)
            && self.cost() == Usd::ZERO
    }

    /// This usage and more of the same group.
    #[must_use]
    fn with(&self, more: &Self) -> Self {
        self.combined(more, Add::add)
    }

    /// This usage without a part of it.
    #[must_use]
    fn without(&self, part: &Self) -> Self {
        self.combined(part, Sub::sub)
    }

    fn combined(&self, other: &Self, combine: fn(i64, i64) -> i64) -> Self {
        Self {
            value: self.value.clone(),
            requests: combine(self.requests, other.requests),
            blocked: combine(self.blocked, other.blocked),
            failures: combine(self.failures, other.failures),
            prompt_tokens: combine(self.prompt_tokens, other.prompt_tokens),
            cached_tokens: combine(self.cached_tokens, other.cached_tokens),
            completion_tokens: combine(self.completion_tokens, other.completion_tokens),
            dollars: combine(self.dollars, other.dollars),
            nanos: combine(self.nanos, other.nanos),
        }
    }
}

/// The usage of a project by one dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grouped {
    /// The dearest groups with a value, dearest first.
    pub groups: Vec<GroupRow>,
    /// Calls without a value.
    pub without: GroupRow,
    /// All other groups together.
    pub rest: GroupRow,
    /// All usage.
    pub total: GroupRow,
}

impl Grouped {
    /// The rest is the total without the groups and the calls without a value.
    fn of(groups: Vec<GroupRow>, without: GroupRow, total: GroupRow) -> Self {
        let rest = groups.iter().fold(total.without(&without), |left, group| left.without(group));
        Self { groups, without, rest, total }
    }
}

/// The condition of steps that count, as in the ledger.
const IS_COUNTED: &str =
    "(kind = 'run' OR kind = 'blocked' AND (source_step_id IS NULL OR api_endpoint = 'replay'))";
/// The usage of a step: shadow calls cost, and are no requests.
const OF_STEP: &str = "
    CASE WHEN shadow THEN 0 ELSE 1 END AS requests,
    CASE WHEN kind = 'blocked' THEN 1 ELSE 0 END AS blocked,
    CASE WHEN status = 'failed' AND NOT COALESCE(shadow, FALSE) THEN 1 ELSE 0 END AS failures,
    COALESCE(prompt_tokens, 0) AS prompt_tokens,
    COALESCE(cached_tokens, 0) AS cached_tokens,
    COALESCE(completion_tokens, 0) AS completion_tokens,
    COALESCE(cost, 0) AS cost";
/// A sum of nano-dollars may be more than an integer holds.
const SUMS: &str = "
    CAST(COALESCE(sum(requests), 0) AS BIGINT) AS requests,
    CAST(COALESCE(sum(blocked), 0) AS BIGINT) AS blocked,
    CAST(COALESCE(sum(failures), 0) AS BIGINT) AS failures,
    CAST(COALESCE(sum(prompt_tokens), 0) AS BIGINT) AS prompt_tokens,
    CAST(COALESCE(sum(cached_tokens), 0) AS BIGINT) AS cached_tokens,
    CAST(COALESCE(sum(completion_tokens), 0) AS BIGINT) AS completion_tokens,
    CAST(COALESCE(sum(cost / 1000000000), 0) AS BIGINT) AS dollars,
    CAST(COALESCE(sum(cost % 1000000000), 0) AS BIGINT) AS nanos";

impl Store {
    /// The usage of a project by a dimension, from an hour on up to but without a moment. The dearest
    /// `most` groups are told apart.
    #[boxed]
    pub async fn usage_by(
        &self,
        project: ProjectId,
        dimension: &Dimension,
        from_hour: i64,
        end: Timestamp,
        most: usize,
    ) -> Result<Grouped> {
        let mut asked =
            Asked::begin(&self.reports, Begin::Snapshot, project, from_hour, end).await?;
        let since = asked.since(dimension, kept::MOST_SINCE).await?;
        self.answer(&mut asked, dimension, since, most).await
    }

    /// The usage of some keys of a project, from an hour on up to but without a moment, dearest first; keys
    /// without usage are left out.
    #[boxed]
    pub async fn usage_of_keys(
        &self,
        project: ProjectId,
        keys: &[KeyId],
        from_hour: i64,
        end: Timestamp,
    ) -> Result<Vec<GroupRow>> {
        let mut asked =
            Asked::begin(&self.reports, Begin::Snapshot, project, from_hour, end).await?;
        let mut groups = Vec::new();
        for keys in keys.chunks(KEYS_AT_ONCE) {
            let values = keys.iter().map(|key| key.to_i64().to_string()).collect();
            let since = asked.since_of_keys(keys).await?;
            for summed in asked.exact(&Dimension::Key, values).await? {
                let more = since.iter().find(|row| row.value == summed.value);
                groups.push(more.map_or_else(|| summed.clone(), |more| summed.with(more)));
            }
        }
        groups.retain(|group| !group.is_empty());
        groups.sort_by(|a, b| b.cost().cmp(&a.cost()).then_with(|| a.value.cmp(&b.value)));
        Ok(groups)
    }

    /// The usage of a project by several dimensions, each as [`Self::usage_by`] gives it. The steps that are in
    /// no row are read once, and those that are complete not again by the next question.
    pub async fn usage_by_each(
        &self,
        project: ProjectId,
        dimensions: &[Dimension],
        from_hour: i64,
        (end, arrived): (Timestamp, Arrived),
        most: usize,
    ) -> Result<Vec<Grouped>> {
        let mut asked =
            Asked::begin(&self.reports, Begin::PlannedSnapshot, project, from_hour, end).await?;
        let since = asked.since_each(dimensions, arrived, &self.kept_steps).await?;
        let mut usages = Vec::with_capacity(dimensions.len());
        for (at, dimension) in dimensions.iter().enumerate() {
            let since = since.as_ref().map(|each| each[at].clone());
            usages.push(self.answer(&mut asked, dimension, since, most).await?);
        }
        Ok(usages)
    }

    /// Answers a question by one dimension; `since` are the groups of the steps in no row, unless they are too
    /// many.
    async fn answer(
        &self,
        asked: &mut Asked,
        dimension: &Dimension,
        since: Option<Vec<GroupRow>>,
        most: usize,
    ) -> Result<Grouped> {
        let rows = self.summed(asked, dimension, most).await?;
        let summed = &rows.summed;
        if let Some(since) = since {
            let (mut exact, unknown) = rows.known(summed.candidates(&since, most));
            if unknown.len() <= kept::MOST_CANDIDATES {
                let looked_up = asked.exact(dimension, unknown).await?;
                self.kept_sums.add(asked.question(dimension, most), &summed.total, &looked_up);
                exact.extend(looked_up);
                return Ok(summed.joined(since, exact, most));
            }
        }
        asked.at_once(dimension, most).await
    }

    /// Keeps the sums of the rows of a period, which [`Self::usage_by`] finds until another hour is summed.
    #[boxed]
    pub async fn keep_usage(
        &self,
        project: ProjectId,
        dimension: &Dimension,
        from_hour: i64,
        end: Timestamp,
        most: usize,
    ) -> Result<()> {
        let mut asked =
            Asked::begin(&self.reader, Begin::Snapshot, project, from_hour, end).await?;
        self.summed(&mut asked, dimension, most).await?;
        Ok(())
    }

    /// Counts the groups of a project by a dimension in the latest day that is summed, if it is that of an hour or
    /// later: at most `most`. Sums of many take long.
    #[boxed]
    pub async fn count_groups(
        &self,
        project: ProjectId,
        dimension: &Dimension,
        from_hour: i64,
        most: i64,
    ) -> Result<i64> {
        const COUNT: &str = "
            SELECT count(*)
            FROM (
                SELECT 1 AS one
                FROM usage_groups
                WHERE project_id = $1 AND dimension = $2 AND span = $3 AND start = (
                    SELECT max(start)
                    FROM usage_groups
                    WHERE project_id = $1 AND dimension = $2 AND span = $3 AND start > $4)
                LIMIT $5) AS counted";
        Ok(on!(&self.reader, db => {
            sqlx::query_scalar(COUNT)
                .bind(project.0)
                .bind(dimension.name())
                .bind(DAY_HOURS)
                .bind(from_hour - DAY_HOURS)
                .bind(most)
                .fetch_one(db)
                .await?
        }))
    }

    /// The usage in the rows of a question.
    async fn summed(
        &self,
        asked: &mut Asked,
        dimension: &Dimension,
        most: usize,
    ) -> Result<KeptRows> {
        let question = asked.question(dimension, most);
        let total = asked.sum(ALL, &format!("({}) AS parts", rows(&ALL_COLUMNS)), None).await?;
        if let Some(rows) = self.kept_sums.get(&question, &total) {
            return Ok(rows);
        }
        let summed = asked.summed_hours(dimension, total, kept::most(most)).await?;
        Ok(self.kept_sums.keep(question, summed))
    }
}
