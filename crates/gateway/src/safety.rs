//! Safety settings, tried out: a text is judged as it would be. Nothing is called, spent or recorded.

use std::sync::Arc;

use checks::{Policy, Redactor};
use domain::conversation::{Message, Prompt};
use domain::ids::ProjectId;
use domain::settings;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::Gateway;
use crate::accounts::Member;
use crate::error::{Error, Result};
use crate::flow::{Located, PiiRule, Replaces, inspect, inspect_output, locate, redact};
use crate::projects::read_settings;
use crate::registry::ProjectState;
use crate::{nonce, output};

/// To compile a project's patterns may take as long as many requests: one at a time.
static COMPILING: Semaphore = Semaphore::const_new(1);

/// Which way a text goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// To a model.
    #[default]
    Input,
    /// From a model.
    Output,
}

/// What is to be judged, and by what.
#[derive(Debug)]
pub struct SafetyAsk {
    /// What is said.
    pub messages: Vec<Message>,
    /// Which way it goes.
    pub direction: Direction,
    /// A section of settings that is not saved, merged over the project's `settings.safety`.
    pub settings: Option<Map<String, Value>>,
}

/// The verdict.
#[derive(Debug)]
pub struct SafetyVerdict {
    /// Why it would not go on; `None` where it would.
    pub reason: Option<String>,
    /// 0 to 1.
    pub risk_score: f64,
    /// Whether a person should look at it.
    pub review: bool,
    /// Everything that was found.
    pub findings: Vec<Located>,
    /// The index of the finding for whose sake it would not go on.
    pub cause: Option<usize>,
    /// The messages as a provider would get them from chat completions, or a caller from a model.
    pub redacted: Vec<Message>,
}

impl Gateway {
    /// Says what a project's safety would do.
    pub async fn try_safety(
        &self,
        member: &Member,
        id: ProjectId,
        ask: SafetyAsk,
    ) -> Result<SafetyVerdict> {
        let project = self.visible_project(member, id)?;
        let permit = match ask.settings {
            Some(_) => Some(COMPILING.acquire().await),
            None => None,
        };
        let judged = tokio::task::spawn_blocking(move || judge(&project, ask));
        let verdict = judged.await.map_err(|error| Error::Internal(error.to_string()))?;
        drop(permit);
        verdict
    }
}

fn judge(project: &Arc<ProjectState>, ask: SafetyAsk) -> Result<SafetyVerdict> {
    let prompt = Prompt { messages: ask.messages, ..Prompt::default() };
    match ask.settings {
        None => judge_by(&project.policy, prompt, ask.direction),
        Some(section) => {
            let policy = unsaved(&project.project.settings, section)?;
            judge_by(&policy, prompt, ask.direction)
        }
    }
}

/// The policy that a project would have with this section of its settings.
fn unsaved(saved: &Map<String, Value>, section: Map<String, Value>) -> Result<Policy> {
    let mut settings = saved.clone();
    let patch = [("safety".to_owned(), Value::Object(section))];
    settings::merge(&mut settings, patch.into_iter().collect());
    let read = read_settings(&settings)?;
    match checks::wrong_kinds(&read.safety) {
        Some(fault) => Err(Error::invalid(fault)),
        None => Policy::compile(&read.safety).map_err(Error::Invalid),
    }
}

fn judge_by(policy: &Policy, mut prompt: Prompt, direction: Direction) -> Result<SafetyVerdict> {
    let safety = policy.safety();
    let (report, redactor) = match direction {
        Direction::Input => (inspect(policy, &prompt), Redactor::new(nonce()?)),
        Direction::Output => (inspect_output(policy, &prompt), Redactor::of_answer(nonce()?)),
    };
    let (blocked, replaced) = match direction {
        Direction::Input => {
            let blocked = report.block.as_ref();
            let blocked = blocked.map(|block| (block.finding, block.reason.clone()));
            (blocked, Replaces::of(safety, PiiRule::Redact).these(&report))
        }
        Direction::Output => (output::refused(policy, &report), output::redacted(policy, &report)),
    };
    let findings = locate(&prompt, &report);
    if !replaced.is_empty() {
        redact(&mut prompt, &replaced, redactor);
    }
    let (cause, reason) = blocked.map_or((None, None), |(cause, reason)| (cause, Some(reason)));
    Ok(SafetyVerdict {
        reason,
        risk_score: report.risk_score,
        review: report.review,
        findings,
        cause,
        redacted: prompt.messages,
    })
}
