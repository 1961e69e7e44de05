//! Notes on a trace.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::ids::{StepId, TraceId};
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::FlatBody;
use crate::http::error::{Failure, Result};
use crate::http::json_text::JsonText;

/// The note to record.
#[derive(Deserialize, ToSchema)]
pub struct LogRequest {
    /// A trace of this key's project, completed ones included.
    trace_id: String,
    /// Stored as it is; a `user_rating` counts in the grade.
    #[schema(value_type = Object)]
    output: JsonText,
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
#[utoipa::path(post, path = "/api/v1/logs", tag = "Traces", request_body = LogRequest,
    responses((status = 200, body = LogBody)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    FlatBody(request): FlatBody<LogRequest>,
) -> Result<Json<LogBody>> {
    let JsonText(output) = request.output;
    if !output.get().starts_with('{') {
        let sentence = "Invalid request body: invalid type for output, expected an object";
        return Err(Failure::new(StatusCode::BAD_REQUEST, sentence));
    }
    let noted =
        app.gateway.log(&caller, &request.trace_id, &output, request.parent_step_id).await?;
    Ok(Json(LogBody {
        step_id: noted.step,
        trace_id: noted.trace,
        r#type: "log",
        parent_step_id: noted.parent,
        created_at: noted.created_at,
    }))
}
