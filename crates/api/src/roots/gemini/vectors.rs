//! Embeddings in Gemini's bodies.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use domain::money::Usd;
use gateway::{CallRecord, Caller, EmbeddingRequest, Embeddings, MOST_TEXTS};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::http::error::Result;
use crate::inference::canonical::read::{Node, invalid, malformed};
use crate::inference::gemini::fields::{Dropped, inner, list, node, whole};
use crate::inference::gemini::text_of;
use crate::roots::{recorded, refused};

/// The vector of one content.
pub(super) async fn embed(
    app: &App,
    caller: &Caller,
    trace_id: Option<String>,
    model: String,
    body: Map<String, Value>,
) -> Result<Response> {
    let mut dropped = Dropped::default();
    let body = node(String::new(), Value::Object(body))?;
    let (text, dimensions) = content(body, &model, &mut dropped)?;
    let request = EmbeddingRequest {
        trace_id,
        model: Some(model),
        texts: vec![text],
        dimensions,
        user: None,
    };
    embedded(app, caller, request, dropped, |vectors| {
        let values = vectors.into_iter().next().unwrap_or_default();
        json!({"embedding": {"values": values}})
    })
    .await
}

/// The vectors of several contents.
pub(super) async fn embed_batch(
    app: &App,
    caller: &Caller,
    trace_id: Option<String>,
    model: String,
    body: Map<String, Value>,
) -> Result<Response> {
    let mut dropped = Dropped::default();
    let mut body = node(String::new(), Value::Object(body))?;
    let requests = list(&mut body, "requests")?.unwrap_or_default();
    dropped.rest(body);
    if requests.is_empty() || requests.len() > MOST_TEXTS {
        return Err(invalid(format!("requests must hold 1 to {MOST_TEXTS} requests")));
    }
    let mut texts = Vec::with_capacity(requests.len());
    let mut dimensions = None;
    for (index, request) in requests.into_iter().enumerate() {
        let request = node(format!("requests[{index}]"), request)?;
        let (text, wanted) = content(request, &model, &mut dropped)?;
        if index > 0 && wanted != dimensions {
            return Err(invalid("requests must all have the same outputDimensionality"));
        }
        dimensions = wanted;
        texts.push(text);
    }
    let request = EmbeddingRequest { trace_id, model: Some(model), texts, dimensions, user: None };
    embedded(app, caller, request, dropped, |vectors| {
        let values = vectors.into_iter().map(|values| json!({"values": values}));
        json!({"embeddings": values.collect::<Vec<_>>()})
    })
    .await
}

/// The text of a request, and the length of its vector.
fn content(mut request: Node, model: &str, dropped: &mut Dropped) -> Result<(String, Option<u64>)> {
    // Each request of several names its model.
    if let Some(named) = request.maybe_text("model")?
        && named.strip_prefix("models/").unwrap_or(&named) != model
    {
        let at = request.path("model");
        return Err(invalid(format!("{at} must be the model of the address")));
    }
    let dimensions = whole(&mut request, "outputDimensionality")?;
    let Some(content) = inner(&mut request, "content")? else {
        let at = request.path("content");
        return Err(malformed(format!("Missing required parameter: {at}")));
    };
    let text = text_of(content, dropped)?;
    dropped.rest(request);
    Ok((text, dimensions))
}

async fn embedded(
    app: &App,
    caller: &Caller,
    request: EmbeddingRequest,
    dropped: Dropped,
    write: impl FnOnce(Vec<Vec<f32>>) -> Value,
) -> Result<Response> {
    Ok(match app.gateway.embed(caller, request).await? {
        Embeddings::Vectors { vectors, record, .. } => {
            recorded(record, &dropped.names(), Json(write(vectors)).into_response())
        }
        Embeddings::Blocked(refusal) => {
            let record = CallRecord { step: refusal.step, trace: refusal.trace, cost: Usd::ZERO };
            refused(refusal.reason, record)
        }
    })
}
