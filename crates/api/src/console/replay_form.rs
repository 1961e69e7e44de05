//! The form of a replay on the page of its trace.

use axum::http::StatusCode;
use dashboard::TracePage;

use crate::console::refusal::show_refusal;
use crate::console::visit::Form;
use crate::http::error::Failure;

/// Puts a form that was refused into the page of its trace, as it was sent. Returns the status of the page.
pub(super) fn show_refused(page: &mut TracePage, form: &Form, failure: Failure) -> StatusCode {
    let is_listed = |sent: &str| page.models.iter().any(|model| model.value == sent);
    let other = form.all("model").find(|sent| !is_listed(sent));
    page.other_model = other.unwrap_or_default().to_owned();
    let places = [
        (page.frame.t.trace.highest_no_amount, "max_cost"),
        ("max_cost", "max_cost"),
        ("Model not authorized or found", "model"),
        ("Model not allowed", "model"),
        ("compare_models", "model"),
        ("The key has expired", "key"),
        ("Endpoint not allowed", "key"),
        (page.frame.t.trace.no_such_key, "key"),
    ];
    show_refusal(&mut page.frame, failure, ("replay", form), &places)
}
