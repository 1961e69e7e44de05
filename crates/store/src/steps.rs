//! Steps, read. They are written by the [group-commit writer](crate::writer).

mod details;

use domain::grade::LatencyBaseline;
use domain::ids::{KeyId, ProjectId, StepId, TraceId};
use domain::model::Provider;
use domain::money::{Prices, Usd};
use domain::step::{
    ApiEndpoint, Call, Content, FinishReason, Routing, Security, Step, StepKind, StepStatus,
    ToolUse,
};
use domain::tier::{Intent, Tier};
use domain::time::Timestamp;
use domain::usage::{Open, Usage};

use crate::Store;
use crate::db::on;
use crate::error::{Error, Result};
use crate::seal::SealingKey;

pub use details::{Outline, STEPS_AT_ONCE, SealedContent};

/// The most steps of one trace that are read.
const MOST_STEPS: i64 = 10_000;

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    trace_id: uuid::Uuid,
    project_id: i64,
    key_id: Option<i64>,
    kind: String,
    parent_step_id: Option<i64>,
    #[sqlx(rename = "door")]
    api_endpoint: String,
    status: String,
    reason: Option<String>,
    error: Option<String>,
    started_at: i64,
    finished_at: i64,
    tier: Option<String>,
    classified_tier: Option<String>,
    complexity: Option<f64>,
    intent: Option<String>,
    routing_reasons: Option<String>,
    pii: bool,
    injection: bool,
    secret: bool,
    review: bool,
    risk_score: f64,
    findings: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    upstream_model: Option<String>,
    infrastructure: Option<String>,
    is_public: Option<bool>,
    attempts: Option<i64>,
    prompt_tokens: Option<i64>,
    cached_tokens: Option<i64>,
    cache_write_tokens: Option<i64>,
    cache_write_1h_tokens: Option<i64>,
    completion_tokens: Option<i64>,
    reasoning_tokens: Option<i64>,
    input_price: Option<i64>,
    output_price: Option<i64>,
    cached_price: Option<i64>,
    cache_write_price: Option<i64>,
    cache_write_1h_price: Option<i64>,
    cost: Option<i64>,
    cost_estimated: Option<bool>,
    first_token: Option<i64>,
    finish_reason: Option<String>,
    input_print: Option<i64>,
    output_print: Option<i64>,
    tool_calls: Option<i64>,
    tool_fidelity: Option<f64>,
    tool_prints: Option<String>,
    shadow: Option<bool>,
    user_rating: Option<f64>,
}

impl Store {
    /// The steps of a trace in the order they began, at most 10,000.
    pub async fn steps(&self, trace: TraceId) -> Result<Vec<Step>> {
        const ALL: &str = "
            SELECT * FROM steps WHERE trace_id = $1 ORDER BY started_at, id LIMIT $2";
        let rows: Vec<Row> = on!(&self.reader, db => {
            sqlx::query_as(ALL).bind(trace.0).bind(MOST_STEPS).fetch_all(db).await?
        });
        rows.into_iter().map(Row::read).collect()
    }

    /// Whether a step belongs to a trace.
    pub async fn step_is_of(&self, step: StepId, trace: TraceId) -> Result<bool> {
        let found: Option<i64> = on!(&self.reader, db => {
            sqlx::query_scalar("SELECT id FROM steps WHERE id = $1 AND trace_id = $2")
                .bind(step.0).bind(trace.0)
                .fetch_optional(db).await?
        });
        Ok(found.is_some())
    }

    /// One step of a trace.
    pub async fn step(&self, step: StepId, trace: TraceId) -> Result<Option<Step>> {
        let row: Option<Row> = on!(&self.reader, db => {
            sqlx::query_as("SELECT * FROM steps WHERE id = $1 AND trace_id = $2")
                .bind(step.0).bind(trace.0)
                .fetch_optional(db).await?
        });
        row.map(Row::read).transpose()
    }

    /// The content of a step, opened; `None` if none is stored.
    pub async fn content(&self, step: StepId, key: &SealingKey) -> Result<Option<Content>> {
        let sealed: Option<Vec<u8>> = on!(&self.reader, db => {
            sqlx::query_scalar("SELECT sealed FROM step_contents WHERE step_id = $1")
                .bind(step.0)
                .fetch_optional(db).await?
        });
        sealed.map(|sealed| open(step, sealed, key)).transpose()
    }

    /// The 95th percentile of each model's run steps in a project since a time.
    pub async fn latency_baselines(
        &self,
        project: ProjectId,
        models: &[&str],
        since: Timestamp,
    ) -> Result<Vec<LatencyBaseline>> {
        const P95: &str = "
            SELECT CAST(min(latency) FILTER (WHERE share >= 0.95) AS BIGINT), count(*)
            FROM (
                SELECT latency, cume_dist() OVER (ORDER BY latency) AS share
                FROM (
                    SELECT finished_at - started_at AS latency
                    FROM steps
                    WHERE project_id = $1 AND finished_at >= $3 AND model = $2 AND status = 'completed'
                    ORDER BY finished_at DESC
                    LIMIT 2000) AS recent) AS ranked";
        let mut baselines = Vec::with_capacity(models.len());
        for model in models {
            let (p95, samples): (Option<i64>, i64) = on!(&self.reader, db => {
                sqlx::query_as(P95).bind(project.0).bind(*model).bind(since.0).fetch_one(db).await?
            });
            baselines.push(LatencyBaseline {
                model: (*model).to_owned(),
                p95_ms: domain::time::millis(p95.unwrap_or(0)),
                samples: samples.unsigned_abs(),
            });
        }
        Ok(baselines)
    }

    /// The median pause between two steps of one trace, in milliseconds, by the last steps of a project
    /// since a time; steps that overlap have none. `None` if there are too few for a median.
    pub async fn typical_gap(&self, project: ProjectId, since: Timestamp) -> Result<Option<f64>> {
        const MEDIAN: &str = "
            SELECT CAST(min(gap) FILTER (WHERE share >= 0.5) AS BIGINT), count(*)
            FROM (
                SELECT gap, cume_dist() OVER (ORDER BY gap) AS share
                FROM (
                    SELECT CASE WHEN since < 0 THEN 0 ELSE since END AS gap
                    FROM (
                        SELECT started_at - lag(finished_at) OVER (
                                   PARTITION BY trace_id ORDER BY started_at, id) AS since
                        FROM (
                            SELECT id, trace_id, started_at, finished_at
                            FROM steps
                            WHERE project_id = $1 AND finished_at >= $2
                            ORDER BY finished_at DESC
                            LIMIT 2000) AS recent) AS followed
                    WHERE since IS NOT NULL) AS gaps) AS ranked";
        let (median, gaps): (Option<i64>, i64) = on!(&self.reader, db => {
            sqlx::query_as(MEDIAN).bind(project.0).bind(since.0).fetch_one(db).await?
        });
        Ok(median.filter(|_| gaps >= ENOUGH_GAPS).map(domain::time::millis))
    }
}

/// The least number of pauses for a median.
const ENOUGH_GAPS: i64 = 20;

fn open(step: StepId, sealed: Vec<u8>, key: &SealingKey) -> Result<Content> {
    let plain = key.open_content(&place(step), sealed)?;
    serde_json::from_slice(&plain)
        .map_err(|error| Error::Corrupt(format!("the content of step {step}: {error}")))
}

/// The location that ties a sealed content to its step.
pub(crate) fn place(step: StepId) -> String {
    format!("step:{step}")
}

/// Parses a word of one of the closed lists.
fn word<T>(parse: fn(&str) -> Option<T>, text: &str) -> Result<T> {
    parse(text).ok_or_else(|| Error::Corrupt(format!("'{text}'")))
}

fn json(text: Option<&str>) -> Result<Option<serde_json::Value>> {
    text.map(serde_json::from_str).transpose().map_err(|error| Error::Corrupt(error.to_string()))
}

impl Row {
    fn read(self) -> Result<Step> {
        Ok(Step {
            id: StepId(self.id),
            trace: TraceId(self.trace_id),
            project: ProjectId(self.project_id),
            key: self.key_id.map(KeyId::from_i64),
            kind: word(StepKind::parse, &self.kind)?,
            parent: self.parent_step_id.map(StepId),
            api_endpoint: word(ApiEndpoint::parse, &self.api_endpoint)?,
            status: word(StepStatus::parse, &self.status)?,
            reason: self.reason.clone(),
            error: self.error.clone(),
            started_at: Timestamp(self.started_at),
            finished_at: Timestamp(self.finished_at),
            routing: self.routing()?,
            security: Security {
                pii: self.pii,
                injection: self.injection,
                secret: self.secret,
                review: self.review,
                risk_score: self.risk_score,
                findings: json(self.findings.as_deref())?,
            },
            user_rating: self.user_rating,
            call: self.call()?,
        })
    }

    fn routing(&self) -> Result<Option<Routing>> {
        let Some(classified) = &self.classified_tier else { return Ok(None) };
        let reasons = json(self.routing_reasons.as_deref())?;
        Ok(Some(Routing {
            tier: self.tier.as_deref().map(|tier| word(Tier::parse, tier)).transpose()?,
            classified: word(Tier::parse, classified)?,
            complexity: self.complexity.unwrap_or_default(),
            intent: word(Intent::parse, self.intent.as_deref().unwrap_or("other"))?,
            reasons: reasons
                .and_then(|reasons| serde_json::from_value(reasons).ok())
                .unwrap_or_default(),
        }))
    }

    fn call(self) -> Result<Option<Call>> {
        let Some(model) = self.model else { return Ok(None) };
        let tokens = |count: Option<i64>| count.unwrap_or(0).unsigned_abs();
        let prices = match (self.input_price, self.output_price) {
            (Some(input), Some(output)) => {
                let cache_write = self.cache_write_price.unwrap_or(input);
                Some(Prices {
                    input: Usd(input),
                    output: Usd(output),
                    cached_input: Usd(self.cached_price.unwrap_or(input)),
                    cache_write: Usd(cache_write),
                    // Older steps have no such tokens.
                    cache_write_1h: Usd(self.cache_write_1h_price.unwrap_or(cache_write)),
                })
            }
            _ => None,
        };
        Ok(Some(Call {
            model,
            provider: word(Provider::parse, self.provider.as_deref().unwrap_or_default())?,
            upstream_model: self.upstream_model,
            infrastructure: self.infrastructure.unwrap_or_default(),
            is_public: self.is_public.unwrap_or_default(),
            attempts: self.attempts.unwrap_or(1),
            usage: Usage {
                prompt: tokens(self.prompt_tokens),
                cached: tokens(self.cached_tokens),
                cache_write: tokens(self.cache_write_tokens),
                cache_write_1h: tokens(self.cache_write_1h_tokens),
                completion: tokens(self.completion_tokens),
                reasoning: tokens(self.reasoning_tokens),
                open: Open::default(),
            },
            prices,
            cost: Usd(self.cost.unwrap_or(0)),
            cost_estimated: self.cost_estimated.unwrap_or_default(),
            first_token: self.first_token,
            finish: self
                .finish_reason
                .as_deref()
                .map(|f| word(FinishReason::parse, f))
                .transpose()?,
            input_print: self.input_print,
            output_print: self.output_print,
            tools: self.tool_calls.map(|calls| ToolUse {
                calls: u32::try_from(calls).unwrap_or(u32::MAX),
                fidelity: self.tool_fidelity.unwrap_or(1.0),
                prints: self
                    .tool_prints
                    .and_then(|prints| serde_json::from_str(&prints).ok())
                    .unwrap_or_default(),
            }),
            shadow: self.shadow.unwrap_or_default(),
        }))
    }
}
