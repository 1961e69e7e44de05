//! A step as JSON Lines and Parquet hold it: the fields of the detail of a trace, under the same names,
//! and beside them what a reader needs who has no trace around the step.

use std::collections::BTreeMap;

use domain::grade::Grade;
use domain::ids::{KeyId, ProjectId, StepId, TraceId};
use domain::money::Usd;
use domain::shown_content::{Output, ShownContent};
use domain::step::{FinishReason, Step};
use domain::tier::Tier;
use domain::time::{Timestamp, millis};
use domain::trace::TraceStatus;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A step with what belongs to it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The step.
    pub step: &'a Step,
    /// The trace that it belongs to, as far as it is known.
    pub trace: Option<TraceFacts>,
    /// Its content.
    pub content: RecordedContent<'a>,
}

/// The content of a step in an export.
#[derive(Clone, Copy, Debug)]
pub enum RecordedContent<'a> {
    /// None is stored, or none is exported.
    Absent,
    /// The parts that are shown.
    Shown(ShownContent<'a>),
    /// One is stored, and the file does not have it.
    Missing(ContentFault),
}

/// The reason why a stored content is not in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentFault {
    /// It is damaged.
    Unreadable,
    /// There was no memory for it.
    NoMemory,
}

impl ContentFault {
    /// The word for it in a file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::NoMemory => "no_memory",
        }
    }
}

/// A step whose record cannot be read.
#[derive(Clone, Copy, Debug)]
pub struct DamagedStep {
    /// Its id.
    pub id: StepId,
    /// The project that it belongs to.
    pub project: ProjectId,
    /// When it ended.
    pub finished_at: Timestamp,
}

impl DamagedStep {
    pub(crate) fn line(&self) -> Line<'static> {
        Line {
            id: self.id.0,
            project_id: self.project.0,
            step_error: Some("unreadable"),
            created_at: self.finished_at,
            ..Line::default()
        }
    }
}

/// The trace of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFacts {
    /// The stage in its life.
    pub status: TraceStatus,
    /// Its grade, once it is completed.
    pub grade: Option<Grade>,
}

/// The fields of a step. Fields that do not apply are left out; one that cannot be read has few.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Line<'a> {
    pub(crate) id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) r#type: Option<&'static str>,
    pub(crate) project_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace_id: Option<TraceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace_status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) optimization_grade: Option<Grade>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parent_step_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source_step_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_id: Option<KeyId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_endpoint: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) infrastructure: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Output<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) passed: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content_error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step_error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost_estimated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_write_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_write_1h_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time_to_first_token_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shadow: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) similarity: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_rating: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<&'a BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trace_context: Option<TraceContextLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) security: Option<SecurityLine<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
}

/// The place of a step in the caller's own trace.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the interface")]
pub(crate) struct TraceContextLine {
    pub(crate) trace_id: String,
    pub(crate) parent_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) span_id: Option<String>,
}

/// The findings of safety in a step.
#[derive(Debug, Serialize)]
pub(crate) struct SecurityLine<'a> {
    pub(crate) pii_detected: bool,
    pub(crate) injection_attempt: bool,
    pub(crate) secret_leaked: bool,
    pub(crate) risk_score: f64,
    pub(crate) review: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) findings: Option<&'a Value>,
}

impl<'a> Record<'a> {
    pub(crate) fn line(&self) -> Line<'a> {
        let step = self.step;
        let (content, content_error) = match self.content {
            RecordedContent::Absent => (ShownContent::default(), None),
            RecordedContent::Shown(content) => (content, None),
            RecordedContent::Missing(fault) => (ShownContent::default(), Some(fault.as_str())),
        };
        let attributes = step.attributes.as_deref();
        let call = step.call.as_ref();
        let usage = call.map(|call| &call.usage);
        // The interface leaves these out of most steps.
        let some = |tokens: u64| Some(tokens).filter(|tokens| *tokens > 0);
        Line {
            id: step.id.0,
            r#type: Some(step.kind.as_str()),
            project_id: step.project.0,
            trace_id: Some(step.trace),
            trace_status: self.trace.map(|trace| trace.status.as_str()),
            optimization_grade: self.trace.and_then(|trace| trace.grade),
            parent_step_id: step.parent.map(|parent| parent.0),
            source_step_id: step.source.map(|source| source.0),
            key_id: step.key,
            api_endpoint: Some(step.api_endpoint.as_str()),
            model: call.map(|call| &*call.model),
            provider: call.map(|call| call.provider.as_str()),
            infrastructure: call.map(|call| &*call.infrastructure),
            tier: step.routing.as_ref().and_then(|routing| routing.tier).map(Tier::as_str),
            input: content.input,
            output: content.output(step),
            passed: content.passed,
            content_error,
            step_error: None,
            status: Some(step.status.as_str()),
            reason: step.reason.as_deref(),
            error: step.error.as_deref(),
            latency_ms: Some(millis(step.latency())),
            cost: call.map(|call| call.cost),
            cost_estimated: call.filter(|call| call.cost_estimated).map(|_| true),
            prompt_tokens: usage.map(|usage| usage.prompt),
            completion_tokens: usage.map(|usage| usage.completion),
            cached_tokens: usage.map(|usage| usage.cached),
            cache_write_tokens: usage.and_then(|usage| some(usage.cache_write)),
            cache_write_1h_tokens: usage.and_then(|usage| some(usage.cache_write_1h)),
            reasoning_tokens: usage.and_then(|usage| some(usage.reasoning)),
            finish_reason: call.and_then(|call| call.finish).map(FinishReason::as_str),
            time_to_first_token_ms: call.and_then(|call| call.first_token).map(millis),
            shadow: call.filter(|call| call.shadow).map(|_| true),
            similarity: call.and_then(|call| call.similarity),
            user_rating: step.user_rating,
            user: attributes.and_then(|attributes| attributes.user.as_deref()),
            session: attributes.and_then(|attributes| attributes.session.as_deref()),
            tags: attributes.map(|attributes| &attributes.tags).filter(|tags| !tags.is_empty()),
            trace_context: step.trace_context.map(|context| TraceContextLine {
                trace_id: context.trace_id(),
                parent_id: context.parent_id(),
                span_id: call.map(|_| context.of_step(step.id).parent_id()),
            }),
            security: Some(SecurityLine {
                pii_detected: step.security.pii,
                injection_attempt: step.security.injection,
                secret_leaked: step.security.secret,
                risk_score: step.security.risk_score,
                review: step.security.review,
                findings: step.security.findings.as_ref(),
            }),
            started_at: Some(step.started_at),
            created_at: step.finished_at,
        }
    }
}
