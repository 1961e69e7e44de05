//! The models that a key can name, as the official client libraries list them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::model::Model;
use domain::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::auth::ByKey;
use crate::error::{Failure, Result};
use crate::input::Segments;

/// The models of the key's project. Clients of either vendor find the members that they read.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    /// Always `list`.
    object: &'static str,
    data: Vec<ListedModel>,
    /// Always false: the list is whole.
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListedModel {
    /// What callers pass as `model`.
    id: String,
    /// Always `model`.
    object: &'static str,
    /// Always `model`.
    #[serde(rename = "type")]
    kind: &'static str,
    display_name: String,
    /// The provider it is registered with.
    owned_by: &'static str,
    /// When it was registered, in Unix seconds.
    created: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Always `active`.
    lifecycle: &'static str,
}

impl From<&Model> for ListedModel {
    fn from(model: &Model) -> Self {
        Self {
            id: model.identifier.clone(),
            object: "model",
            kind: "model",
            display_name: model.name.clone(),
            owned_by: model.provider.as_str(),
            created: model.created_at.unix_seconds(),
            created_at: model.created_at,
            lifecycle: "active",
        }
    }
}

/// The models that this key can name.
#[utoipa::path(get, path = "/api/v1/models", tag = "Models",
    responses((status = 200, body = ModelList)))]
pub async fn list(State(app): State<App>, ByKey(caller): ByKey) -> Json<ModelList> {
    let models = app.gateway.callable_models(&caller);
    let data: Vec<ListedModel> = models.iter().map(|model| model.as_ref().into()).collect();
    let id = |model: Option<&ListedModel>| model.map(|model| model.id.clone());
    let (first_id, last_id) = (id(data.first()), id(data.last()));
    Json(ModelList { object: "list", data, has_more: false, first_id, last_id })
}

/// One of them.
#[utoipa::path(get, path = "/api/v1/models/{id}", tag = "Models",
    params(("id" = String, Path, description = "What callers pass as `model`")),
    responses((status = 200, body = ListedModel)))]
pub async fn show(
    State(app): State<App>,
    ByKey(caller): ByKey,
    path: Segments,
) -> Result<Json<ListedModel>> {
    let id = path.text("id")?;
    let models = app.gateway.callable_models(&caller);
    let found = models.iter().find(|model| model.identifier == id);
    found.map(|model| Json(model.as_ref().into())).ok_or_else(|| {
        let id: String = id.chars().take(64).collect();
        Failure::new(StatusCode::NOT_FOUND, format!("The model '{id}' does not exist"))
    })
}
