//! Findings that wait for a person.

use askama::Template;
use domain::review::Verdict;
use domain::time::Timestamp;

use crate::format::Count;
use crate::frame::Frame;
use crate::markup;
use crate::pages::trace::Text;

/// A finding of a step that waits.
#[derive(Clone, Debug)]
pub struct FindingRow {
    /// `pii: EMAIL`.
    pub name: String,
    /// 0 to 1.
    pub score: String,
    /// Its place: `in a user message`, `in tools`, `in the output`.
    pub place: String,
}

/// A step that waits.
#[derive(Clone, Debug)]
pub struct ReviewItem {
    /// Its number.
    pub step: i64,
    /// Its place on the page of its trace.
    pub href: String,
    /// Its kind.
    pub kind: &'static str,
    /// The model or the endpoint.
    pub label: String,
    /// When it ended.
    pub at: Timestamp,
    /// 0 to 1.
    pub risk_score: String,
    /// The first of its findings.
    pub findings: Vec<FindingRow>,
    /// The findings that are not among them.
    pub more: usize,
    /// Excerpts of its texts.
    pub texts: Vec<Text>,
    /// Why there is no text, or none with some of the findings.
    pub without_text: Option<String>,
    /// The address that a verdict is sent to.
    pub judge: String,
    /// The expectation of a verdict: that there is none yet.
    pub expects: &'static str,
}

/// A verdict of the last 30 days.
#[derive(Clone, Debug)]
pub struct JudgedRow {
    /// The step.
    pub step: i64,
    /// Its place on the page of its trace; `None` if it is gone.
    pub href: Option<String>,
    /// The name of whoever judged; `None` if they are not known.
    pub judge: Option<String>,
    /// Whether it was confirmed.
    pub is_confirmed: bool,
    /// The findings that were judged.
    pub findings: String,
    /// The remark.
    pub note: Option<String>,
    /// When it was judged.
    pub at: Timestamp,
    /// The address that another verdict is sent to; `None` if the step is gone.
    pub judge_again: Option<String>,
    /// The expectation of another verdict: the time of this one.
    pub expects: String,
}

/// The queue of a project.
#[derive(Debug, Template)]
#[template(path = "reviews.html")]
pub struct ReviewsPage {
    /// The frame.
    pub frame: Frame,
    /// How many steps wait, and whether there are more.
    pub waiting: (Count, bool),
    /// The risk score from which on a review is asked for.
    pub threshold: String,
    /// The steps of this page, newest first.
    pub items: Vec<ReviewItem>,
    /// Whether this is the first page.
    pub is_first: bool,
    /// The next page.
    pub next: Option<String>,
    /// The latest verdicts, newest first.
    pub judged: Vec<JudgedRow>,
    /// Whether the user may judge.
    pub may_judge: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Section;

    #[test]
    fn a_verdict_on_a_step_that_is_gone_leads_nowhere() {
        let frame = Frame::of_test(Section::Safety);
        let row = |step: i64, judge: Option<&str>, address: Option<&str>| JudgedRow {
            expects: String::new(),
            step,
            href: address.map(|address| format!("/steps/{address}")),
            judge: judge.map(str::to_owned),
            is_confirmed: true,
            findings: String::new(),
            note: None,
            at: Timestamp(0),
            judge_again: address.map(|address| format!("/safety/reviews/{address}")),
        };
        let page = ReviewsPage {
            frame,
            waiting: (Count(0), false),
            threshold: String::new(),
            items: Vec::new(),
            is_first: true,
            next: None,
            judged: vec![row(11, Some("<nightly>"), Some("11")), row(12, None, None)],
            may_judge: true,
        };
        let html = page.render().unwrap();
        let (first, second) = html.split_once(">12 ").unwrap();
        assert!(first.contains("<a href=\"/steps/11\">11</a>"), "{html}");
        assert!(first.contains("<td>&#60;nightly&#62;</td>"), "{html}");
        assert!(first.contains("action=\"/safety/reviews/11\""), "{html}");
        assert!(second.contains("deleted") && second.contains("unknown"), "{html}");
        assert!(!second.contains("/12") && !second.contains("name=\"verdict\""), "{html}");
    }
}
