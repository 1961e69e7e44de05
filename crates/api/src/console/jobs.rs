//! The jobs of a project.

use axum::extract::State;
use axum::response::Response;
use dashboard::{Duration, Frame, JobRow, JobsPage, Pages, Section};
use domain::job::{Job, JobKind};
use domain::time::{Timestamp, millis};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::paging::{List, READ, place, read_place};
use crate::console::visit::{AFTER, Visit};
use crate::console::{csv, page};

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let after = visit.get(AFTER).map(read_place).transpose()?;
    let jobs = app.gateway.list_jobs(visit.member(), project, after, READ).await?;
    let frame = visit.frame(Section::Jobs, visit.t.jobs.title, Some(project));
    let (rows, pages) = rows(&visit, &frame, jobs, app.gateway.now());
    let file = frame.href("/jobs.csv");
    Ok(page(&JobsPage { frame, pages, rows, file }))
}

/// The list as a file.
pub(super) async fn file(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let head = ["job", "kind", "state", "done", "total", "asked_for", "began", "ended", "error"];
    let mut file = csv::ListFile::new(csv::Place::take(&app)?, "jobs", &head);
    let mut after = None;
    loop {
        let jobs = app.gateway.list_jobs(visit.member(), project, after, csv::READ).await?;
        after = jobs.last().map(|job| (job.created_at, job.id));
        if !file.add_read(jobs.iter().map(line), csv::READ) {
            return Ok(file.response(visit.t));
        }
    }
}

fn line(job: &Job) -> Vec<String> {
    vec![
        job.id.to_string(),
        job.kind.as_str().to_owned(),
        job.state.as_str().to_owned(),
        job.progress.done.to_string(),
        job.progress.total.to_string(),
        csv::time(Some(job.created_at)),
        csv::time(job.started_at),
        csv::time(job.finished_at),
        job.error.clone().unwrap_or_default(),
    ]
}

/// The rows of a page of jobs, of which one more may have been read, and the pages beside it.
pub(super) fn rows(
    visit: &Visit,
    frame: &Frame,
    jobs: Vec<Job>,
    now: Timestamp,
) -> (Vec<JobRow>, Pages) {
    let list = List { path: "/jobs", parameter: AFTER };
    let (jobs, pages) = list.page(visit, frame, jobs, |job| place(job.created_at, job.id));
    (jobs.iter().map(|job| row(frame, job, now)).collect(), pages)
}

/// A job as a row.
pub(super) fn row(frame: &Frame, job: &Job, now: Timestamp) -> JobRow {
    let t = &frame.t.jobs;
    let (kind, path) = match job.kind {
        JobKind::Replay => (t.replay, "replays"),
        JobKind::Export => (t.export, "jobs"),
        JobKind::Backtest => (t.backtest, "jobs"),
        JobKind::Insights | JobKind::Retention => (t.background, "jobs"),
    };
    let took = job.started_at.map(|began| {
        Duration(millis(job.finished_at.unwrap_or(now).since(began).max(0))).to_string()
    });
    JobRow {
        id: job.id.to_string(),
        kind,
        href: frame.href(&format!("/{path}/{}", job.id)),
        state: job.state.as_str(),
        progress: (job.progress.done.into(), job.progress.total.into()),
        created: job.created_at,
        took: took.unwrap_or_default(),
        error: job.error.clone(),
    }
}
