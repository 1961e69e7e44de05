//! Images in OpenAI's bodies.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use domain::money::Usd;
use domain::usage::Usage;
use gateway::{CallRecord, ImageRequest, Images};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::FlatBody;
use crate::http::error::Result;
use crate::http::trace_headers::trace_of;
use crate::roots::{NamedUser, recorded, refused};

/// Images to make.
#[derive(Deserialize, ToSchema)]
pub struct ImagesRequest {
    /// An open trace of this key's project; the header `X-Trace-Id` does as well. Without one the call
    /// gets a trace of its own, or that of the session which a header names.
    #[serde(default)]
    trace_id: Option<String>,
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
    /// With `url`, images whose bytes the provider sends are `data:` URLs, not `b64_json`.
    #[serde(default)]
    response_format: Option<String>,
    /// Not supported: images come as a whole.
    #[serde(default)]
    stream: Option<bool>,
    /// Left out, like those below.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    background: Option<IgnoredAny>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    moderation: Option<IgnoredAny>,
    #[serde(default)]
    #[schema(value_type = Option<u64>)]
    output_compression: Option<IgnoredAny>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    output_format: Option<IgnoredAny>,
    #[serde(default)]
    #[schema(value_type = Option<u64>)]
    partial_images: Option<IgnoredAny>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    style: Option<IgnoredAny>,
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    user: Option<NamedUser>,
}

impl ImagesRequest {
    /// The names of the parameters that are left out.
    fn dropped(&self) -> Vec<String> {
        let left_out = [
            ("background", &self.background),
            ("moderation", &self.moderation),
            ("output_compression", &self.output_compression),
            ("output_format", &self.output_format),
            ("partial_images", &self.partial_images),
            ("style", &self.style),
        ];
        let given = left_out.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| *name);
        // The provider does not see it.
        let user = self.user.as_ref().map(|_| "user");
        given.chain(user).map(str::to_owned).collect()
    }
}

/// Images.
#[derive(Debug, Serialize, ToSchema)]
pub struct ImageList {
    /// When they were made, in Unix seconds.
    created: i64,
    data: Vec<ImageItem>,
    /// The tokens, where the provider reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    usage: Option<ImageUsage>,
}

/// An image.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageItem {
    /// Its address.
    Url(String),
    /// Its bytes.
    B64Json(String),
}

impl ImageItem {
    /// An image at a URL, which may hold its bytes.
    fn at(url: String, as_url: bool) -> Self {
        let bytes = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
        match bytes {
            Some((_, bytes)) if !as_url => Self::B64Json(bytes.to_owned()),
            _ => Self::Url(url),
        }
    }
}

/// The tokens of images.
#[derive(Debug, Serialize, ToSchema)]
pub struct ImageUsage {
    #[serde(rename = "input_tokens")]
    input: u64,
    #[serde(rename = "output_tokens")]
    output: u64,
    #[serde(rename = "total_tokens")]
    total: u64,
}

impl From<Usage> for ImageUsage {
    fn from(usage: Usage) -> Self {
        let (input, output) = (usage.prompt, usage.completion);
        Self { input, output, total: input.saturating_add(output) }
    }
}

/// Make images, as OpenAI's API does. Prompts that name brands, protected works or the project's own
/// blocked terms are refused.
#[utoipa::path(post, path = "/openai/v1/images/generations", tag = "OpenAI's root",
    operation_id = "openai_images", request_body = ImagesRequest,
    params(("X-Trace-Id" = Option<String>, Header, description = "The trace, where the body has none")),
    responses((status = 200, body = ImageList)))]
pub async fn create(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    FlatBody(body): FlatBody<ImagesRequest>,
) -> Result<Response> {
    if body.stream == Some(true) {
        let sentence = "stream is not supported: images come as a whole";
        return Err(gateway::Error::invalid(sentence).into());
    }
    let dropped = body.dropped();
    let as_url = body.response_format.as_deref() == Some("url");
    let request = ImageRequest {
        trace_id: body.trace_id.or_else(|| trace_of(&headers)),
        model: body.model.filter(|model| !model.is_empty()),
        prompt: body.prompt,
        size: body.size,
        quality: body.quality,
        count: body.n,
        user: body.user.and_then(NamedUser::text),
    };
    let created = app.gateway.now().unix_seconds();
    Ok(match app.gateway.generate_images(&caller, request).await? {
        Images::Urls { urls, usage, record, .. } => {
            let data = urls.into_iter().map(|url| ImageItem::at(url, as_url)).collect();
            let list = ImageList { created, data, usage: usage.map(Into::into) };
            recorded(record, &dropped, Json(list).into_response())
        }
        Images::Blocked(refusal) => {
            let record = CallRecord { step: refusal.step, trace: refusal.trace, cost: Usd::ZERO };
            refused(refusal.reason, record)
        }
        Images::Violates { error, violations, record } => {
            let terms: Vec<String> = violations.into_iter().map(|found| found.term).collect();
            refused(format!("{error}: {}", terms.join(", ")), record)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_bytes_unless_a_url_was_asked_for() {
        let url = "data:image/png;base64,AAAA";
        assert_eq!(ImageItem::at(url.to_owned(), false), ImageItem::B64Json("AAAA".to_owned()));
        assert_eq!(ImageItem::at(url.to_owned(), true), ImageItem::Url(url.to_owned()));
        let far = "https://images.example.com/a.png";
        assert_eq!(ImageItem::at(far.to_owned(), false), ImageItem::Url(far.to_owned()));
    }
}
