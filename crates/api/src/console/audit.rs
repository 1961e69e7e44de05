//! The actions of people.

use axum::extract::State;
use axum::response::Response;
use dashboard::{AuditEvent, AuditFilters, AuditPage, Section};
use form_urlencoded::Serializer;
use gateway::Audit;

use crate::app::App;
use crate::console::failure::Result;
use crate::console::page;
use crate::console::visit::Visit;
use crate::control::audit_query;

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let query = Serializer::new(String::new()).extend_pairs(&visit.query).finish();
    let asked = audit_query::read(&query)?;
    let found = app.gateway.audit_page(visit.member(), &asked.query).await?;
    let project = visit.project()?;
    let frame = visit.frame(Section::Audit, visit.t.audit.title, project);
    let next = found.next.map(|event| frame.href(&format!("/audit?{}", asked.page_before(event))));
    Ok(page(&AuditPage {
        events: found.events.into_iter().map(event).collect(),
        file: format!("/api/v1/audit-events/export?{}", asked.filters()),
        next,
        is_first: asked.query.before.is_none(),
        filters: AuditFilters(asked.given),
        frame,
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
