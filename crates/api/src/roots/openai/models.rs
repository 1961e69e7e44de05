//! The models that a key can name, as OpenAI lists them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::error::Result;
use crate::http::extract::Segments;
use crate::inference::model_list::{self, ListedModel, PageQuery};

/// The models of the key's project.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiModelList {
    /// Always `list`.
    object: &'static str,
    data: Vec<OpenAiModel>,
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiModel {
    /// The name that callers pass as `model`.
    id: String,
    /// Always `model`.
    object: &'static str,
    /// When it was registered, in Unix seconds.
    created: i64,
    /// The provider it is registered with.
    owned_by: &'static str,
}

impl From<ListedModel> for OpenAiModel {
    fn from(listed: ListedModel) -> Self {
        let ListedModel { id, created, owned_by, .. } = listed;
        Self { id, object: "model", created, owned_by }
    }
}

/// The models that this key can name.
#[utoipa::path(get, path = "/openai/v1/models", tag = "OpenAI's root",
    operation_id = "openai_models", responses((status = 200, body = OpenAiModelList)))]
pub async fn list(State(app): State<App>, ByKey(caller): ByKey) -> Result<Json<OpenAiModelList>> {
    let page = model_list::page(&app, &caller, &PageQuery::default())?;
    let data = page.data.into_iter().map(Into::into).collect();
    Ok(Json(OpenAiModelList { object: "list", data }))
}

/// One of them.
#[utoipa::path(get, path = "/openai/v1/models/{id}", tag = "OpenAI's root",
    operation_id = "openai_model",
    params(("id" = String, Path, description = "What callers pass as `model`")),
    responses((status = 200, body = OpenAiModel)))]
pub async fn show(
    State(app): State<App>,
    ByKey(caller): ByKey,
    path: Segments,
) -> Result<Json<OpenAiModel>> {
    model_list::named(&app, &caller, path.text("id")?).map(|listed| Json(listed.into()))
}
