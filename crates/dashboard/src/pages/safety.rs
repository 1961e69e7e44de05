//! A text tried against the safety layer.

use askama::Template;

use crate::frame::Frame;
use crate::pages::choice::Choice;

/// A stretch of a text, and what was found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingMark {
    /// The text.
    pub text: String,
    /// The finding; `None` for a text between findings.
    pub finding: Option<String>,
}

impl FindingMark {
    /// Splits a text by findings, each a range of characters and a name. Those that overlap one before are
    /// left out: it is marked already.
    pub fn split(text: &str, findings: &[(usize, usize, String)]) -> Vec<Self> {
        let mut findings: Vec<_> = findings.iter().filter(|(start, end, _)| start < end).collect();
        findings.sort_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
        let mut characters = text.chars();
        let mut take = |count: usize| characters.by_ref().take(count).collect::<String>();
        let mut marks = Vec::new();
        let mut at = 0;
        for (start, end, name) in findings {
            if *start < at {
                continue;
            }
            marks.push(Self { text: take(start - at), finding: None });
            marks.push(Self { text: take(end - start), finding: Some(name.clone()) });
            at = *end;
        }
        marks.push(Self { text: take(usize::MAX), finding: None });
        marks.retain(|mark| !mark.text.is_empty());
        marks
    }
}

/// The verdict on a text.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether the prompt passes, in words.
    pub outcome: &'static str,
    /// The reason for a refusal.
    pub reason: Option<String>,
    /// 0 to 1.
    pub risk_score: String,
    /// The text with its findings.
    pub marks: Vec<FindingMark>,
    /// The findings in words.
    pub findings: Vec<String>,
    /// The patterns that were given up, in words.
    pub slow: Vec<String>,
    /// The text as a provider would get it, if that is another one.
    pub redacted: Option<String>,
}

/// A rule of the project.
#[derive(Clone, Debug)]
pub struct RuleRow {
    /// Its name.
    pub name: String,
    /// Its pattern.
    pub pattern: String,
    /// What a match does, in words.
    pub action: &'static str,
    /// 0 to 1.
    pub weight: String,
    /// The page with this rule in the fields of the draft.
    pub href: String,
}

/// A field of a form, and why it was refused.
#[derive(Clone, Debug, Default)]
pub struct DraftField {
    /// Its value.
    pub value: String,
    /// The fault of the value.
    pub fault: Option<String>,
}

/// Settings that are tried and not saved.
#[derive(Clone, Debug, Default)]
pub struct SafetyDraft {
    /// The name of a rule.
    pub name: DraftField,
    /// Its pattern.
    pub pattern: DraftField,
    /// Whether it only flags.
    pub flags: bool,
    /// Its weight.
    pub weight: DraftField,
    /// A patch of the settings as JSON.
    pub settings: DraftField,
}

impl SafetyDraft {
    fn is_given(&self) -> bool {
        let fields = [&self.name, &self.pattern, &self.weight, &self.settings];
        fields.iter().any(|field| !field.value.is_empty() || field.fault.is_some())
    }
}

/// The verdicts on a category of findings.
#[derive(Clone, Debug)]
pub struct AdviceRow {
    /// The figures and the advice in words.
    pub sentence: String,
    /// The change that is advised, as a patch of the settings; for those who may make it.
    pub patch: Option<String>,
}

/// The form for a text and a draft, and the verdict on them.
#[derive(Debug, Template)]
#[template(path = "safety.html")]
pub struct SafetyPage {
    /// The frame.
    pub frame: Frame,
    /// The text as it was given.
    pub text: String,
    /// The verdict, if a text was given.
    pub verdict: Option<Verdict>,
    /// The draft.
    pub draft: SafetyDraft,
    /// The draft as a patch of the settings, once it was tried; for those who may save it.
    pub tried: Option<String>,
    /// The windows of a backtest, in hours, with their names.
    pub windows: Vec<Choice>,
    /// The rules of the project.
    pub rules: Vec<RuleRow>,
    /// Advice by the verdicts of people.
    pub advice: Vec<AdviceRow>,
    /// Whether the user may try texts.
    pub may_try: bool,
    /// Whether the user may ask for backtests.
    pub may_backtest: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_marked_in_place() {
        let mark = |text: &str, finding: Option<&str>| FindingMark {
            text: text.to_owned(),
            finding: finding.map(str::to_owned),
        };
        let finding = |start, end, name: &str| (start, end, name.to_owned());
        // Characters, not bytes; out of order; one inside another; one past the end.
        let found = [
            finding(9, 99, "end"),
            finding(3, 6, "b"),
            finding(4, 5, "inner"),
            finding(2, 2, "empty"),
        ];
        let marks = FindingMark::split("äöüabc é🙂", &found);
        assert_eq!(marks, [mark("äöü", None), mark("abc", Some("b")), mark(" é🙂", None)]);
        assert_eq!(FindingMark::split("", &[]), []);
    }
}
