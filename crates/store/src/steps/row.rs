//! The columns of `steps`, listed once: [`StepRow`] gives the SQL, the values that are written and those
//! that are read.

use std::borrow::Cow;
use std::sync::Arc;

use domain::attributes::Attributes;
use domain::ids::{KeyId, ProjectId, StepId, TraceId};
use domain::model::Provider;
use domain::money::{CachePrices, Prices, Usd};
use domain::step::{
    AnswerShape, ApiEndpoint, Call, FinishReason, Routing, Security, Step, StepKind, StepStatus,
    ToolUse,
};
use domain::tier::{Intent, Tier};
use domain::time::Timestamp;
use domain::trace_context::TraceContext;
use domain::usage::Usage;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::writer::table::{Field, Row, row};

row! {
    /// A row of `steps`.
    struct StepRow<Text> {
        id: i64,
        trace_id: uuid::Uuid,
        project_id: i64,
        key_id: Option<i64>,
        kind: Text,
        parent_step_id: Option<i64>,
        source_step_id: Option<i64>,
        traceparent: Option<Text>,
        api_endpoint: Text,
        status: Text,
        reason: Option<Text>,
        error: Option<Text>,
        started_at: i64,
        finished_at: i64,
        tier: Option<Text>,
        classified_tier: Option<Text>,
        complexity: Option<f64>,
        intent: Option<Text>,
        routing_reasons: Option<Text>,
        pii: bool,
        injection: bool,
        secret: bool,
        review: bool,
        risk_score: f64,
        findings: Option<Text>,
        model: Option<Text>,
        provider: Option<Text>,
        upstream_model: Option<Text>,
        infrastructure: Option<Text>,
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
        finish_reason: Option<Text>,
        input_fingerprint: Option<i64>,
        output_fingerprint: Option<i64>,
        answer_characters: Option<i64>,
        answer_language: Option<Text>,
        answer_refuses: Option<bool>,
        attr_user: Option<Text>,
        attr_session: Option<Text>,
        attr_tags: Option<Text>,
        tool_calls: Option<i64>,
        tool_fidelity: Option<f64>,
        tool_fingerprints: Option<Text>,
        shadow: Option<bool>,
        similarity: Option<f64>,
        user_rating: Option<f64>,
    }
}

impl Row for Step {
    const TABLE: &'static str = "steps";
    const COLUMNS: &'static [&'static str] = StepRow::COLUMNS;

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        Ok(StepRow::of(self)?.into_fields())
    }
}

impl<'a> StepRow<Cow<'a, str>> {
    /// The row of a step.
    fn of(step: &'a Step) -> Result<Self> {
        let (routing, security) = (step.routing.as_ref(), &step.security);
        let reasons = routing.map(|routing| serde_json::to_string(&routing.reasons)).transpose();
        let reasons = reasons.map_err(|error| Error::Corrupt(error.to_string()))?;
        let call = step.call.as_ref();
        let usage = call.map(|call| call.usage);
        let prices = call.and_then(|call| call.prices);
        let tools = call.and_then(|call| call.tools.as_ref());
        let answer = call.and_then(|call| call.answer.as_ref());
        let attributes = step.attributes.as_deref();
        let tags = attributes.map(|attributes| &attributes.tags).filter(|tags| !tags.is_empty());
        let tags = tags.map(serde_json::to_string).transpose();
        let tags = tags.map_err(|error| Error::Corrupt(error.to_string()))?;
        let tokens = |count: fn(&Usage) -> u64| {
            usage.map(|usage| i64::try_from(count(&usage)).unwrap_or(i64::MAX))
        };
        let price = |of: fn(&Prices) -> Usd| prices.map(|prices| of(&prices).0);
        Ok(Self {
            id: step.id.0,
            trace_id: step.trace.0,
            project_id: step.project.0,
            key_id: step.key.map(KeyId::to_i64),
            kind: step.kind.as_str().into(),
            parent_step_id: step.parent.map(|parent| parent.0),
            source_step_id: step.source.map(|source| source.0),
            traceparent: step.trace_context.map(|context| context.to_string().into()),
            api_endpoint: step.api_endpoint.as_str().into(),
            status: step.status.as_str().into(),
            reason: step.reason.as_deref().map(text),
            error: step.error.as_deref().map(text),
            started_at: step.started_at.0,
            finished_at: step.finished_at.0,
            tier: routing.and_then(|routing| routing.tier).map(|tier| tier.as_str().into()),
            classified_tier: routing.map(|routing| routing.classified.as_str().into()),
            complexity: routing.map(|routing| routing.complexity),
            intent: routing.map(|routing| routing.intent.as_str().into()),
            routing_reasons: reasons.map(Cow::Owned),
            pii: security.pii,
            injection: security.injection,
            secret: security.secret,
            review: security.review,
            risk_score: security.risk_score,
            findings: security.findings.as_ref().map(|findings| findings.to_string().into()),
            model: call.map(|call| text(&call.model)),
            provider: call.map(|call| call.provider.as_str().into()),
            upstream_model: call.and_then(|call| call.upstream_model.as_deref()).map(text),
            infrastructure: call.map(|call| text(&call.infrastructure)),
            is_public: call.map(|call| call.is_public),
            attempts: call.map(|call| call.attempts),
            prompt_tokens: tokens(|usage| usage.prompt),
            cached_tokens: tokens(|usage| usage.cached),
            cache_write_tokens: tokens(|usage| usage.cache_write),
            cache_write_1h_tokens: tokens(|usage| usage.cache_write_1h),
            completion_tokens: tokens(|usage| usage.completion),
            reasoning_tokens: tokens(|usage| usage.reasoning),
            input_price: price(|prices| prices.input),
            output_price: price(|prices| prices.output),
            cached_price: price(|prices| prices.cached_input),
            cache_write_price: price(|prices| prices.cache_write),
            cache_write_1h_price: price(|prices| prices.cache_write_1h),
            cost: call.map(|call| call.cost.0),
            cost_estimated: call.map(|call| call.cost_estimated),
            first_token: call.and_then(|call| call.first_token),
            finish_reason: call.and_then(|call| call.finish).map(|finish| finish.as_str().into()),
            input_fingerprint: call.and_then(|call| call.input_fingerprint),
            output_fingerprint: call.and_then(|call| call.output_fingerprint),
            answer_characters: answer
                .map(|answer| i64::try_from(answer.characters).unwrap_or(i64::MAX)),
            answer_language: answer.map(|answer| Cow::Borrowed(&*answer.language)),
            answer_refuses: answer.map(|answer| answer.refuses),
            attr_user: attributes.and_then(|attributes| attributes.user.as_deref()).map(text),
            attr_session: attributes.and_then(|attributes| attributes.session.as_deref()).map(text),
            attr_tags: tags.map(Cow::Owned),
            tool_calls: tools.map(|tools| tools.calls.into()),
            tool_fidelity: tools.map(|tools| tools.fidelity),
            tool_fingerprints: tools
                .map(|tools| Value::from(tools.fingerprints.clone()).to_string().into()),
            shadow: call.map(|call| call.shadow),
            similarity: call.and_then(|call| call.similarity),
            user_rating: step.user_rating,
        })
    }
}

/// A text as a database can hold it: PostgreSQL takes no NUL.
fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// Parses a word of one of the closed lists.
fn word<T>(parse: fn(&str) -> Option<T>, text: &str) -> Result<T> {
    parse(text).ok_or_else(|| Error::Corrupt(format!("'{text}'")))
}

fn json(text: Option<&str>) -> Result<Option<serde_json::Value>> {
    text.map(serde_json::from_str).transpose().map_err(|error| Error::Corrupt(error.to_string()))
}

impl StepRow<String> {
    /// The step of a row. Fails when a word is in none of the closed lists.
    pub(crate) fn read(self) -> Result<Step> {
        Ok(Step {
            id: StepId(self.id),
            trace: TraceId(self.trace_id),
            project: ProjectId(self.project_id),
            key: self.key_id.map(KeyId::from_i64),
            kind: word(StepKind::parse, &self.kind)?,
            parent: self.parent_step_id.map(StepId),
            source: self.source_step_id.map(StepId),
            trace_context: self
                .traceparent
                .as_deref()
                .map(|text| word(TraceContext::parse, text))
                .transpose()?,
            attributes: self.attributes()?,
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

    fn attributes(&self) -> Result<Option<Arc<Attributes>>> {
        let tags = self.attr_tags.as_deref().map(serde_json::from_str).transpose();
        let tags = tags.map_err(|error| Error::Corrupt(error.to_string()))?.unwrap_or_default();
        let (user, session) = (self.attr_user.clone(), self.attr_session.clone());
        let attributes = Attributes { user, session, tags };
        Ok((!attributes.is_empty()).then(|| Arc::new(attributes)))
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
                let write = self.cache_write_price;
                // Older steps have no tokens that are cached for an hour.
                let write_1h = self.cache_write_1h_price.or(write).unwrap_or(input);
                Some(Prices::new(
                    Usd(input),
                    Usd(output),
                    CachePrices {
                        read: self.cached_price.map(Usd),
                        write: write.map(Usd),
                        write_1h: Some(Usd(write_1h)),
                    },
                ))
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
            failure_status: None,
            usage: Usage {
                prompt: tokens(self.prompt_tokens),
                cached: tokens(self.cached_tokens),
                cache_write: tokens(self.cache_write_tokens),
                cache_write_1h: tokens(self.cache_write_1h_tokens),
                completion: tokens(self.completion_tokens),
                reasoning: tokens(self.reasoning_tokens),
                ..Usage::default()
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
            input_fingerprint: self.input_fingerprint,
            output_fingerprint: self.output_fingerprint,
            answer: self.answer_characters.map(|characters| AnswerShape {
                characters: characters.unsigned_abs(),
                language: self.answer_language.unwrap_or_default().into(),
                refuses: self.answer_refuses.unwrap_or_default(),
            }),
            tools: self.tool_calls.map(|calls| ToolUse {
                calls: u32::try_from(calls).unwrap_or(u32::MAX),
                fidelity: self.tool_fidelity.unwrap_or(1.0),
                fingerprints: self
                    .tool_fingerprints
                    .and_then(|prints| serde_json::from_str(&prints).ok())
                    .unwrap_or_default(),
            }),
            shadow: self.shadow.unwrap_or_default(),
            similarity: self.similarity,
        }))
    }
}
