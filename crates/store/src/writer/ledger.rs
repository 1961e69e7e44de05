//! The usage ledger: what was used, per minute, in rows that belong to this node alone.
//!
//! The rows of the minute that runs are kept here and written whole with every commit, so that a
//! row never has to be read. A step counts in the minute in which it is written.

use std::collections::HashMap;

use domain::ids::NodeId;
use domain::step::{Step, StepKind, StepStatus};
use domain::time::Timestamp;

use crate::db::{Tx, within};
use crate::error::Result;
use domain::sketch::Sketch;

/// What a row counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    minute: i64,
    project: i64,
    key: i64,
    model: String,
    infrastructure: String,
    tier: &'static str,
}

/// The counts of a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    requests: i64,
    blocked: i64,
    failures: i64,
    prompt_tokens: i64,
    cached_tokens: i64,
    completion_tokens: i64,
    cost: i64,
    latency_sum: i64,
    sketch: Sketch,
}

/// The rows of the running minute.
pub(super) struct Ledger {
    node: NodeId,
    minute: i64,
    rows: HashMap<Slot, Counts>,
}

impl Ledger {
    pub(super) fn new(node: NodeId) -> Self {
        Self { node, minute: 0, rows: HashMap::new() }
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// The rows as they are once these steps are written.
    pub(super) fn count(&mut self, steps: &[&Step], now: Timestamp) -> HashMap<Slot, Counts> {
        // A clock that goes back keeps counting in the latest minute: rows are written whole, and
        // an older one is no longer here.
        if now.minute() > self.minute {
            self.minute = now.minute();
            self.rows.clear();
        }
        let mut counted = HashMap::new();
        for step in steps {
            if !matches!(step.kind, StepKind::Run | StepKind::Blocked) {
                continue;
            }
            let slot = self.slot(step);
            let row = counted
                .entry(slot)
                .or_insert_with_key(|slot| self.rows.get(slot).cloned().unwrap_or_default());
            row.add(step);
        }
        counted
    }

    /// Takes over rows that have been written.
    pub(super) fn keep(&mut self, counted: HashMap<Slot, Counts>) {
        self.rows.extend(counted);
    }

    fn slot(&self, step: &Step) -> Slot {
        let call = step.call.as_ref();
        Slot {
            minute: self.minute,
            project: step.project.0,
            key: step.key.map_or(0, domain::ids::KeyId::to_i64),
            model: call.map(|call| call.model.clone()).unwrap_or_default(),
            infrastructure: call.map(|call| call.infrastructure.clone()).unwrap_or_default(),
            tier: step
                .routing
                .as_ref()
                .and_then(|routing| routing.tier)
                .map_or("", domain::tier::Tier::as_str),
        }
    }
}

impl Counts {
    fn add(&mut self, step: &Step) {
        let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        self.requests += 1;
        self.blocked += i64::from(step.kind == StepKind::Blocked);
        self.failures += i64::from(step.status == StepStatus::Failed);
        let Some(call) = &step.call else { return };
        self.prompt_tokens += tokens(call.usage.prompt);
        self.cached_tokens += tokens(call.usage.cached);
        self.completion_tokens += tokens(call.usage.completion);
        self.cost += call.cost.0;
        self.latency_sum += step.latency();
        self.sketch.record(step.latency());
    }
}

/// Writes rows whole.
pub(super) async fn write(tx: &mut Tx, node: NodeId, rows: &HashMap<Slot, Counts>) -> Result<()> {
    const UPSERT: &str = "
        INSERT INTO usage_ledger
            (node, minute, project_id, key_id, model, infrastructure, tier, requests, blocked, failures,
             prompt_tokens, cached_tokens, completion_tokens, cost, latency_sum, latency_sketch)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
        ON CONFLICT (project_id, minute, key_id, model, infrastructure, tier, node) DO UPDATE SET
            requests = excluded.requests,
            blocked = excluded.blocked,
            failures = excluded.failures,
            prompt_tokens = excluded.prompt_tokens,
            cached_tokens = excluded.cached_tokens,
            completion_tokens = excluded.completion_tokens,
            cost = excluded.cost,
            latency_sum = excluded.latency_sum,
            latency_sketch = excluded.latency_sketch";
    for (slot, counts) in rows {
        within!(tx, db => {
            sqlx::query(UPSERT)
                .bind(node.0)
                .bind(slot.minute)
                .bind(slot.project)
                .bind(slot.key)
                .bind(&slot.model)
                .bind(&slot.infrastructure)
                .bind(slot.tier)
                .bind(counts.requests)
                .bind(counts.blocked)
                .bind(counts.failures)
                .bind(counts.prompt_tokens)
                .bind(counts.cached_tokens)
                .bind(counts.completion_tokens)
                .bind(counts.cost)
                .bind(counts.latency_sum)
                .bind(counts.sketch.to_bytes())
                .execute(&mut *db)
                .await?;
        });
    }
    Ok(())
}
