//! The actions of people.

use askama::Template;
use domain::time::Timestamp;

use crate::frame::Frame;

/// An event.
#[derive(Clone, Debug)]
pub struct AuditEvent {
    /// When it happened.
    pub at: Timestamp,
    /// Its kind.
    pub event: String,
    /// The actor.
    pub actor: String,
    /// The thing that was acted on.
    pub target: String,
    /// The address it came from.
    pub ip: String,
    /// Further details, as JSON.
    pub details: String,
}

/// The latest events.
#[derive(Debug, Template)]
#[template(path = "audit.html")]
pub struct AuditPage {
    /// The frame.
    pub frame: Frame,
    /// The events, newest first.
    pub events: Vec<AuditEvent>,
}
