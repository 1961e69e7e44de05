//! Safety settings, tried out: a text is judged as it would be. Nothing is called, spent or recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use checks::{Policy, Redactor, SlowPattern};
use domain::conversation::{Message, Prompt};
use domain::ids::ProjectId;
use domain::settings::{self, Settings};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::control::settings::{DEEPEST, is_shallow, read_settings};
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::pipeline::screen::{PiiRule, Replaces, redact};
use crate::safety::inspection::{try_inspect, try_output};
use crate::safety::location::{Located, locate};
use crate::safety::nonce::nonce;
use crate::safety::output_check;
use crate::safety::prompt_strings::judged_length;
use crate::state::member::Member;

/// Longer texts are not tried, in bytes.
const LARGEST_TRIAL: usize = 64 * 1024;
/// The longest time of a trial, with its wait for others.
const TRIAL_TIME: Duration = Duration::from_secs(2);
/// Trying the patterns of a project before they are saved takes a second or two: one project at a
/// time.
static TRYING: Semaphore = Semaphore::const_new(1);
/// The time that a trial of patterns to be saved waits for the others.
const TRYING_WAIT: Duration = Duration::from_secs(10);

/// Which way a text goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// To a model.
    #[default]
    Input,
    /// From a model.
    Output,
}

/// The texts to judge, and the settings to judge them by.
#[derive(Debug)]
pub struct SafetyTrial {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The tools that are offered with it, as the application defines them.
    pub tools: Vec<Value>,
    /// The direction of the texts.
    pub direction: Direction,
    /// A section of settings that is not saved, merged over the project's `settings.safety`.
    pub settings: Option<Map<String, Value>>,
}

/// The verdict.
#[derive(Debug)]
pub struct SafetyVerdict {
    /// The reason for a refusal; `None` if there is none.
    pub reason: Option<String>,
    /// 0 to 1.
    pub risk_score: f64,
    /// Whether a person should look at it.
    pub review: bool,
    /// Everything that was found.
    pub findings: Vec<Located>,
    /// The index of the finding that is the cause of the refusal.
    pub cause: Option<usize>,
    /// The messages as a provider would get them from chat completions, or a caller from a model.
    pub redacted: Vec<Message>,
    /// The patterns that were given up.
    pub slow_rules: Vec<SlowRule>,
}

/// A pattern that was not searched for to the end; it counts as no match.
#[derive(Debug)]
pub struct SlowRule {
    /// The list of `settings.safety` that it is in.
    pub list: &'static str,
    /// Its index in that list.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Why it was given up.
    pub reason: &'static str,
}

/// Signals to a trial, when it is dropped, that its caller has left.
struct Caller(Arc<AtomicBool>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Gateway {
    /// Returns the verdict that a project's safety would give: within two seconds, and no longer
    /// than the caller waits.
    pub async fn try_safety(
        &self,
        member: &Member,
        id: ProjectId,
        trial: SafetyTrial,
    ) -> Result<SafetyVerdict> {
        let project = self.visible_project(member, id)?;
        if !member.role.may_try_settings() {
            return Err(Error::Forbidden);
        }
        let mut prompt = Prompt { messages: trial.messages, ..Prompt::default() };
        if !trial.tools.is_empty() {
            prompt.params.insert("tools".to_owned(), trial.tools.into());
        }
        if judged_length(&prompt) > LARGEST_TRIAL {
            return Err(Error::invalid(format!(
                "The text is too long to be tried (maximum is {LARGEST_TRIAL} bytes)"
            )));
        }
        let deadline = Instant::now() + TRIAL_TIME;
        let place = timeout_at(deadline, self.trials.place(id)).await;
        let place = match place {
            Ok(place) => place.map_err(|error| Error::Internal(error.to_string()))?,
            Err(_) => return Err(Error::RateLimited { retry_after: 1 }),
        };
        let caller = Caller(Arc::default());
        let has_left = caller.0.clone();
        let judged = tokio::task::spawn_blocking(move || {
            let _place = place;
            let stop = || has_left.load(Ordering::Relaxed) || Instant::now() >= deadline;
            match trial.settings {
                None => judge_by(&project.policy, prompt, trial.direction, &stop),
                Some(section) => {
                    let policy = unsaved(&project.project.settings, section, &stop)?;
                    judge_by(&policy, prompt, trial.direction, &stop)
                }
            }
        });
        judged.await.map_err(|error| Error::Internal(error.to_string()))?
    }
}

/// The faults in the cost of patterns that a patch of settings adds. Its other faults are found
/// elsewhere.
pub(crate) async fn check_new_patterns(
    saved: &Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<()> {
    if !patch.contains_key("safety") || !patch.values().all(|value| is_shallow(value, DEEPEST)) {
        return Ok(());
    }
    let before = read_settings(saved).map(|read| read.safety).unwrap_or_default();
    let mut settings = saved.clone();
    settings::merge(&mut settings, patch.clone());
    let Ok(Settings { safety, .. }) = read_settings(&settings) else { return Ok(()) };
    if checks::wrong_kinds(&safety).is_some() {
        return Ok(());
    }
    let Ok(place) = timeout_at(Instant::now() + TRYING_WAIT, TRYING.acquire()).await else {
        return Err(Error::RateLimited { retry_after: 1 });
    };
    // The permit is held until the work is done, which ends soon after the caller has left. An
    // error would mean that the semaphore is closed, and nothing closes it.
    let place = place.ok();
    let caller = Caller(Arc::default());
    let has_left = caller.0.clone();
    let tried = tokio::task::spawn_blocking(move || {
        let _place = place;
        checks::slow_to_save(&safety, &before, &|| has_left.load(Ordering::Relaxed))
    })
    .await;
    let faults = tried.map_err(|error| Error::Internal(error.to_string()))?;
    if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
}

/// The policy that a project would have with this section of its settings.
fn unsaved(
    saved: &Map<String, Value>,
    section: Map<String, Value>,
    stop: &dyn Fn() -> bool,
) -> Result<Policy> {
    let mut settings = saved.clone();
    let patch = [("safety".to_owned(), Value::Object(section))];
    settings::merge(&mut settings, patch.into_iter().collect());
    let read = read_settings(&settings)?;
    match checks::wrong_kinds(&read.safety) {
        Some(fault) => Err(Error::invalid(fault)),
        None => Policy::compile_until(&read.safety, stop).map_err(Error::Invalid),
    }
}

fn judge_by(
    policy: &Policy,
    mut prompt: Prompt,
    direction: Direction,
    stop: &dyn Fn() -> bool,
) -> Result<SafetyVerdict> {
    let safety = policy.safety();
    let (report, redactor) = match direction {
        Direction::Input => (try_inspect(policy, &prompt, stop), Redactor::new(nonce()?)),
        Direction::Output => (try_output(policy, &prompt, stop), Redactor::of_answer(nonce()?)),
    };
    let (blocked, replaced) = match direction {
        Direction::Input => {
            let blocked = report.block.as_ref();
            let blocked = blocked.map(|block| (block.finding, block.reason.clone()));
            (blocked, Replaces::of(safety, PiiRule::Redact).these(&report))
        }
        Direction::Output => {
            (output_check::refused(policy, &report), output_check::redacted(policy, &report))
        }
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
        slow_rules: report.slow.iter().map(|slow| slow_rule(policy, slow)).collect(),
    })
}

fn slow_rule(policy: &Policy, slow: &SlowPattern) -> SlowRule {
    let reason = if slow.stopped {
        "not finished when the two seconds of a trial were over"
    } else {
        "took more than 4 µs for a byte of the text"
    };
    let name = policy.name_of(slow).to_owned();
    SlowRule { list: slow.list.as_str(), index: slow.index, name, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_ends_when_its_caller_leaves() {
        let rule = domain::safety::PolicyRule {
            name: "slow".to_owned(),
            pattern: "(a{1,50}){1,50}b".to_owned(),
            action: domain::safety::Action::Block,
            weight: 1.0,
        };
        let safety = domain::safety::Safety { rules: vec![rule; 3], ..Default::default() };
        let policy = Policy::compile(&safety).unwrap();
        let caller = Caller(Arc::default());
        let has_left = caller.0.clone();
        let stop = || has_left.load(Ordering::Relaxed);
        let body = domain::conversation::Body::Text("aab".to_owned());
        let messages =
            vec![Message { role: domain::conversation::Role::User, body, extra: Map::new() }];
        let prompt = || Prompt { messages: messages.clone(), ..Prompt::default() };
        let found = |stop| judge_by(&policy, prompt(), Direction::Input, stop).unwrap();
        assert!(found(&stop).reason.is_some());
        drop(caller);
        let verdict = found(&stop);
        assert!(verdict.reason.is_none() && verdict.slow_rules.len() == 3);
    }
}
