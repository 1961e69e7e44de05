//! The texts of a step, with what was found in them.

use dashboard::{Bytes, ENGLISH, FindingMark, Text, Texts};
use domain::shown_content::{Output, ShownContent};
use domain::step::Step;
use serde::Deserialize;
use serde_json::Value;

/// The most bytes of a text that a page shows.
pub(crate) const LONGEST_TEXT: usize = 32 * 1024;
/// The longest name in a placeholder.
const LONGEST_PLACEHOLDER: usize = 100;
/// The most messages of a conversation that a page shows, the latest.
const MOST_MESSAGES: usize = 50;
/// The characters of an excerpt on either side of a finding.
const AROUND: usize = 200;
/// The most characters of a finding in an excerpt.
const LONGEST_MARK: usize = 1_000;
/// The most stretches of an excerpt, marked or not.
const MOST_MARKS: usize = 41;
/// The most texts of a step of which there are excerpts.
const MOST_EXCERPTS: usize = 5;

/// A finding in a text: its first character, the one behind it, and its name.
type Mark = (usize, usize, String);

/// A finding as it is stored with its step.
#[derive(Deserialize)]
pub(crate) struct Found {
    category: String,
    #[serde(rename = "type")]
    kind: String,
    start: usize,
    end: usize,
    /// 0 to 1.
    #[serde(default)]
    pub(crate) score: f64,
    #[serde(default)]
    message: Option<usize>,
    /// The role of that message.
    #[serde(default)]
    pub(crate) role: Option<String>,
    /// The field of the message, or of the request.
    #[serde(default)]
    pub(crate) field: Option<String>,
    /// `input` or `output`; a request that was blocked has findings of its input alone.
    #[serde(default)]
    within: Option<String>,
}

impl Found {
    /// The findings of a step.
    pub(crate) fn all(step: &Step) -> Vec<Self> {
        let found = step.security.findings.as_ref();
        found.and_then(|found| Vec::deserialize(found).ok()).unwrap_or_default()
    }

    /// Whether it was found in the answer.
    pub(crate) fn is_in_output(&self) -> bool {
        self.within.as_deref() == Some("output")
    }

    /// Whether it is in the text of a message of the input. An input that is one text is the first one.
    fn is_in_message(&self, index: usize) -> bool {
        !self.is_in_output()
            && self.message.unwrap_or(0) == index
            && self.field.as_deref().is_none_or(|field| field == "content")
    }

    /// Its category and type: `pii: EMAIL`.
    pub(crate) fn name(&self) -> String {
        format!("{}: {}", self.category, self.kind)
    }

    fn mark(&self) -> Mark {
        (self.start, self.end, self.name())
    }
}

/// A message of a conversation, as far as it is shown.
#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Value,
}

/// The texts of a step, each up to `longest` bytes of it, with the findings in them.
pub(crate) fn texts(
    t: &Texts,
    step: &Step,
    content: &ShownContent<'_>,
    longest: usize,
) -> Vec<Text> {
    let text = |name: &str, text: &str, found: &[Mark]| cut(name.to_owned(), text, found, longest);
    let mut texts = Vec::new();
    let found = Found::all(step);
    let marks_of = |is_there: &dyn Fn(&Found) -> bool| -> Vec<_> {
        found.iter().filter(|found| is_there(found)).map(Found::mark).collect()
    };
    if let Some(input) = content.input {
        let messages = Some(input.get()).filter(|json| json.starts_with('['));
        match messages.and_then(|json| serde_json::from_str::<Vec<Message>>(json).ok()) {
            Some(messages) => {
                let left = messages.len().saturating_sub(MOST_MESSAGES);
                if left > 0 {
                    texts.push(text(t.step.input, &t.step.earlier_messages(left), &[]));
                }
                let shown = messages.into_iter().enumerate().skip(left);
                texts.extend(shown.map(|(index, shown)| {
                    message(shown, &marks_of(&|found| found.is_in_message(index)), longest)
                }));
            }
            None => {
                let marks = marks_of(&|found| found.is_in_message(0));
                texts.push(text(t.step.input, &plain(input.get()), &marks));
            }
        }
    }
    let marks = marks_of(&Found::is_in_output);
    match content.output(step) {
        Some(Output::Json(json)) => {
            texts.push(text(t.step.output, &plain(json.get()), &[]));
        }
        Some(Output::Text(output)) => texts.push(text(t.step.output, output, &marks)),
        Some(Output::Allowed { allowed }) => {
            let verdict = if allowed { t.step.allowed } else { t.step.not_allowed };
            texts.push(text(t.step.output, verdict, &[]));
        }
        None => {}
    }
    texts.retain(|text| !text.marks.is_empty());
    texts
}

/// A message as it is shown. The marks are those of a content that is one text.
fn message(message: Message, marks: &[Mark], longest: usize) -> Text {
    let is_text = message.content.is_string();
    let mut shown = match message.content {
        Value::Null => String::new(),
        Value::String(content) => content,
        Value::Array(parts) => parts.iter().map(part).collect::<Vec<_>>().join("\n"),
        other => other.to_string(),
    };
    if !message.tool_calls.is_null() {
        if !shown.is_empty() {
            shown.push('\n');
        }
        shown.push_str(&message.tool_calls.to_string());
    }
    cut(message.role, &shown, if is_text { marks } else { &[] }, longest)
}

/// A part of a message: its text, or what it is.
fn part(part: &Value) -> String {
    let text = part.get("text").and_then(Value::as_str);
    text.map_or_else(|| part.to_string(), str::to_owned)
}

/// The text of a JSON string, and any other JSON as it is.
fn plain(json: &str) -> String {
    serde_json::from_str::<String>(json).unwrap_or_else(|_| json.to_owned())
}

/// A text in which nothing was found.
pub(crate) fn unmarked(name: &str, text: &str) -> Text {
    cut(name.to_owned(), text, &[], LONGEST_TEXT)
}

/// The beginning of a text, with what was found in it.
fn cut(name: String, text: &str, found: &[Mark], longest: usize) -> Text {
    let end = text.floor_char_boundary(longest.min(text.len()));
    let whole = (end < text.len()).then_some(Bytes(text.len()));
    let marks = FindingMark::split(&text[..end], &in_stored(&text[..end], found));
    Text { name, marks, whole }
}

/// The texts of a step in which something was found, each shortened to the findings and what is around them. If
/// none is in a text that is shown, the beginning of the last text.
pub(crate) fn excerpts(step: &Step, content: &ShownContent<'_>) -> Vec<Text> {
    let mut texts = texts(&ENGLISH, step, content, usize::MAX);
    let has_finding = |text: &Text| text.marks.iter().any(|mark| mark.finding.is_some());
    if texts.iter().any(has_finding) {
        texts.retain(has_finding);
    } else {
        texts.drain(..texts.len().saturating_sub(1));
    }
    // Earlier messages were in the queue with the requests that brought them.
    texts.drain(..texts.len().saturating_sub(MOST_EXCERPTS));
    texts.into_iter().map(excerpt).collect()
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
    Text { name: text.name, marks, whole: None }
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

/// The places of findings in a text as it is stored: with placeholders for what was replaced, which are longer
/// or shorter.
fn in_stored(text: &str, found: &[Mark]) -> Vec<Mark> {
    if found.is_empty() {
        return Vec::new();
    }
    let characters: Vec<char> = text.chars().collect();
    let mut found = found.to_vec();
    found.sort_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
    let (mut moved, mut after) = (0, 0);
    let mut placed: Vec<Mark> = Vec::new();
    for (start, end, name) in found {
        let Some(begins) = start.checked_add_signed(moved) else { continue };
        let rest = characters.get(begins..).unwrap_or_default();
        let length = placeholder(rest).unwrap_or(end.saturating_sub(start));
        let grown = length.cast_signed() - end.saturating_sub(start).cast_signed();
        moved += grown;
        // One inside another is marked with it, which is longer or shorter by as much.
        if start < after {
            if let Some((_, outer, _)) = placed.last_mut().filter(|_| end <= after) {
                *outer = outer.saturating_add_signed(grown);
            }
            continue;
        }
        after = end;
        placed.push((begins, begins + length, name));
    }
    placed
}

/// The length of the placeholder that a text begins with: `[EMAIL_1_0a1b2c3d]`.
fn placeholder(text: &[char]) -> Option<usize> {
    let inner = text.strip_prefix(&['['])?;
    let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let length = inner.iter().take(LONGEST_PLACEHOLDER).take_while(|c| is_part(c)).count();
    let name: String = inner[..length].iter().collect();
    let mut parts = name.rsplit('_');
    let (nonce, number) = (parts.next()?, parts.next()?);
    let is_placeholder = inner.get(length) == Some(&']')
        && nonce.len() == 8
        && nonce.bytes().all(|byte| byte.is_ascii_hexdigit())
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && parts.next().is_some_and(|kind| kind.starts_with(|c: char| c.is_ascii_uppercase()));
    is_placeholder.then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "é".repeat(LONGEST_TEXT);
        let Text { marks, whole, .. } = unmarked("output", &long);
        assert_eq!((marks[0].text.len(), whole), (LONGEST_TEXT, Some(Bytes(2 * LONGEST_TEXT))));
        let odd = format!("a{long}");
        assert_eq!(unmarked("", &odd).marks[0].text.len(), LONGEST_TEXT - 1);
        assert_eq!(unmarked("", "short").whole, None);
    }

    #[test]
    fn findings_are_found_again_behind_placeholders() {
        let name = |name: &str| name.to_owned();
        // "mail jo@a.example and 4111 1111, key abc" as it was sent.
        let found = [(5, 17, name("email")), (22, 31, name("card")), (37, 40, name("key"))];
        let stored = "mail [EMAIL_1_0a1b2c3d] and [CREDIT_CARD_12_0a1b2c3d], key abc";
        let places = in_stored(stored, &found);
        let marked: Vec<&str> =
            places.iter().map(|(start, end, _)| &stored[*start..*end]).collect();
        assert_eq!(marked, ["[EMAIL_1_0a1b2c3d]", "[CREDIT_CARD_12_0a1b2c3d]", "abc"]);
        // "ignore jo@a.example now, key abc": one finding inside another.
        let found = [(0, 23, name("injection")), (7, 19, name("email")), (29, 32, name("key"))];
        let stored = "ignore [EMAIL_1_0a1b2c3d] now, key abc";
        let places = in_stored(stored, &found);
        let marked: Vec<&str> =
            places.iter().map(|(start, end, _)| &stored[*start..*end]).collect();
        assert_eq!(marked, ["ignore [EMAIL_1_0a1b2c3d] now", "abc"]);
        for other in ["[x]", "[EMAIL_1]", "[EMAIL_1_zzzzzzzz]", "[EMAIL_x_0a1b2c3d]", "EMAIL", "["]
        {
            assert_eq!(placeholder(&other.chars().collect::<Vec<_>>()), None, "{other}");
        }
    }

    #[test]
    fn parts_and_tool_calls_are_shown() {
        let read = |json: &str| message(serde_json::from_str(json).unwrap(), &[], LONGEST_TEXT);
        let parts =
            read(r#"{"role":"user","content":[{"type":"text","text":"<b>"},{"type":"image"}]}"#);
        assert_eq!((&*parts.name, &*parts.marks[0].text), ("user", "<b>\n{\"type\":\"image\"}"));
        let call = read(r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}"#);
        assert_eq!(call.marks[0].text, r#"[{"id":"a"}]"#);
    }

    #[test]
    fn an_excerpt_is_what_is_around_the_findings() {
        let found = [(1_000, 1_004, "a".to_owned()), (2_000, 2_004, "b".to_owned())];
        let long = format!("{}FIND{}FIND{}", "é".repeat(1_000), "x".repeat(996), "z".repeat(1_000));
        let Text { marks, whole, .. } = excerpt(cut("user".to_owned(), &long, &found, usize::MAX));
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
        let many: Vec<Mark> = (0..500).map(|at| (at * 2, at * 2 + 1, "a".to_owned())).collect();
        let many = excerpt(cut("user".to_owned(), &long, &many, usize::MAX));
        assert_eq!(many.marks.len(), MOST_MARKS);
    }
}
