//! Images.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::ids::StepId;
use gateway::{ImageRequest, Images};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::FlatBody;
use crate::http::error::{GuardBody, Result};

/// Images to make.
#[derive(Deserialize, ToSchema)]
pub struct ImageBody {
    /// An open trace of this key's project.
    trace_id: String,
    /// The subject of the images.
    prompt: String,
    /// The identifier of a registered model; `gpt-image-2` by default.
    #[serde(default)]
    model: Option<String>,
    /// Width and height in pixels, or `auto`; `1024x1024` by default.
    #[serde(default)]
    size: Option<String>,
    /// The quality, if the model supports a choice: `low`, `medium`, `high` or `auto` at OpenAI.
    #[serde(default)]
    quality: Option<String>,
    /// The number of images; one by default.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10)]
    n: Option<u64>,
}

/// Images.
#[derive(Debug, Serialize, ToSchema)]
pub struct ImagesBody {
    /// A URL each: an address, or a `data:` URL if the provider sent the bytes.
    images: Vec<String>,
    /// The identifier of the model that made them.
    model: String,
    /// The step that records it.
    #[schema(value_type = i64)]
    step_id: StepId,
}

/// Make images. Prompts that name brands, protected works or the project's own blocked terms are
/// refused.
#[utoipa::path(post, path = "/api/v1/images/generations", tag = "Executions", request_body = ImageBody,
    responses((status = 200, body = ImagesBody),
        (status = 403, body = GuardBody, description = "Blocked by brand/copyright or safety check, or the address may not call")))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    FlatBody(body): FlatBody<ImageBody>,
) -> Result<Response> {
    let ImageBody { trace_id, prompt, model, size, quality, n } = body;
    let model = model.filter(|model| !model.is_empty());
    let trace_id = Some(trace_id);
    let request = ImageRequest { trace_id, model, prompt, size, quality, count: n, user: None };
    Ok(match app.gateway.generate_images(&caller, request).await? {
        Images::Urls { urls, model, record, .. } => {
            Json(ImagesBody { images: urls, model, step_id: record.step }).into_response()
        }
        Images::Blocked(refusal) => GuardBody {
            error: "Blocked by safety check",
            reason: Some(refusal.reason),
            violations: Vec::new(),
            step_id: refusal.step,
        }
        .into_response(),
        Images::Violates { error, violations, record } => GuardBody {
            error,
            reason: None,
            violations: violations.into_iter().map(Into::into).collect(),
            step_id: record.step,
        }
        .into_response(),
    })
}
