//! Pages that are kept up to date by server-sent events.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use dashboard::{Frame, Page as _, Section, Tiles, TraceRows};
use domain::ids::ProjectId;
use futures_util::stream;
use gateway::{LiveEvent, LiveView, Period};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::overview::tiles;
use crate::console::traces::row;
use crate::console::visit::Visit;
use crate::inference::sse;

/// The rows of the newest traces, as they come and change.
pub(super) async fn traces(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    follow(&app, &visit, project, LiveView::Traces)
}

/// The figures of the overview, as they change.
pub(super) async fn overview(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let period = Period::read(visit.get("window"), None, None, app.gateway.now())?;
    follow(&app, &visit, project, LiveView::Figures { hours: period.hours() })
}

fn follow(app: &App, visit: &Visit, project: ProjectId, view: LiveView) -> Result<Response> {
    let session = &visit.session;
    let stream = app.live_views.open(&session.member, &session.token, project, view)?;
    let frame = visit.frame(Section::Traces, "", Some(project));
    let events = stream::unfold((stream, frame), async |(mut stream, frame)| {
        let event = written(&frame, stream.next().await?);
        Some((Ok::<_, Infallible>(event), (stream, frame)))
    });
    Ok(sse::events(Body::from_stream(events)))
}

fn written(frame: &Frame, event: LiveEvent) -> String {
    let mut out = String::new();
    match event {
        LiveEvent::Traces(traces) => {
            let rows = traces.iter().map(row).collect();
            sse::source_event(&mut out, "rows", &TraceRows { frame, rows }.html());
        }
        LiveEvent::Figures(figures) => {
            sse::source_event(&mut out, "tiles", &Tiles { tiles: tiles(&figures) }.html());
        }
        // A comment.
        LiveEvent::Quiet => out.push_str(":\n\n"),
    }
    out
}
