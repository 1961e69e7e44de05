//! Pages that are kept up to date by server-sent events.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use dashboard::{Frame, JobRows, Page as _, Section, Tiles, TraceRows};
use domain::ids::ProjectId;
use domain::time::Timestamp;
use futures_util::stream;
use gateway::{ListedTrace, LiveEvent, LiveView, Period};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::jobs;
use crate::console::overview::tiles;
use crate::console::traces::{row, version};
use crate::console::visit::Visit;
use crate::inference::sse;

/// The rows of the newest traces, as they come and change.
pub(super) async fn traces(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    follow(&app, &visit, project, LiveView::Traces, visit.get("known"))
}

/// The figures of the overview, as they change.
pub(super) async fn overview(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let period = Period::read(visit.get("window"), None, None, app.gateway.now())?;
    follow(&app, &visit, project, LiveView::Figures { hours: period.hours() }, None)
}

/// The jobs, as they come, progress and end.
pub(super) async fn jobs(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    follow(&app, &visit, project, LiveView::Jobs, None)
}

/// The changes of a view. `known` is the [version] of the traces that the page has.
fn follow(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    view: LiveView,
    known: Option<&str>,
) -> Result<Response> {
    let session = &visit.session;
    let stream = app.live_views.open(&session.member, &session.token, project, view)?;
    let frame = visit.frame(Section::Traces, "", Some(project));
    let known = known.map(str::to_owned);
    let gateway = app.gateway.clone();
    let events = stream::unfold((stream, frame, known), move |(mut stream, frame, known)| {
        let gateway = gateway.clone();
        async move {
            let event = match stream.next().await? {
                LiveEvent::Traces(traces) if is_known(known.as_deref(), &traces) => {
                    LiveEvent::Quiet
                }
                event => event,
            };
            // Only the first state can be that of the page.
            Some((
                Ok::<_, Infallible>(written(&frame, event, gateway.now())),
                (stream, frame, None),
            ))
        }
    });
    Ok(sse::events(Body::from_stream(events)))
}

fn is_known(known: Option<&str>, traces: &[ListedTrace]) -> bool {
    known.is_some_and(|known| known == format!("{:x}", version(traces)))
}

fn written(frame: &Frame, event: LiveEvent, now: Timestamp) -> String {
    let mut out = String::new();
    match event {
        LiveEvent::Traces(traces) => {
            let rows = traces.iter().map(row).collect();
            sse::source_event(&mut out, "rows", &TraceRows { frame, rows }.html());
        }
        LiveEvent::Jobs(jobs) => {
            let rows = jobs::rows(frame, &jobs, now);
            sse::source_event(&mut out, "part", &JobRows { t: frame.t, rows }.html());
        }
        LiveEvent::Figures(figures) => {
            sse::source_event(
                &mut out,
                "part",
                &Tiles { t: frame.t, tiles: tiles(frame.t, &figures) }.html(),
            );
        }
        // A comment.
        LiveEvent::Quiet => out.push_str(":\n\n"),
    }
    out
}
