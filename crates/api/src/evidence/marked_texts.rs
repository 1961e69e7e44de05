//! The texts of a step, with what was found in them.

use std::collections::HashMap;

use dashboard::{Bytes, FindingMark, Text, Texts};
use domain::conversation::{Body, Message, PROVIDER_STATE, Prompt};
use domain::shown_content::{Output, ShownContent};
use domain::step::{Step, StepKind};
use gateway::numbered_texts;
use serde::Deserialize;
use serde_json::Value;

use crate::evidence::finding_places::{Mark, in_stored};

/// The most bytes of a text that is shown without a part of it being asked for.
pub(crate) const LONGEST_TEXT: usize = 32 * 1024;
/// The most messages of a conversation that a page shows, the latest.
const MOST_MESSAGES: usize = 50;
/// The field of a message in which its text is.
const CONTENT: &str = "content";

/// A finding as it is stored with its step.
#[derive(Deserialize)]
pub(crate) struct Found {
    category: String,
    #[serde(rename = "type")]
    kind: String,
    /// The number of its string among all that were judged.
    #[serde(default)]
    part: usize,
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
        step.security.findings.as_ref().map(Self::read).unwrap_or_default()
    }

    /// Findings as they are stored.
    pub(crate) fn read(findings: &Value) -> Vec<Self> {
        Vec::deserialize(findings).unwrap_or_default()
    }

    /// Whether it was found in the answer.
    pub(crate) fn is_in_output(&self) -> bool {
        self.within.as_deref() == Some("output")
    }

    /// Whether it is in the content of a message of the input. An input that is one text is the first one.
    fn is_in_message(&self, index: usize) -> bool {
        let field = self.field.as_deref();
        !self.is_in_output()
            && match self.message {
                Some(message) => message == index && field.is_none_or(|field| field == CONTENT),
                None => index == 0 && field.is_none(),
            }
    }

    /// Its category and type: `pii: EMAIL`.
    pub(crate) fn name(&self) -> String {
        format!("{}: {}", self.category, self.kind)
    }

    fn mark(&self) -> Mark {
        Mark {
            start: self.start,
            end: self.end,
            name: self.name(),
            may_be_replaced: matches!(&*self.category, "pii" | "secret"),
        }
    }
}

/// A text, and how many findings are in it.
pub(crate) struct Marked {
    pub(crate) text: Text,
    pub(crate) findings: usize,
}

/// The texts of a step, each up to `longest` bytes of it, with the findings in them.
pub(crate) fn texts(
    t: &Texts,
    step: &Step,
    content: &ShownContent<'_>,
    longest: usize,
) -> Vec<Marked> {
    let found = Found::all(step);
    let mut texts = Vec::new();
    // The result of a tool that was run here was judged as a message, and is the output of its step.
    let is_tool = step.kind == StepKind::ToolCall;
    if let Some(input) = content.input {
        match conversation(input.get()).filter(|_| !is_tool) {
            Some((prompt, name)) => {
                let name = (name == Named::ByInput).then_some(t.step.input);
                texts.extend(messages(t, &prompt, name, &found, longest));
            }
            None => texts.push(cut(t.step.input, input.get(), &[], longest)),
        }
    }
    // The first string of an answer is its text.
    let is_in_answer = |found: &Found| found.is_in_output() && found.part == 0;
    let is_in_text =
        |found: &Found| if is_tool { found.is_in_message(0) } else { is_in_answer(found) };
    let marks: Vec<Mark> =
        found.iter().filter(|found| is_in_text(found)).map(Found::mark).collect();
    match content.output(step) {
        Some(Output::Json(json)) => match serde_json::from_str::<String>(json.get()) {
            Ok(text) => texts.push(cut(t.step.output, &text, &marks, longest)),
            Err(_) => texts.push(cut(t.step.output, json.get(), &[], longest)),
        },
        Some(Output::Text(output)) => texts.push(cut(t.step.output, output, &[], longest)),
        Some(Output::Allowed { allowed }) => {
            let verdict = if allowed { t.step.allowed } else { t.step.not_allowed };
            texts.push(cut(t.step.output, verdict, &[], longest));
        }
        None => {}
    }
    texts.retain(|marked| !marked.text.marks.is_empty());
    texts
}

/// The names of the texts of an input.
#[derive(Clone, Copy, PartialEq)]
enum Named {
    /// One text, or texts to embed, are named so.
    ByInput,
    /// Messages have their roles.
    ByRole,
}

/// The conversation of a stored input. One that is a text, or texts to embed, is of messages of a user.
fn conversation(input: &str) -> Option<(Prompt, Named)> {
    let (messages, named) = match serde_json::from_str(input).ok()? {
        Value::String(text) => (vec![Message::user(text)], Named::ByInput),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let texts = items.iter().filter_map(Value::as_str);
            (texts.map(Message::user).collect(), Named::ByInput)
        }
        Value::Array(items) => {
            (items.into_iter().map(Message::read).collect::<Option<_>>()?, Named::ByRole)
        }
        _ => return None,
    };
    Some((Prompt { messages, ..Prompt::default() }, named))
}

/// The messages of a conversation as they are shown, under a name or their roles.
fn messages(
    t: &Texts,
    prompt: &Prompt,
    name: Option<&str>,
    found: &[Found],
    longest: usize,
) -> Vec<Marked> {
    let mut texts = Vec::new();
    let left = prompt.messages.len().saturating_sub(MOST_MESSAGES);
    if left > 0 {
        texts.push(cut(t.step.input, &t.step.earlier_messages(left), &[], longest));
    }
    let numbered = if found.is_empty() { Vec::new() } else { numbered_texts(prompt) };
    // A text is known by its address: the same words may stand twice.
    let numbered = numbered.into_iter().map(|(number, text)| (text.as_ptr(), number));
    let numbers: HashMap<*const u8, usize> = numbered.collect();
    // A state in which something was found may be left out whole: the strings behind it have other numbers.
    let is_numbered = !found.iter().any(|found| found.field.as_deref() == Some(PROVIDER_STATE));
    for (index, message) in prompt.messages.iter().enumerate().skip(left) {
        let here = || found.iter().filter(move |found| found.is_in_message(index));
        let (mut shown, mut marks) = (String::new(), Vec::new());
        match &message.body {
            Body::Empty => {}
            Body::Text(text) => {
                shown.push_str(text);
                if numbers.contains_key(&text.as_ptr()) {
                    marks.extend(here().map(Found::mark));
                }
            }
            Body::Parts(parts) => {
                let mut begin = 0;
                for part in parts {
                    let json;
                    let text = if let Some(text) = text_of(part) {
                        let number = numbers.get(&text.as_ptr()).filter(|_| is_numbered);
                        let of_part = here().filter(|found| number == Some(&found.part));
                        let placed = in_stored(text, &of_part.map(Found::mark).collect::<Vec<_>>());
                        marks.extend(placed.into_iter().map(|(start, end, name)| Mark {
                            start: begin + start,
                            end: begin + end,
                            name,
                            may_be_replaced: false,
                        }));
                        text
                    } else {
                        json = part.to_string();
                        &json
                    };
                    shown.push_str(text);
                    shown.push('\n');
                    begin += text.chars().count() + 1;
                }
                shown.pop();
            }
        }
        if let Some(calls) = message.extra.get("tool_calls").filter(|calls| !calls.is_null()) {
            if !shown.is_empty() {
                shown.push('\n');
            }
            shown.push_str(&calls.to_string());
        }
        texts.push(cut(name.unwrap_or(message.role.as_str()), &shown, &marks, longest));
    }
    texts
}

/// The text of a part of a message, if it is one.
fn text_of(part: &Value) -> Option<&str> {
    part.as_str().or_else(|| part.get("text")?.as_str())
}

/// A text in which nothing was found.
pub(crate) fn unmarked(name: &str, text: &str) -> Text {
    cut(name, text, &[], LONGEST_TEXT).text
}

/// The beginning of a text, with what was found in it.
pub(crate) fn cut(name: &str, text: &str, found: &[Mark], longest: usize) -> Marked {
    let end = text.floor_char_boundary(longest.min(text.len()));
    let whole = (end < text.len()).then_some(Bytes(text.len()));
    let placed = in_stored(&text[..end], found);
    let marks = FindingMark::split(&text[..end], &placed);
    let text = Text { name: name.to_owned(), marks, whole, ..Text::default() };
    Marked { text, findings: placed.len() }
}

#[cfg(test)]
mod tests {
    use dashboard::ENGLISH;
    use domain::step::Security;
    use serde_json::json;

    use super::*;
    use crate::evidence::trace_detail::tests::step;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "é".repeat(LONGEST_TEXT);
        let Text { marks, whole, .. } = unmarked("output", &long);
        assert_eq!((marks[0].text.len(), whole), (LONGEST_TEXT, Some(Bytes(2 * LONGEST_TEXT))));
        let odd = format!("a{long}");
        assert_eq!(unmarked("", &odd).marks[0].text.len(), LONGEST_TEXT - 1);
        assert_eq!(unmarked("", "short").whole, None);
    }

    /// The texts of a step of a kind with findings, as their names, their words and what is marked.
    fn shown(
        kind: StepKind,
        findings: &Value,
        content: &Value,
    ) -> Vec<(String, String, Vec<String>)> {
        let step = Step {
            security: Security { findings: Some(findings.clone()), ..Security::default() },
            ..step(kind, None)
        };
        let json = content.to_string();
        let content = ShownContent::read(json.as_bytes()).unwrap();
        let texts = texts(&ENGLISH, &step, &content, LONGEST_TEXT);
        let shown = texts.into_iter().map(|Marked { text, .. }| {
            let words = text.marks.iter().map(|mark| &*mark.text).collect();
            let marked = text.marks.iter().filter(|mark| mark.finding.is_some());
            (text.name, words, marked.map(|mark| mark.text.clone()).collect())
        });
        shown.collect()
    }

    fn finding(part: usize, start: usize, end: usize, place: &Value) -> Value {
        let mut finding = json!({
            "category": "pii", "type": "EMAIL", "part": part, "start": start, "end": end, "score": 0.5});
        let place = place.as_object().unwrap().clone();
        finding.as_object_mut().unwrap().extend(place);
        finding
    }

    #[test]
    fn findings_in_a_text_answer_are_marked() {
        let output = json!({"within": "output"});
        let content = json!({"input": "hi", "output": "say \"jo@a.example\""});
        let found = json!([finding(0, 5, 17, &output), finding(1, 0, 3, &output)]);
        let (name, words, marked) = shown(StepKind::Run, &found, &content).pop().unwrap();
        assert_eq!((&*name, &*words), ("output", "say \"jo@a.example\""));
        assert_eq!(marked, ["jo@a.example"], "that of part 1 is in another string");
        // An answer with calls of tools has its text inside.
        let content = json!({"output": {"content": "jo@a.example", "tool_calls": [{}]}});
        let found = json!([finding(0, 0, 12, &output)]);
        assert_eq!(shown(StepKind::Run, &found, &content)[0].2, ["jo@a.example"]);
        // Places in JSON are none in its text.
        let content = json!({"output": {"dimensions": 3, "vectors": 1}});
        assert_eq!(shown(StepKind::Run, &found, &content)[0].2, [""; 0]);
    }

    #[test]
    fn the_result_of_a_tool_is_marked_and_its_call_is_not() {
        let content = json!({
            "input": {"server_label": "docs", "id": "a", "name": "read", "arguments": {}},
            "output": "ask jo@a.example"});
        let of_field = |part, field| {
            finding(part, 4, 16, &json!({"message": 0, "role": "tool", "field": field}))
        };
        let found = json!([of_field(0, "content"), of_field(1, "arguments")]);
        let texts = shown(StepKind::ToolCall, &found, &content);
        let names: Vec<&str> = texts.iter().map(|(name, ..)| &**name).collect();
        assert_eq!(names, ["input", "output"]);
        assert_eq!((&texts[0].2, &texts[1].2), (&vec![], &vec!["jo@a.example".to_owned()]));
    }

    #[test]
    fn findings_in_the_parts_of_a_message_are_marked() {
        let content = json!({"input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "é"},
                {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}},
                {"type": "text", "text": "mail [EMAIL_1_0a1b2c3d], ask bob"},
            ]},
        ]});
        let user = json!({"message": 1, "role": "user", "field": "content"});
        // The strings: "Be brief.", "text", "é", "image_url", "image_url", "https…", "text", "mail …".
        let found =
            json!([finding(7, 5, 17, &user), finding(7, 23, 26, &user), finding(5, 0, 4, &user)]);
        let texts = shown(StepKind::Run, &found, &content);
        assert_eq!(texts[1].0, "user");
        assert_eq!(texts[1].2, ["[EMAIL_1_0a1b2c3d]", "bob"]);
        let state = json!({"message": 0, "role": "assistant", "field": "provider_state"});
        let found = json!([finding(7, 5, 17, &user), finding(1, 0, 1, &state)]);
        assert_eq!(shown(StepKind::Run, &found, &content)[1].2, [""; 0], "numbers may differ");
        // Texts to embed are messages, one each.
        let content = json!({"input": ["The weather", "mail bob"]});
        let of_message = json!({"message": 1, "role": "user", "field": "content"});
        let texts = shown(StepKind::Run, &json!([finding(1, 5, 8, &of_message)]), &content);
        assert_eq!((&*texts[1].0, &*texts[1].2), ("input", &["bob".to_owned()][..]));
        assert_eq!(texts[0].2, [""; 0]);
    }

    #[test]
    fn parts_and_tool_calls_are_shown() {
        let read = |message: Value| {
            shown(StepKind::Run, &json!([]), &json!({"input": [message]})).remove(0)
        };
        let parts = [json!({"type": "text", "text": "<b>"}), json!({"type": "image"})];
        let (name, words, _) = read(json!({"role": "user", "content": parts}));
        assert_eq!((&*name, &*words), ("user", "<b>\n{\"type\":\"image\"}"));
        let (_, words, _) =
            read(json!({"role": "assistant", "content": null, "tool_calls": [{"id": "a"}]}));
        assert_eq!(words, r#"[{"id":"a"}]"#);
    }
}
