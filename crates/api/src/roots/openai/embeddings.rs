//! Embeddings in OpenAI's bodies.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use domain::money::Usd;
use gateway::CallRecord;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::FlatBody;
use crate::http::error::Result;
use crate::http::trace_headers::trace_of;
use crate::inference::embeddings::{self, EmbeddedTexts, Format, InputBody, Texts, VectorBody};
use crate::roots::{NamedUser, recorded, refused};

/// Texts to embed.
#[derive(Deserialize, ToSchema)]
pub struct EmbeddingsBody {
    /// An open trace of this key's project; the header `X-Trace-Id` does as well. Without one the call
    /// gets a trace of its own, or that of the session which a header names.
    #[serde(default)]
    trace_id: Option<String>,
    /// A text, or an array of texts: at most 2,048. Token ids are refused, because safety reads texts.
    input: InputBody,
    /// The identifier of a registered model; `text-embedding-3-small` by default.
    #[serde(default)]
    model: Option<String>,
    /// The length of each vector, if the model supports a choice.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 65_536)]
    dimensions: Option<u64>,
    /// `float`, or `base64`: each vector as the bytes of its float32 numbers, least significant first.
    #[serde(default)]
    #[schema(value_type = Option<Format>)]
    encoding_format: Option<String>,
    /// Left out.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    user: Option<NamedUser>,
}

/// Vectors.
#[derive(Debug, Serialize, ToSchema)]
pub struct EmbeddingList {
    /// Always `list`.
    object: &'static str,
    /// One for each text, in their order.
    data: Vec<EmbeddingItem>,
    /// The identifier of the model that made them.
    model: String,
    usage: EmbeddingUsage,
}

/// The vector of a text.
#[derive(Debug, Serialize, ToSchema)]
pub struct EmbeddingItem {
    /// Always `embedding`.
    object: &'static str,
    /// The place of the text in the request.
    index: usize,
    /// An array of numbers, or a text if base64 was requested.
    embedding: VectorBody,
}

/// The tokens of the texts.
#[derive(Debug, Serialize, ToSchema)]
pub struct EmbeddingUsage {
    prompt_tokens: u64,
    total_tokens: u64,
}

/// Turn texts into vectors, as OpenAI's API does. Texts with credentials are refused, and those with
/// highly sensitive personal data if the model is public.
#[utoipa::path(post, path = "/openai/v1/embeddings", tag = "OpenAI's root",
    operation_id = "openai_embeddings", request_body = EmbeddingsBody,
    params(("X-Trace-Id" = Option<String>, Header, description = "The trace, where the body has none")),
    responses((status = 200, body = EmbeddingList)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    FlatBody(body): FlatBody<EmbeddingsBody>,
) -> Result<Response> {
    let EmbeddingsBody { trace_id, input, model, dimensions, encoding_format, user } = body;
    let trace_id = trace_id.or_else(|| trace_of(&headers));
    // The provider does not see it.
    let dropped: Vec<String> = user.iter().map(|_| "user".to_owned()).collect();
    let user = user.and_then(NamedUser::text);
    let texts = Texts { trace_id, input, model, dimensions, encoding_format, user };
    Ok(match embeddings::embed(&app, &caller, texts).await? {
        Ok(EmbeddedTexts { vectors, model, tokens, record }) => {
            let item = |(index, embedding)| EmbeddingItem { object: "embedding", index, embedding };
            let data = vectors.into_iter().enumerate().map(item).collect();
            let usage = EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens };
            let list = EmbeddingList { object: "list", data, model, usage };
            recorded(record, &dropped, Json(list).into_response())
        }
        Err(refusal) => {
            let record = CallRecord { step: refusal.step, trace: refusal.trace, cost: Usd::ZERO };
            refused(refusal.reason, record)
        }
    })
}
