//! The models that a key can name, as Gemini's API lists them.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::error::Result;
use crate::http::extract::{Query, Segments};
use crate::inference::canonical::read::malformed;
use crate::inference::model_list::{self, ListedModel};

/// The models of a page if the caller gives no number, and the most of one: the vendor's.
const DEFAULT_PAGE: usize = 50;
const LONGEST_PAGE: usize = 1_000;

/// The requested part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct GeminiPageQuery {
    /// The most models of the page; more than 1,000 are as many.
    #[serde(default)]
    #[param(minimum = 0)]
    page_size: Option<usize>,
    /// The `nextPageToken` of the page before.
    #[serde(default)]
    page_token: Option<String>,
}

/// The models of the key's project.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeminiModelList {
    models: Vec<GeminiModel>,
    /// Present if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_page_token: Option<String>,
}

/// A model.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeminiModel {
    /// `models/` and the name that callers pass.
    name: String,
    /// Always `001`.
    version: &'static str,
    display_name: String,
    /// The methods of the format; a model has those that its provider has for it.
    supported_generation_methods: [&'static str; 4],
}

impl From<ListedModel> for GeminiModel {
    fn from(listed: ListedModel) -> Self {
        let ListedModel { id, display_name, .. } = listed;
        Self {
            name: format!("models/{id}"),
            version: "001",
            display_name,
            supported_generation_methods: [
                "generateContent",
                "countTokens",
                "embedContent",
                "batchEmbedContents",
            ],
        }
    }
}

impl GeminiPageQuery {
    fn of(self, all: Vec<ListedModel>) -> Result<GeminiModelList> {
        let from = match self.page_token.filter(|token| !token.is_empty()) {
            None => 0,
            Some(token) => {
                let found = all.iter().position(|model| model.id == token);
                found.ok_or_else(|| malformed("pageToken must be a nextPageToken".to_owned()))?
            }
        };
        let size = self.page_size.filter(|size| *size > 0).unwrap_or(DEFAULT_PAGE);
        let mut rest = all.into_iter().skip(from);
        let models = rest.by_ref().take(size.min(LONGEST_PAGE)).map(Into::into).collect();
        let next_page_token = rest.next().map(|model| model.id);
        Ok(GeminiModelList { models, next_page_token })
    }
}

/// The models that this key can name.
#[utoipa::path(get, path = "/gemini/v1beta/models", tag = "Gemini's root",
    operation_id = "gemini_models", params(GeminiPageQuery),
    responses((status = 200, body = GeminiModelList)))]
pub async fn list(
    State(app): State<App>,
    ByKey(caller): ByKey,
    Query(request): Query<GeminiPageQuery>,
) -> Result<Json<GeminiModelList>> {
    let all = app.gateway.callable_models(&caller);
    request.of(all.iter().map(|model| model.as_ref().into()).collect()).map(Json)
}

/// One of them.
#[utoipa::path(get, path = "/gemini/v1beta/models/{*model}", tag = "Gemini's root",
    operation_id = "gemini_model",
    params(("model" = String, Path, description = "What callers pass as `model`")),
    responses((status = 200, body = GeminiModel)))]
pub async fn show(
    State(app): State<App>,
    ByKey(caller): ByKey,
    path: Segments,
) -> Result<Json<GeminiModel>> {
    model_list::named(&app, &caller, path.text("model")?).map(|listed| Json(listed.into()))
}
