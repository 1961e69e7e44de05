//! A page that cannot be shown.

use askama::Template;

/// A failure, and advice.
#[derive(Debug, Template)]
#[template(path = "failure.html")]
pub struct FailurePage {
    /// The status of the response.
    pub status: u16,
    /// The failure.
    pub message: String,
    /// The way on.
    pub advice: &'static str,
}
