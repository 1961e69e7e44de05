//! Requests of pages that fail, as pages.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dashboard::{FailurePage, Frame, NoProjectPage};
use gateway::Error;

use crate::console::language::texts;
use crate::console::page_as;
use crate::http::error::Failure;

/// The reason why a page is not shown.
#[derive(Debug)]
pub(super) enum PageFailure {
    /// The request failed.
    Failed(Failure),
    /// It is a page of a project, and the user sees none: a page in its frame says so, with a status.
    NoProject(StatusCode, Box<NoProjectPage>),
}

pub(super) type Result<T> = std::result::Result<T, PageFailure>;

impl From<Failure> for PageFailure {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Error> for PageFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error.into())
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
        let failure = match self {
            Self::Failed(failure) => failure,
            Self::NoProject(status, shown) => return page_as(status, &*shown),
        };
        let status = failure.status();
        let t = texts();
        let advice = match status {
            StatusCode::FORBIDDEN => t.failures.forbidden,
            StatusCode::NOT_FOUND => t.failures.not_found,
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => t.failures.malformed,
            StatusCode::TOO_MANY_REQUESTS => t.failures.too_many,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => t.failures.unavailable,
            _ => t.failures.other,
        };
        let message = failure.into_body().error;
        page_as(status, &FailurePage { t, status: status.as_u16(), message, advice })
    }
}
