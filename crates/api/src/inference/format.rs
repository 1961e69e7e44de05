//! The formats of conversations: what the chat endpoints differ in, and the handler that they share.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use domain::time::Timestamp;
use futures_util::stream::BoxStream;
use gateway::{
    Caller, ChatAnswer, ChatReply, ChatRequest, Piece, Refusal, Started, Streamed, Unanswered,
};

use crate::app::App;
use crate::http::error::Result;
use crate::http::trace_headers;
use crate::inference::message_names::MessageNames;
use crate::inference::sse;

/// The format of a chat endpoint: reads requests, writes answers and refusals.
pub(crate) trait Format {
    /// The body of a request.
    type Body;
    /// The part of a request that shapes its answer.
    type Options;

    /// Reads a request; `trace` is the one that its headers name.
    fn read(body: Self::Body, trace: Option<String>) -> Result<ParsedRequest<Self::Options>>;

    /// Writes an answer.
    fn write_answer(reply: ChatReply, options: Self::Options) -> Response;

    /// Writes an answer as events.
    fn write_events(
        started: &Started,
        pieces: BoxStream<'static, Vec<Piece>>,
        options: Self::Options,
    ) -> Body;

    /// Writes a refusal as an answer that was created at `now`.
    fn write_refusal(refusal: Refusal, now: Timestamp, options: Self::Options) -> Response;

    /// Writes a refusal as the events of a complete answer that was created at `now`.
    fn write_refusal_events(refusal: Refusal, now: Timestamp, options: Self::Options) -> Body;
}

/// A request that was read.
#[derive(Debug)]
pub struct ParsedRequest<O> {
    /// The canonical request.
    pub request: ChatRequest,
    /// Whether the answer is to be streamed.
    pub streams: bool,
    /// The caller's names of the messages, if they are not those of the canonical request.
    pub names: Option<MessageNames>,
    /// The names of the parameters that were left out.
    pub dropped: Vec<String>,
    /// The part that shapes the answer.
    pub options: O,
}

/// Answers a conversation in a format.
pub(crate) async fn answer<F: Format>(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    body: F::Body,
) -> Result<Response> {
    let ParsedRequest { request, streams, names, mut dropped, options } =
        F::read(body, trace_headers::trace_of(headers))?;
    dropped.extend(trace_headers::betas_of(headers));
    let now = app.gateway.now();
    let failed = |unanswered: Unanswered| match &names {
        Some(names) => names.failure(unanswered),
        None => unanswered.into(),
    };
    let located = |refusal: Refusal| match &names {
        Some(names) => names.located(refusal),
        None => refusal,
    };
    // Boxed, both: the layers around a handler move its future several times.
    let (trace, response) = if streams {
        let streamed = app.gateway.chat_stream(caller, request).await.map_err(failed)?;
        let (trace, events) = match streamed {
            Streamed::Pieces(mut started, pieces) => {
                dropped.append(&mut started.dropped);
                (started.trace, F::write_events(&started, pieces, options))
            }
            Streamed::Blocked(refusal) => {
                (refusal.trace, F::write_refusal_events(located(refusal), now, options))
            }
        };
        (trace, sse::events(events))
    } else {
        match app.gateway.chat(caller, request).await.map_err(failed)? {
            ChatAnswer::Reply(mut reply) => {
                dropped.append(&mut reply.dropped);
                (reply.trace, F::write_answer(*reply, options))
            }
            ChatAnswer::Blocked(refusal) => {
                (refusal.trace, F::write_refusal(located(refusal), now, options))
            }
        }
    };
    Ok(trace_headers::with_trace_headers(trace, &dropped, response))
}
