//! Executions and direct runs.

use axum::Json;
use axum::extract::State;
use domain::ids::StepId;
use gateway::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::App;
use crate::auth::ByKey;
use crate::error::Result;
use crate::input::Body;

/// What is to be executed.
#[derive(Deserialize, ToSchema)]
pub struct ExecuteAsk {
    /// An open trace of this key's project.
    trace_id: String,
    /// The prompt.
    input: String,
    /// Not supported yet: 422 when it is not empty.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// Not supported yet: 422 when it is not empty.
    #[serde(default)]
    #[schema(value_type = Option<Vec<Object>>)]
    tool_results: Option<Vec<Value>>,
    /// The step whose tools were run.
    #[serde(default)]
    parent_step_id: Option<i64>,
}

/// An answer, or why there is none.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum OutcomeBody {
    /// An answer.
    Text {
        /// What the model said.
        output: String,
        /// The identifier of the model that said it.
        model: String,
        /// The step that records it.
        #[schema(value_type = i64)]
        step_id: StepId,
    },
    /// Refused by safety or routing, at no cost.
    Blocked {
        /// Why.
        reason: String,
        /// The step that records it.
        #[schema(value_type = i64)]
        step_id: StepId,
    },
}

impl From<Outcome> for OutcomeBody {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Text(done) => {
                Self::Text { output: done.output, model: done.model, step_id: done.step }
            }
            Outcome::Blocked { reason, step } => Self::Blocked { reason, step_id: step },
        }
    }
}

/// Check, route, call a model, record the cost.
#[utoipa::path(post, path = "/api/v1/executions", tag = "Executions", request_body = ExecuteAsk,
    responses((status = 200, body = OutcomeBody)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    Body(ask): Body<ExecuteAsk>,
) -> Result<Json<OutcomeBody>> {
    let some = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if some(&ask.tool_results) && ask.parent_step_id.is_none() {
        return Err(gateway::Error::invalid(
            "parent_step_id is required when tool_results is sent",
        )
        .into());
    }
    if some(&ask.tools) || some(&ask.tool_results) {
        return Err(gateway::Error::invalid(
            "tools are not supported on executions yet: use chat/completions",
        )
        .into());
    }
    Ok(Json(app.gateway.execute(&caller, &ask.trace_id, ask.input).await?.into()))
}

/// What is to be run, and on which model.
#[derive(Deserialize, ToSchema)]
pub struct RunAsk {
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
#[utoipa::path(post, path = "/api/v1/runs", tag = "Executions", request_body = RunAsk,
    responses((status = 200, body = OutcomeBody)))]
pub async fn run(
    State(app): State<App>,
    ByKey(caller): ByKey,
    Body(ask): Body<RunAsk>,
) -> Result<Json<OutcomeBody>> {
    let parent = ask.parent_step_id;
    let done = app.gateway.run(&caller, &ask.trace_id, &ask.model, ask.input, parent).await?;
    Ok(Json(done.into()))
}
