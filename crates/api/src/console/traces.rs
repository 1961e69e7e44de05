//! The list of traces.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::extract::State;
use axum::response::Response;
use dashboard::{Choice, Count, Duration, Money, Section, TraceFilters, TraceRow, TracesPage};
use domain::grade::Grade;
use domain::ids::ProjectId;
use domain::time::millis;
use domain::trace::{AgentWork, Trace};
use form_urlencoded::Serializer;
use gateway::{Error, KeyView, ListedTrace, Order, TraceQuery};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::visit::{Visit, with_query, without};
use crate::console::{choices, csv, page};
use crate::evidence::trace_query;

/// The traces of the file that are read at once: their metadata may be large.
const MOST_AT_ONCE: i64 = 100;

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let asked = asked(&visit.query)?;
    let found = app.gateway.list_traces_for_member(visit.member(), project, &asked).await?;
    let is_full = found.traces.len() as i64 == asked.limit;
    let beyond = match asked.order {
        Order::Newest => "before",
        Order::Oldest => "after",
    };
    let filters = filters(&visit);
    let next = found.traces.last().filter(|_| is_full).map(|last| {
        let mut next = Serializer::new("/traces?".to_owned());
        next.extend_pairs(&filters).append_pair("project", &project.0.to_string());
        next.append_pair(beyond, &last.id.to_string()).finish()
    });
    let traces: Vec<ListedTrace> = found.traces.iter().map(ListedTrace::from).collect();
    let frame = visit.frame(Section::Traces, visit.t.traces.title, Some(project));
    // The newest traces without a filter are the only ones that are followed.
    let is_live = visit.query.is_empty();
    Ok(page(&TracesPage {
        live: is_live.then(|| frame.href(&format!("/live/traces?known={:x}", version(&traces)))),
        file: frame.href(&with_query("/traces.csv", &filters)),
        frame,
        keys: keys(&app, &visit, project),
        filters: TraceFilters(filters),
        is_first: asked.beyond.is_none() && asked.offset == 0,
        total: found.total.map(Count),
        rows: traces.iter().map(row).collect(),
        next,
    }))
}

/// The list as a file, by the same filters and in the same order.
pub(super) async fn file(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let mut asked = TraceQuery { limit: MOST_AT_ONCE, ..asked(&filters(&visit))? };
    let head = ["trace", "opened", "status", "grade", "cost_usd", "duration_ms", "metadata"];
    let mut file = csv::ListFile::new(csv::Place::take(&app)?, "traces", &head);
    loop {
        let found = match app.gateway.traces_for_member(visit.member(), project, &asked).await {
            Ok(found) => found,
            // The rows that were read are worth having.
            Err(Error::Busy { .. } | Error::Unavailable(_)) if file.cut() => {
                return Ok(file.response(visit.t));
            }
            Err(error) => return Err(error.into()),
        };
        asked.beyond = found.last().map(|last| last.id);
        if !file.add_read(found.iter().map(line), asked.limit) {
            return Ok(file.response(visit.t));
        }
    }
}

fn line(trace: &Trace) -> Vec<String> {
    let assessment = trace.assessment.as_ref();
    let duration = trace.completed_at.map(|end| millis(end.since(trace.created_at)));
    vec![
        trace.id.to_string(),
        csv::time(Some(trace.created_at)),
        trace.status.as_str().to_owned(),
        csv::maybe(assessment.map(|found| found.grades.overall.as_str())),
        assessment.map(|found| csv::amount(found.total_cost)).unwrap_or_default(),
        csv::maybe(duration),
        csv::maybe(trace.metadata.as_ref()),
    ]
}

/// The filters and the order of a visit, without the place of a page.
fn filters(visit: &Visit) -> Vec<(String, String)> {
    without(&visit.query, &["before", "after", "page", "per_page"])
}

/// The traces that a query of the console asks for.
fn asked(query: &[(String, String)]) -> std::result::Result<TraceQuery, Error> {
    let named = query.iter().map(|(name, value)| as_filter(name, value));
    let named = named.collect::<std::result::Result<Vec<_>, _>>()?;
    let query = Serializer::new(String::new()).extend_pairs(named).finish();
    Ok(trace_query::read(&query)?.asked)
}

/// A filter as the API names it: those by a tag or a field of metadata have one field for name and value.
fn as_filter<'q>(
    name: &'q str,
    value: &'q str,
) -> std::result::Result<(Cow<'q, str>, &'q str), Error> {
    if !matches!(name, "tag" | "metadata") {
        return Ok((name.into(), value));
    }
    let malformed = || Error::Malformed(format!("{name} must be a name and a value: name=value"));
    let (field, value) = value.split_once('=').ok_or_else(malformed)?;
    // As they are: blanks at the ends may be part of either.
    Ok((format!("{name}[{field}]").into(), value))
}

/// The keys of a project as filters, the latest first, and the one that the filter names, which may be gone.
fn keys(app: &App, visit: &Visit, project: ProjectId) -> Vec<Choice> {
    let chosen = visit.get("key");
    let of_project = |view: &KeyView| view.key.project == project;
    let views = app.gateway.list_keys(visit.member()).into_iter().filter(of_project);
    let mut keys: Vec<Choice> = views
        .map(|view| {
            let id = view.key.id.to_string();
            Choice { is_chosen: chosen == Some(&id), value: id, label: view.key.name }
        })
        .collect();
    keys.reverse();
    choices::with_gone(choices::bounded(keys), chosen)
}

/// A trace as a row.
pub(super) fn row(trace: &ListedTrace) -> TraceRow {
    TraceRow {
        id: trace.id.to_string(),
        opened: trace.created_at,
        status: trace.status.as_str(),
        grade: trace.grade.map(Grade::as_str),
        is_stalled: trace.work.is_some_and(AgentWork::is_stalled),
        invents_calls: trace.work.is_some_and(AgentWork::invents_calls),
        cost: trace.cost.map(Money),
        duration: trace.completed_at.map(|end| Duration(millis(end.since(trace.created_at)))),
        metadata: trace.metadata.clone(),
    }
}

/// A number that changes with what the rows of some traces show. The same version of the gateway computes the
/// same one everywhere.
pub(super) fn version(traces: &[ListedTrace]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for trace in traces {
        let end = trace.completed_at.map(|end| end.0);
        let flags = trace.work.map(|work| (work.is_stalled(), work.invents_calls()));
        let cost = trace.cost.map(|cost| cost.0);
        (trace.id.0, trace.status.as_str(), end, cost, flags).hash(&mut hasher);
    }
    hasher.finish()
}
