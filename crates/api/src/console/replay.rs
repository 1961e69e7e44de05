//! Replays of traces: asked for from the page of a trace, and compared with it.

use std::collections::HashMap;
use std::ops::Range;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use dashboard::{
    Change, ComparedCall, ComparedTrace, Count, Duration, Frame, Money, Pages, Percent,
    RepeatedCall, ReplayPage, ReplayPart, Section, Texts,
};
use domain::ids::{ProjectId, StepId, TraceId};
use gateway::{
    Error, Overrides, ReplayJob, ReplayResult, ReplayedStep, Skip, Spends, TraceSummary,
};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::trace::{beginning, step_href};
use crate::console::visit::{Form, Visit};
use crate::console::{page, trace};
use crate::http::error::Failure;
use crate::http::extract::Segments;

/// The parameter that names the first call of a page.
const CALL: &str = "call";
/// The most bytes of an answer that are shown.
const LONGEST_ANSWER: usize = 4 * 1024;
/// The bytes of all answers of a page, so that it is small whatever they hold.
const ANSWERS_OF_PAGE: usize = 16 * 1024;
/// The most calls that are shown below each other.
const MOST_CALLS: usize = 50;
/// The most answers of a page, with those of the source: with many models it has fewer calls.
const MOST_CELLS: usize = 100;
/// The most bytes of a reason why there is no answer, or of what a call does without; the page of its step, and the
/// API, have all of it.
const LONGEST_NOTE: usize = 256;
/// The bytes of all reasons of a page.
const NOTES_OF_PAGE: usize = 12 * 1024;

/// Asks for a replay, which the chosen key pays for.
pub(super) async fn create(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
    form: Form,
) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    let id = path.text("id")?;
    match asked(&app, &visit, project, id, &form).await {
        Ok(job) => {
            let path = format!("/replays/{}?project={}", job.id, project.0);
            Ok(Redirect::to(&path).into_response())
        }
        Err(failure) => trace::shown(&app, &visit, project, id, Some((&form, failure))).await,
    }
}

async fn asked(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    trace: &str,
    form: &Form,
) -> std::result::Result<ReplayJob, Failure> {
    let no_key = || Failure::new(StatusCode::NOT_FOUND, visit.t.trace.no_such_key);
    let key = form.get("key").and_then(|id| id.parse().ok()).ok_or_else(no_key)?;
    let caller = match app.gateway.gate_member(visit.member(), key, Spends::Yes).await {
        Err(Error::NotFound) => return Err(no_key()),
        gated => gated?,
    };
    if caller.project.id() != project {
        return Err(no_key());
    }
    let models: Vec<String> = form.all("model").map(str::to_owned).collect();
    let max_cost = form.dollars("max_cost", visit.t.trace.highest_no_amount)?;
    let mut overrides = Overrides { max_cost, ..Overrides::default() };
    match models.as_slice() {
        [] => {}
        [one] => overrides.force_model = Some(one.clone()),
        _ => overrides.compare_models = Some(models),
    }
    Ok(app.gateway.replay(&caller, trace, overrides).await?)
}

/// A replay beside its source.
pub(super) async fn show(State(app): State<App>, visit: Visit, path: Segments) -> Result<Response> {
    let project = visit.shown_project()?;
    let id = path.text("job_id")?;
    let (source, part) = part(&app, &visit, project, id).await?;
    let frame = visit.frame(Section::Traces, visit.t.replay.title, Some(project));
    Ok(page(&ReplayPage { frame, id: id.to_owned(), source: source.to_string(), part }))
}

/// The source of a replay, and the part of the page that changes while it runs.
pub(super) async fn part(
    app: &App,
    visit: &Visit,
    project: ProjectId,
    id: &str,
) -> Result<(TraceId, ReplayPart)> {
    let member = visit.member();
    let job = app.gateway.replay_job_for_member(member, project, id).await?;
    let frame = visit.frame(Section::Traces, "", Some(project));
    let shown = shown(job.result.as_ref(), visit.get(CALL))?;
    let answers = app.gateway.replay_answers(member, project, &job, shown.clone()).await?;
    let (traces, calls, pages) = match &job.result {
        Some(result) => {
            let calls = calls(&frame, &job, result, &answers, shown.clone());
            (traces(&frame, &job, result), calls, pages(&frame, id, result, &shown))
        }
        None => (Vec::new(), Vec::new(), Pages::default()),
    };
    let part = ReplayPart {
        t: visit.t,
        state: job.state.as_str(),
        progress: (job.progress.done.into(), job.progress.total.into()),
        is_over: job.state.is_over(),
        error: job.error,
        traces,
        calls,
        pages,
    };
    Ok((job.source, part))
}

/// The number of calls that were repeated.
fn count_of(result: &ReplayResult) -> usize {
    result.replays.iter().map(|replayed| replayed.steps.len()).max().unwrap_or(0)
}

/// The calls of a page, of which an address names the first by its place, from 1 on.
fn shown(result: Option<&ReplayResult>, first: Option<&str>) -> Result<Range<usize>> {
    let Some(result) = result else { return Ok(0..0) };
    let count = count_of(result);
    let begin = match first.map(str::parse::<usize>) {
        None => 0,
        Some(Ok(first)) if (1..=count).contains(&first) => first - 1,
        Some(_) => return Err(Error::NotFound.into()),
    };
    let of_page = (MOST_CELLS / (result.replays.len() + 1)).clamp(1, MOST_CALLS);
    Ok(begin..count.min(begin + of_page))
}

/// The pages beside that of some calls.
fn pages(frame: &Frame, job: &str, result: &ReplayResult, shown: &Range<usize>) -> Pages {
    let path = format!("/replays/{job}");
    let next = (shown.end < count_of(result)).then(|| format!("{path}?{CALL}={}", shown.end + 1));
    Pages {
        first: (shown.start > 0).then(|| frame.href(&path)),
        next: next.map(|next| frame.href(&next)),
        ..Pages::default()
    }
}

fn traces(frame: &Frame, job: &ReplayJob, result: &ReplayResult) -> Vec<ComparedTrace> {
    let t = frame.t;
    let trace = |name: String, id: TraceId, summary: &TraceSummary, changes: [Option<f64>; 4]| {
        let [cost_change, latency_change, total_cost_change, total_latency_change] =
            changes.map(|change| in_words(t, change));
        ComparedTrace {
            name,
            href: frame.href(&format!("/traces/{id}")),
            cost: Money(summary.total_cost),
            cost_change,
            total_cost_change,
            latency: Duration(summary.total_latency_ms),
            latency_change,
            total_latency_change,
            grade: summary.grades.overall.as_str(),
            models: summary.models_used.clone(),
        }
    };
    let source = trace(t.replay.source.to_owned(), job.source, &result.source, [None; 4]);
    let replays = result.replays.iter().map(|replayed| {
        let name = replayed.model.clone().unwrap_or_else(|| t.replay.title.to_owned());
        let totals = result.source.changes_to(&replayed.summary);
        let changes = [
            replayed.cost_change_pct,
            replayed.latency_change_pct,
            totals.cost_pct,
            totals.latency_pct,
        ];
        trace(name, replayed.trace, &replayed.summary, changes)
    });
    std::iter::once(source).chain(replays).collect()
}

/// A change in percent.
fn in_words(t: &Texts, percent: Option<f64>) -> String {
    percent.map(|percent| Change::By(percent / 100.0).in_words(t)).unwrap_or_default()
}

fn calls(
    frame: &Frame,
    job: &ReplayJob,
    result: &ReplayResult,
    answers: &HashMap<StepId, String>,
    shown: Range<usize>,
) -> Vec<ComparedCall> {
    let page_of = |trace: TraceId, step: i64| step_href(frame, &trace, &step);
    let longest = (ANSWERS_OF_PAGE / answers.len().max(1)).min(LONGEST_ANSWER);
    let cells = shown.len() * result.replays.len();
    let longest_note = (NOTES_OF_PAGE / cells.max(1)).min(LONGEST_NOTE);
    let call = |index: usize| {
        let of_replays: Vec<(TraceId, &ReplayedStep)> = result
            .replays
            .iter()
            .filter_map(|replayed| Some((replayed.trace, replayed.steps.get(index)?)))
            .collect();
        let source = of_replays.first()?.1.source;
        let repeated = of_replays.iter().map(|(trace, step)| RepeatedCall {
            model: step.model.clone(),
            href: step.step.map(|step| page_of(*trace, step.0)),
            cost: step.cost.map(Money),
            latency: step.latency_ms.map(Duration),
            similarity: step.similarity.map(|share| Percent(share).to_string()),
            note: note(frame.t, step).map(|note| beginning(&note, longest_note)),
            left_out: (!step.left_out.is_empty())
                .then(|| beginning(&step.left_out.join(", "), longest_note)),
            answer: step
                .step
                .and_then(|step| answers.get(&step))
                .map(|text| beginning(text, longest)),
        });
        Some(ComparedCall {
            step: Count(source),
            href: page_of(job.source, source),
            answer: answers.get(&StepId(source)).map(|text| beginning(text, longest)),
            repeated: repeated.collect(),
        })
    };
    shown.filter_map(call).collect()
}

/// Why there is no answer to compare.
fn note(t: &Texts, step: &ReplayedStep) -> Option<String> {
    let skipped = step.skipped.map(|skip| match skip {
        Skip::MaxCost => t.replay.too_dear,
        Skip::Secure => t.replay.too_public,
        Skip::NotRepeatable => t.replay.not_repeated,
    });
    let blocked = step.blocked.as_ref().map(|reason| t.replay.blocked(reason));
    let failed = step.error.as_ref().map(|error| t.replay.failed(error));
    skipped.map(str::to_owned).or(blocked).or(failed)
}
