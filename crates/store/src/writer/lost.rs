//! Calls that begin, and the settlement of those whose end is lost with their node.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use domain::attributes::Attributes;
use domain::ids::{KeyId, NodeId, ProjectId, StepId, TraceId};
use domain::model::Provider;
use domain::money::{CachePrices, Prices, Usd};
use domain::step::{ApiEndpoint, Call, Security, Step, StepKind, StepStatus};
use domain::tier::Tier;
use domain::time::Timestamp;
use domain::trace_context::TraceContext;
use domain::usage::Usage;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};

use super::{Ends, Write, Writer};
use crate::Store;
use crate::db::{Pool, WritePool, on, within};
use crate::error::{Error, Result};

/// A provider call that is about to be made. Written before it leaves, so that a crash cannot
/// lose it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Start {
    /// The step that will record it.
    pub step: StepId,
    /// The trace it belongs to.
    pub trace: TraceId,
    /// The project that owns the trace.
    pub project: ProjectId,
    /// The key of the caller, as a database integer.
    pub key: Option<i64>,
    /// The endpoint it came in by.
    pub api_endpoint: ApiEndpoint,
    /// The step it follows from.
    pub parent: Option<StepId>,
    /// The step of another trace that it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<StepId>,
    /// The place of its request in the caller's own trace, as a `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Whom it is for, if it has named anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
    /// The model's identifier.
    pub model: String,
    /// The model's wire format.
    pub provider: Provider,
    /// The label its cost is grouped by.
    pub infrastructure: String,
    /// Whether the model is public.
    pub is_public: bool,
    /// The tier it was routed to.
    pub tier: Option<Tier>,
    /// An estimate of its prompt tokens.
    pub prompt_tokens: u64,
    /// Nano-dollars per 1,000 prompt and completion tokens, if known.
    pub prices: Option<(i64, i64)>,
    /// Nano-dollars that the call costs regardless of its tokens (images).
    #[serde(default)]
    pub flat_cost: Option<i64>,
    /// Whether it runs in the shadow of another call.
    #[serde(default)]
    pub shadow: bool,
    /// Microseconds since 1970.
    pub started_at: i64,
}

/// The error of a call that was lost with its node.
const STOPPED: &str = "The gateway stopped before this call ended";
/// The error of a call that has ended, and whose record the database did not take.
const UNRECORDED: &str = "The end of this call could not be recorded";

/// A call that was lost with its node, and what it counts as.
#[derive(Clone, Copy, Debug)]
pub struct LostCall {
    /// Its project.
    pub project: ProjectId,
    /// Its key.
    pub key: KeyId,
    /// Its estimated cost.
    pub cost: Usd,
    /// The time of its end by the ledger.
    pub ended: Timestamp,
}

impl Start {
    /// The cost of the call once it is lost.
    fn cost(&self, now: Timestamp) -> Option<LostCall> {
        let step = self.lost(now, STOPPED);
        let cost = step.call.as_ref()?.cost;
        Some(LostCall { project: step.project, key: step.key?, cost, ended: now })
    }

    /// The step that a lost call leaves: failed, with the prompt paid for as estimated.
    fn lost(&self, now: Timestamp, error: &str) -> Step {
        let prices = self
            .prices
            .map(|(input, output)| Prices::new(Usd(input), Usd(output), CachePrices::default()));
        let usage = Usage { prompt: self.prompt_tokens, ..Usage::default() };
        Step {
            id: self.step,
            trace: self.trace,
            project: self.project,
            key: self.key.map(KeyId::from_i64),
            kind: StepKind::Run,
            parent: self.parent,
            source: self.source,
            trace_context: self.traceparent.as_deref().and_then(TraceContext::parse),
            attributes: self.attributes.clone().map(Arc::new),
            api_endpoint: self.api_endpoint,
            status: StepStatus::Failed,
            reason: None,
            error: Some(error.to_owned()),
            started_at: Timestamp(self.started_at),
            finished_at: now,
            routing: None,
            security: Security::default(),
            call: Some(Call {
                infrastructure: self.infrastructure.clone(),
                is_public: self.is_public,
                usage,
                prices,
                cost: match self.flat_cost {
                    Some(cost) => Usd(cost),
                    None => prices.map_or(Usd::ZERO, |prices| prices.cost(&usage)),
                },
                cost_estimated: true,
                shadow: self.shadow,
                ..Call::of(self.model.clone(), self.provider)
            }),
            user_rating: None,
        }
    }
}

/// Records the calls of a node that is gone and whose end was lost. Returns how many there were.
pub(crate) async fn settle_lost(
    pool: &Pool,
    writes: &WritePool,
    writer: &Writer,
    node: NodeId,
    now: Timestamp,
    counted: &mut Vec<LostCall>,
) -> Result<usize> {
    const LOST: &str =
        "SELECT step_id, call FROM open_calls WHERE node = $1 ORDER BY step_id LIMIT 500";
    let mut settled = 0;
    loop {
        let calls: Vec<(i64, String)> = on!(pool, db => {
            sqlx::query_as(LOST).bind(node.0).fetch_all(db).await?
        });
        if calls.is_empty() {
            return Ok(settled);
        }
        // They share commits: the lock of the node is lent for as long as this takes.
        let written = calls.into_iter().map(async |(id, call)| {
            let start = serde_json::from_str::<Start>(&call);
            let written = match &start {
                Ok(start) => writer.lost(start, now, STOPPED).await,
                Err(error) => Err(Error::Corrupt(error.to_string())),
            };
            (id, start.ok(), written)
        });
        for (id, start, written) in join_all(written).await {
            match written {
                Ok(()) => {
                    settled += 1;
                    counted.extend(start.and_then(|start| start.cost(now)));
                }
                // Its step is there already, or it cannot be read: it must not block every start of
                // the gateway.
                Err(error) if error.is_of_one_row() => {
                    tracing::warn!(step = id, %error, "a call that began is forgotten");
                    forget(writes, id).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Writer {
    /// Records a call of this node that has ended and whose own record the database did not take: as one that was
    /// lost, with an estimated cost. Changes nothing if its step is there.
    #[boxed]
    pub async fn unrecorded(&self, start: &Start, now: Timestamp) -> Result<()> {
        match self.lost(start, now, UNRECORDED).await {
            Err(Error::Taken) => Ok(()),
            other => other,
        }
    }

    async fn lost(&self, start: &Start, now: Timestamp, error: &str) -> Result<()> {
        let step = Box::new(start.lost(now, error));
        self.wait(Write::Step(step, None, Ends::Lost)).await.map(drop)
    }
}

async fn forget(writes: &WritePool, id: i64) -> Result<()> {
    let mut tx = writes.begin().await?;
    within!(tx, db => {
        sqlx::query("DELETE FROM open_calls WHERE step_id = $1").bind(id).execute(&mut *db).await?;
    });
    tx.commit().await
}

impl Store {
    /// The calls of a trace that have begun and whose end is not recorded, of any node.
    #[boxed]
    pub async fn open_calls(&self, trace: TraceId) -> Result<Vec<Start>> {
        const OPEN: &str = "SELECT call FROM open_calls WHERE call LIKE $1 ORDER BY step_id";
        let calls: Vec<String> = on!(&self.reader, db => {
            sqlx::query_scalar(OPEN).bind(format!("%\"{trace}\"%")).fetch_all(db).await?
        });
        // One that cannot be read is forgotten when it is settled.
        let starts = calls.iter().filter_map(|call| serde_json::from_str::<Start>(call).ok());
        Ok(starts.filter(|start| start.trace == trace).collect())
    }
}

impl Store {
    /// Whether a call has begun and its end is not recorded, on any node.
    #[boxed]
    pub async fn is_open_call(&self, step: StepId) -> Result<bool> {
        const OPEN: &str = "SELECT count(*) FROM open_calls WHERE step_id = $1";
        let open: i64 = on!(&self.reader, db => {
            sqlx::query_scalar(OPEN).bind(step.0).fetch_one(db).await?
        });
        Ok(open > 0)
    }
}

/// The other nodes that have calls without an end.
pub(crate) async fn nodes_with_open_calls(pool: &Pool, own: NodeId) -> Result<Vec<NodeId>> {
    const NODES: &str = "SELECT DISTINCT node FROM open_calls WHERE node <> $1";
    let nodes: Vec<i64> = on!(pool, db => {
        sqlx::query_scalar(NODES).bind(own.0).fetch_all(db).await?
    });
    Ok(nodes.into_iter().map(NodeId).collect())
}
