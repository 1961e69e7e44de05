//! The actions of people.

use askama::Template;
use domain::time::Timestamp;

use crate::frame::Frame;
use crate::markup;

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

/// The filters of the list, as they were given.
#[derive(Clone, Debug, Default)]
pub struct AuditFilters(pub Vec<(String, String)>);

impl AuditFilters {
    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// Whether all events fit.
    fn is_empty(&self) -> bool {
        self.0.iter().all(|(name, _)| name == "limit")
    }
}

/// A page of events.
#[derive(Debug, Template)]
#[template(path = "audit.html")]
pub struct AuditPage {
    /// The frame.
    pub frame: Frame,
    /// The filters.
    pub filters: AuditFilters,
    /// The events, newest first.
    pub events: Vec<AuditEvent>,
    /// The address of the file with all events that fit.
    pub file: String,
    /// The address of the next page.
    pub next: Option<String>,
    /// Whether this is the first page.
    pub is_first: bool,
    /// The address of all events that fit as CSV.
    pub csv: String,
}
