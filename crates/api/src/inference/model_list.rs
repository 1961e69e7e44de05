//! The models that a key can name, as the official client libraries list them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use domain::model::Model;
use domain::time::Timestamp;
use gateway::Caller;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::error::{Failure, Result};
use crate::http::extract::{Query, Segments};

/// The most models of one page.
const LONGEST_PAGE: u64 = 1_000;

/// The requested part of the list, in the parameters of Anthropic's clients; all of it by default.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// The most models of the page.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
    /// The model before the page.
    #[serde(default)]
    after_id: Option<String>,
    /// The model behind the page.
    #[serde(default)]
    before_id: Option<String>,
}

/// The models of the key's project. Clients of either vendor find the members that they read.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    /// Always `list`.
    object: &'static str,
    pub(crate) data: Vec<ListedModel>,
    /// Whether there are more: behind the page, or before it if `before_id` was given.
    pub(crate) has_more: bool,
    pub(crate) first_id: Option<String>,
    pub(crate) last_id: Option<String>,
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListedModel {
    /// The name that callers pass as `model`.
    pub(crate) id: String,
    /// Always `model`.
    object: &'static str,
    /// Always `model`.
    #[serde(rename = "type")]
    kind: &'static str,
    pub(crate) display_name: String,
    /// The provider it is registered with.
    pub(crate) owned_by: &'static str,
    /// When it was registered, in Unix seconds.
    pub(crate) created: i64,
    #[schema(value_type = String, format = DateTime)]
    pub(crate) created_at: Timestamp,
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

impl PageQuery {
    /// The page, and whether there are more models the same way.
    fn of(&self, mut all: Vec<ListedModel>) -> Result<(Vec<ListedModel>, bool)> {
        let limit = match self.limit {
            None => usize::MAX,
            Some(limit @ 1..=LONGEST_PAGE) => limit as usize,
            Some(_) => return Err(malformed("limit must be from 1 to 1000")),
        };
        match (self.after_id.as_deref(), self.before_id.as_deref()) {
            (Some(_), Some(_)) => Err(malformed("after_id and before_id exclude each other")),
            (None, Some(id)) => {
                let behind = place(&all, id)?;
                all.truncate(behind);
                let before = all.len().saturating_sub(limit);
                Ok((all.split_off(before), before > 0))
            }
            (after, None) => {
                let from = match after {
                    Some(id) => place(&all, id)? + 1,
                    None => 0,
                };
                let mut page = all.split_off(from);
                let has_more = page.len() > limit;
                page.truncate(limit);
                Ok((page, has_more))
            }
        }
    }
}

fn place(all: &[ListedModel], id: &str) -> Result<usize> {
    let found = all.iter().position(|model| model.id == id);
    found.ok_or_else(|| malformed("after_id and before_id must name a model of the list"))
}

fn malformed(what: &str) -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, what)
}

/// The models that this key can name.
#[utoipa::path(get, path = "/api/v1/models", tag = "Models", params(PageQuery),
    responses((status = 200, body = ModelList)))]
pub async fn list(
    State(app): State<App>,
    ByKey(caller): ByKey,
    Query(request): Query<PageQuery>,
) -> Result<Json<ModelList>> {
    page(&app, &caller, &request).map(Json)
}

/// A part of the models that a key can name.
pub(crate) fn page(app: &App, caller: &Caller, request: &PageQuery) -> Result<ModelList> {
    let models = app.gateway.callable_models(caller);
    let (data, has_more) =
        request.of(models.iter().map(|model| model.as_ref().into()).collect())?;
    let id = |model: Option<&ListedModel>| model.map(|model| model.id.clone());
    let (first_id, last_id) = (id(data.first()), id(data.last()));
    Ok(ModelList { object: "list", data, has_more, first_id, last_id })
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
    named(&app, &caller, path.text("id")?).map(Json)
}

/// The model with an identifier or an alias.
pub(crate) fn named(app: &App, caller: &Caller, id: &str) -> Result<ListedModel> {
    let found = app.gateway.callable_model(caller, id);
    // An alias is shown under the name that was asked for.
    found.map(|model| ListedModel { id: id.to_owned(), ..model.as_ref().into() }).ok_or_else(|| {
        let id: String = id.chars().take(64).collect();
        Failure::new(StatusCode::NOT_FOUND, format!("The model '{id}' does not exist"))
            .unknown_model()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: &str) -> ListedModel {
        ListedModel {
            id: id.to_owned(),
            object: "model",
            kind: "model",
            display_name: id.to_owned(),
            owned_by: "openai",
            created: 0,
            created_at: Timestamp(0),
            lifecycle: "active",
        }
    }

    fn page(limit: Option<u64>, after: Option<&str>, before: Option<&str>) -> (String, bool) {
        let (after_id, before_id) = (after.map(str::to_owned), before.map(str::to_owned));
        let request = PageQuery { limit, after_id, before_id };
        let all = ["a", "b", "c", "d"].map(listed).into();
        match request.of(all) {
            Ok((page, has_more)) => (page.iter().map(|model| &*model.id).collect(), has_more),
            Err(failure) => {
                assert_eq!(failure.status(), StatusCode::BAD_REQUEST);
                (failure.into_body().error, false)
            }
        }
    }

    #[test]
    fn a_page_is_beside_the_model_that_is_named() {
        let told = |page: (String, bool), ids: &str, has_more: bool| {
            assert_eq!(page, (ids.to_owned(), has_more));
        };
        told(page(None, None, None), "abcd", false);
        told(page(Some(3), None, None), "abc", true);
        told(page(Some(4), None, None), "abcd", false);
        told(page(Some(2), Some("a"), None), "bc", true);
        told(page(Some(2), Some("b"), None), "cd", false);
        told(page(Some(2), Some("d"), None), "", false);
        told(page(Some(2), None, Some("d")), "bc", true);
        told(page(None, None, Some("c")), "ab", false);
        told(page(Some(2), None, Some("a")), "", false);
    }

    #[test]
    fn a_page_that_there_cannot_be() {
        let named = "after_id and before_id must name a model of the list";
        for limit in [0, 1001] {
            assert_eq!(page(Some(limit), None, None).0, "limit must be from 1 to 1000");
        }
        assert_eq!(page(None, Some("x"), None).0, named);
        assert_eq!(page(None, None, Some("x")).0, named);
        let both = "after_id and before_id exclude each other";
        assert_eq!(page(None, Some("a"), Some("b")).0, both);
    }
}
