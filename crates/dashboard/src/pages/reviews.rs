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
    /// What a verdict expects: that there is none yet.
    pub expects: &'static str,
}

/// A verdict of the last 30 days.
#[derive(Clone, Debug)]
pub struct JudgedRow {
    /// The step.
    pub step: i64,
    /// Its place on the page of its trace.
    pub href: String,
    /// Whether it was confirmed.
    pub is_confirmed: bool,
    /// The findings that were judged.
    pub findings: String,
    /// The remark.
    pub note: Option<String>,
    /// When it was judged.
    pub at: Timestamp,
    /// The address that another verdict is sent to.
    pub judge: String,
    /// What another verdict expects: the time of this one.
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
