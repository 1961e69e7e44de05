//! The body of a request in the Responses format.

use domain::conversation::Message;
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use utoipa::ToSchema;

/// A request in the Responses format, and `trace_id`.
#[derive(Deserialize, ToSchema)]
pub struct ResponsesBody {
    /// An open trace of this key's project; the header `X-Trace-Id` does as well.
    #[serde(default)]
    pub(super) trace_id: Option<String>,
    /// A registered model; without one the request is routed.
    #[serde(default)]
    pub(super) model: Option<String>,
    /// A text, or items: messages, `function_call`, `function_call_output`, `custom_tool_call`,
    /// `custom_tool_call_output`, `reasoning`.
    pub(super) input: Value,
    /// The instructions of the application.
    #[serde(default)]
    pub(super) instructions: Option<String>,
    /// Answer with server-sent events.
    #[serde(default)]
    pub(super) stream: Option<bool>,
    /// The most completion tokens.
    #[serde(default)]
    #[schema(minimum = 1)]
    pub(super) max_output_tokens: Option<u64>,
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    pub(super) temperature: Option<Number>,
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    pub(super) top_p: Option<Number>,
    /// Functions and custom tools; tools that only a vendor has are left out and named.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    pub(super) tools: Option<Vec<Value>>,
    /// `auto`, `none`, `required`, or a function.
    #[serde(default)]
    pub(super) tool_choice: Option<Value>,
    #[serde(default)]
    pub(super) parallel_tool_calls: Option<bool>,
    /// `format` and `verbosity`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) text: Option<Map<String, Value>>,
    /// `effort` counts.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) reasoning: Option<Map<String, Value>>,
    /// Comes back with the answer.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(super) metadata: Option<Map<String, Value>>,
    /// `true` is refused: nothing is kept.
    #[serde(default)]
    pub(super) store: Option<bool>,
    /// `reasoning.encrypted_content` is always included; anything else is refused.
    #[serde(default)]
    pub(super) include: Option<Vec<String>>,
    /// All other parameters. None is supported but `user`, `service_tier` and the like; most can be
    /// left out without harm.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub(super) others: Map<String, Value>,
    /// Whether it came in by the vendor's root.
    #[serde(skip)]
    pub(super) is_root: bool,
    /// The conversation that it continues, by `previous_response_id`.
    #[serde(skip)]
    #[schema(ignore)]
    pub(super) before: Vec<Message>,
    /// The response that it continues.
    #[serde(skip)]
    pub(super) previous: Option<String>,
    /// Whether items of ours were put into it in the place of their ids.
    #[serde(skip)]
    pub(super) is_resolved: bool,
}
