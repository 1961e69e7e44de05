//! Projects.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::ids::ProjectId;
use domain::time::Timestamp;
use gateway::{ProjectChange, ProjectView};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByMember;
use crate::http::body::Body;
use crate::http::error::Result;
use crate::http::extract::{Segments, given, not_null};

/// A project.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProjectBody {
    #[schema(value_type = i64)]
    id: ProjectId,
    name: String,
    description: Option<String>,
    /// `active` or `archived`.
    status: &'static str,
    /// Known and unknown keys as they were merged; `routing_tiers` and `shadow_model` always.
    #[schema(value_type = Object)]
    settings: Map<String, Value>,
    /// The spend in this calendar month, USD.
    total_monthly_spend: f64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<ProjectView> for ProjectBody {
    fn from(view: ProjectView) -> Self {
        let project = view.project;
        Self {
            id: project.id,
            name: project.name,
            description: project.description,
            status: project.status.as_str(),
            settings: shown(project.settings),
            total_monthly_spend: view.month_spend.dollars(),
            created_at: project.created_at,
        }
    }
}

/// Settings with the two keys that every project shows, set or not: a client need not look whether
/// they are there.
fn shown(mut settings: Map<String, Value>) -> Map<String, Value> {
    let shadow = json!({"enabled": false, "model": null, "sample_rate": 1.0});
    for (key, unset) in [("routing_tiers", json!({})), ("shadow_model", shadow)] {
        let value = settings.entry(key).or_insert(Value::Null);
        if value.is_null() {
            *value = unset;
        }
    }
    settings
}

/// A project in a request.
#[derive(Deserialize, ToSchema)]
pub struct ProjectRequest {
    #[serde(deserialize_with = "crate::http::extract::object")]
    project: ProjectFields,
}

/// The fields that can be set; a field that is left out stays as it is.
#[derive(Deserialize, ToSchema)]
pub struct ProjectFields {
    /// Must not be blank.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    name: Option<String>,
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    description: Option<Option<String>>,
    /// `active` or `archived`.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(nullable = false)]
    status: Option<String>,
    /// Merged into the settings at every depth.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    settings: Option<Map<String, Value>>,
}

impl From<ProjectFields> for ProjectChange {
    fn from(fields: ProjectFields) -> Self {
        Self {
            name: fields.name,
            description: fields.description,
            status: fields.status,
            settings: fields.settings,
            base: None,
        }
    }
}

/// The projects that you may see.
#[utoipa::path(get, path = "/api/v1/projects", tag = "Projects",
    responses((status = 200, body = Vec<ProjectBody>)))]
pub async fn list(State(app): State<App>, ByMember(member): ByMember) -> Json<Vec<ProjectBody>> {
    Json(app.gateway.list_projects(&member).into_iter().map(Into::into).collect())
}

/// Make a project (admin or owner).
#[utoipa::path(post, path = "/api/v1/projects", tag = "Projects", request_body = ProjectRequest,
    responses((status = 201, body = ProjectBody)))]
pub async fn create(
    State(app): State<App>,
    ByMember(member): ByMember,
    Body(request): Body<ProjectRequest>,
) -> Result<(StatusCode, Json<ProjectBody>)> {
    let made = app.gateway.create_project(&member, request.project.into()).await?;
    Ok((StatusCode::CREATED, Json(made.into())))
}

/// One project.
#[utoipa::path(get, path = "/api/v1/projects/{id}", tag = "Projects",
    params(("id" = i64, Path)), responses((status = 200, body = ProjectBody)))]
pub async fn show(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<Json<ProjectBody>> {
    Ok(Json(app.gateway.project(&member, path.project("id")?)?.into()))
}

/// Change a project; settings are merged (admin or owner).
#[utoipa::path(patch, path = "/api/v1/projects/{id}", tag = "Projects", request_body = ProjectRequest,
    params(("id" = i64, Path)), responses((status = 200, body = ProjectBody)))]
pub async fn update(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
    Body(request): Body<ProjectRequest>,
) -> Result<Json<ProjectBody>> {
    let id = path.project("id")?;
    Ok(Json(app.gateway.update_project(&member, id, request.project.into()).await?.into()))
}

/// Delete a project and everything in it (admin or owner).
#[utoipa::path(delete, path = "/api/v1/projects/{id}", tag = "Projects",
    params(("id" = i64, Path)), responses((status = 204)))]
pub async fn delete(
    State(app): State<App>,
    ByMember(member): ByMember,
    path: Segments,
) -> Result<StatusCode> {
    app.gateway.delete_project(&member, path.project("id")?).await?;
    Ok(StatusCode::NO_CONTENT)
}
