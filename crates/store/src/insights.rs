//! Insights as rows, and the sums over steps and the ledger that they are computed from.

use std::collections::BTreeMap;

use async_recursion::async_recursion as boxed;
use domain::ids::{InsightId, ProjectId};
use domain::insight::{Insight, InsightFacts, InsightKind, InsightStatus};
use domain::money::Usd;
use domain::sketch::Sketch;
use domain::tier::{Intent, Tier};
use domain::time::Timestamp;
use domain::usage::Usage;

use crate::Store;
use crate::db::{Tx, on, within};
use crate::error::{Error, Result};
use crate::from_row::from_row;

/// Insights of one project that are read. There is one for each intent and model at most.
const MOST_INSIGHTS: i64 = 10_000;

from_row! {
    struct Row {
        id: i64,
        project_id: i64,
        kind: String,
        subject: String,
        status: String,
        data: String,
        estimated_savings: i64,
        created_at: i64,
    }
}

impl Row {
    fn read(self) -> Result<Insight> {
        let corrupt = |what: &str| Error::Corrupt(format!("insight {}: {what}", self.id));
        Ok(Insight {
            id: InsightId(self.id),
            project: ProjectId(self.project_id),
            facts: InsightFacts {
                kind: InsightKind::parse(&self.kind).ok_or_else(|| corrupt("kind"))?,
                data: serde_json::from_str(&self.data).map_err(|_| corrupt("data"))?,
                subject: self.subject,
                estimated_savings: Usd(self.estimated_savings),
            },
            status: InsightStatus::parse(&self.status).ok_or_else(|| corrupt("status"))?,
            created_at: Timestamp(self.created_at),
        })
    }
}

/// The completed calls of one intent, tier and model.
#[derive(Clone, Debug, PartialEq)]
pub struct IntentUsage {
    /// The intent; `None` for calls without one, which are not for text.
    pub intent: Option<Intent>,
    /// The tier that their inputs classify as.
    pub tier: Option<Tier>,
    /// The model.
    pub model: String,
    /// How many there are.
    pub steps: u64,
    /// Their tokens together.
    pub usage: Usage,
    /// The most tokens of one, prompt and completion.
    pub longest: u64,
    /// Their cost together.
    pub cost: Usd,
}

from_row! {
    struct UsageRow {
        intent: Option<String>,
        tier: Option<String>,
        model: String,
        steps: i64,
        prompt: i64,
        cached: i64,
        cache_write: i64,
        cache_write_1h: i64,
        completion: i64,
        longest: i64,
        dollars: i64,
        nanos: i64,
    }
}

impl UsageRow {
    fn read(self) -> IntentUsage {
        let count = |number: i64| number.max(0).unsigned_abs();
        IntentUsage {
            intent: self.intent.as_deref().and_then(Intent::parse),
            tier: self.tier.as_deref().and_then(Tier::parse),
            model: self.model,
            steps: count(self.steps),
            usage: Usage {
                prompt: count(self.prompt),
                cached: count(self.cached),
                cache_write: count(self.cache_write),
                cache_write_1h: count(self.cache_write_1h),
                completion: count(self.completion),
                ..Usage::default()
            },
            longest: count(self.longest),
            cost: Usd::of_parts(self.dollars, self.nanos),
        }
    }
}

/// The latencies of each model over some minutes of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelLatencies {
    /// By the identifier of the model.
    pub by_model: BTreeMap<String, Sketch>,
    /// The first of these minutes. Those before it were not read.
    pub from_minute: i64,
    /// Whether a minute had more rows than are read at once: the others are left out.
    pub is_cut: bool,
}

impl ModelLatencies {
    /// None, of the time before a minute.
    pub fn before(minute: i64) -> Self {
        Self { from_minute: minute, ..Self::default() }
    }

    /// Adds those of the minutes before.
    pub fn extend(&mut self, earlier: Self) {
        for (model, sketch) in earlier.by_model {
            self.by_model.entry(model).or_default().merge(&sketch);
        }
        self.from_minute = earlier.from_minute;
        self.is_cut |= earlier.is_cut;
    }
}

impl Store {
    /// All insights of a project, in the order of their numbers.
    #[boxed]
    pub async fn insights(&self, project: ProjectId) -> Result<Vec<Insight>> {
        const ALL: &str = "
            SELECT id, project_id, kind, subject, status, data, estimated_savings, created_at
            FROM insights
            WHERE project_id = $1
            ORDER BY id
            LIMIT $2";
        let rows: Vec<Row> = on!(&self.reader, db => {
            sqlx::query_as(ALL).bind(project.0).bind(MOST_INSIGHTS).fetch_all(db).await?
        });
        rows.into_iter().map(Row::read).collect()
    }

    /// Counts the steps of any kind of a project since a time: the latest ones, at most `most`. Returns with them
    /// the end of the first one.
    #[boxed]
    pub async fn recent_extent(
        &self,
        project: ProjectId,
        since: Timestamp,
        most: i64,
    ) -> Result<(i64, Option<Timestamp>)> {
        const EXTENT: &str = "
            SELECT count(*), min(finished_at)
            FROM (
                SELECT finished_at
                FROM steps
                WHERE project_id = $1 AND finished_at >= $2
                ORDER BY finished_at DESC
                LIMIT $3) AS recent";
        let (steps, first): (i64, Option<i64>) = on!(&self.reader, db => {
            sqlx::query_as(EXTENT).bind(project.0).bind(since.0).bind(most).fetch_one(db).await?
        });
        Ok((steps, first.map(Timestamp)))
    }

    /// Sums up the completed calls among the steps of a project since a time, by intent, tier and model: those
    /// among the latest steps, at most `most`. Shadow calls and replays are left out.
    #[boxed]
    pub async fn recent_usage(
        &self,
        project: ProjectId,
        since: Timestamp,
        most: i64,
    ) -> Result<Vec<IntentUsage>> {
        const SUMS: &str = "
            SELECT intent,
                   CASE WHEN tier = 'secure' THEN tier ELSE classified_tier END AS tier,
                   model,
                   count(*) AS steps,
                   CAST(sum(COALESCE(prompt_tokens, 0)) AS BIGINT) AS prompt,
                   CAST(sum(COALESCE(cached_tokens, 0)) AS BIGINT) AS cached,
                   CAST(sum(COALESCE(cache_write_tokens, 0)) AS BIGINT) AS cache_write,
                   CAST(sum(COALESCE(cache_write_1h_tokens, 0)) AS BIGINT) AS cache_write_1h,
                   CAST(sum(COALESCE(completion_tokens, 0)) AS BIGINT) AS completion,
                   max(COALESCE(prompt_tokens, 0) + COALESCE(completion_tokens, 0)) AS longest,
                   CAST(sum(COALESCE(cost, 0) / 1000000000) AS BIGINT) AS dollars,
                   CAST(sum(COALESCE(cost, 0) % 1000000000) AS BIGINT) AS nanos
            FROM (
                SELECT *
                FROM steps
                WHERE project_id = $1 AND finished_at >= $2
                ORDER BY finished_at DESC
                LIMIT $3) AS recent
            WHERE kind = 'run' AND status = 'completed' AND model IS NOT NULL
                AND COALESCE(shadow, FALSE) = FALSE AND api_endpoint <> 'replay'
            GROUP BY 1, 2, 3
            ORDER BY 3, 1, 2";
        let rows: Vec<UsageRow> = on!(&self.reader, db => {
            sqlx::query_as(SUMS).bind(project.0).bind(since.0).bind(most).fetch_all(db).await?
        });
        Ok(rows.into_iter().map(UsageRow::read).collect())
    }

    /// When the first step of a project since a time ended.
    #[boxed]
    pub async fn first_end(
        &self,
        project: ProjectId,
        since: Timestamp,
    ) -> Result<Option<Timestamp>> {
        const FIRST: &str =
            "SELECT min(finished_at) FROM steps WHERE project_id = $1 AND finished_at >= $2";
        let first: Option<i64> = on!(&self.reader, db => {
            sqlx::query_scalar(FIRST).bind(project.0).bind(since.0).fetch_one(db).await?
        });
        Ok(first.map(Timestamp))
    }

    /// The latencies of each model of a project, from one minute up to but without another: those of the latest
    /// minutes whose rows of the ledger are at most `most` together.
    #[boxed]
    pub async fn latencies_by_model(
        &self,
        project: ProjectId,
        from_minute: i64,
        to_minute: i64,
        most: i64,
    ) -> Result<ModelLatencies> {
        const SKETCHES: &str = "
            SELECT minute, model, latency_sketch
            FROM usage_ledger
            WHERE project_id = $1 AND minute >= $2 AND minute < $3
            ORDER BY minute DESC
            LIMIT $4";
        let rows: Vec<(i64, String, Vec<u8>)> = on!(&self.reader, db => {
            sqlx::query_as(SKETCHES)
                .bind(project.0).bind(from_minute).bind(to_minute).bind(most)
                .fetch_all(db).await?
        });
        let mut all = ModelLatencies::before(from_minute);
        if let (Some((latest, ..)), Some((earliest, ..))) = (rows.first(), rows.last())
            && rows.len() as i64 >= most
        {
            // More rows of the earliest minute may follow: they are read with those before it.
            all.is_cut = latest == earliest;
            all.from_minute = if all.is_cut { *earliest } else { earliest + 1 };
        }
        for (minute, model, bytes) in rows {
            if minute >= all.from_minute {
                let one = Sketch::from_bytes(&bytes)
                    .ok_or_else(|| Error::Corrupt("a latency sketch".to_owned()))?;
                all.by_model.entry(model).or_default().merge(&one);
            }
        }
        all.by_model.remove("");
        Ok(all)
    }
}

impl Tx {
    /// One insight of a project.
    #[boxed]
    pub async fn insight(
        &mut self,
        project: ProjectId,
        insight: InsightId,
    ) -> Result<Option<Insight>> {
        const ONE: &str = "
            SELECT id, project_id, kind, subject, status, data, estimated_savings, created_at
            FROM insights
            WHERE id = $1 AND project_id = $2";
        let row: Option<Row> = within!(self, db => {
            sqlx::query_as(ONE).bind(insight.0).bind(project.0).fetch_optional(&mut *db).await?
        });
        row.map(Row::read).transpose()
    }

    /// Adds an active insight, unless there is one of its kind and subject.
    #[boxed]
    pub async fn add_insight(
        &mut self,
        project: ProjectId,
        facts: &InsightFacts,
        now: Timestamp,
    ) -> Result<()> {
        const ADD: &str = "
            INSERT INTO insights
                (project_id, kind, subject, status, data, estimated_savings, created_at)
            VALUES ($1, $2, $3, 'active', $4, $5, $6)
            ON CONFLICT (project_id, kind, subject) DO NOTHING";
        within!(self, db => {
            sqlx::query(ADD)
                .bind(project.0)
                .bind(facts.kind.as_str())
                .bind(&facts.subject)
                .bind(text(facts))
                .bind(facts.estimated_savings.0)
                .bind(now.0)
                .execute(&mut *db)
                .await?;
        });
        Ok(())
    }

    /// Replaces an insight whose status is still `was`. Returns whether it was.
    #[boxed]
    pub async fn save_insight(&mut self, insight: &Insight, was: InsightStatus) -> Result<bool> {
        const SAVE: &str = "
            UPDATE insights
            SET status = $3, data = $4, estimated_savings = $5, created_at = $6
            WHERE id = $1 AND status = $2";
        let saved = within!(self, db => {
            sqlx::query(SAVE)
                .bind(insight.id.0)
                .bind(was.as_str())
                .bind(insight.status.as_str())
                .bind(text(&insight.facts))
                .bind(insight.facts.estimated_savings.0)
                .bind(insight.created_at.0)
                .execute(&mut *db)
                .await?
                .rows_affected()
        });
        Ok(saved > 0)
    }
}

fn text(facts: &InsightFacts) -> String {
    serde_json::Value::Object(facts.data.clone()).to_string()
}
