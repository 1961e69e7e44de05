//! A job and its outcome.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use dashboard::{
    BacktestView, Bytes, CauseRow, Change, Count, ExportView, Frame, JobPage, Money, Percent,
    RefusalRow, Section, StepLink, TierMoveRow, Tile,
};
use domain::ids::{ProjectId, StepId};
use domain::job::{Job, JobKind};
use domain::money::Usd;
use gateway::{BacktestReport, ByCause, ExportJob, Limit, Refused, StepCounts};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::visit::Visit;
use crate::console::{jobs, page};
use crate::http::extract::Segments;

/// The steps of one cause that a page links to.
const MOST_LINKS: usize = 10;

/// The page.
pub(super) async fn show(State(app): State<App>, visit: Visit, path: Segments) -> Result<Response> {
    let project = visit.shown_project()?;
    let (gateway, member) = (&app.gateway, visit.member());
    let (job, until) = gateway.job_for_member(member, project, path.text("job_id")?).await?;
    let frame = visit.frame(Section::Jobs, "Job", Some(project));
    let id = job.id.to_string();
    let (mut window, mut backtest, mut export) = (None, None, None);
    match job.kind {
        JobKind::Replay => {
            let replay = frame.href(&format!("/replays/{id}"));
            return Ok(Redirect::to(&replay).into_response());
        }
        JobKind::Backtest => {
            let job = gateway.backtest_job(member, project, &id).await?;
            window = Some((job.window.from, job.window.to));
            backtest = job.report.map(|report| report_view(&frame, report));
        }
        JobKind::Export if member.role.is_admin() => {
            export = Some(export_view(project, &gateway.export_job(member, project, &id).await?));
        }
        JobKind::Export => export = Some(hidden_export()),
    }
    Ok(page(&shown(frame, &job, app.gateway.now(), JobOutcome { until, window, backtest, export })))
}

/// The parts of the page that depend on the kind of the job.
struct JobOutcome {
    until: Option<domain::time::Timestamp>,
    window: Option<(domain::time::Timestamp, domain::time::Timestamp)>,
    backtest: Option<BacktestView>,
    export: Option<ExportView>,
}

fn shown(frame: Frame, job: &Job, now: domain::time::Timestamp, outcome: JobOutcome) -> JobPage {
    let JobOutcome { until, window, backtest, export } = outcome;
    JobPage {
        job: jobs::row(&frame, job, now),
        is_over: job.state.is_over(),
        frame,
        until,
        window,
        backtest,
        export,
    }
}

fn count(number: u64) -> Count {
    Count(i64::try_from(number).unwrap_or(i64::MAX))
}

fn export_view(project: ProjectId, job: &ExportJob) -> ExportView {
    let selection = &job.selection;
    let contents = if selection.content { "with contents" } else { "without contents" };
    let mut notes = Vec::new();
    if let Some(file) = job.file {
        let lacks = [
            (file.content_errors, "rows lack a content that is stored."),
            (file.step_errors, "steps cannot be read."),
        ];
        let lacks = lacks.into_iter().filter(|(number, _)| *number > 0);
        notes.extend(lacks.map(|(number, what)| format!("{} {what}", count(number))));
    }
    let download = || format!("/api/v1/projects/{project}/exports/{}/download", job.id);
    ExportView {
        what: format!(
            "{} of the steps that ended from {} to {}, {contents}.",
            selection.format.as_str(),
            selection.since,
            selection.until
        ),
        file: job.file.map(|file| {
            (count(file.steps), Bytes(usize::try_from(file.bytes).unwrap_or(usize::MAX)))
        }),
        download: job.file.map(|_| download()),
        notes,
    }
}

/// An export as those see it who may not have its file.
fn hidden_export() -> ExportView {
    ExportView {
        what: "Admins and owners see what is exported, and download the file.".to_owned(),
        file: None,
        download: None,
        notes: Vec::new(),
    }
}

fn report_view(frame: &Frame, report: BacktestReport) -> BacktestView {
    let judged = report.steps.judged;
    let causes = |causes: &[ByCause]| causes.iter().map(|one| cause(frame, one, judged)).collect();
    BacktestView {
        tiles: tiles(&report),
        notes: notes(&report),
        blocked: causes(&report.newly_blocked),
        passed: causes(&report.newly_passed),
        tiers: report
            .tiers
            .iter()
            .map(|cell| TierMoveRow {
                tiers: (cell.from.as_str(), cell.to.as_str()),
                steps: count(cell.steps),
                cost: (Money(cell.recorded_cost), Money(cell.draft_cost)),
            })
            .collect(),
        refused: report.refused.into_iter().map(|refused| refusal(frame, refused)).collect(),
    }
}

fn share(part: u64, judged: u64) -> Percent {
    Percent(if judged == 0 { 0.0 } else { part as f64 / judged as f64 })
}

fn first(frame: &Frame, steps: &[StepId]) -> Vec<StepLink> {
    let link = |step: &StepId| StepLink { id: step.0, href: frame.href(&format!("/steps/{step}")) };
    steps.iter().take(MOST_LINKS).map(link).collect()
}

fn cause(frame: &Frame, cause: &ByCause, judged: u64) -> CauseRow {
    CauseRow {
        cause: format!("{}: {}", cause.category, cause.kind),
        steps: count(cause.steps),
        share: share(cause.steps, judged),
        first: first(frame, &cause.step_ids),
    }
}

fn refusal(frame: &Frame, (limit, refused): (Limit, Refused)) -> RefusalRow {
    RefusalRow {
        limit: limit.as_str(),
        steps: count(refused.steps),
        cost: Money(refused.cost),
        first: first(frame, &refused.step_ids),
    }
}

fn tiles(report: &BacktestReport) -> Vec<Tile> {
    let judged = report.steps.judged;
    let sum = |causes: &[ByCause]| causes.iter().map(|cause| cause.steps).sum::<u64>();
    let moved = report.tiers.iter().filter(|cell| cell.from != cell.to);
    let moved = moved.map(|cell| cell.steps).sum();
    let refused = report.refused.values().map(|refused| refused.steps).sum();
    let costs = &report.costs;
    let tile = |label, value: String, note: String| Tile { label, value, change: None, note };
    let part = |label, number: u64| {
        tile(label, count(number).to_string(), format!("{} of the requests", share(number, judged)))
    };
    vec![
        tile(
            "Judged requests",
            count(judged).to_string(),
            format!("of {} steps", count(report.steps.read)),
        ),
        part("Newly blocked", sum(&report.newly_blocked)),
        part("Newly passed", sum(&report.newly_passed)),
        part("Moved to another tier", moved),
        part("Refused by limits", refused),
        Tile {
            label: "Cost by the draft",
            value: Money(costs.draft).to_string(),
            change: Change::of(costs.recorded.dollars(), costs.draft.dollars()),
            note: format!("recorded {}", Money(costs.recorded)),
        },
        tile(
            "Savings",
            Money(costs.savings).to_string(),
            "on requests answered by both".to_owned(),
        ),
    ]
}

/// The limits of the report, in sentences.
fn notes(report: &BacktestReport) -> Vec<String> {
    let StepCounts { without_content, unreadable, truncated, .. } = report.steps;
    let counts = [
        (without_content, "requests have no stored content, and were not judged."),
        (unreadable, "requests could not be judged."),
        (report.costs.unpriced_steps, "requests would be answered by a model without a price."),
        (report.refusal_counts.already, "requests would be refused by the limits of now as well."),
        (report.refusal_counts.no_longer, "requests would be refused by the limits of now alone."),
    ];
    let counts = counts.into_iter().filter(|(number, _)| *number > 0);
    let mut notes: Vec<String> =
        counts.map(|(number, what)| format!("{} {what}", count(number))).collect();
    let money = [
        (report.costs.newly_blocked, "was spent on requests that would be blocked"),
        (report.costs.newly_passed, "would be spent on requests that would pass"),
        (report.costs.refused, "would not be spent because of limits"),
    ];
    let money = money.into_iter().filter(|(amount, _)| *amount != Usd::ZERO);
    notes.extend(money.map(|(amount, what)| format!("{} {what}.", Money(amount))));
    if truncated {
        notes.push("The window has more than 1,000,000 steps: the earliest were read.".to_owned());
    }
    if !report.ignored_settings.is_empty() {
        let sections = report.ignored_settings.join(", ");
        notes.push(format!("Sections of the draft without effect on a backtest: {sections}."));
    }
    notes
}
