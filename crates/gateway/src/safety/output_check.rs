//! What a model has said, judged before it leaves and put back into the caller's own words.

use std::borrow::Cow;
use std::collections::BTreeSet;

use checks::{Finding, Placeholders, Policy, Reading, Redactor, Report};
use domain::conversation::Reply;
use domain::safety::{Action, Category};
use domain::step::{FinishReason, Security};
use serde_json::{Map, Value};

use crate::capacity::offload::{Share, offload_always};
use crate::error::Result;
use crate::inference::executions::tool_message;
use crate::pipeline::ended::Ended;
use crate::pipeline::fund::InFlight;
use crate::pipeline::screen::security;
use crate::safety::answer_strings;
use crate::safety::answer_strings::Place;
use crate::state::registry::ProjectState;

/// A string of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) text: Cow<'a, str>,
    /// Whether it is JSON inside a string.
    pub(crate) is_json: bool,
}

impl<'a> Said<'a> {
    /// The text of choice 0.
    pub(crate) fn text(text: &'a str) -> Self {
        Self { text: text.into(), is_json: false }
    }

    fn reading(&self) -> Reading<'_> {
        if self.is_json { Reading::json(&self.text) } else { Reading::Plain((&*self.text).into()) }
    }
}

/// What was found in an answer, for its step, and what follows.
pub(crate) struct Judged {
    pub(crate) security: Security,
    pub(crate) verdict: Verdict,
}

/// What becomes of an answer.
pub(crate) enum Verdict {
    /// It leaves as it is.
    Fine,
    /// These strings take the place of those that were judged; `None` leaves one as it is.
    Redacted(Vec<Option<String>>),
    /// It does not leave: the reason says why.
    Blocked(String),
}

/// Judges all strings of an answer together, by `settings.safety.output`.
pub(crate) async fn judge(
    project: &ProjectState,
    said: &[Said<'_>],
    redactor: &mut Redactor,
) -> Judged {
    let bytes = project.policy.effort(said.iter().map(|said| said.text.len()).sum());
    let share = Share::of_project(project.id());
    offload_always(share, bytes, || judge_all(project, said, redactor)).await
}

fn judge_all(project: &ProjectState, said: &[Said<'_>], redactor: &mut Redactor) -> Judged {
    let policy = &project.policy;
    let read: Vec<Reading<'_>> = said.iter().map(Said::reading).collect();
    let report = policy.inspect_output(&read.iter().map(Reading::text).collect::<Vec<_>>());
    project.note_slow(&report);
    let security = security(&report, &report.findings);
    if let Some((_, reason)) = refused(policy, &report) {
        return Judged { security, verdict: Verdict::Blocked(reason) };
    }
    let redacted = redacted(policy, &report);
    let parts = read.iter().enumerate().map(|(part, read)| {
        let here: Vec<&Finding> =
            redacted.iter().copied().filter(|finding| finding.part == part).collect();
        read.redact(redactor, &here)
    });
    let parts: Vec<Option<String>> = parts.collect();
    let verdict =
        if parts.iter().any(Option::is_some) { Verdict::Redacted(parts) } else { Verdict::Fine };
    Judged { security, verdict }
}

/// The finding for whose sake an answer does not leave, and a sentence that says so. Without a
/// finding there were too many to judge.
pub(crate) fn refused(policy: &Policy, report: &Report) -> Option<(Option<usize>, String)> {
    let blocks = |finding: &Finding| policy.output_action(finding.category) == Action::Block;
    let Some(index) = report.findings.iter().position(blocks) else {
        let block = report.block.as_ref().filter(|block| block.finding.is_none());
        return block.map(|block| (None, block.reason.clone()));
    };
    Some((Some(index), withheld(Some(&report.findings[index]))))
}

/// A sentence that says why an answer does not leave.
pub(crate) fn withheld(finding: Option<&Finding>) -> String {
    let Some(finding) = finding else {
        return "Blocked by output check: the answer contains too much to judge".to_owned();
    };
    let what = match finding.category {
        Category::Secret => "a credential",
        _ => "personal data",
    };
    format!("Blocked by output check: the answer contains {what} ({})", finding.kind)
}

/// What is replaced in an answer before it leaves.
pub(crate) fn redacted<'r>(policy: &Policy, report: &'r Report) -> Vec<&'r Finding> {
    let is_replaced = |finding: &&Finding| policy.output_action(finding.category) == Action::Redact;
    report.findings.iter().filter(is_replaced).collect()
}

/// Judges what is left of an answer that did not come to its end: it must not be read back from its
/// step either.
pub(crate) async fn judge_rest(project: &ProjectState, heard: &mut Ended) {
    let refuses = heard.text.is_empty();
    let rest = if refuses { &heard.refusal } else { &heard.text };
    if rest.is_empty() {
        return;
    }
    let instead = match crate::safety::nonce::nonce() {
        Ok(nonce) => {
            let said = [Said::text(rest)];
            let judged = judge(project, &said, &mut Redactor::of_answer(nonce)).await;
            let Judged { security, verdict } = judged;
            heard.output = security;
            match verdict {
                Verdict::Fine => None,
                Verdict::Redacted(new) => new.into_iter().next().flatten(),
                Verdict::Blocked(_) => Some(String::new()),
            }
        }
        // Nobody knows what is in it.
        Err(_) => Some(String::new()),
    };
    heard.message = None;
    // Of what was judged on its way it is known what has left.
    match instead {
        Some(instead) if heard.instead.is_none() && refuses => heard.refusal = instead,
        instead => heard.instead = heard.instead.take().or(instead),
    }
}

/// Puts back what placeholders stand for.
pub(crate) fn restored(placeholders: &Placeholders, place: &Place, text: &str) -> String {
    if place.is_json() { placeholders.restore_json(text) } else { placeholders.restore(text) }
}

/// Everything that a whole answer says: the text first, what its provider wants back last.
fn said<'a>(text: &'a str, native: Option<&mut Map<String, Value>>) -> Vec<Said<'a>> {
    let mut said = vec![Said::text(text)];
    if let Some(native) = native {
        answer_strings::each(native, |place, text| {
            if !place.is_text() {
                said.push(Said { text: text.clone().into(), is_json: place.is_json() });
            }
        });
        for state in answer_strings::states(native) {
            answer_strings::of_state(state, &mut |text| {
                said.push(Said { text: text.to_owned().into(), is_json: false });
            });
        }
    }
    said
}

/// Puts strings in the place of those that [`said`] has given.
fn replace(reply: &mut Reply, new: Vec<Option<String>>) {
    let mut new = new.into_iter();
    let text = new.next().flatten();
    if let Some(native) = &mut reply.native {
        let mut changed = BTreeSet::new();
        answer_strings::each(native, |place, said| {
            let new = if place.is_text() { None } else { new.next().flatten() };
            if let Some(new) = new {
                *said = new;
                changed.insert(place.choice());
            }
        });
        if let Some(text) = &text {
            answer_strings::set_text(native, text);
            changed.insert(Some(0));
        }
        answer_strings::drop_logprobs(native, &changed);
        answer_strings::drop_state(native);
    }
    if let Some(text) = text {
        reply.text = text;
    }
}

/// Puts back what placeholders stand for, in the text and in the provider's own form.
fn restore(reply: &mut Reply, placeholders: &Placeholders) {
    if placeholders.is_empty() {
        return;
    }
    reply.text = placeholders.restore(&reply.text);
    if let Some(native) = &mut reply.native {
        let mut changed = BTreeSet::new();
        answer_strings::each(native, |place, text| {
            let new = restored(placeholders, place, text);
            if new != *text {
                *text = new;
                changed.insert(place.choice());
            }
        });
        answer_strings::drop_logprobs(native, &changed);
    }
}

impl InFlight {
    /// Judges a whole answer, notes the verdict on its step, and puts placeholders back. Returns
    /// the reason when the answer must not leave.
    pub(crate) async fn present(&mut self, reply: &mut Reply) -> Result<Option<String>> {
        let nonce = crate::safety::nonce::nonce().map_err(|error| self.fault(error))?;
        self.heard.beside = reply.native.as_mut().map_or(0, answer_strings::beside_text);
        let (placeholders, judged) = {
            let screened = self.funded()?.routed().screened();
            let project = &screened.turn().caller.project;
            let said = said(&reply.text, reply.native.as_mut());
            let judged = judge(project, &said, &mut Redactor::of_answer(nonce)).await;
            let restores = project.policy.safety().pii_restore;
            (restores.then(|| screened.placeholders().clone()), judged)
        };
        self.heard.output = judged.security;
        match judged.verdict {
            Verdict::Fine => {}
            Verdict::Redacted(new) => {
                replace(reply, new);
                self.heard.instead = Some(reply.text.clone());
                self.heard.message = tool_message(reply).cloned();
            }
            Verdict::Blocked(reason) => {
                self.heard.instead = Some(String::new());
                self.heard.message = None;
                self.heard.finish = Some(FinishReason::ContentFilter);
                reply.native = None;
                reply.text = String::new();
                reply.finish = Some(FinishReason::ContentFilter);
                return Ok(Some(reason));
            }
        }
        if reply.text.is_empty()
            && let Some(refusal) = reply.native.as_ref().and_then(answer_strings::refusal)
        {
            refusal.clone_into(&mut self.heard.refusal);
        }
        if let Some(placeholders) = placeholders {
            restore(reply, &placeholders);
        }
        Ok(None)
    }
}
