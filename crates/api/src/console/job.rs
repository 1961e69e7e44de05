//! A job and its outcome.

use std::fmt::Display;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use dashboard::{
    BacktestView, Bytes, CauseRow, Change, Count, ExportView, ExportedSteps, Frame, JobPage,
    JobPart, Money, Percent, RefusalRow, Section, StepLink, Texts, TierMoveRow, Tile,
};
use domain::ids::{ProjectId, StepId};
use domain::job::JobKind;
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
    let id = path.text("job_id")?;
    let (job, _) = app.gateway.job_for_member(visit.member(), project, id).await?;
    let frame = visit.frame(Section::Jobs, visit.t.job.title, Some(project));
    if job.kind == JobKind::Replay {
        let replay = frame.href(&format!("/replays/{}", job.id));
        return Ok(Redirect::to(&replay).into_response());
    }
    let part = part(&app, &visit, project, id).await?;
    Ok(page(&JobPage { frame, part }))
}

/// The part of the page that changes while the job runs: any but a replay.
pub(super) async fn part(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    id: &str,
) -> Result<JobPart> {
    let (gateway, member) = (&app.gateway, visit.member());
    let (job, until) = gateway.job_for_member(member, project, id).await?;
    let frame = visit.frame(Section::Jobs, "", Some(project));
    let mut part = JobPart {
        t: visit.t,
        job: jobs::row(&frame, &job, gateway.now()),
        is_over: job.state.is_over(),
        until,
        window: None,
        backtest: None,
        export: None,
    };
    match job.kind {
        JobKind::Replay | JobKind::Insights | JobKind::Retention => {}
        JobKind::Backtest => {
            let job = gateway.backtest_job(member, project, id).await?;
            part.window = Some((job.window.from, job.window.to));
            part.backtest = job.report.map(|report| report_view(&frame, report));
        }
        JobKind::Export if member.role.is_admin() => {
            let job = gateway.export_job(member, project, id).await?;
            part.export = Some(export_view(visit.t, project, &job));
        }
        JobKind::Export => part.export = Some(hidden_export()),
    }
    Ok(part)
}

fn export_view(t: &Texts, project: ProjectId, job: &ExportJob) -> ExportView {
    let selection = &job.selection;
    let what = ExportedSteps {
        format: selection.format.as_str(),
        from: selection.since,
        to: selection.until,
        has_contents: selection.content,
    };
    let mut notes = Vec::new();
    if let Some(file) = job.file {
        notes.extend(counted([
            (file.content_errors, t.job.content_errors),
            (file.step_errors, t.job.step_errors),
        ]));
    }
    let download = || format!("/api/v1/projects/{project}/exports/{}/download", job.id);
    ExportView {
        what: Some(what),
        file: job.file.map(|file| {
            (Count::from(file.steps), Bytes(usize::try_from(file.bytes).unwrap_or(usize::MAX)))
        }),
        download: job.file.map(|_| download()),
        notes,
    }
}

/// An export as those see it who may not have its file.
fn hidden_export() -> ExportView {
    ExportView { what: None, file: None, download: None, notes: Vec::new() }
}

fn report_view(frame: &Frame, report: BacktestReport) -> BacktestView {
    let (t, judged) = (frame.t, report.steps.judged);
    let causes = |causes: &[ByCause]| causes.iter().map(|one| cause(frame, one, judged)).collect();
    BacktestView {
        tiles: tiles(t, &report),
        notes: notes(t, &report),
        blocked: causes(&report.newly_blocked),
        passed: causes(&report.newly_passed),
        tiers: report
            .tiers
            .iter()
            .map(|cell| TierMoveRow {
                tiers: (cell.from.as_str(), cell.to.as_str()),
                steps: Count::from(cell.steps),
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
        steps: Count::from(cause.steps),
        share: share(cause.steps, judged),
        first: first(frame, &cause.step_ids),
    }
}

fn refusal(frame: &Frame, (limit, refused): (Limit, Refused)) -> RefusalRow {
    RefusalRow {
        limit: limit.as_str(),
        steps: Count::from(refused.steps),
        cost: Money(refused.cost),
        first: first(frame, &refused.step_ids),
    }
}

fn tiles(t: &Texts, report: &BacktestReport) -> Vec<Tile> {
    let t = &t.job;
    let judged = report.steps.judged;
    let sum = |causes: &[ByCause]| causes.iter().map(|cause| cause.steps).sum::<u64>();
    let moved = report.tiers.iter().filter(|cell| cell.from != cell.to);
    let moved = moved.map(|cell| cell.steps).sum();
    let refused = report.refused.values().map(|refused| refused.steps).sum();
    let costs = &report.costs;
    let tile = |label, value: String, note: String| Tile { label, value, change: None, note };
    let part = |label, number: u64| {
        tile(label, Count::from(number).to_string(), t.of_requests(share(number, judged)))
    };
    vec![
        tile(t.judged, Count::from(judged).to_string(), t.of_steps(Count::from(report.steps.read))),
        part(t.newly_blocked, sum(&report.newly_blocked)),
        part(t.newly_passed, sum(&report.newly_passed)),
        part(t.moved_to_tier, moved),
        part(t.refused, refused),
        Tile {
            label: t.cost,
            value: Money(costs.draft).to_string(),
            change: Change::of(costs.recorded.dollars(), costs.draft.dollars()),
            note: t.recorded(Money(costs.recorded)),
        },
        tile(t.savings, Money(costs.savings).to_string(), t.about_savings.to_owned()),
    ]
}

/// A sentence with a value.
type Sentence = fn(&dyn Display) -> String;

/// The sentences of numbers that are not 0.
fn counted<const N: usize>(sentences: [(u64, Sentence); N]) -> impl Iterator<Item = String> {
    let counted = sentences.into_iter().filter(|(number, _)| *number > 0);
    counted.map(|(number, sentence)| sentence(&Count::from(number)))
}

/// The limits of the report, in sentences.
fn notes(t: &Texts, report: &BacktestReport) -> Vec<String> {
    let t = &t.job;
    let StepCounts { without_content, unreadable, truncated, .. } = report.steps;
    let mut notes: Vec<String> = counted([
        (without_content, t.without_content),
        (unreadable, t.unreadable),
        (report.costs.unpriced_steps, t.unpriced),
        (report.refusal_counts.already, t.refused_already),
        (report.refusal_counts.no_longer, t.refused_no_longer),
    ])
    .collect();
    let money: [(Usd, Sentence); 3] = [
        (report.costs.newly_blocked, t.spent_on_blocked),
        (report.costs.newly_passed, t.spent_on_passed),
        (report.costs.refused, t.spared_by_limits),
    ];
    let money = money.into_iter().filter(|(amount, _)| *amount != Usd::ZERO);
    notes.extend(money.map(|(amount, sentence)| sentence(&Money(amount))));
    if truncated {
        notes.push(t.truncated.to_owned());
    }
    if !report.ignored_settings.is_empty() {
        let sections = report.ignored_settings.join(", ");
        notes.push(t.without_effect(sections));
    }
    notes
}
