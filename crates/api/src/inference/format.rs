//! The formats of conversations: what the chat endpoints differ in, and the handler that they share.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use domain::money::Usd;
use domain::original::Original;
use domain::time::Timestamp;
use futures_util::stream::BoxStream;
use gateway::{
    AutoTracing, Caller, ChatAnswer, ChatReply, ChatRequest, Mode, Piece, Refusal, Started,
    Streamed, Unanswered,
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

    /// Reads a request that may go on as it came: what has no canonical form is no fault then.
    fn read_passing(
        body: Self::Body,
        trace: Option<String>,
        _original: Original,
    ) -> Result<ParsedRequest<Self::Options>> {
        Self::read(body, trace)
    }

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

/// The most parts without a canonical form that the record of a request which passes names.
const MOST_OMITTED: usize = 20;

/// Answers a conversation in a format and dialect.
pub(crate) async fn answer<F: Format>(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    body: F::Body,
    dialect: Dialect,
) -> Result<Response> {
    let parsed = F::read(body, trace_headers::trace_of(headers))?;
    answer_parsed::<F>(app, caller, headers, parsed, dialect).await
}

/// Answers a conversation in a vendor's dialect, whose request and answer pass as they come where the
/// provider speaks the same format.
pub(crate) async fn answer_passing<F: Format>(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    body: F::Body,
    original: Original,
) -> Result<Response> {
    let original = Original { headers: trace_headers::passing_headers(headers), ..original };
    let parsed = F::read_passing(body, trace_headers::trace_of(headers), original)?;
    answer_parsed::<F>(app, caller, headers, parsed, Dialect::Vendor).await
}

async fn answer_parsed<F: Format>(
    app: &App,
    caller: &Caller,
    headers: &HeaderMap,
    parsed: ParsedRequest<F::Options>,
    dialect: Dialect,
) -> Result<Response> {
    let ParsedRequest { mut request, streams, names, mut dropped, options } = parsed;
    request.prompt.is_lenient = dialect == Dialect::Vendor;
    let auto_tracing = match dialect {
        Dialect::Sluice => AutoTracing::BySettings,
        Dialect::Vendor => AutoTracing::BySession,
    };
    dropped.extend(trace_headers::betas_of(headers));
    if let Some(original) = &mut request.prompt.original {
        original.omitted = dropped.iter().take(MOST_OMITTED).cloned().collect();
    }
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
    let (trace, step, cost, mode, response) = if streams {
        let streamed = app.gateway.chat_stream(caller, request, auto_tracing);
        let (trace, step, mode, events) = match streamed.await.map_err(failed)? {
            Streamed::Pieces(mut started, pieces) => {
                forget_passed(&mut dropped, started.mode);
                dropped.append(&mut started.dropped);
                let events = F::write_events(&started, pieces, options, dialect);
                (started.trace, started.step, Some(started.mode), events)
            }
            Streamed::Blocked(refusal) => {
                let (trace, step) = (refusal.trace, refusal.step);
                let refusal = located(refusal);
                (trace, step, None, F::write_refusal_events(refusal, now, options, dialect))
            }
        };
        (trace, step, None, mode, sse::events(events))
    } else {
        match app.gateway.chat(caller, request, auto_tracing).await.map_err(failed)? {
            ChatAnswer::Reply(mut reply) => {
                forget_passed(&mut dropped, reply.mode);
                dropped.append(&mut reply.dropped);
                let (trace, step, cost) = (reply.trace, reply.step, reply.cost);
                let mode = Some(reply.mode);
                (trace, step, Some(cost), mode, F::write_answer(*reply, options, dialect))
            }
            ChatAnswer::Blocked(refusal) => {
                let (trace, step) = (refusal.trace, refusal.step);
                let refusal = F::write_refusal(located(refusal), now, options, dialect);
                (trace, step, Some(Usd::ZERO), None, refusal)
            }
        }
    };
    let response = match dialect {
        Dialect::Sluice => response,
        Dialect::Vendor => {
            let response = trace_headers::with_step_headers(step, cost, response);
            match mode {
                Some(mode) => trace_headers::with_mode(mode, response),
                None => response,
            }
        }
    };
    Ok(trace_headers::with_trace_headers(trace, &dropped, response))
}

/// A request that went on as it came has lost nothing on the way to its canonical form.
fn forget_passed(dropped: &mut Vec<String>, mode: Mode) {
    if mode == Mode::Passthrough {
        dropped.clear();
    }
}
