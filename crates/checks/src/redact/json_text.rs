//! A text that is itself JSON, such as the arguments of a tool call: read as decoded text, rewritten so that it stays JSON.

use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::redact::redactor::Redactor;
use crate::report::Finding;
use crate::text::json_lexer::{Lexer, Place, escaped};

/// A number with fewer digits identifies no person.
const FEWEST_DIGITS: usize = 7;
/// A longer name of a field is no name.
const LONGEST_LABEL: usize = 40;

/// JSON inside a string. What is judged is [`JsonText::text`]: the same with its escapes undone, and with the name of the
/// field in words before numbers, because most of them mean nothing without it.
#[derive(Debug)]
pub struct JsonText<'a> {
    raw: &'a str,
    view: String,
    spans: Vec<Span>,
    is_valid: bool,
}

/// A piece of the text, as it stands and as it is judged.
#[derive(Debug)]
struct Span {
    kind: Kind,
    raw: Range<usize>,
    view: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The contents of a string.
    String,
    Number,
    /// The syntax that joins strings and numbers.
    Frame,
    /// Words that only the judge sees.
    Label,
}

impl<'a> JsonText<'a> {
    /// Reads a text; `None` when it does not begin as an object or an array does. It need not be whole: a model may have
    /// been cut off.
    pub fn read(raw: &'a str) -> Option<Self> {
        if !raw.trim_start().starts_with(['{', '[']) {
            return None;
        }
        let mut reader = Reader::default();
        let mut lexer = Lexer::default();
        let mut emit = |place, c, spelled: &str| reader.take(place, c, spelled);
        raw.chars().for_each(|c| lexer.push(c, &mut emit));
        lexer.finish(&mut emit);
        reader.end_span();
        let is_valid = serde_json::from_str::<IgnoredAny>(raw).is_ok();
        Some(Self { raw, view: reader.view, spans: reader.spans, is_valid })
    }

    /// Returns the text to be judged.
    pub fn text(&self) -> &str {
        &self.view
    }

    /// Replaces findings in [`JsonText::text`] and gives the JSON with the replacements; a number becomes a string. `None`
    /// when nothing changes.
    pub fn redact(&self, redactor: &mut Redactor, findings: &[&Finding]) -> Option<String> {
        let mut out = String::with_capacity(self.raw.len());
        let mut is_changed = false;
        for span in &self.spans {
            let raw = &self.raw[span.raw.clone()];
            let new = match span.kind {
                Kind::Number => span
                    .parts_of(findings)
                    .next()
                    .map(|(_, kind)| Value::String(redactor.replace_whole(kind, raw)).to_string()),
                Kind::String => {
                    let text = &self.view[span.view.clone()];
                    redactor.replace(text, span.parts_of(findings)).map(|new| escaped(&new))
                }
                // The syntax of valid JSON is no text, even if a finding reaches over it.
                Kind::Frame if !self.is_valid => {
                    let text = &self.view[span.view.clone()];
                    redactor.replace(text, span.parts_of(findings))
                }
                Kind::Frame | Kind::Label => None,
            };
            is_changed |= new.is_some();
            out.push_str(new.as_deref().unwrap_or(raw));
        }
        is_changed.then_some(out)
    }
}

impl Span {
    /// The parts of findings that lie in this span, from its start, and what was found.
    fn parts_of<'f>(
        &self,
        findings: &'f [&Finding],
    ) -> impl Iterator<Item = (Range<usize>, &'f str)> {
        let view = self.view.clone();
        findings.iter().filter_map(move |finding| {
            let start = finding.bytes.start.max(view.start);
            let end = finding.bytes.end.min(view.end);
            (start < end).then(|| (start - view.start..end - view.start, &*finding.kind))
        })
    }
}

/// Builds spans and view.
#[derive(Default)]
struct Reader {
    view: String,
    spans: Vec<Span>,
    /// The start of the current span in the raw text and in the view, and how far the raw text is read.
    from: (usize, usize),
    read: usize,
    kind: Option<Kind>,
    /// The last string, in case it turns out to be a name.
    last: String,
    label: Option<String>,
}

impl Reader {
    fn take(&mut self, place: Place, c: char, spelled: &str) {
        let is_number = |more: bool| c.is_ascii_digit() || c == '-' || more && ".eE+".contains(c);
        let kind = match place {
            Place::Inside => Kind::String,
            Place::Outside if is_number(self.kind == Some(Kind::Number)) => Kind::Number,
            Place::Outside | Place::Quote => Kind::Frame,
        };
        if place == Place::Quote && self.kind != Some(Kind::String) {
            // The string before was no name of what comes now.
            self.last.clear();
        }
        if self.kind != Some(kind) {
            self.end_span();
            self.kind = Some(kind);
        }
        if place == Place::Outside && c == ':' {
            self.label = label(&self.last);
        }
        self.view.push(c);
        self.read += spelled.len();
    }

    fn end_span(&mut self) {
        let Some(kind) = self.kind.take() else { return };
        let (raw, start) = self.from;
        match kind {
            Kind::String => {
                self.last = self.view.split_off(start);
                let says_number = is_number_like(&self.last);
                let text = std::mem::take(&mut self.last);
                self.labelled(says_number, &text);
                self.last = text;
            }
            Kind::Number => {
                let digits = digits(&self.view.split_off(start));
                self.labelled(count_digits(&digits) >= FEWEST_DIGITS, &digits);
            }
            Kind::Frame | Kind::Label => {}
        }
        let view = self.spans.last().map_or(0, |span| span.view.end)..self.view.len();
        self.spans.push(Span { kind, raw: raw..self.read, view });
        self.from = (self.read, self.view.len());
    }

    /// Appends a text to the view, after its label where it needs one.
    fn labelled(&mut self, needs_label: bool, text: &str) {
        if let Some(label) = self.label.as_ref().filter(|_| needs_label) {
            let start = self.view.len();
            self.view.push_str(label);
            self.view.push_str(": ");
            let raw = self.from.0..self.from.0;
            self.spans.push(Span { kind: Kind::Label, raw, view: start..self.view.len() });
        }
        self.view.push_str(text);
    }
}

/// The name of a field in words, as a person would write it before a value: `customerSsn` and `customer_ssn` are `customer
/// ssn`. `None` when it is no name.
pub fn label(name: &str) -> Option<String> {
    let is_name = name.len() <= LONGEST_LABEL
        && name.bytes().any(|byte| byte.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_-. ".contains(&byte));
    if !is_name {
        return None;
    }
    let mut words = String::with_capacity(name.len() + 4);
    let mut last = ' ';
    for c in name.chars() {
        if c.is_ascii_uppercase() && last.is_ascii_lowercase() {
            words.push(' ');
        }
        words.push(if c.is_ascii_alphabetic() { c.to_ascii_lowercase() } else { ' ' });
        last = c;
    }
    Some(words)
}

/// A JSON number as a person would write it, where it has so many digits that it may identify one.
pub fn long_number(number: &str) -> Option<String> {
    let digits = digits(number);
    (count_digits(&digits) >= FEWEST_DIGITS).then_some(digits)
}

/// Without a sign, and without a fraction or an exponent where it is whole all the same.
fn digits(number: &str) -> String {
    let number = number.trim_start_matches('-');
    let whole = number
        .contains(['.', 'e', 'E'])
        .then(|| number.parse::<f64>().ok())
        .flatten()
        .filter(|value| value.fract() == 0.0 && *value < 1e40);
    whole.map_or_else(|| number.to_owned(), |value| format!("{value:.0}"))
}

fn count_digits(text: &str) -> usize {
    text.bytes().filter(u8::is_ascii_digit).count()
}

fn is_number_like(text: &str) -> bool {
    text.len() <= LONGEST_LABEL
        && count_digits(text) >= FEWEST_DIGITS
        && text.bytes().all(|byte| byte.is_ascii_digit() || b" -.+/()".contains(&byte))
}

#[cfg(test)]
mod tests;
