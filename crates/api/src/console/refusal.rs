//! Forms that are refused, as their pages show them again.

use axum::http::StatusCode;
use dashboard::{Frame, Refused};

use crate::console::visit::Form;
use crate::http::error::Failure;

/// The fields that are never sent back.
const CREDENTIALS: [&str; 4] = ["api_key", "client_secret", "password", "token"];

/// Puts a refusal into the frame of its page, and the form with it: it is shown as it was sent, with each fault
/// beside its field, and beside a credential that was sent that it has to be entered again. `places` has the fields
/// by the beginnings of the faults. Returns the status of the page.
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
    let mut faults: Vec<_> = if body.errors.is_empty() {
        place(&body.error).into_iter().collect()
    } else {
        body.errors.iter().filter_map(place).collect()
    };
    // It would be missing from the next attempt, which may well succeed without it.
    for field in CREDENTIALS.into_iter().filter(|field| form.get(field).is_some()) {
        if !faults.iter().any(|(known, _)| *known == field) {
            faults.push((field, frame.t.words.enter_again.to_owned()));
        }
    }
    let sent = form.0.iter().filter(|(field, _)| !CREDENTIALS.contains(&field.as_str()));
    frame.refused = Refused { form: name.into(), sent: sent.cloned().collect(), faults };
    frame.fault = Some(body.error);
    status
}
