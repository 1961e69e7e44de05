//! A text tried against the safety layer.

use axum::extract::State;
use axum::response::Response;
use dashboard::{FindingMark, SafetyPage, Section, Verdict};
use domain::conversation::{Body, Message};
use gateway::{Direction, SafetyTrial, SafetyVerdict};

use crate::app::App;
use crate::console::failure::{Result, show_fault};
use crate::console::visit::{Form, Visit};
use crate::console::{page, page_as};

/// The form.
pub(super) async fn show(visit: Visit) -> Result<Response> {
    let project = visit.project()?;
    Ok(page(&SafetyPage {
        frame: visit.frame(Section::Safety, "Safety", project),
        text: String::new(),
        verdict: None,
        may_try: visit.member().role.may_try_settings(),
    }))
}

/// Judges a text, and records nothing.
pub(super) async fn judge(State(app): State<App>, visit: Visit, form: Form) -> Result<Response> {
    let project = visit.project_of_form(&form)?;
    let text = form.text_area("text");
    let trial = SafetyTrial {
        messages: vec![Message::user(text.clone())],
        tools: Vec::new(),
        direction: Direction::Input,
        settings: None,
    };
    let judged = app.gateway.try_safety(visit.member(), project, trial).await;
    let mut shown = SafetyPage {
        frame: visit.frame(Section::Safety, "Safety", Some(project)),
        verdict: None,
        may_try: visit.member().role.may_try_settings(),
        text,
    };
    match judged {
        Ok(verdict) => {
            shown.verdict = Some(view(&shown.text, verdict));
            Ok(page(&shown))
        }
        Err(error) => {
            let status = show_fault(&mut shown.frame, error.into());
            Ok(page_as(status, &shown))
        }
    }
}

fn view(text: &str, verdict: SafetyVerdict) -> Verdict {
    let named = |category: &str, kind: &str| format!("{category}: {kind}");
    let found = verdict
        .findings
        .iter()
        .map(|found| (found.start, found.end, named(found.category.as_str(), &found.kind)));
    let found: Vec<_> = found.collect();
    let words = verdict.findings.iter().zip(&found).map(|(finding, (start, end, name))| {
        format!("{name}, characters {start} to {end}, score {:.2}", finding.score)
    });
    let redacted = verdict.redacted.first().and_then(|message| match &message.body {
        Body::Text(redacted) if redacted != text => Some(redacted.clone()),
        _ => None,
    });
    Verdict {
        outcome: match (&verdict.reason, verdict.review) {
            (Some(_), _) => "is blocked",
            (None, true) => "passes, and is marked for review",
            (None, false) => "passes",
        },
        risk_score: format!("{:.2}", verdict.risk_score),
        marks: FindingMark::split(text, &found),
        findings: words.collect(),
        redacted,
        reason: verdict.reason,
    }
}
