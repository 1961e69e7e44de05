//! The detail of a trace.
//!
//! The body is written step by step. A stored content is JSON already: the parts that are shown are
//! copied as text, and no tree is built of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use domain::grade::{Grade, GradeReason, Grades};
use domain::ids::TraceId;
use domain::money::Usd;
use domain::shown_content::{Output, ShownContent};
use domain::step::Step;
use domain::time::{Timestamp, millis};
use gateway::{DetailText, Error, Gateway, TraceDetail};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;

/// The text after the steps of a detail.
const END: &str = "]}";

/// A trace with its steps and figures.
#[derive(Debug, Serialize, ToSchema)]
pub struct DetailBody {
    #[schema(value_type = String)]
    id: TraceId,
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    revenue: Option<f64>,
    /// `A` to `F`; null until the trace is completed.
    #[schema(value_type = Option<String>)]
    optimization_grade: Option<Grade>,
    #[schema(value_type = Option<Object>)]
    grades: Option<Grades>,
    total_cost: f64,
    summary: DetailSummary,
    security: DetailSecurity,
    /// The decision of the latest routed step.
    routing_decision: Option<RoutingBody>,
    steps: Vec<StepBody<'static>>,
}

/// Figures of a trace. Times are milliseconds, money is USD.
#[derive(Debug, Serialize, ToSchema)]
pub struct DetailSummary {
    total_latency_ms: f64,
    total_cost: f64,
    revenue: Option<f64>,
    gross_margin: Option<f64>,
    latency_p50: f64,
    latency_p95: f64,
    latency_p99: f64,
    #[schema(value_type = Option<String>)]
    optimization_grade: Option<Grade>,
    #[schema(value_type = Option<Object>)]
    grades: Option<Grades>,
    step_count: usize,
    chain_depth: usize,
    tool_overhead_ms: Option<f64>,
    stall_probability: f64,
    /// The reasons for the grades.
    #[schema(value_type = Vec<Object>)]
    grade_reasons: Vec<GradeReason>,
}

/// The safety findings of a trace.
#[derive(Debug, Serialize, ToSchema)]
pub struct DetailSecurity {
    pii_detected: bool,
    injection_attempt: bool,
    secret_leaked: bool,
    tool_fidelity_score: f64,
    /// The mean similarity of the answers of shadow calls to those beside them, 0 to 1; null without any.
    shadow_score: Option<f64>,
}

/// The model that a request was sent to, and why.
#[derive(Debug, Serialize, ToSchema)]
pub struct RoutingBody {
    tier: Option<&'static str>,
    model: Option<String>,
    complexity: f64,
    reasons: Vec<String>,
    attempts: i64,
}

/// A step. Fields that do not apply are left out.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct StepBody<'a> {
    id: i64,
    /// `check`, `run`, `tool_call`, `log` or `blocked`.
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_step_id: Option<i64>,
    /// In the trace of a replay: the step of the source that it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_step_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    input: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    output: Option<Output<'a>>,
    /// The part of a request and of its answer that passed as they came and that input and output do
    /// not hold: `request` (members) and `answer` (blocks, or events of a stream).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    passed: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    latency_ms: f64,
    /// USD.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_estimated: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    /// Prompt tokens that were written to the provider's cache; omitted if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
    /// Cache-write tokens that are kept for an hour; omitted if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_1h_tokens: Option<u64>,
    /// Completion tokens that were spent on reasoning; omitted if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_to_first_token_ms: Option<f64>,
    /// True if a shadow model was asked beside the step that is the parent; else omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    shadow: Option<bool>,
    /// How alike the answer of a shadow model and that of the step beside it are, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    /// The user that its call is for, as its caller names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The session that its call belongs to, as its caller names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The tags of its call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    tags: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_context: Option<TraceContextBody>,
    #[schema(value_type = Object)]
    security: Value,
    started_at: String,
    created_at: String,
}

/// The place of a step in the caller's own trace (W3C Trace Context), if its request named one.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the names of the standard")]
pub struct TraceContextBody {
    /// 32 hexadecimal digits.
    trace_id: String,
    /// The caller's span: 16 hexadecimal digits.
    parent_id: String,
    /// The span that the provider was given as its parent, if one was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
}

/// Answers with a detail, whose steps are read while they are sent.
pub fn response(gateway: &Gateway, detail: TraceDetail) -> Result<Response, Error> {
    let internal = |why: String| Error::Internal(why);
    let head = serde_json::to_vec(&DetailBody::without_steps(&detail));
    let mut head = head.map_err(|error| internal(error.to_string()))?;
    if !head.ends_with(END.as_bytes()) {
        return Err(internal("a detail does not end with its steps".to_owned()));
    }
    head.truncate(head.len() - END.len());
    let text = DetailText { head, between: b",", end: END.as_bytes(), step: Box::new(write_step) };
    let pieces = gateway.write_detail(detail.steps, text);
    let kind = [(CONTENT_TYPE, "application/json")];
    Ok((kind, Body::from_stream(pieces)).into_response())
}

/// Writes a step with its content, which is a [`domain::step::Content`] as JSON. One that cannot be read
/// is left out.
fn write_step(step: Step, content: Option<&[u8]>, into: &mut Vec<u8>) -> serde_json::Result<()> {
    let content = content.and_then(ShownContent::read).unwrap_or_default();
    serde_json::to_writer(into, &body(step, content))
}

impl DetailBody {
    fn without_steps(detail: &TraceDetail) -> Self {
        let (trace, figures) = (&detail.trace, &detail.figures);
        let assessment = trace.assessment.as_ref();
        let grades = assessment.map(|assessment| assessment.grades);
        let overall = grades.map(|grades| grades.overall);
        let revenue = trace.revenue.map(Usd::dollars);
        Self {
            id: trace.id,
            status: trace.status.as_str(),
            created_at: trace.created_at,
            revenue,
            optimization_grade: overall,
            grades,
            total_cost: detail.total_cost.dollars(),
            summary: DetailSummary {
                total_latency_ms: figures.total_latency_ms,
                total_cost: detail.total_cost.dollars(),
                revenue,
                gross_margin: trace.revenue.map(|revenue| (revenue - detail.total_cost).dollars()),
                latency_p50: figures.latency_p50,
                latency_p95: figures.latency_p95,
                latency_p99: figures.latency_p99,
                optimization_grade: overall,
                grades,
                step_count: figures.step_count,
                chain_depth: figures.chain_depth,
                tool_overhead_ms: figures.tool_overhead_ms,
                stall_probability: figures.stall_probability,
                grade_reasons: assessment.map(|a| a.reasons.clone()).unwrap_or_default(),
            },
            security: DetailSecurity {
                pii_detected: figures.pii_detected,
                injection_attempt: figures.injection_attempt,
                secret_leaked: figures.secret_leaked,
                tool_fidelity_score: figures.tool_fidelity_score,
                shadow_score: figures.shadow_score,
            },
            routing_decision: detail.routed.as_ref().and_then(routing),
            steps: Vec::new(),
            metadata: trace.metadata.clone(),
        }
    }
}

fn routing(step: &Step) -> Option<RoutingBody> {
    let routing = step.routing.as_ref().filter(|routing| routing.tier.is_some())?;
    Some(RoutingBody {
        tier: routing.tier.map(domain::tier::Tier::as_str),
        model: step.call.as_ref().map(|call| call.model.clone()),
        complexity: routing.complexity,
        reasons: routing.reasons.clone(),
        attempts: step.call.as_ref().map_or(0, |call| call.attempts),
    })
}

fn body(mut step: Step, content: ShownContent<'_>) -> StepBody<'_> {
    let findings = step.security.findings.take();
    let security = &step.security;
    let mut found = json!({
        "pii_detected": security.pii,
        "injection_attempt": security.injection,
        "secret_leaked": security.secret,
        "risk_score": security.risk_score,
        "review": security.review,
    });
    if let Some(findings) = findings {
        found["findings"] = findings;
    }
    let mut body = StepBody {
        id: step.id.0,
        r#type: step.kind.as_str(),
        parent_step_id: step.parent.map(|parent| parent.0),
        source_step_id: step.source.map(|source| source.0),
        tier: step.routing.as_ref().and_then(|r| r.tier).map(domain::tier::Tier::as_str),
        input: content.input,
        output: content.output(&step),
        passed: content.passed,
        status: step.status.as_str(),
        latency_ms: millis(step.latency()),
        security: found,
        started_at: step.started_at.to_string(),
        created_at: step.finished_at.to_string(),
        ..StepBody::default()
    };
    body.trace_context = step.trace_context.map(|context| TraceContextBody {
        trace_id: context.trace_id(),
        parent_id: context.parent_id(),
        span_id: step.call.as_ref().map(|_| context.of_step(step.id).parent_id()),
    });
    if let Some(attributes) = step.attributes {
        let attributes = Arc::unwrap_or_clone(attributes);
        (body.user, body.session) = (attributes.user, attributes.session);
        body.tags = Some(attributes.tags).filter(|tags| !tags.is_empty());
    }
    (body.reason, body.error) = (step.reason, step.error);
    if let Some(call) = step.call {
        body.model = Some(call.model);
        body.provider = Some(call.provider.as_str());
        body.cost = Some(call.cost.dollars());
        body.cost_estimated = call.cost_estimated.then_some(true);
        body.prompt_tokens = Some(call.usage.prompt);
        body.completion_tokens = Some(call.usage.completion);
        body.cached_tokens = Some(call.usage.cached);
        let told = |tokens: u64| (tokens > 0).then_some(tokens);
        body.cache_write_tokens = told(call.usage.cache_write);
        body.cache_write_1h_tokens = told(call.usage.cache_write_1h);
        body.reasoning_tokens = told(call.usage.reasoning);
        body.finish_reason = call.finish.map(domain::step::FinishReason::as_str);
        body.time_to_first_token_ms = call.first_token.map(millis);
        body.shadow = call.shadow.then_some(true);
        body.similarity = call.similarity;
    }
    body
}

#[cfg(test)]
pub(crate) mod tests;
