//! A trace with its steps. It is written in pieces: the head, each step, and [`TRACE_END`].

use askama::Template;
use domain::time::Timestamp;

use crate::Page as _;
use crate::format::{Bytes, Duration, Money};
use crate::frame::Frame;
use crate::markup;
use crate::pages::choice::Choice;
use crate::pages::overview::Tile;
use crate::pages::safety::FindingMark;
use crate::texts::Texts;

/// The markup that follows the steps.
pub const TRACE_END: &str = "</ol>\n</section>\n</main>\n</body>\n</html>";

/// The end of what precedes the steps.
const STEPS: &str = "<ol class=\"steps\">\n";

/// A step in time.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Its number.
    pub id: i64,
    /// Its kind.
    pub kind: &'static str,
    /// Whether it failed.
    pub has_failed: bool,
    /// The model or the endpoint.
    pub label: String,
    /// Its duration.
    pub duration: Duration,
    /// Its cost.
    pub cost: Option<Money>,
    /// Its begin and its length, of 1,000.
    pub span: (f64, f64),
}

impl Bar {
    fn x(&self) -> String {
        format!("{:.1}", self.span.0)
    }

    fn width(&self) -> String {
        // A short one is seen all the same.
        format!("{:.1}", self.span.1.max(3.0))
    }
}

/// A trace without its steps.
#[derive(Debug, Template)]
#[template(path = "trace.html")]
pub struct TraceHead {
    /// The frame.
    pub frame: Frame,
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: &'static str,
    /// When it was opened.
    pub opened: Timestamp,
    /// Its overall grade.
    pub grade: Option<&'static str>,
    /// The reasons for the grade.
    pub reasons: Vec<String>,
    /// Its findings: `personal data` and the like.
    pub findings: Vec<&'static str>,
    /// Its figures.
    pub tiles: Vec<Tile>,
    /// Its steps in time.
    pub bars: Vec<Bar>,
    /// The steps that are not among them.
    pub more_bars: usize,
    /// Its metadata as JSON.
    pub metadata: Option<String>,
    /// The keys that can pay for a replay; empty if it cannot be replayed.
    pub keys: Vec<Choice>,
    /// The models that can make its calls again.
    pub models: Vec<Choice>,
}

impl TraceHead {
    /// The address that replays are asked for at.
    fn replay(&self) -> String {
        self.frame.href(&format!("/traces/{}/replay", self.id))
    }

    /// The page up to its first step.
    pub fn head(&self) -> String {
        let mut html = self.html();
        let end = html.find(STEPS).map_or(html.len(), |at| at + STEPS.len());
        html.truncate(end);
        html
    }
}

/// A text of a step.
#[derive(Clone, Debug)]
pub struct Text {
    /// Its name: `system`, `user`, `output` and so on.
    pub name: String,
    /// Its beginning, or all of it, with its findings.
    pub marks: Vec<FindingMark>,
    /// The size of all of it, if that is not shown.
    pub whole: Option<Bytes>,
}

/// A step.
#[derive(Debug, Template)]
#[template(path = "step.html")]
pub struct StepView {
    /// The texts of the page, which are none of those of the step.
    pub t: &'static Texts,
    /// Its number.
    pub id: i64,
    /// Its kind.
    pub kind: &'static str,
    /// Its status.
    pub status: &'static str,
    /// The model or the endpoint.
    pub label: String,
    /// When it began.
    pub started: Timestamp,
    /// Its findings.
    pub findings: Vec<&'static str>,
    /// Why it was blocked or failed.
    pub reason: Option<String>,
    /// Its figures.
    pub fields: Vec<String>,
    /// Its texts.
    pub texts: Vec<Text>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Section;

    #[test]
    fn head_and_end_make_the_page() {
        let frame = Frame::of_test(Section::Traces);
        let head = TraceHead {
            frame,
            id: "<id>".to_owned(),
            status: "pending",
            opened: Timestamp(0),
            grade: None,
            reasons: Vec::new(),
            findings: Vec::new(),
            tiles: Vec::new(),
            bars: Vec::new(),
            more_bars: 0,
            // No metadata closes the list before its time.
            metadata: Some(STEPS.to_owned()),
            keys: Vec::new(),
            models: Vec::new(),
        };
        assert_eq!(head.head() + TRACE_END, head.html());
        assert!(head.head().ends_with(STEPS));
        assert!(!head.html().contains("<id>"));
    }
}
