//! Notes on a trace.

use axum::Json;
use axum::extract::State;
use domain::ids::{StepId, TraceId};
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::App;
use crate::auth::ByKey;
use crate::error::Result;
use crate::input::Body;

/// What is to be noted.
#[derive(Deserialize, ToSchema)]
pub struct LogAsk {
    /// A trace of this key's project, completed ones included.
    trace_id: String,
    /// Stored as it is; a `user_rating` counts in the grade.
    #[schema(value_type = Object)]
    output: Map<String, Value>,
    /// The step it is about.
    #[serde(default)]
    parent_step_id: Option<i64>,
}

/// A recorded note; its content is not echoed.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogBody {
    #[schema(value_type = i64)]
    step_id: StepId,
    #[schema(value_type = String)]
    trace_id: TraceId,
    /// Always `log`.
    r#type: &'static str,
    /// As it was given.
    #[schema(value_type = Option<i64>)]
    parent_step_id: Option<StepId>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// Note something on a trace.
#[utoipa::path(post, path = "/api/v1/logs", tag = "Traces", request_body = LogAsk,
    responses((status = 200, body = LogBody)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    Body(ask): Body<LogAsk>,
) -> Result<Json<LogBody>> {
    let noted = app.gateway.log(&caller, &ask.trace_id, ask.output, ask.parent_step_id).await?;
    Ok(Json(LogBody {
        step_id: noted.step,
        trace_id: noted.trace,
        r#type: "log",
        parent_step_id: noted.parent,
        created_at: noted.created_at,
    }))
}
