//! `POST /messages`: Anthropic's format in and out, for every provider.

mod answer;
mod blocks;
mod body;
mod external_access;
mod request;
mod settings;
mod stream;

use axum::Json;
use axum::body::Body as Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use domain::original::{Original, WireFormat};
use domain::step::ApiEndpoint;
use domain::time::Timestamp;
use futures_util::stream::BoxStream;
use gateway::{Caller, ChatReply, Piece, Refusal, Started};
use serde::de::{self, Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::Body;
use crate::http::dialect::Dialect;
use crate::http::error::Result;
use crate::inference::format::{self, Format, ParsedRequest};
use crate::inference::sse::EventBody;
use answer::MessageAnswer;
pub(crate) use body::MessagesBody;

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
    format::answer::<Messages>(&app, &caller, &headers, body, Dialect::Sluice).await
}

/// A request whose tokens are to be counted: a conversation without a bound on its answer.
pub(crate) struct CountedBody(MessagesBody);

impl<'de> Deserialize<'de> for CountedBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let mut fields = Map::<String, Value>::deserialize(deserializer)?;
        fields.entry("max_tokens").or_insert_with(|| 1.into());
        MessagesBody::deserialize(Value::Object(fields)).map(Self).map_err(de::Error::custom)
    }
}

/// About the tokens that a model counts in a conversation.
pub(crate) async fn count_tokens(app: &App, caller: &Caller, body: CountedBody) -> Result<u64> {
    // It goes nowhere, so nothing has to be translated.
    let original = Original::new(WireFormat::Messages, String::new());
    let ParsedRequest { request, .. } = request::parse(body.0, None, Some(original))?;
    let model = request.model.as_deref();
    Ok(app.gateway.count_tokens(caller, ApiEndpoint::Messages, model, request.prompt).await?)
}

/// Anthropic's format.
pub(crate) struct Messages;

impl Format for Messages {
    type Body = MessagesBody;
    type Options = ();

    fn read(body: MessagesBody, trace: Option<String>) -> Result<ParsedRequest<()>> {
        request::parse(body, trace, None)
    }

    fn read_passing(
        body: MessagesBody,
        trace: Option<String>,
        original: Original,
    ) -> Result<ParsedRequest<()>> {
        request::parse(body, trace, Some(original))
    }

    fn write_answer(reply: ChatReply, (): (), dialect: Dialect) -> Response {
        if let Some(source) = reply.source {
            return ([(CONTENT_TYPE, "application/json")], source).into_response();
        }
        Json(answer::whole(reply).in_dialect(dialect)).into_response()
    }

    fn write_events(
        started: &Started,
        pieces: BoxStream<'static, Vec<Piece>>,
        (): (),
        dialect: Dialect,
    ) -> Bytes {
        stream::body(started, pieces, dialect)
    }

    fn write_refusal(refusal: Refusal, _now: Timestamp, (): (), dialect: Dialect) -> Response {
        Json(answer::refused(refusal).in_dialect(dialect)).into_response()
    }

    fn write_refusal_events(refusal: Refusal, _now: Timestamp, (): (), dialect: Dialect) -> Bytes {
        stream::refused(refusal, dialect).into()
    }
}
