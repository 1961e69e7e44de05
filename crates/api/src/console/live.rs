//! Pages that are kept up to date by server-sent events.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use dashboard::{JobRows, OverviewParts, Page as _, Section, TraceRows};
use domain::ids::ProjectId;
use domain::job::{Job, JobKind};
use futures_util::stream;
use gateway::{ListedTrace, LiveEvent, LiveOverview, LiveView, Span};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::traces::{row, version};
use crate::console::visit::Visit;
use crate::console::{job, jobs, overview, replay};
use crate::http::extract::Segments;
use crate::inference::sse;

/// The rows of the newest traces, as they come and change.
pub(super) async fn traces(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let known = visit.get("known").map(str::to_owned);
    follow(app, visit, project, LiveView::Traces, known)
}

/// The parts of the overview, as they change.
pub(super) async fn overview(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let span = Span::of(&overview::period(&app, &visit)?);
    let by = overview::dimensions(&visit)?;
    follow(app, visit, project, LiveView::Overview(span, by.into()), None)
}

/// The jobs, as they come, progress and end.
pub(super) async fn jobs(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    follow(app, visit, project, LiveView::Jobs, None)
}

/// A job, as it progresses, and its outcome.
pub(super) async fn job(State(app): State<App>, visit: Visit, path: Segments) -> Result<Response> {
    let project = visit.shown_project()?;
    let id = path.text("job_id")?;
    let (job, _) = app.gateway.job_for_member(visit.member(), project, id).await?;
    follow(app, visit, project, LiveView::Job(job.id), None)
}

/// The changes of a view. `known` is the [version] of the traces that the page has.
fn follow(
    app: App,
    visit: Visit,
    project: ProjectId,
    view: LiveView,
    known: Option<String>,
) -> Result<Response> {
    let session = &visit.session;
    let stream = app.live_views.open(&session.member, &session.token, project, view)?;
    let watcher = Watcher { app, visit, project, sent: None };
    let events =
        stream::unfold((stream, watcher, known), |(mut stream, mut watcher, known)| async move {
            let event = match stream.next().await? {
                LiveEvent::Traces(traces) if is_known(known.as_deref(), &traces) => {
                    LiveEvent::Quiet
                }
                event => event,
            };
            let written = watcher.written(event).await;
            // Only the first state can be that of the page.
            Some((Ok::<_, Infallible>(written), (stream, watcher, None)))
        });
    Ok(sse::events(Body::from_stream(events)))
}

fn is_known(known: Option<&str>, traces: &[ListedTrace]) -> bool {
    known.is_some_and(|known| known == format!("{:x}", version(traces)))
}

/// The page that a stream is for.
struct Watcher {
    app: App,
    visit: Visit,
    project: ProjectId,
    /// The parts of the overview that the page has.
    sent: Option<OverviewParts>,
}

impl Watcher {
    /// An event as the page reads it: `failed` if the page itself would show a failure.
    async fn written(&mut self, event: LiveEvent) -> String {
        let frame = self.visit.frame(Section::Traces, "", Some(self.project));
        let mut out = String::new();
        match event {
            LiveEvent::Traces(traces) => {
                let rows = traces.iter().map(row).collect();
                sse::source_event(&mut out, "rows", &TraceRows { frame: &frame, rows }.html());
            }
            LiveEvent::Jobs(jobs) => {
                // The next page begins where these rows end.
                let now = self.app.gateway.now();
                let (rows, pages) = jobs::rows(&self.visit, &frame, jobs.to_vec(), now);
                sse::source_event(&mut out, "part", &JobRows { t: frame.t, rows, pages }.html());
            }
            LiveEvent::Job(job) => {
                let name = if job.state.is_over() { "end" } else { "part" };
                match self.job_part(&job).await {
                    Ok(part) => sse::source_event(&mut out, name, &part),
                    Err(failure) => {
                        tracing::warn!(job = %job.id, ?failure, "a live page cannot show a job");
                        sse::source_event(&mut out, "failed", &job.id.to_string());
                    }
                }
            }
            LiveEvent::Overview(overview) => match self.overview_changes(&overview).await {
                Ok(changes) if changes.is_empty() => {}
                Ok(changes) => sse::source_event(&mut out, "pieces", &changes),
                // The next figures bring what is missing.
                Err(failure) => tracing::debug!(?failure, "a live page cannot show an overview"),
            },
            LiveEvent::Over(overview) => match self.overview(&overview).await {
                Ok(parts) => sse::source_event(&mut out, "end", &parts.html()),
                Err(failure) => {
                    tracing::warn!(?failure, "a live page cannot show an overview");
                    sse::source_event(&mut out, "failed", "overview");
                }
            },
            LiveEvent::Quiet => {}
        }
        if out.is_empty() {
            // A comment.
            out.push_str(":\n\n");
        }
        out
    }

    /// The parts of an overview that the page does not have; at first all of them.
    async fn overview_changes(&mut self, overview: &LiveOverview) -> Result<String> {
        let parts = self.overview(overview).await?;
        let html = match &self.sent {
            Some(sent) => parts.changes(sent),
            None => parts.html(),
        };
        self.sent = Some(parts);
        Ok(html)
    }

    async fn overview(&self, overview: &LiveOverview) -> Result<OverviewParts> {
        let LiveOverview { figures, series, usages, .. } = overview;
        let now = (figures, series, usages.as_deref().unwrap_or_default());
        overview::parts(&self.app, &self.visit, self.project, now).await
    }

    async fn job_part(&self, job: &Job) -> Result<String> {
        let (app, visit, id) = (&self.app, &self.visit, job.id.to_string());
        Ok(match job.kind {
            JobKind::Replay => replay::part(app, visit, self.project, &id).await?.1.html(),
            _ => job::part(app, visit, self.project, &id).await?.html(),
        })
    }
}
