//! The formats of conversations: what the chat endpoints differ in, and the handler that they share.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use domain::money::Usd;
use domain::time::Timestamp;
use futures_util::stream::BoxStream;
use gateway::{
    AutoTracing, Caller, ChatAnswer, ChatReply, ChatRequest, Piece, Refusal, Started, Streamed,
    Unanswered,
};

use crate::app::App;
use crate::http::dialect::Dialect;
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
    fn write_answer(reply: ChatReply, options: Self::Options, dialect: Dialect) -> Response;

    /// Writes an answer as events.
    fn write_events(
        started: &Started,
        pieces: BoxStream<'static, Vec<Piece>>,
        options: Self::Options,
        dialect: Dialect,
    ) -> Body;

    /// Writes a refusal as an answer that was created at `now`.
    fn write_refusal(
        refusal: Refusal,
        now: Timestamp,
        options: Self::Options,
        dialect: Dialect,
    ) -> Response;

    /// Writes a refusal as the events of a complete answer that was created at `now`.
    fn write_refusal_events(
        refusal: Refusal,
        now: Timestamp,
        options: Self::Options,
        dialect: Dialect,
    ) -> Body;
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

/// Answers a conversation in a format and dialect.
pub(crate) async fn answer<F: Format>(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    body: F::Body,
    dialect: Dialect,
) -> Result<Response> {
    let ParsedRequest { request, streams, names, mut dropped, options } =
        F::read(body, trace_headers::trace_of(headers))?;
    let auto_tracing = match dialect {
        Dialect::Sluice => AutoTracing::BySettings,
        Dialect::Vendor => AutoTracing::BySession,
    };
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
    let (trace, step, cost, response) = if streams {
        let streamed = app.gateway.chat_stream(caller, request, auto_tracing);
        let (trace, step, events) = match streamed.await.map_err(failed)? {
            Streamed::Pieces(mut started, pieces) => {
                dropped.append(&mut started.dropped);
                let events = F::write_events(&started, pieces, options, dialect);
                (started.trace, started.step, events)
            }
            Streamed::Blocked(refusal) => {
                let (trace, step) = (refusal.trace, refusal.step);
                let refusal = located(refusal);
                (trace, step, F::write_refusal_events(refusal, now, options, dialect))
            }
        };
        (trace, step, None, sse::events(events))
    } else {
        match app.gateway.chat(caller, request, auto_tracing).await.map_err(failed)? {
            ChatAnswer::Reply(mut reply) => {
                dropped.append(&mut reply.dropped);
                let (trace, step, cost) = (reply.trace, reply.step, reply.cost);
                (trace, step, Some(cost), F::write_answer(*reply, options, dialect))
            }
            ChatAnswer::Blocked(refusal) => {
                let (trace, step) = (refusal.trace, refusal.step);
                let refusal = F::write_refusal(located(refusal), now, options, dialect);
                (trace, step, Some(Usd::ZERO), refusal)
            }
        }
    };
    let response = match dialect {
        Dialect::Sluice => response,
        Dialect::Vendor => trace_headers::with_step_headers(step, cost, response),
    };
    Ok(trace_headers::with_trace_headers(trace, &dropped, response))
}
