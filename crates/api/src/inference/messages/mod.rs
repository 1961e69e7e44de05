//! `POST /messages`: Anthropic's format in and out, for every provider.

mod answer;
mod blocks;
mod request;
mod settings;
mod stream;

use axum::Json;
use axum::body::Body as Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use domain::time::Timestamp;
use futures_util::stream::BoxStream;
use gateway::{ChatReply, Piece, Refusal, Started};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::Body;
use crate::http::error::Result;
use crate::inference::format::{self, Format, ParsedRequest};
use crate::inference::sse::EventBody;
use answer::MessageAnswer;
use request::MessagesBody;

/// Answer a conversation in Anthropic's format. Personal data is replaced before any provider sees it
/// and put back in the answer.
#[utoipa::path(post, path = "/api/v1/messages", tag = "Executions",
    request_body = MessagesBody,
    params(("X-Trace-Id" = Option<String>, Header, description = "The trace, where the body has none"),
        ("anthropic-version" = Option<String>, Header, description = "Accepted; every version is answered alike")),
    responses((status = 200, content(
        (MessageAnswer = "application/json"), (EventBody = "text/event-stream")))))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    Body(body): Body<MessagesBody>,
) -> Result<Response> {
    format::answer::<Messages>(&app, &caller, &headers, body).await
}

/// Anthropic's format.
struct Messages;

impl Format for Messages {
    type Body = MessagesBody;
    type Options = ();

    fn read(body: MessagesBody, trace: Option<String>) -> Result<ParsedRequest<()>> {
        request::parse(body, trace)
    }

    fn write_answer(reply: ChatReply, (): ()) -> Response {
        Json(answer::whole(reply)).into_response()
    }

    fn write_events(started: &Started, pieces: BoxStream<'static, Vec<Piece>>, (): ()) -> Bytes {
        stream::body(started, pieces)
    }

    fn write_refusal(refusal: Refusal, _now: Timestamp, (): ()) -> Response {
        Json(answer::refused(refusal)).into_response()
    }

    fn write_refusal_events(refusal: Refusal, _now: Timestamp, (): ()) -> Bytes {
        stream::refused(refusal).into()
    }
}
