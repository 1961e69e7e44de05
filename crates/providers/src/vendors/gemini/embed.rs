//! Embeddings: `embedContent` for one text, `batchEmbedContents` for several.

use domain::model::Model;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::adapter::embeddings::{Embedded, Embedder, EmbeddingRequest};
use crate::adapter::request::Outgoing;
use crate::error::Error;
use crate::vendors::gemini::contents::{Content, Piece};
use crate::vendors::gemini::wire::failure;
use crate::vendors::gemini::{resource, url};
use crate::wire::json;
use crate::wire::token_counts::{Count, Group};

/// Most texts of one request, by Google's limits.
const MOST_TEXTS: usize = 100;

pub(super) struct Embeddings;

impl Embedder for Embeddings {
    fn requests(&self, ask: &EmbeddingRequest<'_>) -> Result<Vec<Outgoing>, Error> {
        ask.inputs.chunks(MOST_TEXTS).map(|texts| outgoing(ask, texts)).collect()
    }

    fn read(&self, _headers: &HeaderMap, body: &[u8]) -> Result<Embedded, Error> {
        let answer: Answer =
            json::read(body).map_err(|_| Error::malformed("it holds no embeddings"))?;
        if let Some(error) = &answer.error {
            return Err(failure(error));
        }
        let vectors: Vec<_> =
            answer.embedding.into_iter().chain(answer.embeddings.unwrap_or_default()).collect();
        if vectors.iter().any(|vector| vector.values.is_empty()) {
            return Err(Error::malformed("it holds an empty embedding"));
        }
        Ok(Embedded {
            vectors: vectors.into_iter().map(|vector| vector.values).collect(),
            upstream_model: None,
            tokens: match answer.usage_metadata {
                Group::Known(used) => used.prompt_token_count.known(),
                Group::Missing | Group::Nonsense => None,
            },
            ..Embedded::default()
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    embedding: Option<Vector>,
    embeddings: Option<Vec<Vector>>,
    #[serde(default)]
    usage_metadata: Group<Used>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Vector {
    #[serde(default)]
    values: Vec<f32>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Used {
    prompt_token_count: Count,
}

#[derive(Serialize)]
struct Batch<'a> {
    requests: Vec<Request<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    /// Every item of a batch must name the model of the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimensionality: Option<u64>,
}

fn outgoing(ask: &EmbeddingRequest<'_>, texts: &[String]) -> Result<Outgoing, Error> {
    let model: &Model = ask.model;
    let name = resource(model)?;
    let request = |text, model| Request {
        model,
        content: Content { role: None, parts: vec![Piece::Text { text }] },
        output_dimensionality: ask.dimensions,
    };
    let (method, body) = match texts {
        [text] => ("embedContent", serde_json::to_vec(&request(text.as_str(), None))),
        texts => {
            let requests =
                texts.iter().map(|text| request(text.as_str(), Some(name.as_str()))).collect();
            ("batchEmbedContents", serde_json::to_vec(&Batch { requests }))
        }
    };
    let body = body.map_err(|_| Error::unsupported("The texts cannot be written as JSON"))?;
    Ok(Outgoing { url: url(model, method)?, body })
}

#[cfg(test)]
#[path = "embed_tests.rs"]
mod tests;
