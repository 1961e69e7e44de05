//! `/openai/v1`: the base URL of OpenAI's clients.

pub(crate) mod embeddings;
pub(crate) mod images;
pub(crate) mod models;
pub(crate) mod stored_responses;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use domain::original::{Original, WireFormat};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::SourceBody;
use crate::http::error::Result;
use crate::inference::chat::ChatCompletions;
use crate::inference::chat_body::ChatBody;
use crate::inference::format;
use crate::inference::responses::{self, Responses, ResponsesBody};
use crate::inference::sse::EventBody;

/// Answer a conversation, as OpenAI's API does. To models of the providers `openai`, `azure` and
/// `internal` the request goes on as it came, and the answer comes back so: `X-Sluice-Mode` names the
/// way that it took.
#[utoipa::path(post, path = "/openai/v1/chat/completions", tag = "OpenAI's root",
    operation_id = "openai_chat_completions", request_body = ChatBody,
    params(("X-Trace-Id" = Option<String>, Header, description = "The trace; without one the call belongs to that of its session")),
    responses((status = 200, description = "A completion of OpenAI's API", content(
        (Object = "application/json"), (EventBody = "text/event-stream")))))]
pub async fn create_completion(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    SourceBody(body, source): SourceBody<ChatBody>,
) -> Result<Response> {
    let original = Original::new(WireFormat::ChatCompletions, source);
    format::answer_passing::<ChatCompletions>(&app, &caller, &headers, body, original).await
}

/// Answer a conversation, as OpenAI's Responses API does. To models whose server has the same endpoint
/// the request goes on as it came, and the answer comes back so: `X-Sluice-Mode` names the way that it
/// took. An earlier response is continued by its id: at the server that stores it, or from the record of
/// its step.
#[utoipa::path(post, path = "/openai/v1/responses", tag = "OpenAI's root",
    operation_id = "openai_responses", request_body = ResponsesBody,
    params(("X-Trace-Id" = Option<String>, Header, description = "The trace; without one the call belongs to that of its session")),
    responses((status = 200, description = "A response of OpenAI's API", content(
        (Object = "application/json"), (EventBody = "text/event-stream")))))]
pub async fn create_response(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    SourceBody(body, source): SourceBody<ResponsesBody>,
) -> Result<Response> {
    let body = responses::resolved(&app, &caller, body).await?;
    let original = Original::new(WireFormat::Responses, source);
    format::answer_passing::<Responses>(&app, &caller, &headers, body, original).await
}
