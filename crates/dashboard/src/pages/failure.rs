//! A page that cannot be shown.

use askama::Template;

use crate::texts::Texts;

/// A failure, and advice.
#[derive(Debug, Template)]
#[template(path = "failure.html")]
pub struct FailurePage {
    /// The texts.
    pub t: &'static Texts,
    /// The status of the response.
    pub status: u16,
    /// The failure.
    pub message: String,
    /// The way on.
    pub advice: &'static str,
}
