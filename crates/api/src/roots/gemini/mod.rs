//! `/gemini/v1beta`: the base URL of Gemini's clients is `/gemini`.

pub(crate) mod models;
mod vectors;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use domain::original::{Original, WireFormat};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::SourceBody;
use crate::http::error::{Failure, Result};
use crate::http::extract::{Query, Segments};
use crate::http::trace_headers::trace_of;
use crate::inference::format;
use crate::inference::gemini::{self, AnswerForm, Gemini, Generate};
use crate::inference::sse::EventBody;

/// The most characters of a method that an error shows.
const LONGEST_METHOD: usize = 64;

/// The body of a method of a model: a `GenerateContentRequest`, `CountTokensRequest`,
/// `EmbedContentRequest` or `BatchEmbedContentsRequest` of Gemini's API.
#[derive(Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct GeminiBody(Map<String, Value>);

/// The form of a streamed answer.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StreamQuery {
    /// `sse` for server-sent events; without it a streamed answer is one JSON array.
    #[serde(default)]
    alt: Option<String>,
}

/// The tokens of a conversation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeminiTokenCount {
    /// About as many as a model counts.
    total_tokens: u64,
}

/// Call a method of a model, as Gemini's API does: `generateContent`, `streamGenerateContent`,
/// `countTokens`, `embedContent` or `batchEmbedContents`. Personal data is replaced before any provider
/// sees it and put back in the answer. To models of Gemini a conversation goes on as it came, and the
/// answer comes back so: `X-Sluice-Mode` names the way that it took.
#[utoipa::path(post, path = "/gemini/v1beta/models/{*model}", tag = "Gemini's root",
    operation_id = "gemini_call_model", request_body = GeminiBody,
    params(("model" = String, Path, description = "What callers pass as `model`, a colon, and the method"),
        ("X-Trace-Id" = Option<String>, Header, description = "The trace; without one the call belongs to that of its session"),
        StreamQuery),
    responses((status = 200, description = "The answer of the method", content(
        (Object = "application/json"), (EventBody = "text/event-stream")))))]
pub async fn call_model(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    path: Segments,
    Query(query): Query<StreamQuery>,
    SourceBody(GeminiBody(body), source): SourceBody<GeminiBody>,
) -> Result<Response> {
    let path = path.text("model")?;
    let (model, method) = path.rsplit_once(':').unwrap_or((path, ""));
    let model = model.to_owned();
    let form = match method {
        "generateContent" => AnswerForm::Whole,
        "streamGenerateContent" if query.alt.as_deref() == Some("sse") => AnswerForm::Events,
        "streamGenerateContent" => AnswerForm::Array,
        "countTokens" => {
            let total_tokens = gemini::count_tokens(&app, &caller, model, body).await?;
            return Ok(Json(GeminiTokenCount { total_tokens }).into_response());
        }
        "embedContent" => {
            return vectors::embed(&app, &caller, trace_of(&headers), model, body).await;
        }
        "batchEmbedContents" => {
            return vectors::embed_batch(&app, &caller, trace_of(&headers), model, body).await;
        }
        _ => return Err(no_method(method)),
    };
    let body = Generate { model, body, form };
    let original = Original::new(WireFormat::GenerateContent, source);
    let mut response =
        format::answer_passing::<Gemini>(&app, &caller, &headers, body, original).await?;
    if form == AnswerForm::Array {
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
    }
    Ok(response)
}

fn no_method(name: &str) -> Failure {
    let shown: String = name.chars().take(LONGEST_METHOD).collect();
    let sentence = format!(
        "A model has no method '{shown}': it has generateContent, streamGenerateContent, \
         countTokens, embedContent and batchEmbedContents"
    );
    Failure::new(StatusCode::NOT_FOUND, sentence)
}
