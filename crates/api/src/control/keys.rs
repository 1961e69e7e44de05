//! API keys.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::ids::{KeyId, ProjectId, UserId};
use domain::step::ApiEndpoint;
use domain::time::Timestamp;
use gateway::{KeyChange, KeyView, NewKey};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByMember;
use crate::http::body::Body;
use crate::http::error::Result;
use crate::http::extract::{Segments, given, not_null};

/// The name of a key that is made without one: only the project is required.
const UNNAMED: &str = "API key";

/// An API key.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyBody {
    /// `ak_` and 16 hex digits.
    #[schema(value_type = String)]
    id: KeyId,
    name: String,
    /// The full secret; only in the answer that creates the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    raw_key: Option<String>,
    /// First six and last four characters.
    masked: String,
    /// `active`, `tripped` or `loop_detected`.
    status: &'static str,
    /// USD per rolling hour; null means no cap.
    hourly_limit: Option<f64>,
    project: KeyProject,
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// How often a loop was halted on this key.
    loop_intervention_count: i64,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_used: Option<Timestamp>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The identifiers of the models that it may call; null allows all, an empty list none.
    allowed_models: Option<Vec<String>>,
    /// The endpoints that it may use, as `api_endpoint` of steps names them; null allows all.
    allowed_endpoints: Option<Vec<&'static str>>,
    /// The user who made it; null of keys that the command line made, or an earlier version.
    #[schema(value_type = Option<i64>)]
    owner_id: Option<UserId>,
}

/// The project that a key is good for.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyProject {
    #[schema(value_type = i64)]
    id: ProjectId,
    name: String,
}

impl From<KeyView> for KeyBody {
    fn from(view: KeyView) -> Self {
        let key = view.key;
        Self {
            id: key.id,
            name: key.name,
            raw_key: None,
            masked: key.masked,
            status: key.status.as_str(),
            hourly_limit: key.hourly_limit.map(domain::money::Usd::dollars),
            project: KeyProject { id: key.project, name: view.project_name },
            expires_at: key.expires_at,
            loop_intervention_count: key.loop_interventions,
            last_used: key.last_used,
            created_at: key.created_at,
            allowed_models: key.allowed_models,
            allowed_endpoints: key
                .allowed_endpoints
                .map(|all| all.into_iter().map(ApiEndpoint::as_str).collect()),
            owner_id: key.owner,
        }
    }
}

/// A key that is to be made.
#[derive(Deserialize, ToSchema)]
pub struct NewKeyRequest {
    #[serde(default)]
    name: Option<String>,
    #[schema(value_type = i64)]
    project_id: ProjectId,
    /// USD per rolling hour; null means no cap, 0 blocks at the first call that costs.
    #[serde(default)]
    #[schema(minimum = 0)]
    hourly_limit: Option<f64>,
    /// When the key stops being valid.
    #[serde(default)]
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    /// The identifiers of the models that it may call; null allows all, an empty list none.
    #[serde(default)]
    allowed_models: Option<Vec<String>>,
    /// The endpoints that it may use: `chat`, `executions` and so on; null allows all.
    #[serde(default)]
    allowed_endpoints: Option<Vec<String>>,
}

/// The fields that can be changed; a field that is left out stays as it is.
#[derive(Deserialize, ToSchema)]
pub struct KeyRequest {
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    name: Option<String>,
    /// `active` resets a paused key: its windows count from then on.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    status: Option<String>,
    /// USD per rolling hour; null lifts the cap.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<f64>, minimum = 0)]
    hourly_limit: Option<Option<f64>>,
    /// When the key stops being valid; null lifts the expiry.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Option<String>>,
    /// The identifiers of the models that it may call; null allows all, an empty list none.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    allowed_models: Option<Option<Vec<String>>>,
    /// The endpoints that it may use; null allows all, an empty list none.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    allowed_endpoints: Option<Option<Vec<String>>>,
}

/// A new secret for a key.
#[derive(Deserialize, ToSchema)]
pub struct RotateKeyRequest {
    /// For how long the secret before works too.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 604_800)]
    overlap_seconds: i64,
}

/// The keys of the projects that you may see.
#[utoipa::path(get, path = "/api/v1/keys", tag = "Keys",
    responses((status = 200, body = Vec<KeyBody>)))]
pub async fn list(State(app): State<App>, ByMember(member): ByMember) -> Json<Vec<KeyBody>> {
    Json(app.gateway.list_keys(&member).into_iter().map(Into::into).collect())
}

/// Make a key. The raw key is returned once, here.
#[utoipa::path(post, path = "/api/v1/keys", tag = "Keys", request_body = NewKeyRequest,
    responses((status = 201, body = KeyBody)))]
pub async fn create(
    State(app): State<App>,
    ByMember(member): ByMember,
    Body(request): Body<NewKeyRequest>,
) -> Result<(StatusCode, Json<KeyBody>)> {
    let new = NewKey {
        name: request.name.unwrap_or_else(|| UNNAMED.to_owned()),
        project: request.project_id,
        hourly_limit: request.hourly_limit,
        expires_at: request.expires_at,
        allowed_models: request.allowed_models,
        allowed_endpoints: request.allowed_endpoints,
    };
    let (view, raw) = app.gateway.create_key(&member, new).await?;
    let body = KeyBody { raw_key: Some(raw.expose().to_owned()), ..view.into() };
    Ok((StatusCode::CREATED, Json(body)))
}

/// Change or reset a key (admin or owner).
#[utoipa::path(patch, path = "/api/v1/keys/{id}", tag = "Keys", request_body = KeyRequest,
    params(("id" = String, Path)), responses((status = 200, body = KeyBody)))]
pub async fn update(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
    Body(request): Body<KeyRequest>,
) -> Result<Json<KeyBody>> {
    let change = KeyChange {
        name: request.name,
        status: request.status,
        hourly_limit: request.hourly_limit,
        expires_at: request.expires_at,
        allowed_models: request.allowed_models,
        allowed_endpoints: request.allowed_endpoints,
    };
    Ok(Json(app.gateway.update_key(&member, path.key()?, change).await?.into()))
}

/// Give a key a new secret; its id stays. The secret is returned once, here.
#[utoipa::path(post, path = "/api/v1/keys/{id}/rotate", tag = "Keys",
    request_body = RotateKeyRequest, params(("id" = String, Path)),
    responses((status = 200, body = KeyBody)))]
pub async fn rotate(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
    Body(request): Body<RotateKeyRequest>,
) -> Result<Json<KeyBody>> {
    let (view, raw) = app.gateway.rotate_key(&member, path.key()?, request.overlap_seconds).await?;
    Ok(Json(KeyBody { raw_key: Some(raw.expose().to_owned()), ..view.into() }))
}

/// Revoke a key for good.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", tag = "Keys",
    params(("id" = String, Path)), responses((status = 204)))]
pub async fn delete(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<StatusCode> {
    app.gateway.revoke_key(&member, path.key()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
