//! The actions of people.

use axum::extract::State;
use axum::response::Response;
use dashboard::{AuditEvent, AuditPage, Section};
use gateway::Audit;

use crate::app::App;
use crate::console::failure::Result;
use crate::console::page;
use crate::console::visit::Visit;

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let events = app.gateway.audit_events(visit.member(), visit.get("event")).await?;
    let project = visit.project()?;
    Ok(page(&AuditPage {
        events: events.into_iter().map(event).collect(),
        frame: visit.frame(Section::Audit, "Audit", project),
    }))
}

fn event(event: Audit) -> AuditEvent {
    let target = [event.target_type, event.target_id];
    let details = event.metadata;
    AuditEvent {
        at: event.at,
        event: event.event,
        actor: event.actor.unwrap_or_default(),
        target: target.into_iter().flatten().collect::<Vec<_>>().join(" "),
        ip: event.ip,
        details: if details.as_object().is_some_and(serde_json::Map::is_empty) {
            String::new()
        } else {
            details.to_string()
        },
    }
}
