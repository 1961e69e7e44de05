//! Streamed executions.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::ALLOW;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::http::auth::{self, ByKey};
use crate::http::body::FlatBody;
use crate::http::dialect::Dialect;
use crate::http::error::{Failure, Result};
use crate::http::extract::Query;
use crate::inference::sse::{self, EventBody, Style};

/// The execution to stream.
#[derive(Deserialize, IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
pub struct StreamRequest {
    /// An open trace of this key's project.
    trace_id: String,
    /// The prompt.
    input: String,
}

/// Execute and stream the answer. The prompt travels in the query, which is never logged.
#[utoipa::path(get, path = "/api/v1/executions/stream", tag = "Executions", params(StreamRequest),
    responses((status = 200, body = EventBody, content_type = "text/event-stream")))]
pub async fn show(
    State(app): State<App>,
    ByKey(caller): ByKey,
    Query(request): Query<StreamRequest>,
) -> Result<Response> {
    stream(&app, &caller, request).await
}

/// Execute a prompt from the body and stream the answer.
#[utoipa::path(post, path = "/api/v1/executions/stream", tag = "Executions",
    request_body = StreamRequest,
    responses((status = 200, body = EventBody, content_type = "text/event-stream")))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    FlatBody(request): FlatBody<StreamRequest>,
) -> Result<Response> {
    stream(&app, &caller, request).await
}

/// A request for the head of an answer only must not cost anything.
pub async fn no_head(State(app): State<App>, request: Request) -> Response {
    let refused = Failure::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed");
    let response = ([(ALLOW, "GET,POST")], refused).into_response();
    auth::with_quota_left(&app, &request, response).await
}

async fn stream(app: &App, caller: &gateway::Caller, request: StreamRequest) -> Result<Response> {
    let streamed = app.gateway.execute_stream(caller, &request.trace_id, request.input).await?;
    let style = Style { with_role: false, with_usage: false, dialect: Dialect::Sluice };
    Ok(sse::respond(streamed, style, app.gateway.now()))
}
