//! A text tried against the safety layer, saved or with a draft, and drafts tried on what is recorded.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use dashboard::{
    AdviceRow, Choice, FindingMark, Frame, RuleRow, SafetyDraft, SafetyPage, Section, Texts,
    Verdict,
};
use domain::conversation::{Body, Message};
use domain::ids::ProjectId;
use domain::safety::Action;
use domain::settings::Settings;
use domain::time::HOUR;
use form_urlencoded::byte_serialize;
use gateway::{BacktestRequest, Direction, Error, SafetyTrial, SafetyVerdict};
use serde_json::{Map, Value};

use crate::app::App;
use crate::console::failure::{Result, show_fault};
use crate::console::safety_draft;
use crate::console::visit::{Form, Visit};
use crate::console::{page, page_as};

/// The windows of a backtest, in hours.
const WINDOWS: [&str; 3] = ["24", "168", "720"];
/// The window that is offered first.
const USUAL_WINDOW: &str = "168";

/// The page. The query may name a rule that a draft begins with.
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response> {
    let project = visit.shown_project()?;
    let mut shown = safety(&app, &visit, project).await?;
    if let Some(name) = visit.get("rule") {
        shown.draft = safety_draft::from_rule(&read(&saved(&app, &visit, project)?)?, name);
    }
    Ok(page(&shown))
}

/// The settings of a project as they are saved.
fn saved(app: &App, visit: &Visit, project: ProjectId) -> Result<Map<String, Value>> {
    Ok(app.gateway.project(visit.member(), project)?.project.settings)
}

fn read(saved: &Map<String, Value>) -> Result<Settings> {
    Ok(Settings::parse(saved).map_err(Error::Invalid)?)
}

async fn safety(app: &App, visit: &Visit, project: ProjectId) -> Result<SafetyPage> {
    let member = visit.member();
    let settings = read(&saved(app, visit, project)?)?;
    let advice = app.gateway.review_advice(member, project).await?;
    let frame = visit.frame(Section::Safety, visit.t.safety.title, Some(project));
    let is_admin = member.role.is_admin();
    let advice = advice.into_iter().map(|judged| AdviceRow {
        sentence: judged.to_string(),
        patch: judged.change.filter(|_| is_admin).map(|change| change.patch.to_string()),
    });
    Ok(SafetyPage {
        text: String::new(),
        verdict: None,
        draft: SafetyDraft::default(),
        tried: None,
        windows: windows(frame.t, USUAL_WINDOW),
        rules: rules(&frame, &settings),
        advice: advice.collect(),
        may_try: member.role.may_try_settings(),
        may_backtest: is_admin,
        frame,
    })
}

fn windows(t: &Texts, chosen: &str) -> Vec<Choice> {
    let names = [t.safety.day, t.safety.week, t.safety.month];
    let choice = |(hours, name): (&str, &str)| Choice {
        value: hours.to_owned(),
        label: name.to_owned(),
        is_chosen: hours == chosen,
    };
    WINDOWS.into_iter().zip(names).map(choice).collect()
}

fn rules(frame: &Frame, settings: &Settings) -> Vec<RuleRow> {
    let t = &frame.t.safety;
    let rule = |rule: &domain::safety::PolicyRule| {
        let name: String = byte_serialize(rule.name.as_bytes()).collect();
        RuleRow {
            name: rule.name.clone(),
            pattern: rule.pattern.clone(),
            action: if rule.action == Action::Block { t.blocks } else { t.is_flagged },
            weight: rule.weight.to_string(),
            href: frame.href(&format!("/safety?rule={name}")),
        }
    };
    settings.safety.rules.iter().map(rule).collect()
}

/// Judges a text by the settings, or by a draft, and records nothing.
pub(super) async fn judge(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    let mut shown = safety(&app, &visit, project).await?;
    shown.text = form.text_area("text");
    shown.draft = safety_draft::fields(&form);
    let saved = saved(&app, &visit, project)?;
    let Some(read) = safety_draft::read(visit.t, &mut shown.draft, &saved) else {
        return Ok(refused(&shown));
    };
    let trial = SafetyTrial {
        messages: vec![Message::user(shown.text.clone())],
        tools: Vec::new(),
        direction: Direction::Input,
        settings: read.safety(),
    };
    match app.gateway.try_safety(visit.member(), project, trial).await {
        Ok(verdict) => {
            shown.verdict = Some(view(visit.t, &shown.text, verdict));
            let is_draft = !read.patch.is_empty() && visit.member().role.is_admin();
            shown.tried = is_draft.then(|| Value::Object(read.patch).to_string());
            Ok(page(&shown))
        }
        Err(error) => Ok(show_faults(shown, &read, error)),
    }
}

/// Asks for a backtest of a draft, and leads to its page.
pub(super) async fn backtest(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    let mut draft = safety_draft::fields(&form);
    let saved = saved(&app, &visit, project)?;
    let window = form.get("window").unwrap_or(USUAL_WINDOW);
    let hours = WINDOWS.into_iter().find(|hours| *hours == window);
    let hours: i64 = hours
        .and_then(|hours| hours.parse().ok())
        .ok_or_else(|| Error::invalid(visit.t.safety.no_such_window))?;
    let read = safety_draft::read(visit.t, &mut draft, &saved);
    let refusal = match &read {
        None => None,
        Some(read) => {
            let from = app.gateway.now().minus_micros(hours * HOUR).to_string();
            let request = BacktestRequest { settings: read.patch.clone(), from, to: None };
            match app.gateway.backtest(visit.member(), project, request).await {
                Ok(job) => {
                    let path = format!("/jobs/{}?project={project}", job.id);
                    return Ok(Redirect::to(&path).into_response());
                }
                Err(error @ (Error::Forbidden | Error::NotFound)) => return Err(error.into()),
                Err(error) => Some(error),
            }
        }
    };
    let mut shown = safety(&app, &visit, project).await?;
    (shown.text, shown.draft, shown.windows) =
        (form.text_area("text"), draft, windows(visit.t, window));
    Ok(match (read, refusal) {
        (Some(read), Some(error)) => show_faults(shown, &read, error),
        _ => refused(&shown),
    })
}

/// The page with the faults of its draft.
fn show_faults(mut shown: SafetyPage, read: &safety_draft::ReadDraft, error: Error) -> Response {
    match read.place_faults(shown.frame.t, &mut shown.draft, error) {
        None => refused(&shown),
        Some(error) => {
            let status = show_fault(&mut shown.frame, error.into());
            page_as(status, &shown)
        }
    }
}

/// The page of a draft with a fault at one of its fields.
fn refused(shown: &SafetyPage) -> Response {
    page_as(StatusCode::UNPROCESSABLE_ENTITY, shown)
}

fn view(t: &Texts, text: &str, verdict: SafetyVerdict) -> Verdict {
    let named = |category: &str, kind: &str| format!("{category}: {kind}");
    let found = verdict
        .findings
        .iter()
        .map(|found| (found.start, found.end, named(found.category.as_str(), &found.kind)));
    let found: Vec<_> = found.collect();
    let words = verdict.findings.iter().zip(&found).map(|(finding, (start, end, name))| {
        t.safety.finding(name, start, end, format_args!("{:.2}", finding.score))
    });
    let slow = verdict.slow_rules.iter().map(|slow| t.safety.slow_rule(&slow.name, slow.reason));
    let redacted = verdict.redacted.first().and_then(|message| match &message.body {
        Body::Text(redacted) if redacted != text => Some(redacted.clone()),
        _ => None,
    });
    Verdict {
        outcome: match (&verdict.reason, verdict.review) {
            (Some(_), _) => t.safety.is_blocked,
            (None, true) => t.safety.passes_for_review,
            (None, false) => t.safety.passes,
        },
        risk_score: format!("{:.2}", verdict.risk_score),
        marks: FindingMark::split(text, &found),
        findings: words.collect(),
        slow: slow.collect(),
        redacted,
        reason: verdict.reason,
    }
}
