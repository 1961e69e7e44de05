//! Requests of pages that fail, as pages.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dashboard::{FailurePage, Frame, Refused};
use gateway::Error;

use crate::console::language::texts;
use crate::console::page_as;
use crate::console::visit::Form;
use crate::http::error::Failure;

/// The fields that are never sent back.
const CREDENTIALS: [&str; 4] = ["api_key", "client_secret", "password", "token"];

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

/// Puts a refusal into the frame of its page, and the form with it: it is shown as it was sent, with each fault
/// beside its field. `places` has the fields by the beginnings of the faults. Returns the status of the page.
pub(super) fn show_refusal(
    frame: &mut Frame,
    failure: Failure,
    (name, form): (impl Into<String>, &Form),
    places: &[(&str, &'static str)],
) -> StatusCode {
    let status = failure.status();
    let body = failure.into_body();
    let place = |fault: &String| {
        let found = places.iter().find(|(begin, _)| fault.starts_with(begin));
        found.map(|(_, field)| (*field, fault.clone()))
    };
    let faults = if body.errors.is_empty() {
        place(&body.error).into_iter().collect()
    } else {
        body.errors.iter().filter_map(place).collect()
    };
    let sent = form.0.iter().filter(|(field, _)| !CREDENTIALS.contains(&field.as_str()));
    frame.refused = Refused { form: name.into(), sent: sent.cloned().collect(), faults };
    frame.fault = Some(body.error);
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
