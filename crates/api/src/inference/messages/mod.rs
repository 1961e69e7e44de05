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
use gateway::{ChatAnswer, Refusal, Streamed};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::Body;
use crate::http::error::Result;
use crate::http::trace_headers;
use crate::inference::finding::FindingBody;
use crate::inference::message_names::Names;
use crate::inference::sse::{self, EventBody};
use answer::MessageAnswer;
use request::{MessagesBody, ParsedRequest};

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
    let streams = body.streams();
    let ParsedRequest { ask, sources, left_out } =
        request::ask(body, trace_headers::trace_of(&headers))?;
    let names = Names { list: "messages", beside: "system", sources: &sources };
    let failed = |unanswered| names.failure(unanswered);
    if streams {
        let streamed = Box::pin(app.gateway.chat_stream(&caller, ask)).await.map_err(failed)?;
        let (trace, dropped) = trace_headers::notes_of(&streamed);
        let events = match streamed {
            Streamed::Pieces(started, pieces) => stream::body(&started, pieces),
            Streamed::Blocked(Refusal { reason, step, trace, cause }) => {
                let cause = FindingBody::of_item(cause, &sources);
                Bytes::from(stream::refused(&reason, cause, step, trace))
            }
        };
        return Ok(trace_headers::with_trace_headers(
            trace,
            &[left_out, dropped].concat(),
            sse::events(events),
        ));
    }
    let answer = Box::pin(app.gateway.chat(&caller, ask)).await.map_err(failed)?;
    let (trace, dropped, answer) = match answer {
        ChatAnswer::Reply(mut reply) => {
            (reply.trace, std::mem::take(&mut reply.dropped), answer::whole(*reply))
        }
        ChatAnswer::Blocked(Refusal { reason, step, trace, cause }) => {
            let cause = FindingBody::of_item(cause, &sources);
            (trace, Vec::new(), answer::refused(reason, cause, step, trace))
        }
    };
    Ok(trace_headers::with_trace_headers(
        trace,
        &[left_out, dropped].concat(),
        Json(answer).into_response(),
    ))
}
