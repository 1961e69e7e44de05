//! Responses that a provider stores for its account: requests about them are forwarded to that account, for
//! the project whose call it answered. Answers that were translated are not stored.

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use gateway::{Caller, StoredResponseAction};

use crate::app::App;
use crate::http::auth::ByKey;
use crate::http::error::{Failure, Result};
use crate::http::extract::Segments;
use crate::http::vendor_errors::ResponsesError;
use crate::inference::canonical::read::invalid;

/// The parameters of a query that go on.
const PASSING: [&str; 7] =
    ["include", "include[]", "include%5B%5D", "limit", "order", "after", "before"];
/// The longest query that goes on, in bytes.
const LONGEST_QUERY: usize = 2048;

/// A stored response, as the provider keeps it. Personal data is put back as far as the record of the
/// call has it.
#[utoipa::path(get, path = "/openai/v1/responses/{id}", tag = "OpenAI's root",
    operation_id = "openai_stored_response",
    params(("id" = String, Path, description = "The id of a response")),
    responses((status = 200, description = "The response", body = Object),
        (status = 404, description = "No such response is kept for the project", body = ResponsesError)))]
pub async fn show(
    State(app): State<App>,
    ByKey(caller): ByKey,
    RawQuery(query): RawQuery,
    path: Segments,
) -> Result<Response> {
    forward(&app, &caller, &path, StoredResponseAction::Read, query).await
}

/// End a response that runs in the background. None does here, so providers refuse.
#[utoipa::path(post, path = "/openai/v1/responses/{id}/cancel", tag = "OpenAI's root",
    operation_id = "openai_cancel_response",
    params(("id" = String, Path, description = "The id of a response")),
    responses((status = 200, description = "The response", body = Object),
        (status = 404, description = "No such response is kept for the project", body = ResponsesError)))]
pub async fn cancel(
    State(app): State<App>,
    ByKey(caller): ByKey,
    path: Segments,
) -> Result<Response> {
    forward(&app, &caller, &path, StoredResponseAction::Cancel, None).await
}

/// The input of a stored response.
#[utoipa::path(get, path = "/openai/v1/responses/{id}/input_items", tag = "OpenAI's root",
    operation_id = "openai_response_input_items",
    params(("id" = String, Path, description = "The id of a response")),
    responses((status = 200, description = "A list of items", body = Object),
        (status = 404, description = "No such response is kept for the project", body = ResponsesError)))]
pub async fn input_items(
    State(app): State<App>,
    ByKey(caller): ByKey,
    RawQuery(query): RawQuery,
    path: Segments,
) -> Result<Response> {
    forward(&app, &caller, &path, StoredResponseAction::ReadInput, query).await
}

/// Delete a stored response.
#[utoipa::path(delete, path = "/openai/v1/responses/{id}", tag = "OpenAI's root",
    operation_id = "openai_delete_response",
    params(("id" = String, Path, description = "The id of a response")),
    responses((status = 200, description = "The provider's confirmation", body = Object),
        (status = 404, description = "No such response is kept for the project", body = ResponsesError)))]
pub async fn delete(
    State(app): State<App>,
    ByKey(caller): ByKey,
    path: Segments,
) -> Result<Response> {
    forward(&app, &caller, &path, StoredResponseAction::Delete, None).await
}

async fn forward(
    app: &App,
    caller: &Caller,
    path: &Segments,
    action: StoredResponseAction,
    query: Option<String>,
) -> Result<Response> {
    let id = path.text("id")?;
    let query = passing(query.as_deref().unwrap_or_default())?;
    match app.gateway.stored_response(caller, id, action, &query).await? {
        Some(body) => Ok(([(CONTENT_TYPE, "application/json")], body).into_response()),
        None => Err(unknown(id)),
    }
}

/// The parameters of a query that go on, as they are spelled.
fn passing(query: &str) -> Result<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    if pairs.clone().any(|pair| pair == ("stream", "true")) {
        return Err(invalid("stream is not supported: stored responses come as a whole"));
    }
    let is_plain = |text: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.%[]".contains(&byte);
        text.bytes().all(fits)
    };
    let passing = pairs.filter(|(name, value)| PASSING.contains(name) && is_plain(value));
    let passing: Vec<String> = passing.map(|(name, value)| format!("{name}={value}")).collect();
    let query = passing.join("&").replace('[', "%5B").replace(']', "%5D");
    if query.len() > LONGEST_QUERY {
        return Err(invalid("The query is too long"));
    }
    Ok(query)
}

/// The vendor's sentence for a response that it does not have.
fn unknown(id: &str) -> Failure {
    let id: String = id.chars().take(64).collect();
    let sentence = format!("Response with id '{id}' not found.");
    Failure::new(StatusCode::NOT_FOUND, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_parameters_go_on() {
        let query =
            "include[]=reasoning.encrypted_content&limit=5&x=1&after=msg_1&order=a/b&stream=false";
        let expected = "include%5B%5D=reasoning.encrypted_content&limit=5&after=msg_1";
        assert_eq!(passing(query).unwrap(), expected);
        assert_eq!(passing("").unwrap(), "");
        assert!(passing("stream=true").is_err());
        assert!(passing(&format!("after={}", "x".repeat(3000))).is_err());
    }
}
