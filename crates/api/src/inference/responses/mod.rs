//! `POST /responses`: OpenAI's newer format in and out, for every provider. Below `/api/v1` nothing is
//! kept between two requests; the vendor's root continues responses of before (`earlier.rs`).

mod answer;
mod body;
mod custom_tools;
mod earlier;
mod external_access;
mod hints;
mod input;
mod passing;
mod references;
mod request;
mod stream;

use axum::Json;
use axum::body::Body as Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use domain::original::Original;
use domain::time::Timestamp;
use futures_util::stream::BoxStream;
use gateway::{ChatReply, Piece, Refusal, Started};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::Body;
use crate::http::dialect::Dialect;
use crate::http::error::Result;
use crate::inference::format::{self, Format, ParsedRequest};
use crate::inference::sse::EventBody;
use answer::ResponseAnswer;
pub(crate) use body::ResponsesBody;
pub(crate) use earlier::resolved;
use request::AnswerOptions;

/// Answer a conversation in the format of OpenAI's Responses API, without anything being kept between
/// two requests. Personal data is replaced before any provider sees it and put back in the answer.
#[utoipa::path(post, path = "/api/v1/responses", tag = "Executions",
    request_body = ResponsesBody,
    params(("X-Trace-Id" = Option<String>, Header, description = "The trace, where the body has none")),
    responses((status = 200, content(
        (ResponseAnswer = "application/json"), (EventBody = "text/event-stream")))))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    Body(body): Body<ResponsesBody>,
) -> Result<Response> {
    format::answer::<Responses>(&app, &caller, &headers, body, Dialect::Sluice).await
}

/// The Responses format.
pub(crate) struct Responses;

impl Format for Responses {
    type Body = ResponsesBody;
    type Options = AnswerOptions;

    fn read(body: ResponsesBody, trace: Option<String>) -> Result<ParsedRequest<Self::Options>> {
        request::parse(body, trace)
    }

    fn read_passing(
        body: ResponsesBody,
        trace: Option<String>,
        original: Original,
    ) -> Result<ParsedRequest<Self::Options>> {
        request::parse_passing(body, trace, Some(original))
    }

    fn write_answer(reply: ChatReply, options: AnswerOptions, dialect: Dialect) -> Response {
        if let Some(source) = reply.source {
            return ([(CONTENT_TYPE, "application/json")], source).into_response();
        }
        Json(answer::whole(reply, options).in_dialect(dialect)).into_response()
    }

    fn write_events(
        started: &Started,
        pieces: BoxStream<'static, Vec<Piece>>,
        options: AnswerOptions,
        dialect: Dialect,
    ) -> Bytes {
        stream::body(started, options, pieces, dialect)
    }

    fn write_refusal(
        refusal: Refusal,
        now: Timestamp,
        options: AnswerOptions,
        dialect: Dialect,
    ) -> Response {
        Json(answer::refused(refusal, now, options.echo).in_dialect(dialect)).into_response()
    }

    fn write_refusal_events(
        refusal: Refusal,
        now: Timestamp,
        options: AnswerOptions,
        dialect: Dialect,
    ) -> Bytes {
        stream::refused(refusal, now, options.echo, dialect).into()
    }
}
