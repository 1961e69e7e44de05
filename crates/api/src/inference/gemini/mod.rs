//! Gemini's format in and out, for every provider.

mod answer;
mod generate;
mod passing;
mod request;
mod schema;
mod settings;
mod stream;

pub(crate) mod fields;

pub(crate) use generate::{AnswerForm, Generate};
pub(crate) use request::text_of;

use axum::Json;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use domain::original::{Original, WireFormat};
use domain::step::ApiEndpoint;
use domain::time::Timestamp;
use futures_util::stream::BoxStream;
use gateway::{Caller, ChatReply, Piece, Refusal, Started};
use serde_json::{Map, Value};

use crate::app::App;
use crate::http::dialect::Dialect;
use crate::http::error::Result;
use crate::inference::format::{Format, ParsedRequest};
use fields::node;
use generate::AnswerOptions;

/// About the tokens that a model counts in a conversation.
pub(crate) async fn count_tokens(
    app: &App,
    caller: &Caller,
    model: String,
    body: Map<String, Value>,
) -> Result<u64> {
    let mut counted = node(String::new(), Value::Object(body))?;
    // The whole request may be inside.
    let body = match counted.take("generateContentRequest") {
        Some(Value::Object(body)) => body,
        _ => counted.into_members(),
    };
    let asked = Generate { model, body, form: AnswerForm::Whole };
    // It goes nowhere, so nothing has to be translated.
    let original = Original::new(WireFormat::GenerateContent, String::new());
    let ParsedRequest { request, .. } = request::parse(asked, None, Some(original))?;
    let model = request.model.as_deref();
    Ok(app.gateway.count_tokens(caller, ApiEndpoint::Gemini, model, request.prompt).await?)
}

/// Gemini's format.
pub(crate) struct Gemini;

impl Format for Gemini {
    type Body = Generate;
    type Options = AnswerOptions;

    fn read(body: Generate, trace: Option<String>) -> Result<ParsedRequest<AnswerOptions>> {
        request::parse(body, trace, None)
    }

    fn read_passing(
        body: Generate,
        trace: Option<String>,
        original: Original,
    ) -> Result<ParsedRequest<AnswerOptions>> {
        request::parse(body, trace, Some(original))
    }

    fn write_answer(reply: ChatReply, options: AnswerOptions, _dialect: Dialect) -> Response {
        if let Some(source) = reply.source {
            return ([(CONTENT_TYPE, "application/json")], source).into_response();
        }
        Json(answer::whole(reply, options)).into_response()
    }

    fn write_events(
        started: &Started,
        pieces: BoxStream<'static, Vec<Piece>>,
        options: AnswerOptions,
        _dialect: Dialect,
    ) -> Body {
        stream::body(started, pieces, options)
    }

    fn write_refusal(
        refusal: Refusal,
        _now: Timestamp,
        _options: AnswerOptions,
        _dialect: Dialect,
    ) -> Response {
        Json(answer::refused(refusal)).into_response()
    }

    fn write_refusal_events(
        refusal: Refusal,
        _now: Timestamp,
        options: AnswerOptions,
        _dialect: Dialect,
    ) -> Body {
        stream::refused(refusal, options.form).into()
    }
}
