//! Excerpts of the texts of a step, around what was found in them.

use dashboard::{ENGLISH, FindingMark, Text};
use domain::shown_content::ShownContent;
use domain::step::Step;

use crate::evidence::marked_texts::{Found, Marked, texts};

/// The characters of an excerpt on either side of a finding.
const AROUND: usize = 200;
/// The most characters of a finding in an excerpt.
const LONGEST_MARK: usize = 1_000;
/// The most stretches of an excerpt, marked or not.
const MOST_MARKS: usize = 41;
/// The most texts of a step of which there are excerpts.
const MOST_EXCERPTS: usize = 5;

/// Excerpts of a step, and how many of its findings are in none of them.
#[derive(Debug)]
pub(crate) struct Excerpts {
    pub(crate) texts: Vec<Text>,
    pub(crate) findings_elsewhere: usize,
}

/// The texts of a step in which something was found, each shortened to the findings and what is around them.
pub(crate) fn excerpts(step: &Step, content: Option<&ShownContent<'_>>) -> Excerpts {
    let texts = content.map(|content| texts(&ENGLISH, step, content, usize::MAX));
    let mut texts = texts.unwrap_or_default();
    texts.retain(|marked| marked.findings > 0);
    // Earlier messages were in the queue with the requests that brought them.
    texts.drain(..texts.len().saturating_sub(MOST_EXCERPTS));
    let there: usize = texts.iter().map(|marked| marked.findings).sum();
    Excerpts {
        texts: texts.into_iter().map(|Marked { text, .. }| excerpt(text)).collect(),
        findings_elsewhere: Found::all(step).len().saturating_sub(there),
    }
}

fn excerpt(text: Text) -> Text {
    let last = text.marks.len().saturating_sub(1);
    let shortened = |(index, mark): (usize, FindingMark)| {
        let (before, behind) = match (&mark.finding, index) {
            (Some(_), _) => (LONGEST_MARK, 0),
            (None, 0) if last == 0 => (2 * AROUND, 0),
            (None, 0) => (0, AROUND),
            (None, index) if index == last => (AROUND, 0),
            (None, _) => (AROUND, AROUND),
        };
        FindingMark { text: without_middle(&mark.text, before, behind), finding: mark.finding }
    };
    let marks = text.marks.into_iter().enumerate().map(shortened).take(MOST_MARKS).collect();
    Text { name: text.name, marks, ..Text::default() }
}

/// The first and the last characters of a text.
fn without_middle(text: &str, first: usize, last: usize) -> String {
    let count = text.chars().count();
    if count <= first + last {
        return text.to_owned();
    }
    let begin: String = text.chars().take(first).collect();
    let end: String = text.chars().skip(count - last).collect();
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::finding_places::Mark;
    use crate::evidence::marked_texts::{cut, unmarked};

    #[test]
    fn an_excerpt_is_what_is_around_the_findings() {
        let mark = |start, end, name: &str| Mark {
            start,
            end,
            name: name.to_owned(),
            may_be_replaced: true,
        };
        let found = [mark(1_000, 1_004, "a"), mark(2_000, 2_004, "b")];
        let long = format!("{}FIND{}FIND{}", "é".repeat(1_000), "x".repeat(996), "z".repeat(1_000));
        let Text { marks, whole, .. } = excerpt(cut("user", &long, &found, usize::MAX).text);
        let texts: Vec<&str> = marks.iter().map(|mark| &*mark.text).collect();
        let (before, around, behind) = ("é".repeat(AROUND), "x".repeat(AROUND), "z".repeat(AROUND));
        assert_eq!(
            texts,
            [
                &*format!("…{before}"),
                "FIND",
                &format!("{around}…{around}"),
                "FIND",
                &format!("{behind}…")
            ]
        );
        assert_eq!((marks[3].finding.as_deref(), whole), (Some("b"), None));
        let short = excerpt(unmarked("user", "short"));
        assert_eq!(short.marks[0].text, "short");
        let many: Vec<Mark> = (0..500).map(|at| mark(at * 2, at * 2 + 1, "a")).collect();
        let many = excerpt(cut("user", &long, &many, usize::MAX).text);
        assert_eq!(many.marks.len(), MOST_MARKS);
    }
}
