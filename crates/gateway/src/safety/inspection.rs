//! Judges the texts of a prompt, message by message.

use checks::{GiveUp, Part, Placeholders, Policy, Report, Verdict};
use domain::conversation::{Prompt, Role};
use domain::safety::Origin;

use crate::safety::prompt_strings;
use crate::safety::text_part::{Location, TextPart};
use crate::state::registry::ProjectState;
use crate::state::verdict_cache::{Hasher, VerdictCache};
use domain::step::Security;
use serde::Serialize;
use serde_json::Value;

/// The verdict on a shorter message, in bytes, is found as fast as it is looked up.
const WORTH_KEEPING: usize = 256;

impl ProjectState {
    /// Judges all texts of a prompt. Reuses cached verdicts for messages seen recently. Tools that
    /// `is_listed` came from an MCP server, and are none of the application's words.
    pub(crate) fn inspect(
        &self,
        prompt: &Prompt,
        is_listed: &dyn Fn(&Value) -> bool,
        give_up: GiveUp<'_>,
    ) -> Report {
        let all = said(prompt, is_listed);
        let report = judge(&self.policy, prompt, &all, Some(&self.memory), give_up);
        self.note_slow(&report);
        report
    }

    /// Judges all texts of a recorded prompt as they were before placeholders took the place of parts.
    /// The originals are read here and go nowhere.
    pub(crate) fn inspect_recorded(
        &self,
        prompt: &Prompt,
        placeholders: &Placeholders,
        is_listed: &dyn Fn(&Value) -> bool,
        give_up: GiveUp<'_>,
    ) -> Report {
        let mut all = said(prompt, is_listed);
        let originals: Vec<Option<String>> = if placeholders.is_empty() {
            Vec::new()
        } else {
            all.iter().map(|(_, text)| text.with_originals(placeholders)).collect()
        };
        for ((_, text), original) in all.iter_mut().zip(&originals) {
            if let Some(original) = original {
                let is_read = matches!(text, TextPart::Read(_));
                *text = if is_read { TextPart::Read(original) } else { TextPart::Text(original) };
            }
        }
        judge(&self.policy, prompt, &all, Some(&self.memory), give_up)
    }

    /// Logs which patterns took too long for a text. Only those that were stored before the cost of patterns was
    /// bounded should.
    pub(crate) fn note_slow(&self, report: &Report) {
        for slow in &report.slow {
            let (project, list, index) = (self.id(), slow.list.as_str(), slow.index);
            tracing::warn!(%project, list, index, "a safety pattern took too long for a text");
        }
    }
}

/// Judges all texts of a prompt, and caches nothing.
pub(crate) fn inspect(policy: &Policy, prompt: &Prompt) -> Report {
    judge(policy, prompt, &said(prompt, &|_| false), None, GiveUp::Never)
}

/// Judges all texts of a prompt in a trial, and caches nothing. Patterns are given up once `stop`
/// answers that the caller has left.
pub(crate) fn try_inspect(policy: &Policy, prompt: &Prompt, stop: &dyn Fn() -> bool) -> Report {
    let all = said(prompt, &|_| false);
    let give_up = GiveUp::Patterns(stop);
    policy.conclude_trial(groups(&all).map(|group| verdict(policy, group, give_up)))
}

/// Judges all texts of a prompt in a trial as if a model had written them.
pub(crate) fn try_output(policy: &Policy, prompt: &Prompt, stop: &dyn Fn() -> bool) -> Report {
    let mut read = Vec::with_capacity(prompt.messages.len());
    prompt_strings::each(prompt, |_, said| read.push(said.reading()));
    policy.try_output(read, GiveUp::Patterns(stop))
}

fn judge(
    policy: &Policy,
    prompt: &Prompt,
    all: &[(Location<'_>, TextPart<'_>)],
    memory: Option<&VerdictCache>,
    give_up: GiveUp<'_>,
) -> Report {
    let goes_on = prompt.messages.iter().any(|message| message.role == Role::Assistant);
    let new = |group| verdict(policy, group, give_up);
    policy.conclude(groups(all).map(|group| match memory.filter(|_| may_return(group, goes_on)) {
        Some(memory) => memory.verdict(hashed(memory, group), || new(group)),
        None => new(group),
    }))
}

fn said<'p>(
    prompt: &'p Prompt,
    is_listed: &dyn Fn(&Value) -> bool,
) -> Vec<(Location<'p>, TextPart<'p>)> {
    let mut all = Vec::with_capacity(prompt.messages.len());
    prompt_strings::each_by(prompt, is_listed, |spot, said| all.push((spot, said)));
    all
}

/// The groups that are judged together: the strings of a message, those of a field of the request.
fn groups<'p, 'a>(
    all: &'a [(Location<'p>, TextPart<'p>)],
) -> impl Iterator<Item = &'a [(Location<'p>, TextPart<'p>)]> {
    all.chunk_by(|(one, _), (next, _)| one.belongs_with(next))
}

/// Whether a verdict on a message, or on a field of a request, is worth caching. Until a model has
/// answered, only the application's instructions and tools may have come before or will come again:
/// the question may be the only one, and caching it would cost time for nothing.
fn may_return(group: &[(Location<'_>, TextPart<'_>)], goes_on: bool) -> bool {
    let length = || group.iter().map(|(_, said)| said.length()).sum::<usize>();
    let is_new = |(spot, _): &(Location<'_>, _)| spot.origin == Origin::User;
    (goes_on || !group.first().is_some_and(is_new)) && length() >= WORTH_KEEPING
}

fn verdict(
    policy: &Policy,
    group: &[(Location<'_>, TextPart<'_>)],
    give_up: GiveUp<'_>,
) -> Verdict {
    let readings = group.iter().map(|(spot, said)| (spot.origin, said.reading()));
    let mut verdict = policy.judge_readings(readings, give_up);
    let read = group.iter().enumerate().filter_map(|(index, (spot, said))| match said {
        TextPart::Read(text) => Some((index, Part { origin: spot.origin, text })),
        _ => None,
    });
    let read: Vec<(usize, Part<'_>)> = read.collect();
    if read.len() > 1 {
        policy.judge_joined(&mut verdict, &read, give_up);
    }
    verdict
}

/// All that a verdict depends on beside the policy: the texts, how they are read, and who wrote
/// them.
fn hashed(memory: &VerdictCache, group: &[(Location<'_>, TextPart<'_>)]) -> Hasher {
    let mut hasher = memory.hasher();
    for (spot, said) in group {
        let mut field = |kind: u8, bytes: &[u8]| {
            hasher.field(&[spot.origin as u8, kind]);
            hasher.field(bytes);
        };
        match said {
            TextPart::Text(text) => field(0, text.as_bytes()),
            TextPart::Json(text) => field(1, text.as_bytes()),
            TextPart::File(text, false) => field(3, text.as_bytes()),
            TextPart::File(text, true) => field(4, text.as_bytes()),
            TextPart::Read(text) => field(5, text.as_bytes()),
            TextPart::Number(name, number) => {
                field(2, name.as_bytes());
                hasher.field(number.to_string().as_bytes());
            }
        }
    }
    hasher
}

/// The stored form of a report and its findings.
pub(crate) fn security(report: &Report, findings: &impl Serialize) -> Security {
    if report.is_clean() {
        return Security { risk_score: report.risk_score, ..Security::default() };
    }
    Security {
        pii: report.pii_detected(),
        injection: report.injection_attempt(),
        secret: report.secret_leaked(),
        review: report.review,
        risk_score: report.risk_score,
        findings: serde_json::to_value(findings).ok(),
    }
}

#[cfg(test)]
#[path = "inspection_tests.rs"]
mod tests;
