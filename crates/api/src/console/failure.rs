//! Requests of pages that fail, as pages.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dashboard::{FailurePage, Frame};
use gateway::Error;

use crate::console::language::texts;
use crate::console::page_as;
use crate::http::error::Failure;

/// A failed request of a page.
#[derive(Debug)]
pub(super) struct PageFailure(pub(super) Failure);

pub(super) type Result<T> = std::result::Result<T, PageFailure>;

impl From<Failure> for PageFailure {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl From<Error> for PageFailure {
    fn from(error: Error) -> Self {
        Self(error.into())
    }
}

/// The status of a page that shows the outcome of its form, and what the form has made; a refusal is put into
/// the frame.
pub(super) fn outcome_of<T>(
    frame: &mut Frame,
    made: std::result::Result<T, Failure>,
) -> (StatusCode, Option<T>) {
    match made {
        Ok(made) => (StatusCode::CREATED, Some(made)),
        Err(failure) => (show_fault(frame, failure), None),
    }
}

/// Puts a refusal into the frame of its page. Returns the status of the page.
pub(super) fn show_fault(frame: &mut Frame, failure: Failure) -> StatusCode {
    let status = failure.status();
    frame.fault = Some(failure.into_body().error);
    status
}

impl IntoResponse for PageFailure {
    fn into_response(self) -> Response {
        let status = self.0.status();
        let t = texts();
        let advice = match status {
            StatusCode::FORBIDDEN => t.failures.forbidden,
            StatusCode::NOT_FOUND => t.failures.not_found,
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => t.failures.malformed,
            StatusCode::TOO_MANY_REQUESTS => t.failures.too_many,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => t.failures.unavailable,
            _ => t.failures.other,
        };
        let message = self.0.into_body().error;
        page_as(status, &FailurePage { t, status: status.as_u16(), message, advice })
    }
}
