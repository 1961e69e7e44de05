//! `/anthropic/v1`: the base URL of Anthropic's clients is `/anthropic`.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use domain::original::{Original, WireFormat};
use domain::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::body::{Body, SourceBody};
use crate::http::error::Result;
use crate::http::extract::{Query, Segments};
use crate::inference::format;
use crate::inference::messages::{self, CountedBody, Messages, MessagesBody};
use crate::inference::model_list::{self, ListedModel, PageQuery};
use crate::inference::sse::EventBody;

/// The tokens of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub struct TokenCount {
    /// About as many as a model counts.
    input_tokens: u64,
}

/// The models of the key's project.
#[derive(Debug, Serialize, ToSchema)]
pub struct AnthropicModelList {
    data: Vec<AnthropicModel>,
    /// Whether there are more: behind the page, or before it if `before_id` was given.
    has_more: bool,
    first_id: Option<String>,
    last_id: Option<String>,
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
pub struct AnthropicModel {
    /// Always `model`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The name that callers pass as `model`.
    id: String,
    display_name: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

impl From<ListedModel> for AnthropicModel {
    fn from(listed: ListedModel) -> Self {
        let ListedModel { id, display_name, created_at, .. } = listed;
        Self { kind: "model", id, display_name, created_at }
    }
}

/// Answer a conversation, as Anthropic's API does. To models of Anthropic the request goes on as it
/// came, and the answer comes back so: `X-Sluice-Mode` names the way that it took.
#[utoipa::path(post, path = "/anthropic/v1/messages", tag = "Anthropic's root",
    operation_id = "anthropic_messages", request_body = MessagesBody,
    params(("X-Trace-Id" = Option<String>, Header, description = "The trace; without one the call belongs to that of its session")),
    responses((status = 200, description = "A message of Anthropic's API", content(
        (Object = "application/json"), (EventBody = "text/event-stream")))))]
pub async fn create_message(
    State(app): State<App>,
    ByKey(caller): ByKey,
    headers: HeaderMap,
    SourceBody(body, source): SourceBody<MessagesBody>,
) -> Result<Response> {
    let original = Original::new(WireFormat::Messages, source);
    format::answer_passing::<Messages>(&app, &caller, &headers, body, original).await
}

/// Count the tokens of a conversation. Nothing is called, recorded or charged.
#[utoipa::path(post, path = "/anthropic/v1/messages/count_tokens", tag = "Anthropic's root",
    operation_id = "anthropic_count_tokens",
    request_body(content = MessagesBody, description = "`max_tokens` may be left out"),
    responses((status = 200, body = TokenCount)))]
pub async fn count_tokens(
    State(app): State<App>,
    ByKey(caller): ByKey,
    Body(body): Body<CountedBody>,
) -> Result<Json<TokenCount>> {
    let input_tokens = messages::count_tokens(&app, &caller, body).await?;
    Ok(Json(TokenCount { input_tokens }))
}

/// The models that this key can name.
#[utoipa::path(get, path = "/anthropic/v1/models", tag = "Anthropic's root",
    operation_id = "anthropic_models", params(PageQuery),
    responses((status = 200, body = AnthropicModelList)))]
pub async fn list_models(
    State(app): State<App>,
    ByKey(caller): ByKey,
    Query(request): Query<PageQuery>,
) -> Result<Json<AnthropicModelList>> {
    let page = model_list::page(&app, &caller, &request)?;
    let data = page.data.into_iter().map(Into::into).collect();
    let (has_more, first_id, last_id) = (page.has_more, page.first_id, page.last_id);
    Ok(Json(AnthropicModelList { data, has_more, first_id, last_id }))
}

/// One of them.
#[utoipa::path(get, path = "/anthropic/v1/models/{id}", tag = "Anthropic's root",
    operation_id = "anthropic_model",
    params(("id" = String, Path, description = "What callers pass as `model`")),
    responses((status = 200, body = AnthropicModel)))]
pub async fn show_model(
    State(app): State<App>,
    ByKey(caller): ByKey,
    path: Segments,
) -> Result<Json<AnthropicModel>> {
    model_list::named(&app, &caller, path.text("id")?).map(|listed| Json(listed.into()))
}
