//! A page that cannot be shown.

use askama::Template;

/// What has happened, and what to do.
#[derive(Debug, Template)]
#[template(path = "failure.html")]
pub struct FailurePage {
    /// The status of the response.
    pub status: u16,
    /// What has happened.
    pub message: String,
    /// What to do.
    pub advice: &'static str,
}
