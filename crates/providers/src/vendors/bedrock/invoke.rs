//! Embeddings and images by `InvokeModel`, whose bodies are each vendor's own: Amazon Titan and Cohere
//! embed, Amazon Titan and Nova Canvas generate images.

use domain::model::Model;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::adapter::embeddings::{Embedded, Embedder, EmbeddingRequest};
use crate::adapter::images::{GeneratedImages, ImageGenerator, ImageRequest, parse_size};
use crate::adapter::request::Outgoing;
use crate::error::Error;
use crate::vendors::bedrock::url;
use crate::wire::error_body::message_in;
use crate::wire::json;
use crate::wire::token_counts::Count;

/// Most texts of one call of Cohere's models.
const MOST_TEXTS: usize = 96;
/// Most images of one call.
const MOST_IMAGES: u64 = 5;
/// Bedrock's own count of the input, used if the vendor's answer has none.
const INPUT_TOKENS: &str = "x-amzn-bedrock-input-token-count";

pub(super) struct Invoke;

impl Embedder for Invoke {
    /// Titan embeds one text a call. Cohere requires the purpose of the texts:
    /// `additional_config.input_type`, by default `search_document`.
    fn requests(&self, ask: &EmbeddingRequest<'_>) -> Result<Vec<Outgoing>, Error> {
        let (model, name) = (ask.model, ask.model.upstream_name());
        let bodies: Vec<Value> = if name.contains("titan-embed-text") {
            if ask.dimensions.is_some() && !name.contains("titan-embed-text-v2") {
                return Err(fixed_size(model));
            }
            let body = |text| with(json!({"inputText": text}), "dimensions", ask.dimensions);
            ask.inputs.iter().map(body).collect()
        } else if name.contains("cohere.embed") {
            // Sizes can be chosen from the fourth version on.
            if ask.dimensions.is_some() && name.contains("-v3") {
                return Err(fixed_size(model));
            }
            let kind = model.config.all.get("input_type").and_then(Value::as_str);
            let kind = kind.unwrap_or("search_document");
            let body = |texts| {
                let body = json!({"texts": texts, "input_type": kind});
                with(body, "output_dimension", ask.dimensions)
            };
            ask.inputs.chunks(MOST_TEXTS).map(body).collect()
        } else {
            return Err(cannot(model, "embeddings", "Amazon Titan and Cohere"));
        };
        outgoing(model, bodies)
    }

    fn read(&self, headers: &HeaderMap, body: &[u8]) -> Result<Embedded, Error> {
        let answer: Embeddings =
            json::read(body).map_err(|_| Error::malformed("it holds no vectors"))?;
        let vectors = match (answer.vector, answer.vectors) {
            (Some(vector), _) => vec![vector],
            (None, Some(Vectors::Plain(vectors) | Vectors::ByType { float: vectors })) => vectors,
            (None, None) => return Err(Error::malformed("it holds no vectors")),
        };
        let counted = || headers.get(INPUT_TOKENS)?.to_str().ok()?.parse().ok();
        Ok(Embedded {
            vectors,
            upstream_model: None,
            tokens: answer.input_text_token_count.known().or_else(counted),
            ..Embedded::default()
        })
    }
}

/// An answer of Titan's or of Cohere's.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Embeddings {
    #[serde(rename = "embedding")]
    vector: Option<Vec<f32>>,
    #[serde(rename = "embeddings")]
    vectors: Option<Vectors>,
    #[serde(default)]
    input_text_token_count: Count,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Vectors {
    Plain(Vec<Vec<f32>>),
    /// Cohere's newer models answer by type of number.
    ByType {
        float: Vec<Vec<f32>>,
    },
}

impl ImageGenerator for Invoke {
    fn requests(&self, ask: &ImageRequest<'_>) -> Result<Vec<Outgoing>, Error> {
        let (model, name) = (ask.model, ask.model.upstream_name());
        if !name.contains("titan-image") && !name.contains("nova-canvas") {
            return Err(cannot(model, "images", "Amazon Titan and Nova Canvas"));
        }
        let size = parse_size(ask.size).filter(|(width, height)| *width.max(height) <= 16_384);
        let Some((width, height)) = size else {
            return Err(Error::unsupported("size must be width x height, as in 1024x1024"));
        };
        let quality = match ask.quality {
            None | Some("auto") => None,
            Some(known @ ("standard" | "premium")) => Some(known),
            Some(other) => return Err(Error::lacking(model, format_args!("quality {other}"))),
        };
        let whole_calls = ask.count / MOST_IMAGES;
        let last = Some(ask.count % MOST_IMAGES).filter(|count| *count > 0);
        let counts = (0..whole_calls).map(|_| MOST_IMAGES).chain(last);
        let body = |count| {
            let config = json!({"numberOfImages": count, "width": width, "height": height});
            json!({
                "taskType": "TEXT_IMAGE",
                "textToImageParams": {"text": ask.prompt},
                "imageGenerationConfig": with(config, "quality", quality),
            })
        };
        outgoing(model, counts.map(body).collect())
    }

    fn read(&self, body: &[u8]) -> Result<GeneratedImages, Error> {
        let answer = json::object(body)?;
        // Images that the vendor's filters remove are missing from the list and named here.
        if let Some(said) = message_in(&answer) {
            return Err(Error::answered(Some(said)));
        }
        let images = answer.get("images").and_then(Value::as_array);
        let urls: Option<Vec<String>> = images
            .into_iter()
            .flatten()
            .map(|image| {
                let base64 = image.as_str().filter(|base64| !base64.is_empty())?;
                Some(format!("data:image/png;base64,{base64}"))
            })
            .collect();
        match urls {
            Some(urls) if !urls.is_empty() => {
                Ok(GeneratedImages { urls, upstream_model: None, usage: None })
            }
            _ => Err(Error::malformed("it holds no images")),
        }
    }
}

fn outgoing(model: &Model, bodies: Vec<Value>) -> Result<Vec<Outgoing>, Error> {
    let url = url(model, "invoke")?;
    let request = |body: Value| Outgoing { url: url.clone(), body: body.to_string().into_bytes() };
    Ok(bodies.into_iter().map(request).collect())
}

fn with(mut body: Value, name: &str, value: Option<impl Into<Value>>) -> Value {
    if let Some(value) = value {
        body[name] = value.into();
    }
    body
}

fn fixed_size(model: &Model) -> Error {
    Error::lacking(model, "dimensions")
}

fn cannot(model: &Model, what: &str, who: &str) -> Error {
    Error::unsupported(format!(
        "Model {} makes no {what} here: on Bedrock those of {who} do",
        model.identifier
    ))
}

#[cfg(test)]
#[path = "invoke_tests.rs"]
mod tests;
