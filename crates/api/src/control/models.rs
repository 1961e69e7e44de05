//! The model registry.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::ids::ModelId;
use domain::secret::Secret;
use domain::time::Timestamp;
use gateway::{ModelChange, ModelView};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByMember;
use crate::http::body::Body;
use crate::http::error::Result;
use crate::http::extract::{Segments, given, not_null};

/// A model definition, wrapped.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelBody {
    model_definition: ModelFields,
}

/// A model definition.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelFields {
    #[schema(value_type = i64)]
    id: ModelId,
    name: String,
    /// The name that callers pass as `model`.
    identifier: String,
    /// `openai`, `anthropic`, `gemini`, `bedrock`, `azure` or `internal`.
    provider: &'static str,
    base_url: Option<String>,
    is_public: bool,
    /// USD per 1,000 prompt tokens.
    input_cost_per_1k: Option<f64>,
    /// USD per 1,000 completion tokens.
    output_cost_per_1k: Option<f64>,
    /// USD per 1,000 prompt tokens that are read from the provider's cache. This price and those below
    /// are set in `additional_config`.
    cached_input_cost_per_1k: Option<f64>,
    /// USD per 1,000 prompt tokens that are written to the provider's cache.
    cache_write_cost_per_1k: Option<f64>,
    /// USD per 1,000 prompt tokens that are written to the provider's cache for an hour.
    cache_write_1h_cost_per_1k: Option<f64>,
    /// USD for one image.
    cost_per_image: Option<f64>,
    data_retention_days: i64,
    region_restriction: String,
    currency: String,
    #[schema(value_type = Object)]
    additional_config: Map<String, Value>,
    /// Whether a credential is stored; it is never returned.
    has_api_key: bool,
    fallback_identifier: Option<String>,
    /// Warnings about settings whose effect may be unexpected.
    warnings: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<ModelView> for ModelBody {
    fn from(view: ModelView) -> Self {
        let model = view.model;
        let prices = model.input_prices();
        Self {
            model_definition: ModelFields {
                id: model.id,
                name: model.name.clone(),
                identifier: model.identifier.clone(),
                provider: model.provider.as_str(),
                base_url: model.base_url.clone(),
                is_public: model.is_public,
                input_cost_per_1k: shown(model.input_price, model.is_private()),
                output_cost_per_1k: shown(model.output_price, model.is_private()),
                cached_input_cost_per_1k: prices.map(|prices| prices.cached_input.dollars()),
                cache_write_cost_per_1k: prices.map(|prices| prices.cache_write.dollars()),
                cache_write_1h_cost_per_1k: prices.map(|prices| prices.cache_write_1h.dollars()),
                cost_per_image: model.config.image_price.map(domain::money::Usd::dollars),
                data_retention_days: model.data_retention_days,
                region_restriction: model.region.clone(),
                currency: model.currency.clone(),
                additional_config: model.config.all.clone(),
                has_api_key: model.api_key.is_some(),
                fallback_identifier: model.config.fallback.clone(),
                warnings: view.warnings,
                created_at: model.created_at,
            },
        }
    }
}

/// A private model without a price costs nothing; the price of a public one is unknown.
fn shown(price: Option<domain::money::Usd>, is_private: bool) -> Option<f64> {
    price.map(domain::money::Usd::dollars).or(is_private.then_some(0.0))
}

/// A model definition in a request, wrapped.
#[derive(Deserialize, ToSchema)]
pub struct ModelRequest {
    #[serde(deserialize_with = "crate::http::extract::object")]
    model_definition: ModelAskFields,
}

/// The fields that can be set; a field that is left out stays as it is, or at its default.
#[derive(Deserialize, ToSchema)]
pub struct ModelAskFields {
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// Unique per project.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    identifier: Option<String>,
    /// `openai`, `anthropic`, `gemini`, `bedrock`, `azure` or `internal`.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    provider: Option<String>,
    /// Empty means the vendor's own endpoint.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    base_url: Option<Option<String>>,
    /// Stored sealed, never returned.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, format = Password)]
    api_key: Option<Option<String>>,
    /// `false` marks a private model.
    #[serde(default)]
    is_public: Option<bool>,
    /// USD per 1,000 prompt tokens.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<f64>, minimum = 0)]
    input_cost_per_1k: Option<Option<f64>>,
    /// USD per 1,000 completion tokens.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<f64>, minimum = 0)]
    output_cost_per_1k: Option<Option<f64>>,
    /// Days before trace data of this model is purged.
    #[serde(default)]
    #[schema(minimum = 1)]
    data_retention_days: Option<i64>,
    #[serde(default)]
    region_restriction: Option<String>,
    /// A 3-letter code.
    #[serde(default)]
    currency: Option<String>,
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    additional_config: Option<Map<String, Value>>,
}

impl From<ModelAskFields> for ModelChange {
    fn from(fields: ModelAskFields) -> Self {
        Self {
            name: fields.name,
            identifier: fields.identifier,
            provider: fields.provider,
            base_url: fields.base_url,
            api_key: fields.api_key.map(|key| key.map(Secret::new)),
            is_public: fields.is_public,
            input_price: fields.input_cost_per_1k,
            output_price: fields.output_cost_per_1k,
            data_retention_days: fields.data_retention_days,
            region: fields.region_restriction,
            currency: fields.currency,
            additional_config: fields.additional_config,
            base: None,
        }
    }
}

/// A project's models.
#[utoipa::path(get, path = "/api/v1/projects/{project_id}/models", tag = "Models",
    params(("project_id" = i64, Path)), responses((status = 200, body = Vec<ModelBody>)))]
pub async fn list(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<Json<Vec<ModelBody>>> {
    let models = app.gateway.list_models(&member, path.project("project_id")?)?;
    Ok(Json(models.into_iter().map(Into::into).collect()))
}

/// Register a model (admin or owner).
#[utoipa::path(post, path = "/api/v1/projects/{project_id}/models", tag = "Models",
    request_body = ModelRequest, params(("project_id" = i64, Path)),
    responses((status = 201, body = ModelBody)))]
pub async fn create(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
    Body(request): Body<ModelRequest>,
) -> Result<(StatusCode, Json<ModelBody>)> {
    let project = path.project("project_id")?;
    let made = app.gateway.create_model(&member, project, request.model_definition.into()).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// One model.
#[utoipa::path(get, path = "/api/v1/projects/{project_id}/models/{model_id}", tag = "Models",
    params(("project_id" = i64, Path), ("model_id" = i64, Path)),
    responses((status = 200, body = ModelBody)))]
pub async fn show(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<Json<ModelBody>> {
    let (project, model) = (path.project("project_id")?, path.model()?);
    Ok(Json(app.gateway.model(&member, project, model)?.into()))
}

/// Change a model (admin or owner). A new `base_url` or `provider` drops the stored credential. An
/// identifier that the project's settings name cannot be changed.
#[utoipa::path(patch, path = "/api/v1/projects/{project_id}/models/{model_id}", tag = "Models",
    request_body = ModelRequest, params(("project_id" = i64, Path), ("model_id" = i64, Path)),
    responses((status = 200, body = ModelBody)))]
pub async fn update(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
    Body(request): Body<ModelRequest>,
) -> Result<Json<ModelBody>> {
    let (project, model) = (path.project("project_id")?, path.model()?);
    let change = request.model_definition.into();
    Ok(Json(app.gateway.update_model(&member, project, model, change).await?.into()))
}

/// Remove a model (admin or owner). If settings still name it, requests find no model.
#[utoipa::path(delete, path = "/api/v1/projects/{project_id}/models/{model_id}", tag = "Models",
    params(("project_id" = i64, Path), ("model_id" = i64, Path)),
    responses((status = 204)))]
pub async fn delete(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<StatusCode> {
    let (project, model) = (path.project("project_id")?, path.model()?);
    app.gateway.delete_model(&member, project, model).await?;
    Ok(StatusCode::NO_CONTENT)
}
