//! `/openai/v1`: the base URL of OpenAI's clients.

pub(crate) mod embeddings;
pub(crate) mod images;
pub(crate) mod models;
pub(crate) mod stored_responses;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use domain::money::Usd;
use gateway::CallRecord;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::Body;
use crate::http::dialect::Dialect;
use crate::http::error::{Failure, Result};
use crate::http::trace_headers::{with_step_headers, with_trace_headers};
use crate::inference::chat::ChatCompletions;
use crate::inference::chat_body::ChatBody;
use crate::inference::format;
use crate::inference::responses::{Responses, ResponsesBody};
use crate::inference::sse::EventBody;

/// Answer a conversation, as OpenAI's API does.
#[utoipa::path(post, path = "/openai/v1/chat/completions", tag = "OpenAI's root",
    operation_id = "openai_chat_completions", request_body = ChatBody,
    params(("X-Trace-Id" = Option<String>, Header, description = "The trace; without one the call belongs to that of its session")),
    responses((status = 200, description = "A completion of OpenAI's API", content(
        (Object = "application/json"), (EventBody = "text/event-stream")))))]
pub async fn create_completion(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    Body(body): Body<ChatBody>,
) -> Result<Response> {
    format::answer::<ChatCompletions>(&app, &caller, &headers, body, Dialect::Vendor).await
}

/// Answer a conversation, as OpenAI's Responses API does. Nothing is kept between two requests.
#[utoipa::path(post, path = "/openai/v1/responses", tag = "OpenAI's root",
    operation_id = "openai_responses", request_body = ResponsesBody,
    params(("X-Trace-Id" = Option<String>, Header, description = "The trace; without one the call belongs to that of its session")),
    responses((status = 200, description = "A response of OpenAI's API", content(
        (Object = "application/json"), (EventBody = "text/event-stream")))))]
pub async fn create_response(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    Body(body): Body<ResponsesBody>,
) -> Result<Response> {
    format::answer::<Responses>(&app, &caller, &headers, body, Dialect::Vendor).await
}

/// An answer with the headers of its records.
fn recorded(record: CallRecord, dropped: &[String], response: Response) -> Response {
    let CallRecord { step, trace, cost } = record;
    with_trace_headers(trace, dropped, with_step_headers(step, Some(cost), response))
}

/// A refusal by safety of a request whose answers have no place for one, at no cost.
fn refused(reason: String, record: CallRecord) -> Response {
    let failure = Failure::new(StatusCode::BAD_REQUEST, reason).code("content_policy_violation");
    recorded(CallRecord { cost: Usd::ZERO, ..record }, &[], failure.into_response())
}
