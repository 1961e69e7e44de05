//! A text tried against the safety layer.

use askama::Template;

use crate::frame::Frame;

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
    /// `passes`, `passes, for review` or `is blocked`.
    pub outcome: &'static str,
    /// The reason for a refusal.
    pub reason: Option<String>,
    /// 0 to 1.
    pub risk_score: String,
    /// The text with its findings.
    pub marks: Vec<FindingMark>,
    /// The findings in words.
    pub findings: Vec<String>,
    /// The text as a provider would get it, if that is another one.
    pub redacted: Option<String>,
}

/// The form for a text, and the verdict on it.
#[derive(Debug, Template)]
#[template(path = "safety.html")]
pub struct SafetyPage {
    /// The frame.
    pub frame: Frame,
    /// The text as it was given.
    pub text: String,
    /// The verdict, if a text was given.
    pub verdict: Option<Verdict>,
    /// Whether the user may try texts.
    pub may_try: bool,
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
