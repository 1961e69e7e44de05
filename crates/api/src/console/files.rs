//! The files beside the pages.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};

use crate::http::error::Failure;

/// A file: its address changes with its content.
pub(super) async fn show(request: Request) -> Response {
    match dashboard::asset(request.uri().path()) {
        Some(asset) => {
            let headers = [
                (CONTENT_TYPE, asset.media_type),
                (CACHE_CONTROL, "public, max-age=31536000, immutable"),
            ];
            (headers, asset.content).into_response()
        }
        None => Failure::new(StatusCode::NOT_FOUND, "Not found").into_response(),
    }
}
