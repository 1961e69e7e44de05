//! Pages that cannot be shown.

use askama::Template;

use crate::frame::Frame;
use crate::markup;
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

/// A page of a project, for somebody who sees none.
#[derive(Debug, Template)]
#[template(path = "no_project.html")]
pub struct NoProjectPage {
    /// The frame.
    pub frame: Frame,
}
