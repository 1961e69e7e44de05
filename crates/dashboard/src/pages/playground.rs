//! The playground: a prompt for two models side by side.

use askama::Template;

use crate::frame::Frame;
use crate::markup;
use crate::pages::choice::{self, Choice};

/// The playground of a project.
#[derive(Debug, Template)]
#[template(path = "playground.html")]
pub struct PlaygroundPage {
    /// The frame.
    pub frame: Frame,
    /// The one-time value of the form.
    pub once: String,
    /// The keys that the user may call with.
    pub keys: Vec<Choice>,
    /// The models, for each side; one is chosen.
    pub sides: [Vec<Choice>; 2],
    /// Whether there are more of them, to be named.
    pub has_more_models: bool,
}
