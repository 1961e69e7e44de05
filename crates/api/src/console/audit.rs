//! The actions of people.

use axum::extract::State;
use axum::response::Response;
use dashboard::{AuditEvent, AuditFilters, AuditPage, Section};
use gateway::Audit;

use crate::app::App;
use crate::console::failure::Result;
use crate::console::visit::{Visit, query_of, with_query, without};
use crate::console::{csv, page};
use crate::control::audit_query;

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let asked = audit_query::read(&query_of(&visit.query))?;
    let found = app.gateway.audit_page(visit.member(), &asked.query).await?;
    let project = visit.project()?;
    let frame = visit.frame(Section::Audit, visit.t.audit.title, project);
    let next = found.next.map(|event| frame.href(&format!("/audit?{}", asked.page_before(event))));
    Ok(page(&AuditPage {
        events: found.events.into_iter().map(event).collect(),
        file: format!("/api/v1/audit-events/export?{}", asked.filters()),
        csv: frame.href(&with_query("/audit.csv", &filters(&asked.given))),
        next,
        is_first: asked.query.before.is_none(),
        filters: AuditFilters(asked.given),
        frame,
    }))
}

/// The list as a file, by the same filters.
pub(super) async fn file(State(app): State<App>, visit: Visit) -> Result<Response> {
    let mut query = audit_query::read(&query_of(&filters(&visit.query)))?.query;
    (query.before, query.limit) = (None, csv::READ);
    let place = csv::Place::take(&app)?;
    // As that of the other export, it is the first of its lines.
    app.gateway.note_audit_export(visit.member(), &query.filter).await?;
    let head = ["time", "event", "actor", "target", "address", "details"];
    let mut file = csv::ListFile::new(place, "audit", &head);
    loop {
        let found = app.gateway.audit_page(visit.member(), &query).await?;
        query.before = found.next;
        let lines = found.events.into_iter().map(|audit| line(event(audit)));
        if !file.add_page(lines, found.next.is_some()) {
            return Ok(file.response(visit.t));
        }
    }
}

fn line(event: AuditEvent) -> Vec<String> {
    let AuditEvent { at, event, actor, target, ip, details } = event;
    vec![csv::time(Some(at)), event, actor, target, ip, details]
}

/// The filters of a query, without the place and the size of a page.
fn filters(query: &[(String, String)]) -> Vec<(String, String)> {
    without(query, &["before", "limit"])
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
