//! The usage ledger: usage per minute, in rows that belong to this node alone.
//!
//! The rows of the current minute are kept here and written whole with every commit, so that a
//! row never has to be read. A step counts in the minute in which it is written.

use std::borrow::Cow;
use std::collections::HashMap;

use domain::ids::NodeId;
use domain::money::Usd;
use domain::sketch::Sketch;
use domain::step::{ApiEndpoint, Step, StepKind, StepStatus};
use domain::time::Timestamp;

use super::table::{Field, Row};
use crate::error::Result;

/// The offset between the generations of a node's rows: far above any number of a node.
const GENERATION: i64 = 1 << 32;

/// The key of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    /// The node, and which of its generations.
    node: i64,
    minute: i64,
    project: i64,
    key: i64,
    model: String,
    infrastructure: String,
    tier: &'static str,
}

/// The counts of a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    requests: i64,
    blocked: i64,
    failures: i64,
    prompt_tokens: i64,
    cached_tokens: i64,
    completion_tokens: i64,
    cost: Usd,
    latency_sum: i64,
    sketch: Sketch,
}

/// Rows as they will be once a commit is made.
pub(crate) type Rows = HashMap<Slot, Counts>;

/// The rows of the running minute.
pub(crate) struct Ledger {
    node: NodeId,
    generation: i64,
    minute: i64,
    rows: Rows,
}

impl Ledger {
    pub(crate) fn new(node: NodeId) -> Self {
        Self { node, generation: 0, minute: 0, rows: HashMap::new() }
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// The rows as they are once these steps are written.
    pub(crate) fn count(&mut self, steps: &[&Step], now: Timestamp) -> Rows {
        // A clock that goes back keeps counting in the latest minute: rows are written whole, and
        // an older one is no longer here.
        if now.minute() > self.minute {
            self.minute = now.minute();
            self.rows.clear();
        }
        let mut counted = HashMap::new();
        for step in steps {
            if !is_counted(step) {
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

    /// Starts rows of their own after a commit that may or may not have been made: continuing with
    /// the counts in memory could overwrite stored ones. Rows of several nodes add up.
    pub(crate) fn begin_anew(&mut self) {
        self.generation += 1;
        self.rows.clear();
    }

    /// Takes over rows that have been written.
    pub(crate) fn keep(&mut self, counted: Rows) {
        self.rows.extend(counted);
    }

    fn slot(&self, step: &Step) -> Slot {
        let call = step.call.as_ref();
        Slot {
            node: self.node.0 + self.generation * GENERATION,
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

/// Whether a step is a request: a call or a refusal. A refusal that was copied into the trace of a replay
/// has counted where it comes from.
fn is_counted(step: &Step) -> bool {
    match step.kind {
        StepKind::Run => true,
        StepKind::Blocked => step.source.is_none() || step.api_endpoint == ApiEndpoint::Replay,
        StepKind::Check | StepKind::ToolCall | StepKind::Log => false,
    }
}

impl Counts {
    fn add(&mut self, step: &Step) {
        let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        // A shadow call costs what it costs; nobody asked for it, and nobody waited.
        let is_shadow = step.call.as_ref().is_some_and(|call| call.shadow);
        if !is_shadow {
            self.requests += 1;
            self.blocked += i64::from(step.kind == StepKind::Blocked);
            self.failures += i64::from(step.status == StepStatus::Failed);
        }
        let Some(call) = &step.call else { return };
        let add = |sum: &mut i64, more: i64| *sum = sum.saturating_add(more);
        add(&mut self.prompt_tokens, tokens(call.usage.prompt));
        add(&mut self.cached_tokens, tokens(call.usage.cached));
        add(&mut self.completion_tokens, tokens(call.usage.completion));
        self.cost += call.cost;
        if !is_shadow {
            add(&mut self.latency_sum, step.latency());
            self.sketch.record(step.latency());
        }
    }
}

/// A row of the ledger, written whole.
pub(crate) struct LedgerRow<'a>(pub(crate) &'a Slot, pub(crate) &'a Counts);

impl Row for LedgerRow<'_> {
    const TABLE: &'static str = "usage_ledger";
    #[rustfmt::skip]
    const COLUMNS: &'static [&'static str] = &[
        "node", "minute", "project_id", "key_id", "model", "infrastructure", "tier", "requests",
        "blocked", "failures", "prompt_tokens", "cached_tokens", "completion_tokens", "cost",
        "latency_sum", "latency_sketch",
    ];
    const CONFLICT: &'static str = "
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

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        let Self(slot, counts) = self;
        Ok(vec![
            slot.node.into(),
            slot.minute.into(),
            slot.project.into(),
            slot.key.into(),
            Cow::Borrowed(&*slot.model).into(),
            Cow::Borrowed(&*slot.infrastructure).into(),
            Cow::Borrowed(slot.tier).into(),
            counts.requests.into(),
            counts.blocked.into(),
            counts.failures.into(),
            counts.prompt_tokens.into(),
            counts.cached_tokens.into(),
            counts.completion_tokens.into(),
            counts.cost.0.into(),
            counts.latency_sum.into(),
            Field::Bytes(counts.sketch.to_bytes().into()),
        ])
    }
}
