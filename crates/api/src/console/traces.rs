//! The list of traces.

use axum::extract::State;
use axum::response::Response;
use dashboard::{Count, Duration, Money, Section, TraceFilters, TraceRow, TracesPage};
use domain::time::millis;
use domain::trace::Trace;
use form_urlencoded::Serializer;
use gateway::Order;

use crate::app::App;
use crate::console::failure::Result;
use crate::console::page;
use crate::console::visit::Visit;
use crate::evidence::trace_query;

/// The most characters of metadata that a row shows.
const LONGEST_PREVIEW: usize = 120;

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let query = Serializer::new(String::new()).extend_pairs(&visit.query).finish();
    let asked = trace_query::read(&query)?.asked;
    let found = app.gateway.list_traces_for_member(visit.member(), project, &asked).await?;
    let is_full = found.traces.len() as i64 == asked.limit;
    let beyond = match asked.order {
        Order::Newest => "before",
        Order::Oldest => "after",
    };
    let filters: Vec<(String, String)> = visit
        .query
        .iter()
        .filter(|(name, _)| !matches!(&**name, "before" | "after" | "page" | "per_page"))
        .cloned()
        .collect();
    let next = found.traces.last().filter(|_| is_full).map(|last| {
        let mut next = Serializer::new("/traces?".to_owned());
        next.extend_pairs(&filters).append_pair("project", &project.0.to_string());
        next.append_pair(beyond, &last.id.to_string()).finish()
    });
    Ok(page(&TracesPage {
        frame: visit.frame(Section::Traces, "Traces", Some(project)),
        filters: TraceFilters(filters),
        is_first: asked.beyond.is_none() && asked.offset == 0,
        total: found.total.map(Count),
        rows: found.traces.iter().map(row).collect(),
        next,
    }))
}

pub(super) fn row(trace: &Trace) -> TraceRow {
    let assessment = trace.assessment.as_ref();
    let metadata = trace.metadata.as_ref().map(ToString::to_string).unwrap_or_default();
    TraceRow {
        id: trace.id.to_string(),
        opened: trace.created_at,
        status: trace.status.as_str(),
        grade: assessment.map(|assessment| assessment.grades.overall.as_str()),
        cost: assessment.map(|assessment| Money(assessment.total_cost)),
        duration: trace.completed_at.map(|end| Duration(millis(end.since(trace.created_at)))),
        metadata: shortened(&metadata),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST_PREVIEW) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
