//! Steps: the events inside a trace.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::attributes::Attributes;
use crate::ids::{KeyId, ProjectId, StepId, TraceId};
use crate::model::Provider;
use crate::money::{Prices, Usd};
use crate::tier::{Intent, Tier, words};
use crate::time::Timestamp;
use crate::trace_context::TraceContext;
use crate::usage::Usage;

words!(
    /// The kind of event that a step records.
    StepKind {
        /// A safety check that a caller requested.
        Check = "check",
        /// A model call.
        Run = "run",
        /// Tools that a model called.
        ToolCall = "tool_call",
        /// A note of the caller.
        Log = "log",
        /// A request that safety or routing refused.
        Blocked = "blocked",
    }
);

words!(
    /// The outcome of a step.
    StepStatus {
        /// Success.
        Completed = "completed",
        /// Failure, or its end was lost.
        Failed = "failed",
        /// Refused by safety or routing.
        Blocked = "blocked",
        /// The caller hung up before the end.
        Cancelled = "cancelled",
    }
);

words!(
    /// The endpoint a request came in by.
    ApiEndpoint {
        /// `POST /executions`.
        Executions = "executions",
        /// `/executions/stream`.
        Stream = "stream",
        /// `POST /chat/completions`.
        Chat = "chat",
        /// `POST /embeddings`.
        Embeddings = "embeddings",
        /// `POST /assistants`.
        Assistants = "assistants",
        /// `POST /images/generations`.
        Images = "images",
        /// `POST /messages`.
        Messages = "messages",
        /// `POST /responses`.
        Responses = "responses",
        /// A conversation of `/gemini/v1beta`.
        Gemini = "gemini",
        /// `POST /runs`.
        Runs = "runs",
        /// `POST /checks`.
        Checks = "checks",
        /// `POST /logs`.
        Logs = "logs",
        /// A replay job.
        Replay = "replay",
    }
);

impl ApiEndpoint {
    /// Whether a request holds a whole conversation, in the format of a vendor.
    pub fn is_conversation(self) -> bool {
        match self {
            Self::Chat | Self::Messages | Self::Responses | Self::Gemini => true,
            Self::Executions
            | Self::Stream
            | Self::Embeddings
            | Self::Assistants
            | Self::Images
            | Self::Runs
            | Self::Checks
            | Self::Logs
            | Self::Replay => false,
        }
    }

    /// Whether its requests call models.
    pub fn calls_models(self) -> bool {
        !matches!(self, Self::Checks | Self::Logs)
    }
}

words!(
    /// Why a model stopped.
    FinishReason {
        /// It was done.
        Stop = "stop",
        /// It reached its bound.
        Length = "length",
        /// A filter cut it off.
        ContentFilter = "content_filter",
        /// It waits for tools.
        ToolCalls = "tool_calls",
        /// It would not answer.
        Refusal = "refusal",
    }
);

impl FinishReason {
    /// The reason in the words of the chat-completions format, in which a refusal is an answer that
    /// has stopped.
    pub fn chat_word(self) -> &'static str {
        match self {
            Self::Refusal => Self::Stop.as_str(),
            other => other.as_str(),
        }
    }

    /// Whether the answer may have ended in the middle of its text.
    pub fn is_cut_off(self) -> bool {
        matches!(self, Self::Length | Self::ContentFilter)
    }
}

/// A step as it is stored, without its content.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number.
    pub id: StepId,
    /// The trace it belongs to.
    pub trace: TraceId,
    /// The project that owns the trace.
    pub project: ProjectId,
    /// The key of the caller.
    pub key: Option<KeyId>,
    /// The kind of event.
    pub kind: StepKind,
    /// The step it follows from.
    pub parent: Option<StepId>,
    /// The step of another trace that it repeats: set in the traces of replays alone.
    pub source: Option<StepId>,
    /// The place of its request in the caller's own trace, if the caller named one.
    pub trace_context: Option<TraceContext>,
    /// Whom it is for, if its call has named anything.
    pub attributes: Option<Arc<Attributes>>,
    /// The endpoint it came in by.
    pub api_endpoint: ApiEndpoint,
    /// How it ended.
    pub status: StepStatus,
    /// The reason why it was blocked.
    pub reason: Option<String>,
    /// The reason why it failed.
    pub error: Option<String>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was over.
    pub finished_at: Timestamp,
    /// The decision of routing.
    pub routing: Option<Routing>,
    /// The findings of safety.
    pub security: Security,
    /// The model call, for run steps.
    pub call: Option<Call>,
    /// A rating between 0 and 1, for log steps that carry one.
    pub user_rating: Option<f64>,
}

impl Step {
    /// Whether it is a call of a shadow model, which nobody asked for.
    pub fn is_shadow(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.shadow)
    }

    /// Its duration, in microseconds.
    pub fn latency(&self) -> i64 {
        self.finished_at.since(self.started_at)
    }

    /// The cost of its call; zero for steps that called no model.
    pub fn cost(&self) -> Usd {
        self.call.as_ref().map_or(Usd::ZERO, |call| call.cost)
    }
}

/// The decision of routing for a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Routing {
    /// The tier the request was sent to; `None` when the caller named the model.
    pub tier: Option<Tier>,
    /// The tier that its own input classifies as.
    pub classified: Tier,
    /// How hard the input is, 0 to 1.
    pub complexity: f64,
    /// The intent of the prompt.
    pub intent: Intent,
    /// Why, in words.
    pub reasons: Vec<String>,
}

/// The findings of safety in a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Security {
    /// Personal data.
    pub pii: bool,
    /// An injection.
    pub injection: bool,
    /// A credential, in the input or the output.
    pub secret: bool,
    /// Whether a person should look at it.
    pub review: bool,
    /// 0 to 1.
    pub risk_score: f64,
    /// The findings as a JSON array; `None` when there are none.
    pub findings: Option<Value>,
}

/// The parameters, usage and cost of one model call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The model's identifier in the registry.
    pub model: String,
    /// Its wire format.
    pub provider: Provider,
    /// The name the provider gave in its answer.
    pub upstream_model: Option<String>,
    /// The label its cost is grouped by.
    pub infrastructure: String,
    /// Whether it was public when it was called.
    pub is_public: bool,
    /// How many calls were tried for it, this one included.
    pub attempts: i64,
    /// The HTTP status with which the provider failed or refused, if it answered one. It is not stored:
    /// `None` for a call that was read.
    pub failure_status: Option<u16>,
    /// The usage of the call.
    pub usage: Usage,
    /// The prices at that time; `None` when the model had none.
    pub prices: Option<Prices>,
    /// The cost of the call.
    pub cost: Usd,
    /// Whether the tokens were counted here because the provider did not report them.
    pub cost_estimated: bool,
    /// Microseconds to the first token of a stream.
    pub first_token: Option<i64>,
    /// Why the model stopped.
    pub finish: Option<FinishReason>,
    /// Keyed fingerprint of model and input.
    pub input_fingerprint: Option<i64>,
    /// Keyed fingerprint of the output.
    pub output_fingerprint: Option<i64>,
    /// The look of its answer, if that is a text.
    pub answer: Option<AnswerShape>,
    /// The tools that it called, if any.
    pub tools: Option<ToolUse>,
    /// Whether it ran in the shadow of another.
    pub shadow: bool,
    /// How alike its answer and that of the call beside it are, 0 to 1, if it is a shadow call that was
    /// answered.
    pub similarity: Option<f64>,
}

impl Call {
    /// A call of a model of which nothing else is known: tried once, without usage or cost.
    pub fn of(model: String, provider: Provider) -> Self {
        Self {
            model,
            provider,
            upstream_model: None,
            infrastructure: String::new(),
            is_public: false,
            attempts: 1,
            failure_status: None,
            usage: Usage::default(),
            prices: None,
            cost: Usd::ZERO,
            cost_estimated: false,
            first_token: None,
            finish: None,
            input_fingerprint: None,
            output_fingerprint: None,
            answer: None,
            tools: None,
            shadow: false,
            similarity: None,
        }
    }

    /// Whether its model was private when it was called, as [`crate::model::Model::is_private`] has it.
    pub fn was_private(&self) -> bool {
        self.provider.is_private(self.is_public)
    }
}

/// The look of an answer's text from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerShape {
    /// Its length.
    pub characters: u64,
    /// Its language, as a code of two letters; `und` if it shows none.
    pub language: Cow<'static, str>,
    /// Whether it is a refusal.
    pub refuses: bool,
}

/// The tool calls of one answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolUse {
    /// How many there are.
    pub calls: u32,
    /// How well they fit their declarations, 0 to 1.
    pub fidelity: f64,
    /// Keyed fingerprints of the name and arguments of each.
    pub fingerprints: Vec<i64>,
}

/// The content of a step: sealed apart from its metrics.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Content {
    /// The input that the provider received, or the text that was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The other parameters of a model call: `tools`, `temperature` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
    /// The caller's bound on completion tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The values that the placeholders stand for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholders: Option<Value>,
    /// The part of the request and of the answer that passed as they came, beside the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Value>,
    /// Why the request, which passed as it came, cannot be sent in another form, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untranslatable: Option<String>,
    /// The parts of the request, which passed as it came, that input and parameters lack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<String>,
    /// The MCP servers whose tools were offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_of_ones_own_is_private_whatever_else_it_is_called() {
        for (provider, is_public, was_private) in [
            (Provider::Openai, false, true),
            (Provider::Openai, true, false),
            (Provider::Internal, false, true),
            (Provider::Internal, true, true),
        ] {
            let call = Call { is_public, ..Call::of("m".to_owned(), provider) };
            assert_eq!(call.was_private(), was_private, "{provider:?} {is_public}");
        }
    }
}
