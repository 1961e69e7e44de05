//! Steps and traces as spans.

use std::borrow::Cow;

use domain::grade::{Assessment, Grades};
use domain::ids::{KeyId, ProjectId, StepId, TraceId};
use domain::model::Provider;
use domain::money::Usd;
use domain::step::{ApiEndpoint, Call, Content, Routing, Security, Step, StepKind, StepStatus};
use domain::time::{SECOND, Timestamp};
use domain::trace::{Trace, TraceStatus};
use domain::trace_context::TraceContext;

use super::content::{self, Shown};
use super::names;
use super::wire::{Attribute, CLIENT, ERROR, INTERNAL, Link, Span, Status, nanos};

/// The flag that the origin of the parent is known, and that of a parent in another process.
const HAS_ORIGIN: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
/// The most links of a span, which is the default limit of OpenTelemetry's own libraries.
const MOST_LINKS: usize = 128;
/// The attributes that are missing where the content is omitted: what came in, and what went out.
const CONTENT_ATTRIBUTES: u32 = 2;

/// The state of a trace when it was completed.
#[derive(Clone, Debug)]
pub(crate) struct CompletedTrace {
    id: TraceId,
    project: ProjectId,
    key: Option<KeyId>,
    status: TraceStatus,
    /// The span of the caller that it is below, if all steps are in one trace of the caller's.
    caller: Option<TraceContext>,
    /// The spans of steps that are in traces of callers, if it is not: the first ones.
    links: Vec<TraceContext>,
    /// The number of such spans beyond those.
    dropped_links: usize,
    began: Timestamp,
    ended: Timestamp,
    steps: usize,
    /// Those of a replay that was never compared are not known.
    grades: Option<Grades>,
    cost: Usd,
}

impl CompletedTrace {
    /// A trace that is being completed, or that of a replay. `None` if no caller of a step records its
    /// trace. Without an assessment its cost is that of its calls.
    pub(crate) fn new(
        trace: &Trace,
        steps: &[Step],
        assessment: Option<&Assessment>,
    ) -> Option<Self> {
        if !steps.is_empty() && !steps.iter().any(is_recorded) {
            return None;
        }
        let caller = one_caller(steps);
        let with_caller = steps.iter().filter(|step| is_recorded(step)).filter_map(|step| {
            let context = step.trace_context.filter(|_| caller.is_none())?;
            Some(context.of_step(step.id))
        });
        let mut links: Vec<_> = with_caller.collect();
        let dropped_links = links.len().saturating_sub(MOST_LINKS);
        links.truncate(MOST_LINKS);
        let status = match trace.status {
            TraceStatus::Pending => TraceStatus::Completed,
            other => other,
        };
        let last = steps.iter().map(|step| step.finished_at).max();
        Some(Self {
            id: trace.id,
            project: trace.project,
            key: trace.key,
            status,
            caller,
            links,
            dropped_links,
            began: trace.created_at,
            ended: last.unwrap_or(trace.created_at),
            steps: steps.len(),
            grades: assessment.map(|assessment| assessment.grades),
            cost: assessment.map_or_else(
                || steps.iter().filter_map(|step| Some(step.call.as_ref()?.cost)).sum(),
                |assessment| assessment.total_cost,
            ),
        })
    }

    /// Its span: the root of those of its steps, or a child of the caller's span.
    pub(crate) fn span(&self) -> Span {
        let own = TraceContext::of_trace(self.id);
        let within = self.caller.unwrap_or(own);
        let mut attributes = vec![
            Attribute::new("sluice.trace.id", self.id.to_string()),
            Attribute::new("sluice.trace.status", self.status.as_str()),
            Attribute::new("sluice.project.id", self.project.0),
            Attribute::new("sluice.trace.steps", self.steps as u64),
        ];
        if let Some(grades) = &self.grades {
            attributes.extend([
                Attribute::new("sluice.trace.grade", grades.overall.as_str()),
                Attribute::new("sluice.trace.grade.waste", grades.waste.as_str()),
                Attribute::new("sluice.trace.grade.latency", grades.latency.as_str()),
            ]);
        }
        attributes.push(Attribute::new("sluice.cost.usd", self.cost.dollars()));
        attributes.extend(self.key.map(|key| Attribute::new("sluice.key.id", key.to_string())));
        let parent = self.caller.map(|caller| caller.parent().to_be_bytes().to_vec());
        let links = self.links.iter().map(|span| Link {
            trace_id: span.trace().to_be_bytes().to_vec(),
            span_id: span.parent().to_be_bytes().to_vec(),
            flags: flags(*span, false),
        });
        Span {
            trace_id: within.trace().to_be_bytes().to_vec(),
            id: own.parent().to_be_bytes().to_vec(),
            parent_span_id: parent.unwrap_or_default(),
            flags: flags(within, self.caller.is_some()),
            name: "sluice.trace".to_owned(),
            kind: INTERNAL,
            start_time_unix_nano: nanos(self.began),
            end_time_unix_nano: nanos(self.ended.max(self.began)),
            attributes,
            links: links.collect(),
            dropped_links_count: u32::try_from(self.dropped_links).unwrap_or(u32::MAX),
            ..Span::default()
        }
    }
}

/// The caller's span above all steps: that of the first, if all are in one trace of the caller's.
fn one_caller(steps: &[Step]) -> Option<TraceContext> {
    let first = steps.iter().find(|step| is_recorded(step))?.trace_context?;
    let is_there = |step: &Step| step.trace_context.map(|context| context.trace());
    steps.iter().all(|step| is_there(step) == Some(first.trace())).then_some(first)
}

/// Whether a step has a span: not if its caller does not record its own trace.
pub(crate) fn is_recorded(step: &Step) -> bool {
    step.trace_context.is_none_or(|context| context.is_sampled())
}

/// Why a span does not show the content that it could show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Omission {
    /// The contents that wait took all the memory for them.
    NoRoom,
    /// It is longer than a span may be.
    TooLong,
    /// It cannot be opened: it is damaged, or its key is gone.
    Unreadable,
}

impl Omission {
    /// The word for it in attributes and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NoRoom => "no_room",
            Self::TooLong => "too_long",
            Self::Unreadable => "unreadable",
        }
    }
}

/// The content of a step, as far as its span may show it.
#[derive(Debug)]
pub(crate) enum StepContent {
    /// There is none, or the span shows none.
    None,
    /// There is one, and it is left out.
    Omitted(Omission),
    /// The content, and whether inputs and outputs are shown.
    Read(Box<Content>, Shown),
}

/// The span of a step. `is_lost` tells whether its call was lost with its node.
pub(crate) fn of_step(step: &Step, content: StepContent, is_lost: bool) -> Span {
    let context = step.trace_context.unwrap_or_else(|| TraceContext::of_trace(step.trace));
    let mut attributes = common(step);
    let mut name = format!("sluice.{}", step.kind.as_str());
    let mut kind = INTERNAL;
    let call = step.call.as_ref().filter(|_| step.kind == StepKind::Run);
    if let Some(call) = call {
        name = format!("{} {}", operation(step.api_endpoint, call.provider), call.model);
        kind = CLIENT;
        add_call(&mut attributes, step, call);
        if is_lost {
            attributes.push(Attribute::new("sluice.step.lost", true));
        } else {
            add_usage(&mut attributes, step, call);
        }
    }
    let mut left_out = 0;
    let mut shows_error = step.kind != StepKind::ToolCall;
    match content {
        StepContent::None => {}
        StepContent::Omitted(reason) => {
            left_out = CONTENT_ATTRIBUTES;
            attributes.push(Attribute::new("sluice.content.omitted", reason.as_str()));
        }
        StepContent::Read(content, shown) => {
            // A server of tools may repeat their arguments in its error.
            shows_error |= shown == Shown::Everything;
            if step.kind == StepKind::ToolCall {
                if let Some(tool) = content::add_tool(&mut attributes, &content, shown) {
                    name = format!("{} {tool}", names::EXECUTE_TOOL);
                }
            } else if shown == Shown::Everything {
                content::add_messages(&mut attributes, step, &content);
            }
        }
    }
    let failed = error_type(step).map(|error| {
        attributes.push(Attribute::new(names::ERROR_TYPE, &*error));
        let message = step.error.as_deref().filter(|_| shows_error).unwrap_or_default();
        Status { message: message.to_owned(), code: ERROR }
    });
    Span {
        trace_id: context.trace().to_be_bytes().to_vec(),
        id: context.of_step(step.id).parent().to_be_bytes().to_vec(),
        parent_span_id: context.parent().to_be_bytes().to_vec(),
        flags: flags(context, step.trace_context.is_some()),
        name,
        kind,
        start_time_unix_nano: nanos(step.started_at),
        end_time_unix_nano: nanos(step.finished_at.max(step.started_at)),
        attributes,
        dropped_attributes_count: left_out,
        status: failed,
        ..Span::default()
    }
}

fn flags(context: TraceContext, is_remote: bool) -> u32 {
    u32::from(context.flags()) | HAS_ORIGIN | if is_remote { IS_REMOTE } else { 0 }
}

/// The attributes of every step.
fn common(step: &Step) -> Vec<Attribute> {
    let mut attributes = vec![
        Attribute::new("sluice.trace.id", step.trace.to_string()),
        Attribute::new("sluice.step.id", step.id.0),
        Attribute::new("sluice.step.kind", step.kind.as_str()),
        Attribute::new("sluice.step.status", step.status.as_str()),
        Attribute::new("sluice.project.id", step.project.0),
        Attribute::new("sluice.endpoint", step.api_endpoint.as_str()),
    ];
    let id = |name: &str, id: Option<StepId>| id.map(|id| Attribute::new(name, id.0));
    attributes.extend(step.key.map(|key| Attribute::new("sluice.key.id", key.to_string())));
    attributes.extend(id("sluice.step.parent_id", step.parent));
    attributes.extend(id("sluice.step.source_id", step.source));
    attributes.extend(step.reason.as_deref().map(|text| Attribute::new("sluice.reason", text)));
    attributes.extend(step.user_rating.map(|rating| Attribute::new("sluice.user_rating", rating)));
    if let Some(named) = &step.attributes {
        let text = |name: &str, value: &Option<String>| {
            value.as_deref().map(|value| Attribute::new(name, value))
        };
        attributes.extend(text(names::USER_ID, &named.user));
        attributes.extend(text(names::CONVERSATION, &named.session));
        let tags = named.tags.iter();
        attributes.extend(
            tags.map(|(name, value)| Attribute::new(format!("sluice.tag.{name}"), value.as_str())),
        );
    }
    add_security(&mut attributes, &step.security);
    if let Some(routing) = &step.routing {
        add_routing(&mut attributes, routing);
    }
    attributes
}

fn add_security(attributes: &mut Vec<Attribute>, security: &Security) {
    let Security { pii, injection, secret, review, risk_score, .. } = *security;
    for (name, is_found) in [
        ("sluice.security.pii", pii),
        ("sluice.security.injection", injection),
        ("sluice.security.secret", secret),
        ("sluice.security.review", review),
    ] {
        if is_found {
            attributes.push(Attribute::new(name, true));
        }
    }
    if risk_score > 0.0 {
        attributes.push(Attribute::new("sluice.security.risk_score", risk_score));
    }
}

fn add_routing(attributes: &mut Vec<Attribute>, routing: &Routing) {
    let tier = routing.tier.map(|tier| Attribute::new("sluice.routing.tier", tier.as_str()));
    attributes.extend(tier);
    attributes.push(Attribute::new("sluice.routing.complexity", routing.complexity));
    attributes.push(Attribute::new("sluice.routing.intent", routing.intent.as_str()));
}

fn add_call(attributes: &mut Vec<Attribute>, step: &Step, call: &Call) {
    let operation = operation(step.api_endpoint, call.provider);
    attributes.extend([
        Attribute::new(names::OPERATION, operation),
        Attribute::new(names::PROVIDER, provider_name(call.provider)),
        Attribute::new(names::REQUEST_MODEL, call.model.as_str()),
    ]);
    if step.api_endpoint == ApiEndpoint::Images {
        attributes.push(Attribute::new(names::OUTPUT_TYPE, "image"));
    }
    let upstream = call.upstream_model.as_deref();
    attributes.extend(upstream.map(|model| Attribute::new(names::RESPONSE_MODEL, model)));
    if let Some(micros) = call.first_token {
        attributes.push(Attribute::new(names::REQUEST_STREAM, true));
        let seconds = micros as f64 / SECOND as f64;
        attributes.push(Attribute::new(names::TIME_TO_FIRST_CHUNK, seconds));
    }
    let finish = call.finish.map(|reason| vec![reason.chat_word().to_owned()]);
    attributes.extend(finish.map(|reasons| Attribute::new(names::FINISH_REASONS, reasons)));
    attributes.push(Attribute::new("sluice.cost.usd", call.cost.dollars()));
    attributes.push(Attribute::new("sluice.attempts", call.attempts));
    if call.cost_estimated {
        attributes.push(Attribute::new("sluice.cost.estimated", true));
    }
    if call.shadow {
        attributes.push(Attribute::new("sluice.shadow", true));
    }
    let similarity = call.similarity.map(|value| Attribute::new("sluice.shadow.similarity", value));
    attributes.extend(similarity);
}

/// Adds the tokens of a call, as far as they are known. A call that did not get its answer has a count of 0
/// where nobody counted.
fn add_usage(attributes: &mut Vec<Attribute>, step: &Step, call: &Call) {
    let usage = &call.usage;
    let is_known = usage.prompt > 0 && step.status == StepStatus::Completed;
    // An embedding has no output to count.
    let has_output = is_known && step.api_endpoint != ApiEndpoint::Embeddings;
    for (name, tokens, is_shown) in [
        (names::INPUT_TOKENS, usage.prompt, false),
        (names::OUTPUT_TOKENS, usage.completion, has_output),
        (names::CACHE_READ_TOKENS, usage.cached, false),
        (names::CACHE_CREATION_TOKENS, usage.cache_write, false),
        (names::REASONING_TOKENS, usage.reasoning, false),
    ] {
        if tokens > 0 || is_shown {
            attributes.push(Attribute::new(name, tokens));
        }
    }
}

/// The operation of a call, in the word of the conventions.
pub(super) fn operation(endpoint: ApiEndpoint, provider: Provider) -> &'static str {
    match (endpoint, provider) {
        (ApiEndpoint::Embeddings, _) => "embeddings",
        (ApiEndpoint::Images, _) | (_, Provider::Gemini) => "generate_content",
        _ => "chat",
    }
}

/// A provider in the word of the conventions; `internal` is one of ours.
pub(super) fn provider_name(provider: Provider) -> &'static str {
    match provider {
        Provider::Openai => "openai",
        Provider::Anthropic => "anthropic",
        Provider::Gemini => "gcp.gemini",
        Provider::Bedrock => "aws.bedrock",
        Provider::Azure => "azure.ai.openai",
        Provider::Internal => "internal",
    }
}

/// The class of a failure: the status that the provider answered, `cancelled`, or `_OTHER`. A refusal by
/// safety or routing is none.
pub(super) fn error_type(step: &Step) -> Option<Cow<'static, str>> {
    match step.status {
        StepStatus::Completed | StepStatus::Blocked => None,
        StepStatus::Cancelled => Some("cancelled".into()),
        StepStatus::Failed => {
            let status = step.call.as_ref().and_then(|call| call.failure_status);
            Some(status.map_or("_OTHER".into(), |status| status.to_string().into()))
        }
    }
}

#[cfg(test)]
#[path = "spans_tests.rs"]
mod tests;
