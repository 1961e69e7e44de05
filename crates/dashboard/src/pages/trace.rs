//! A trace with its steps, and a step of it. The steps are written one by one, and put into the page at its end.

use askama::Template;
use domain::time::Timestamp;

use crate::Page as _;
use crate::format::{Bytes, Count, Duration, Money};
use crate::frame::Frame;
use crate::markup;
use crate::pages::choice::Choice;
use crate::pages::overview::Tile;
use crate::pages::safety::FindingMark;
use crate::texts::Texts;

/// The beginning of the list of steps.
const STEPS: &str = "<ol class=\"steps\">\n";

/// A page with steps that were written before in its list.
fn with_steps(page: &str, steps: &[u8]) -> Vec<u8> {
    let list = page.find(STEPS).map_or(page.len(), |at| at + STEPS.len());
    let (head, end) = page.split_at(list);
    [head.as_bytes(), steps, end.as_bytes()].concat()
}

/// A step in time.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The address of its details.
    pub href: String,
    /// Its kind.
    pub kind: &'static str,
    /// Whether it failed.
    pub has_failed: bool,
    /// The model or the endpoint.
    pub label: String,
    /// Its duration.
    pub duration: Duration,
    /// Its prompt and completion tokens.
    pub tokens: Option<Count>,
    /// Its cost.
    pub cost: Option<Money>,
    /// The tier that it was routed to.
    pub tier: Option<&'static str>,
    /// Its findings.
    pub findings: Vec<&'static str>,
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

/// A page of the steps of a trace.
#[derive(Clone, Debug, Default)]
pub struct StepPages {
    /// The number of the first step that is shown, from 1 on.
    pub first: usize,
    /// That of the last one.
    pub last: usize,
    /// How many there are.
    pub count: usize,
    /// The address of the steps before.
    pub before: Option<String>,
    /// That of the steps behind.
    pub next: Option<String>,
}

impl StepPages {
    fn is_all(&self) -> bool {
        self.before.is_none() && self.next.is_none()
    }
}

/// A trace.
#[derive(Debug, Template)]
#[template(path = "trace.html")]
pub struct TracePage {
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
    /// How many further reasons there are.
    pub more_reasons: usize,
    /// Its findings: `personal data` and the like.
    pub findings: Vec<&'static str>,
    /// Its figures.
    pub tiles: Vec<Tile>,
    /// Its steps in time.
    pub bars: Vec<Bar>,
    /// The steps that are not among them.
    pub more_bars: usize,
    /// The steps that are shown below.
    pub pages: StepPages,
    /// Its metadata as JSON, and the size of all of it if this is the beginning.
    pub metadata: Option<(String, Option<Bytes>)>,
    /// The keys that can pay for a replay; empty if it cannot be replayed.
    pub keys: Vec<Choice>,
    /// The models that can make its calls again.
    pub models: Vec<Choice>,
    /// Whether there are more of them, to be named.
    pub has_more_models: bool,
    /// A model of a form that was refused which is not among them.
    pub other_model: String,
}

impl TracePage {
    /// The address that replays are asked for at.
    fn replay(&self) -> String {
        self.frame.href(&format!("/traces/{}/replay", self.id))
    }

    /// The page with its steps.
    pub fn with_steps(&self, steps: &[u8]) -> Vec<u8> {
        with_steps(&self.html(), steps)
    }
}

/// A step of a trace on a page of its own.
#[derive(Debug, Template)]
#[template(path = "step_page.html")]
pub struct StepPage {
    /// The frame.
    pub frame: Frame,
    /// Its number.
    pub id: i64,
    /// The id of its trace.
    pub trace: String,
    /// The address of the trace at this step.
    pub trace_href: String,
    /// The address of the step before.
    pub before: Option<String>,
    /// The address of the next step.
    pub next: Option<String>,
}

impl StepPage {
    /// The page with its step.
    pub fn with_steps(&self, steps: &[u8]) -> Vec<u8> {
        with_steps(&self.html(), steps)
    }
}

/// A text of a step.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// Its name: `system`, `user`, `output` and so on.
    pub name: String,
    /// Its part that is shown, or all of it, with its findings.
    pub marks: Vec<FindingMark>,
    /// The size of all of it, if that is not shown.
    pub whole: Option<Bytes>,
    /// The place at which the part begins.
    pub begin: Bytes,
    /// Links to its other parts.
    pub links: Vec<TextLink>,
}

/// A link from a text to more of it.
#[derive(Clone, Debug)]
pub struct TextLink {
    /// The address.
    pub href: String,
    /// Its words.
    pub label: &'static str,
}

impl Text {
    /// The bytes that are shown.
    pub fn size(&self) -> usize {
        self.marks.iter().map(|mark| mark.text.len()).sum()
    }

    /// Cuts off what is beyond so many bytes.
    pub fn shorten(&mut self, longest: usize) {
        let size = self.size();
        if size <= longest {
            return;
        }
        self.whole.get_or_insert(Bytes(size));
        let mut left = longest;
        for mark in &mut self.marks {
            let end = mark.text.floor_char_boundary(left);
            left = if end < mark.text.len() { 0 } else { left - end };
            mark.text.truncate(end);
        }
        self.marks.retain(|mark| !mark.text.is_empty());
    }

    /// Cuts off the first bytes.
    pub fn skip(&mut self, bytes: usize) {
        let size = self.size();
        self.begin = Bytes(bytes);
        if bytes > 0 {
            self.whole.get_or_insert(Bytes(size));
        }
        let mut left = bytes;
        for mark in &mut self.marks {
            let begin = mark.text.floor_char_boundary(left);
            left = if begin < mark.text.len() { 0 } else { left - begin };
            mark.text.drain(..begin);
        }
        self.marks.retain(|mark| !mark.text.is_empty());
    }

    /// The place at which its part ends.
    fn end(&self) -> Bytes {
        Bytes(self.begin.0 + self.size())
    }
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
    /// The texts before these, which its own page has.
    pub left_out: usize,
    /// Its texts.
    pub texts: Vec<Text>,
    /// The address of its own page.
    pub href: String,
}

impl StepView {
    fn earlier_texts(&self) -> String {
        self.t.step.earlier_texts(i64::try_from(self.left_out).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Section;

    #[test]
    fn the_steps_are_put_into_the_list() {
        let frame = Frame::of_test(Section::Traces);
        let page = TracePage {
            frame,
            id: "<id>".to_owned(),
            status: "pending",
            opened: Timestamp(0),
            grade: None,
            reasons: Vec::new(),
            more_reasons: 0,
            findings: Vec::new(),
            tiles: Vec::new(),
            bars: Vec::new(),
            more_bars: 0,
            pages: StepPages::default(),
            // No metadata begins the list before its time.
            metadata: Some((STEPS.to_owned(), None)),
            keys: Vec::new(),
            models: Vec::new(),
            has_more_models: false,
            other_model: String::new(),
        };
        let html = String::from_utf8(page.with_steps(b"<li>step</li>")).unwrap();
        assert_eq!(html.replace("<li>step</li>", ""), page.html());
        assert!(html.contains("<ol class=\"steps\">\n<li>step</li></ol>"));
        assert!(!html.contains("<id>") && html.ends_with("</html>"));
    }

    #[test]
    fn the_parts_of_a_text_are_all_of_it() {
        let mark = |text: &str, finding: Option<&str>| FindingMark {
            text: text.to_owned(),
            finding: finding.map(str::to_owned),
        };
        let whole = Text {
            marks: vec![mark("aé", None), mark("öü", Some("pii")), mark("z", None)],
            ..Text::default()
        };
        let words = |text: &Text| -> String { text.marks.iter().map(|mark| &*mark.text).collect() };
        for size in 1..=8 {
            let mut all = String::new();
            for begin in (0..whole.size()).step_by(size) {
                let mut part = whole.clone();
                part.shorten(begin + size);
                part.skip(begin);
                assert!(size == 8 || part.whole == Some(Bytes(8)), "{begin} {size}");
                all += &words(&part);
            }
            assert_eq!(all, "aéöüz", "{size}");
        }
        let mut part = whole.clone();
        part.shorten(5);
        assert_eq!((&*part.marks[1].text, part.marks.len()), ("ö", 2));
        assert_eq!(part.marks[1].finding.as_deref(), Some("pii"));
        let mut all = whole.clone();
        all.shorten(8);
        assert_eq!((all.whole, words(&all)), (None, words(&whole)));
    }
}
