//! Findings that wait for a person, and their verdicts.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use dashboard::{Count, FindingRow, Frame, JudgedRow, ReviewItem, ReviewsPage, Section, Texts};
use domain::ids::{ProjectId, StepId};
use domain::review::Verdict;
use domain::settings::Settings;
use domain::step::Step;
use gateway::{Error, Judged, ListedVerdict, MOST_REVIEWS, VerdictNote};

use crate::app::App;
use crate::console::failure::Result;
use crate::console::refusal::show_refusal;
use crate::console::trace::step_href;
use crate::console::visit::{Form, Visit, done};
use crate::console::{csv, page, page_as};
use crate::evidence::marked_texts::Found;
use crate::evidence::reviews::{
    ReviewTexts, ShownReview, UNJUDGED, USUAL_REVIEWS, read_before, read_expected, read_verdict,
    shown_review,
};
use crate::http::extract::Segments;

/// Counting the queue ends above this.
const MOST_COUNTED: i64 = 1_000;
/// The verdicts that are shown.
const MOST_JUDGED: i64 = 20;
/// The findings of a step that are shown.
const MOST_FINDINGS: usize = 10;
/// The steps of a file.
const MOST_LINES: usize = 1_000;

/// The page.
pub(super) async fn list(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    Ok(page(&reviews(&app, &visit, project).await?))
}

async fn reviews(app: &App, visit: &Visit, project: ProjectId) -> Result<ReviewsPage> {
    let (gateway, member) = (&app.gateway, visit.member());
    let before = read_before(visit.get("before"))?;
    let queue = gateway.review_queue(member, project, before, USUAL_REVIEWS, shown_review).await?;
    let waiting = gateway.count_reviews(member, project, MOST_COUNTED).await?;
    let judged = gateway.list_verdicts(member, project, MOST_JUDGED).await?;
    let settings = gateway.project(member, project)?.project.settings;
    let safety = Settings::parse(&settings).map_err(Error::Invalid)?.safety;
    let frame = visit.frame(Section::Safety, visit.t.reviews.title, Some(project));
    let next = queue.next.map(|step| frame.href(&format!("/safety/reviews?before={step}")));
    Ok(ReviewsPage {
        waiting: (Count(waiting.min(MOST_COUNTED)), waiting > MOST_COUNTED),
        threshold: format!("{:.2}", safety.review_threshold),
        items: queue.items.into_iter().map(|shown| item(&frame, shown)).collect(),
        is_first: before.is_none(),
        next,
        judged: judged.into_iter().map(|listed| judged_row(&frame, listed)).collect(),
        may_judge: member.role.may_judge_findings(),
        frame,
    })
}

fn finding_row(t: &Texts, found: &Found) -> FindingRow {
    let t = &t.reviews;
    let place = match (&found.role, found.field.as_deref()) {
        _ if found.is_in_output() => t.in_output.to_owned(),
        (Some(role), None | Some("content")) => t.in_message(role),
        (Some(role), Some(field)) => t.in_field_of_message(field, role),
        (None, Some(field)) => t.in_field(field),
        (None, None) => String::new(),
    };
    FindingRow { name: found.name(), score: format!("{:.2}", found.score), place }
}

/// The page of a step.
fn href(frame: &Frame, step: &Step) -> String {
    step_href(frame, &step.trace, &step.id)
}

/// The address that a verdict on a step is sent to.
fn judge_href(frame: &Frame, step: StepId) -> String {
    frame.href(&format!("/safety/reviews/{step}"))
}

fn item(frame: &Frame, shown: ShownReview) -> ReviewItem {
    let t = frame.t;
    let ShownReview { step, first, findings, texts } = shown;
    let found = Found::read(&first.into());
    let (texts, without_text) = match texts {
        ReviewTexts::Shown(shown) => {
            let elsewhere = i64::try_from(shown.findings_elsewhere).unwrap_or(i64::MAX);
            (shown.texts, (elsewhere > 0).then(|| t.reviews.elsewhere(elsewhere)))
        }
        ReviewTexts::NotStored => (Vec::new(), Some(t.reviews.not_stored.to_owned())),
        ReviewTexts::TooLarge => (Vec::new(), Some(t.reviews.too_large.to_owned())),
        ReviewTexts::Damaged => (Vec::new(), Some(t.reviews.damaged.to_owned())),
    };
    let model = step.call.as_ref().map(|call| call.model.clone());
    ReviewItem {
        step: step.id.0,
        href: href(frame, &step),
        kind: step.kind.as_str(),
        label: model.unwrap_or_else(|| step.api_endpoint.as_str().to_owned()),
        at: step.finished_at,
        risk_score: format!("{:.2}", step.security.risk_score),
        more: findings.saturating_sub(MOST_FINDINGS),
        findings: found.iter().take(MOST_FINDINGS).map(|found| finding_row(t, found)).collect(),
        texts,
        without_text,
        judge: judge_href(frame, step.id),
        expects: UNJUDGED,
    }
}

fn judged_row(frame: &Frame, listed: ListedVerdict) -> JudgedRow {
    let ListedVerdict { review, judge, has_step } = listed;
    let name = |found: &domain::review::JudgedFinding| {
        format!("{}: {} ({:.2})", found.category.as_str(), found.kind, found.score)
    };
    let findings = review.findings.iter().take(MOST_FINDINGS).map(name);
    JudgedRow {
        step: review.step.0,
        href: has_step.then(|| frame.href(&format!("/steps/{}", review.step))),
        judge,
        is_confirmed: review.verdict == Verdict::Confirmed,
        findings: findings.collect::<Vec<_>>().join(", "),
        note: review.note,
        at: review.at,
        judge_again: has_step.then(|| judge_href(frame, review.step)),
        expects: review.at.to_string(),
    }
}

/// Judges the findings of a step.
pub(super) async fn judge(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
    form: Form,
) -> Result<Response> {
    let project = visit.shown_project()?;
    let step = path.step()?;
    let verdict = read_verdict(form.get("verdict").unwrap_or_default())?;
    let note = form.get("note").map(|note| Some(note.to_owned()));
    let note = note.map_or(VerdictNote::Kept, VerdictNote::Replaced);
    let expected = form.get("expects").map(read_expected).transpose()?;
    let member = visit.member();
    let judged = app.gateway.judge_findings(member, project, step, verdict, note, expected).await;
    match judged {
        Ok(Judged::Refused(_)) => {
            let mut shown = reviews(&app, &visit, project).await?;
            shown.frame.fault = Some(visit.t.reviews.judged_meanwhile(step));
            Ok(page_as(StatusCode::CONFLICT, &shown))
        }
        Ok(Judged::Stored(_)) => Ok(done("/safety/reviews", project, "finding_judged")),
        Err(error @ Error::Invalid(_)) => {
            let mut shown = reviews(&app, &visit, project).await?;
            let form = (step.to_string(), &form);
            let status = show_refusal(&mut shown.frame, error.into(), form, &[("note", "note")]);
            Ok(page_as(status, &shown))
        }
        Err(error) => Err(error.into()),
    }
}

/// The queue as a file: one line a step, without its texts.
pub(super) async fn file(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let (mut lines, mut before) = (Vec::new(), None);
    while lines.len() < MOST_LINES {
        let page = app
            .gateway
            .list_for_review(visit.member(), project, before, MOST_REVIEWS, line)
            .await?;
        lines.extend(page.items);
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let head = ["step", "trace", "ended", "type", "endpoint", "model", "risk_score", "findings"];
    Ok(csv::file("reviews", &head, lines.into_iter()))
}

fn line(step: &Step) -> Vec<String> {
    let found = Found::all(step).into_iter().take(MOST_FINDINGS);
    let found = found.map(|found| format!("{} {:.2}", found.name(), found.score));
    vec![
        step.id.to_string(),
        step.trace.to_string(),
        step.finished_at.to_string(),
        step.kind.to_string(),
        step.api_endpoint.as_str().to_owned(),
        step.call.as_ref().map(|call| call.model.clone()).unwrap_or_default(),
        format!("{:.2}", step.security.risk_score),
        found.collect::<Vec<_>>().join("; "),
    ]
}

/// Leads to the page of a step.
pub(super) async fn find_step(
    State(app): State<App>,
    visit: Visit,
    path: Segments,
) -> Result<Response> {
    let project = visit.shown_project()?;
    let id: StepId = path.step()?;
    let step = app.gateway.step_for_member(visit.member(), project, id).await?;
    let frame = visit.frame(Section::Traces, "", Some(project));
    Ok(Redirect::to(&href(&frame, &step)).into_response())
}
