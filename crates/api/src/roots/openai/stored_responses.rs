//! Stored responses: there are none, because nothing is kept between two requests.

use axum::http::StatusCode;

use crate::http::error::{Failure, Result};
use crate::http::extract::Segments;
use crate::http::vendor_errors::ResponsesError;

/// A stored response, of which there is none.
#[utoipa::path(get, path = "/openai/v1/responses/{id}", tag = "OpenAI's root",
    operation_id = "openai_stored_response",
    params(("id" = String, Path, description = "The id of a response")),
    responses((status = 404, description = "No response is kept", body = ResponsesError)))]
pub async fn show(path: Segments) -> Result<()> {
    unknown(&path)
}

/// End a response that runs in the background, of which there is none.
#[utoipa::path(post, path = "/openai/v1/responses/{id}/cancel", tag = "OpenAI's root",
    operation_id = "openai_cancel_response",
    params(("id" = String, Path, description = "The id of a response")),
    responses((status = 404, description = "No response is kept", body = ResponsesError)))]
pub async fn cancel(path: Segments) -> Result<()> {
    unknown(&path)
}

/// The input of a stored response, of which there is none.
#[utoipa::path(get, path = "/openai/v1/responses/{id}/input_items", tag = "OpenAI's root",
    operation_id = "openai_response_input_items",
    params(("id" = String, Path, description = "The id of a response")),
    responses((status = 404, description = "No response is kept", body = ResponsesError)))]
pub async fn input_items(path: Segments) -> Result<()> {
    unknown(&path)
}

/// The vendor's sentence for a response that it does not have.
fn unknown(path: &Segments) -> Result<()> {
    let id: String = path.text("id")?.chars().take(64).collect();
    let sentence = format!("Response with id '{id}' not found.");
    Err(Failure::new(StatusCode::NOT_FOUND, sentence))
}
