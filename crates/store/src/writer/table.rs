//! The tables that the writer writes, described once for both drivers: a table, its columns, a
//! row's values.

use std::borrow::Cow;

use domain::ids::KeyId;
use domain::step::{FinishReason, Step};
use domain::tier::Tier;
use domain::trace::Trace;
use serde_json::Value;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::writer::Start;

/// One value of a row. Missing ones keep their type, which PostgreSQL requires.
pub(crate) enum Field<'a> {
    Int(Option<i64>),
    Real(Option<f64>),
    Bool(Option<bool>),
    Text(Option<Cow<'a, str>>),
    Bytes(Cow<'a, [u8]>),
    Uuid(Uuid),
}

/// Something that is written as a row.
pub(crate) trait Row {
    const TABLE: &'static str;
    const COLUMNS: &'static [&'static str];
    /// The clause after the values: nothing, or the action when the row exists.
    const CONFLICT: &'static str = "";

    fn fields(&self) -> Result<Vec<Field<'_>>>;
}

/// The insert of `rows` rows, with placeholders of either driver.
pub(crate) fn insert_sql<R: Row>(rows: usize, placeholder: impl Fn(usize) -> String) -> String {
    let width = R::COLUMNS.len();
    let rows: Vec<String> = (0..rows)
        .map(|row| {
            let row: Vec<String> =
                (1..=width).map(|column| placeholder(row * width + column)).collect();
            format!("({})", row.join(", "))
        })
        .collect();
    let columns = R::COLUMNS.join(", ");
    format!("INSERT INTO {} ({columns}) VALUES {}{}", R::TABLE, rows.join(", "), R::CONFLICT)
}

fn int(value: i64) -> Field<'static> {
    Field::Int(Some(value))
}

fn word(word: &'static str) -> Field<'static> {
    Field::Text(Some(Cow::Borrowed(word)))
}

/// A text as a database can hold it: PostgreSQL takes no NUL.
fn text(text: Option<&str>) -> Field<'_> {
    Field::Text(text.map(|text| {
        if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
    }))
}

impl Row for Trace {
    const TABLE: &'static str = "traces";
    const COLUMNS: &'static [&'static str] =
        &["id", "project_id", "key_id", "status", "created_at", "metadata", "revenue"];

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        Ok(vec![
            Field::Uuid(self.id.0),
            int(self.project.0),
            Field::Int(self.key.map(KeyId::to_i64)),
            word(self.status.as_str()),
            int(self.created_at.0),
            Field::Text(self.metadata.as_ref().map(|metadata| metadata.to_string().into())),
            Field::Int(self.revenue.map(|revenue| revenue.0)),
        ])
    }
}

/// A start and the node that made it.
pub(crate) struct OpenCall<'a>(pub(crate) &'a Start, pub(crate) i64);

impl Row for OpenCall<'_> {
    const TABLE: &'static str = "open_calls";
    const COLUMNS: &'static [&'static str] = &["step_id", "node", "started_at", "call"];

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        let call =
            serde_json::to_string(self.0).map_err(|error| Error::Corrupt(error.to_string()))?;
        Ok(vec![
            int(self.0.step.0),
            int(self.1),
            int(self.0.started_at),
            Field::Text(Some(call.into())),
        ])
    }
}

/// A step's sealed content.
pub(crate) struct SealedContent<'a>(pub(crate) &'a Step, pub(crate) &'a [u8]);

impl Row for SealedContent<'_> {
    const TABLE: &'static str = "step_contents";
    const COLUMNS: &'static [&'static str] = &["step_id", "project_id", "sealed"];

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        Ok(vec![int(self.0.id.0), int(self.0.project.0), Field::Bytes(self.1.into())])
    }
}

impl Row for Step {
    const TABLE: &'static str = "steps";
    #[rustfmt::skip]
    const COLUMNS: &'static [&'static str] = &[
        "id", "trace_id", "project_id", "key_id", "kind", "parent_step_id", "door", "status",
        "reason", "error", "started_at", "finished_at",
        "tier", "classified_tier", "complexity", "intent", "routing_reasons",
        "pii", "injection", "secret", "review", "risk_score", "findings",
        "model", "provider", "upstream_model", "infrastructure", "is_public", "attempts",
        "prompt_tokens", "cached_tokens", "cache_write_tokens", "cache_write_1h_tokens",
        "completion_tokens", "reasoning_tokens", "input_price", "output_price", "cached_price",
        "cache_write_price", "cache_write_1h_price",
        "cost", "cost_estimated", "first_token", "finish_reason",
        "input_print", "output_print", "tool_calls", "tool_fidelity", "tool_prints", "shadow", "user_rating",
    ];

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        let mut fields = Vec::with_capacity(Self::COLUMNS.len());
        self.identity(&mut fields);
        self.judgement(&mut fields)?;
        self.calling(&mut fields);
        fields.push(Field::Real(self.user_rating));
        Ok(fields)
    }
}

/// The three parts of a step's row, in the order of its columns.
trait StepParts {
    fn identity<'a>(&'a self, fields: &mut Vec<Field<'a>>);
    fn judgement<'a>(&'a self, fields: &mut Vec<Field<'a>>) -> Result<()>;
    fn calling<'a>(&'a self, fields: &mut Vec<Field<'a>>);
}

impl StepParts for Step {
    fn identity<'a>(&'a self, fields: &mut Vec<Field<'a>>) {
        fields.extend([
            int(self.id.0),
            Field::Uuid(self.trace.0),
            int(self.project.0),
            Field::Int(self.key.map(KeyId::to_i64)),
            word(self.kind.as_str()),
            Field::Int(self.parent.map(|parent| parent.0)),
            word(self.api_endpoint.as_str()),
            word(self.status.as_str()),
            text(self.reason.as_deref()),
            text(self.error.as_deref()),
            int(self.started_at.0),
            int(self.finished_at.0),
        ]);
    }

    fn judgement<'a>(&'a self, fields: &mut Vec<Field<'a>>) -> Result<()> {
        let (routing, security) = (self.routing.as_ref(), &self.security);
        let reasons = routing.map(|routing| serde_json::to_string(&routing.reasons)).transpose();
        let reasons = reasons.map_err(|error| Error::Corrupt(error.to_string()))?;
        let known = |word: Option<&'static str>| Field::Text(word.map(Cow::Borrowed));
        fields.extend([
            known(routing.and_then(|routing| routing.tier).map(Tier::as_str)),
            known(routing.map(|routing| routing.classified.as_str())),
            Field::Real(routing.map(|routing| routing.complexity)),
            known(routing.map(|routing| routing.intent.as_str())),
            Field::Text(reasons.map(Cow::Owned)),
            Field::Bool(Some(security.pii)),
            Field::Bool(Some(security.injection)),
            Field::Bool(Some(security.secret)),
            Field::Bool(Some(security.review)),
            Field::Real(Some(security.risk_score)),
            Field::Text(security.findings.as_ref().map(|findings| findings.to_string().into())),
        ]);
        Ok(())
    }

    fn calling<'a>(&'a self, fields: &mut Vec<Field<'a>>) {
        let call = self.call.as_ref();
        let usage = call.map(|call| call.usage);
        let prices = call.and_then(|call| call.prices);
        let tools = call.and_then(|call| call.tools.as_ref());
        let tokens = |count: Option<u64>| {
            Field::Int(count.map(|count| i64::try_from(count).unwrap_or(i64::MAX)))
        };
        fields.extend([
            text(call.map(|call| call.model.as_str())),
            Field::Text(call.map(|call| call.provider.as_str().into())),
            text(call.and_then(|call| call.upstream_model.as_deref())),
            text(call.map(|call| call.infrastructure.as_str())),
            Field::Bool(call.map(|call| call.is_public)),
            Field::Int(call.map(|call| call.attempts)),
            tokens(usage.map(|usage| usage.prompt)),
            tokens(usage.map(|usage| usage.cached)),
            tokens(usage.map(|usage| usage.cache_write)),
            tokens(usage.map(|usage| usage.cache_write_1h)),
            tokens(usage.map(|usage| usage.completion)),
            tokens(usage.map(|usage| usage.reasoning)),
            Field::Int(prices.map(|prices| prices.input.0)),
            Field::Int(prices.map(|prices| prices.output.0)),
            Field::Int(prices.map(|prices| prices.cached_input.0)),
            Field::Int(prices.map(|prices| prices.cache_write.0)),
            Field::Int(prices.map(|prices| prices.cache_write_1h.0)),
            Field::Int(call.map(|call| call.cost.0)),
            Field::Bool(call.map(|call| call.cost_estimated)),
            Field::Int(call.and_then(|call| call.first_token)),
            Field::Text(
                call.and_then(|call| call.finish).map(FinishReason::as_str).map(Cow::Borrowed),
            ),
            Field::Int(call.and_then(|call| call.input_print)),
            Field::Int(call.and_then(|call| call.output_print)),
            Field::Int(tools.map(|tools| tools.calls.into())),
            Field::Real(tools.map(|tools| tools.fidelity)),
            Field::Text(tools.map(|tools| Value::from(tools.prints.clone()).to_string().into())),
            Field::Bool(call.map(|call| call.shadow)),
        ]);
    }
}
