//! Executions and direct runs.

use axum::Json;
use axum::extract::State;
use domain::ids::StepId;
use gateway::{Outcome, Refusal, ToolCall, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::{Body, FlatBody};
use crate::http::error::Result;
use crate::inference::finding::FindingBody;

/// The execution to run.
#[derive(Deserialize, ToSchema)]
pub struct ExecuteRequest {
    /// An open trace of this key's project.
    trace_id: String,
    /// The prompt.
    input: String,
    /// Functions that the model may call: in the function-calling form, with MCP's `inputSchema`,
    /// or flat. And MCP servers whose tools it may call:
    /// `{type: "mcp", server_label, server_url, require_approval, vpc_only}`.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// The results of the tools that `parent_step_id` called, one for every call of the round. The
    /// conversation is that of the parent.
    #[serde(default, deserialize_with = "crate::http::extract::objects")]
    tool_results: Option<Vec<ToolResultBody>>,
    /// The step it follows from; with `tool_results` the one that called the tools.
    #[serde(default)]
    parent_step_id: Option<i64>,
}

/// The result of a tool.
#[derive(Deserialize, ToSchema)]
pub struct ToolResultBody {
    /// The call that it answers.
    tool_call_id: String,
    /// The answer.
    content: String,
    /// The tool.
    #[serde(default)]
    name: Option<String>,
}

/// A tool call of the model.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolCallBody {
    /// The provider's id of the call.
    id: String,
    /// The tool.
    name: String,
    /// The arguments of the call.
    #[schema(value_type = Object)]
    arguments: Map<String, Value>,
}

/// The status of an answer that waits for tools.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Waits {
    /// Run them, and send their results.
    ToolCallsPending,
}

/// An answer, or why there is none.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum OutcomeBody {
    /// An answer.
    Text {
        /// The model's text.
        output: String,
        /// The identifier of the model that answered.
        model: String,
        /// The step that records it.
        #[schema(value_type = i64)]
        step_id: StepId,
    },
    /// The model waits for tools.
    Tools {
        /// The tool calls to run.
        tool_calls: Vec<ToolCallBody>,
        /// The step that records them: the `parent_step_id` of the results.
        #[schema(value_type = i64)]
        step_id: StepId,
        /// Always `tool_calls_pending`.
        status: Waits,
    },
    /// Refused by safety or routing, at no cost.
    Blocked {
        /// The reason.
        reason: String,
        /// The step that records it.
        #[schema(value_type = i64)]
        step_id: StepId,
        /// The finding in the request, and its location, if safety refused it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(nullable = false)]
        cause: Option<FindingBody>,
    },
}

impl From<Outcome> for OutcomeBody {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Text(done) => {
                Self::Text { output: done.output, model: done.model, step_id: done.step }
            }
            Outcome::Tools { calls, step } => {
                let call = |call: ToolCall| ToolCallBody {
                    id: call.id,
                    name: call.name,
                    arguments: call.arguments,
                };
                let tool_calls = calls.into_iter().map(call).collect();
                Self::Tools { tool_calls, step_id: step, status: Waits::ToolCallsPending }
            }
            Outcome::Blocked(Refusal { reason, step, cause, .. }) => {
                Self::Blocked { reason, step_id: step, cause: FindingBody::of(cause) }
            }
        }
    }
}

/// Check, route, call a model, record the cost.
#[utoipa::path(post, path = "/api/v1/executions", tag = "Executions", request_body = ExecuteRequest,
    responses((status = 200, body = OutcomeBody)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    Body(request): Body<ExecuteRequest>,
) -> Result<Json<OutcomeBody>> {
    let result = |result: ToolResultBody| ToolResult {
        call: result.tool_call_id,
        content: result.content,
        name: result.name,
    };
    // An empty list without a parent contains no results.
    let results = request
        .tool_results
        .filter(|results| !results.is_empty() || request.parent_step_id.is_some())
        .map(|results| results.into_iter().map(result).collect());
    let request = gateway::ExecuteRequest {
        trace_id: request.trace_id,
        input: request.input,
        tools: request.tools.unwrap_or_default(),
        results,
        parent: request.parent_step_id,
    };
    Ok(Json(app.gateway.execute(&caller, request).await?.into()))
}

/// The prompt to run, and its model.
#[derive(Deserialize, ToSchema)]
pub struct RunRequest {
    /// An open trace of this key's project.
    trace_id: String,
    /// The identifier of a registered model.
    model: String,
    /// The prompt.
    input: String,
    /// The step it follows from.
    #[serde(default)]
    parent_step_id: Option<i64>,
}

/// Call a named model. No routing; checks and cost recording still apply.
#[utoipa::path(post, path = "/api/v1/runs", tag = "Executions", request_body = RunRequest,
    responses((status = 200, body = OutcomeBody)))]
pub async fn run(
    State(app): State<App>,
    ByKey(caller): ByKey,
    FlatBody(request): FlatBody<RunRequest>,
) -> Result<Json<OutcomeBody>> {
    let RunRequest { trace_id, model, input, parent_step_id: parent } = request;
    let done = app.gateway.run(&caller, &trace_id, &model, input, parent).await?;
    Ok(Json(done.into()))
}
