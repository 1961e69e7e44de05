//! The body of a request in Anthropic's format.

use domain::original::ExternalAccess;
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use utoipa::ToSchema;

use crate::inference::messages::external_access;

/// A request in Anthropic's format, and `trace_id`.
#[derive(Deserialize, ToSchema)]
pub struct MessagesBody {
    /// An open trace of this key's project; the header `X-Trace-Id` does as well.
    #[serde(default)]
    pub(super) trace_id: Option<String>,
    /// A registered model; an empty one is routed.
    #[serde(default)]
    pub(super) model: Option<String>,
    /// The conversation, oldest first.
    pub(super) messages: Vec<AnthropicMessageBody>,
    /// The most completion tokens.
    #[schema(minimum = 1)]
    pub(super) max_tokens: u64,
    /// The instructions of the application: a text or text blocks.
    #[serde(default)]
    pub(super) system: Option<Value>,
    /// Answer with server-sent events.
    #[serde(default)]
    pub(super) stream: Option<bool>,
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    pub(super) temperature: Option<Number>,
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    pub(super) top_p: Option<Number>,
    #[serde(default)]
    pub(super) top_k: Option<u64>,
    #[serde(default)]
    pub(super) stop_sequences: Option<Vec<String>>,
    /// Tools of the caller's own: `{name, description, input_schema}`.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    pub(super) tools: Option<Vec<Value>>,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) tool_choice: Option<Map<String, Value>>,
    /// For models that have it.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) thinking: Option<Map<String, Value>>,
    /// `user_id` counts.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) metadata: Option<Map<String, Value>>,
    /// `format` (a JSON schema) and `effort`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) output_config: Option<Map<String, Value>>,
    /// Lets the provider keep the prompt: `{type: "ephemeral", ttl}`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) cache_control: Option<Value>,
    /// The region in which the answer may be made; for models that have it.
    #[serde(default)]
    pub(super) inference_geo: Option<String>,
    /// All other parameters. None is supported, but most can be left out without harm.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub(super) others: Map<String, Value>,
}

/// One message.
#[derive(Deserialize, ToSchema)]
pub struct AnthropicMessageBody {
    /// `user`, `assistant` or `system`.
    pub(super) role: String,
    /// A text, or content blocks: `text`, `image`, `document`, `tool_use`, `tool_result`, `thinking`,
    /// `redacted_thinking`.
    pub(super) content: Value,
    /// Nothing else is supported.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub(super) others: Map<String, Value>,
}

impl MessagesBody {
    /// The addresses and tools that the vendor would call for the caller.
    pub(super) fn external_access(&self) -> Vec<ExternalAccess> {
        let contents = self.messages.iter().map(|message| &message.content);
        external_access::of(contents, self.tools.as_deref(), &self.others)
    }
}
