//! `POST /responses`: OpenAI's newer format in and out, for every provider. Nothing is kept between
//! two requests.

mod answer;
mod input;
mod request;
mod stream;

use axum::Json;
use axum::body::Body as Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use gateway::{ChatAnswer, Refusal, Streamed};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::Body;
use crate::http::error::Result;
use crate::http::trace_headers;
use crate::inference::finding::FindingBody;
use crate::inference::message_names::Names;
use crate::inference::sse::{self, EventBody};
use answer::ResponseAnswer;
use request::ResponsesBody;

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
    let streams = body.streams();
    let asked = request::ask(body, trace_headers::trace_of(&headers))?;
    let now = app.gateway.now();
    let (echo, sources, left_out) = (asked.echo, asked.sources, asked.left_out);
    let names = Names { list: "input", beside: "instructions", sources: &sources };
    let failed = |unanswered| names.failure(unanswered);
    if streams {
        let streamed =
            Box::pin(app.gateway.chat_stream(&caller, asked.ask)).await.map_err(failed)?;
        let (trace, dropped) = trace_headers::notes_of(&streamed);
        let events = match streamed {
            Streamed::Pieces(started, pieces) => stream::body(&started, echo, pieces),
            Streamed::Blocked(Refusal { reason, step, trace, cause }) => {
                let cause = FindingBody::of_item(cause, &sources);
                Bytes::from(stream::refused(&reason, cause, step, trace, now, echo))
            }
        };
        return Ok(trace_headers::with_trace_headers(
            trace,
            &[left_out, dropped].concat(),
            sse::events(events),
        ));
    }
    let answer = Box::pin(app.gateway.chat(&caller, asked.ask)).await.map_err(failed)?;
    let (trace, dropped, answer) = match answer {
        ChatAnswer::Reply(mut reply) => {
            (reply.trace, std::mem::take(&mut reply.dropped), answer::whole(*reply, echo))
        }
        ChatAnswer::Blocked(Refusal { reason, step, trace, cause }) => {
            let cause = FindingBody::of_item(cause, &sources);
            (trace, Vec::new(), answer::refused(reason, cause, step, trace, now, echo))
        }
    };
    Ok(trace_headers::with_trace_headers(
        trace,
        &[left_out, dropped].concat(),
        Json(answer).into_response(),
    ))
}
