//! Writes the rows of one commit, many rows a statement.

use std::sync::LazyLock;

use domain::ids::NodeId;
use domain::step::Step;

use super::batch::Batch;
use crate::db::{Tx, within};
use crate::error::{Error, Result};

/// Rows a statement holds. Few sizes, so that every statement stays prepared.
const SIZES: [usize; 4] = [16, 4, 2, 1];

/// One table's insert, a text for every size.
struct Insert([String; SIZES.len()]);

impl Insert {
    fn new(table: &str, columns: &[&str]) -> Self {
        Self(SIZES.map(|rows| {
            let width = columns.len();
            let row = |row: usize| {
                let numbers: Vec<String> =
                    (1..=width).map(|column| format!("${}", row * width + column)).collect();
                format!("({})", numbers.join(", "))
            };
            let rows: Vec<String> = (0..rows).map(row).collect();
            format!("INSERT INTO {table} ({}) VALUES {}", columns.join(", "), rows.join(", "))
        }))
    }
}

/// Cuts rows into pieces of the prepared sizes, with the index of the size.
fn pieces<T>(mut rows: &[T]) -> impl Iterator<Item = (usize, &[T])> {
    std::iter::from_fn(move || {
        let size = SIZES.iter().position(|&size| size <= rows.len())?;
        let (piece, rest) = rows.split_at(SIZES[size]);
        rows = rest;
        Some((size, piece))
    })
}

static TRACES: LazyLock<Insert> = LazyLock::new(|| {
    Insert::new(
        "traces",
        &["id", "project_id", "key_id", "status", "created_at", "metadata", "revenue"],
    )
});
static STARTS: LazyLock<Insert> =
    LazyLock::new(|| Insert::new("open_calls", &["step_id", "node", "started_at", "call"]));
static CONTENTS: LazyLock<Insert> =
    LazyLock::new(|| Insert::new("step_contents", &["step_id", "project_id", "sealed"]));
static STEPS: LazyLock<Insert> = LazyLock::new(|| {
    Insert::new(
        "steps",
        &[
            "id",
            "trace_id",
            "project_id",
            "key_id",
            "kind",
            "parent_step_id",
            "door",
            "status",
            "reason",
            "error",
            "started_at",
            "finished_at",
            "tier",
            "classified_tier",
            "complexity",
            "intent",
            "routing_reasons",
            "pii",
            "injection",
            "secret",
            "review",
            "risk_score",
            "findings",
            "model",
            "provider",
            "upstream_model",
            "infrastructure",
            "is_public",
            "attempts",
            "prompt_tokens",
            "cached_tokens",
            "cache_write_tokens",
            "completion_tokens",
            "reasoning_tokens",
            "input_price",
            "output_price",
            "cached_price",
            "cache_write_price",
            "cost",
            "cost_estimated",
            "first_token",
            "finish_reason",
            "input_print",
            "output_print",
            "tool_print",
            "shadow",
            "user_rating",
        ],
    )
});
static CLOSE: LazyLock<[String; SIZES.len()]> = LazyLock::new(|| {
    SIZES.map(|rows| {
        let ids: Vec<String> = (1..=rows).map(|id| format!("${id}")).collect();
        format!("DELETE FROM open_calls WHERE step_id IN ({})", ids.join(", "))
    })
});

/// Writes everything but the ledger.
pub(super) async fn write(tx: &mut Tx, batch: &Batch<'_>, node: NodeId) -> Result<()> {
    traces(tx, batch).await?;
    starts(tx, batch, node).await?;
    for (size, ids) in pieces(&batch.closed) {
        within!(tx, db => {
            let mut query = sqlx::query(CLOSE[size].as_str());
            for id in ids {
                query = query.bind(id);
            }
            query.execute(&mut *db).await?;
        });
    }
    for (size, piece) in pieces(&batch.steps) {
        steps(tx, &STEPS.0[size], piece).await?;
    }
    for (size, piece) in pieces(&batch.contents) {
        within!(tx, db => {
            let mut query = sqlx::query(CONTENTS.0[size].as_str());
            for (step, sealed) in piece {
                query = query.bind(step.id.0).bind(step.project.0).bind(*sealed);
            }
            query.execute(&mut *db).await?;
        });
    }
    Ok(())
}

async fn traces(tx: &mut Tx, batch: &Batch<'_>) -> Result<()> {
    for (size, piece) in pieces(&batch.traces) {
        within!(tx, db => {
            let mut query = sqlx::query(TRACES.0[size].as_str());
            for trace in piece {
                query = query
                    .bind(trace.id.0)
                    .bind(trace.project.0)
                    .bind(trace.key.map(domain::ids::KeyId::to_i64))
                    .bind(trace.status.as_str())
                    .bind(trace.created_at.0)
                    .bind(trace.metadata.as_ref().map(ToString::to_string))
                    .bind(trace.revenue.map(|revenue| revenue.0));
            }
            query.execute(&mut *db).await?;
        });
    }
    Ok(())
}

async fn starts(tx: &mut Tx, batch: &Batch<'_>, node: NodeId) -> Result<()> {
    for (size, piece) in pieces(&batch.starts) {
        within!(tx, db => {
            let mut query = sqlx::query(STARTS.0[size].as_str());
            for start in piece {
                let call = serde_json::to_string(start)
                    .map_err(|error| Error::Corrupt(error.to_string()))?;
                query = query.bind(start.step.0).bind(node.0).bind(start.started_at).bind(call);
            }
            query.execute(&mut *db).await?;
        });
    }
    Ok(())
}

/// A text as a database can hold it: PostgreSQL takes no NUL.
fn text(text: Option<&str>) -> Option<String> {
    text.map(
        |text| if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.to_owned() },
    )
}

async fn steps(tx: &mut Tx, sql: &'static str, piece: &[&Step]) -> Result<()> {
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    within!(tx, db => {
        let mut query = sqlx::query(sql);
        for step in piece {
            let (routing, security, call) = (step.routing.as_ref(), &step.security, step.call.as_ref());
            let usage = call.map(|call| call.usage);
            let prices = call.and_then(|call| call.prices);
            query = query
                .bind(step.id.0)
                .bind(step.trace.0)
                .bind(step.project.0)
                .bind(step.key.map(domain::ids::KeyId::to_i64))
                .bind(step.kind.as_str())
                .bind(step.parent.map(|parent| parent.0))
                .bind(step.door.as_str())
                .bind(step.status.as_str())
                .bind(text(step.reason.as_deref()))
                .bind(text(step.error.as_deref()))
                .bind(step.started_at.0)
                .bind(step.finished_at.0)
                .bind(routing.and_then(|routing| routing.tier).map(domain::tier::Tier::as_str))
                .bind(routing.map(|routing| routing.classified.as_str()))
                .bind(routing.map(|routing| routing.complexity))
                .bind(routing.map(|routing| routing.intent.as_str()))
                .bind(routing.map(|routing| serde_json::json!(routing.reasons).to_string()))
                .bind(security.pii)
                .bind(security.injection)
                .bind(security.secret)
                .bind(security.review)
                .bind(security.risk_score)
                .bind(security.findings.as_ref().map(ToString::to_string))
                .bind(call.map(|call| call.model.as_str()))
                .bind(call.map(|call| call.provider.as_str()))
                .bind(text(call.and_then(|call| call.upstream_model.as_deref())))
                .bind(call.map(|call| call.infrastructure.as_str()))
                .bind(call.map(|call| call.is_public))
                .bind(call.map(|call| call.attempts))
                .bind(usage.map(|usage| count(usage.prompt)))
                .bind(usage.map(|usage| count(usage.cached)))
                .bind(usage.map(|usage| count(usage.cache_write)))
                .bind(usage.map(|usage| count(usage.completion)))
                .bind(usage.map(|usage| count(usage.reasoning)))
                .bind(prices.map(|prices| prices.input.0))
                .bind(prices.map(|prices| prices.output.0))
                .bind(prices.map(|prices| prices.cached_input.0))
                .bind(prices.map(|prices| prices.cache_write.0))
                .bind(call.map(|call| call.cost.0))
                .bind(call.map(|call| call.cost_estimated))
                .bind(call.and_then(|call| call.first_token))
                .bind(call.and_then(|call| call.finish).map(domain::step::FinishReason::as_str))
                .bind(call.and_then(|call| call.input_print))
                .bind(call.and_then(|call| call.output_print))
                .bind(call.and_then(|call| call.tool_print))
                .bind(call.map(|call| call.shadow))
                .bind(step.user_rating);
        }
        query.execute(&mut *db).await?;
    });
    Ok(())
}
