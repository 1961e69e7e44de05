//! A trace with its steps, which are read while they are sent.

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use dashboard::{
    Bar, Bytes, Choice, Count, Duration, FindingMark, Money, Page as _, Section, StepView,
    TRACE_END, Text, Texts, Tile, TraceHead,
};
use domain::shown_content::{Output, ShownContent};
use domain::step::{Step, StepStatus};
use domain::time::millis;
use gateway::{DetailText, TraceDetail};
use serde::Deserialize;
use serde_json::Value;

use crate::app::App;
use crate::console::failure::Result;
use crate::console::visit::Visit;
use crate::console::{language, playground};
use crate::http::extract::Segments;

/// The steps that are drawn in time.
const MOST_BARS: usize = 200;
/// The most bytes of a text that a page shows.
const LONGEST_TEXT: usize = 32 * 1024;
/// The longest name in a placeholder.
const LONGEST_PLACEHOLDER: usize = 100;
/// The most messages of a conversation that a page shows, the latest.
const MOST_MESSAGES: usize = 50;

/// The page.
pub(super) async fn show(State(app): State<App>, visit: Visit, path: Segments) -> Result<Response> {
    let project = visit.shown_project()?;
    let (detail, steps) =
        app.gateway.trace_for_member(visit.member(), project, path.text("id")?).await?;
    let frame = visit.frame(Section::Traces, visit.t.trace.title, Some(project));
    let models = app.gateway.list_models(visit.member(), project)?.into_iter();
    let mut head = head(frame, &detail, &steps);
    head.keys = playground::keys(&app, &visit, project);
    head.models = models.map(|view| Choice::of(view.model.identifier.clone())).collect();
    drop(steps);
    let text = DetailText {
        head: head.head().into_bytes(),
        between: b"",
        end: TRACE_END.as_bytes(),
        step: write_step,
    };
    let pieces = app.gateway.write_detail(detail.steps, text);
    Ok(([(CONTENT_TYPE, "text/html; charset=utf-8")], Body::from_stream(pieces)).into_response())
}

fn head(frame: dashboard::Frame, detail: &TraceDetail, steps: &[Step]) -> TraceHead {
    let t = frame.t;
    let (trace, figures) = (&detail.trace, &detail.figures);
    let assessment = trace.assessment.as_ref();
    let tile = |label, value: String, note: String| Tile { label, value, change: None, note };
    let mut tiles = vec![
        tile(t.trace.cost, Money(detail.total_cost).to_string(), String::new()),
        tile(t.trace.duration, Duration(figures.total_latency_ms).to_string(), String::new()),
        tile(
            t.trace.steps,
            Count(i64::try_from(figures.step_count).unwrap_or(i64::MAX)).to_string(),
            t.trace.median(Duration(figures.latency_p50)),
        ),
    ];
    if let Some(revenue) = trace.revenue {
        let margin = Money(revenue - detail.total_cost);
        tiles.push(tile(t.trace.margin, margin.to_string(), t.trace.of(Money(revenue))));
    }
    if let Some(score) = figures.shadow_score {
        tiles.push(tile(t.trace.shadow_model, format!("{score:.2}"), t.trace.alike.to_owned()));
    }
    let named = [
        (figures.pii_detected, t.words.personal_data),
        (figures.injection_attempt, t.words.injection),
        (figures.secret_leaked, t.words.secret),
    ];
    TraceHead {
        frame,
        id: trace.id.to_string(),
        status: trace.status.as_str(),
        opened: trace.created_at,
        grade: assessment.map(|assessment| assessment.grades.overall.as_str()),
        reasons: assessment
            .map(|assessment| assessment.reasons.iter().map(|why| why.reason.clone()).collect())
            .unwrap_or_default(),
        findings: found(named),
        tiles,
        bars: bars(steps),
        more_bars: steps.len().saturating_sub(MOST_BARS),
        metadata: trace.metadata.as_ref().and_then(|json| serde_json::to_string_pretty(json).ok()),
        keys: Vec::new(),
        models: Vec::new(),
    }
}

fn found(named: [(bool, &'static str); 3]) -> Vec<&'static str> {
    named.into_iter().filter(|(is_found, _)| *is_found).map(|(_, name)| name).collect()
}

fn bars(steps: &[Step]) -> Vec<Bar> {
    let steps = steps.get(..MOST_BARS).unwrap_or(steps);
    let Some(begin) = steps.iter().map(|step| step.started_at).min() else { return Vec::new() };
    let end = steps.iter().map(|step| step.finished_at).max().unwrap_or(begin);
    let whole = (end.since(begin)).max(1) as f64;
    let place = |micros: i64| micros as f64 / whole * 1_000.0;
    let bar = |step: &Step| Bar {
        id: step.id.0,
        kind: step.kind.as_str(),
        has_failed: step.status == StepStatus::Failed,
        label: label(step),
        duration: Duration(millis(step.latency())),
        cost: step.call.as_ref().map(|call| Money(call.cost)),
        span: (place(step.started_at.since(begin)), place(step.latency())),
    };
    steps.iter().map(bar).collect()
}

/// The model of a step, or the endpoint it came in by.
fn label(step: &Step) -> String {
    let model = step.call.as_ref().map(|call| call.model.clone());
    model.unwrap_or_else(|| step.api_endpoint.as_str().to_owned())
}

/// Writes a step with its content, which is a [`domain::step::Content`] as JSON.
#[expect(clippy::unnecessary_wraps, reason = "a detail's steps may be written by what can fail")]
fn write_step(step: Step, content: Option<&[u8]>, into: &mut Vec<u8>) -> serde_json::Result<()> {
    // A step is written by a plain function, which has no frame.
    let t = language::texts();
    let texts = match content.map(ShownContent::read) {
        Some(Some(content)) => texts(t, &step, &content),
        Some(None) => vec![text(t.step.content.to_owned(), t.step.too_deep, &[])],
        None => Vec::new(),
    };
    into.extend_from_slice(view(t, step, texts).html().as_bytes());
    Ok(())
}

fn view(t: &'static Texts, step: Step, texts: Vec<Text>) -> StepView {
    let security = &step.security;
    let named = [
        (security.pii, t.words.personal_data),
        (security.injection, t.words.injection),
        (security.secret, t.words.secret),
    ];
    let mut fields = vec![t.step.duration(Duration(millis(step.latency())))];
    if let Some(call) = &step.call {
        let usage = &call.usage;
        fields.push(t.step.cost(Money(call.cost)));
        let tokens = |count: u64| Count(i64::try_from(count).unwrap_or(i64::MAX));
        fields.push(t.step.prompt_tokens(tokens(usage.prompt)));
        fields.push(t.step.completion_tokens(tokens(usage.completion)));
        if let Some(first) = call.first_token {
            fields.push(t.step.first_token_after(Duration(millis(first))));
        }
        if call.attempts > 1 {
            fields.push(t.step.attempts(call.attempts));
        }
        if call.shadow {
            fields.push(t.step.shadow_of(step.parent.map_or(0, |parent| parent.0)));
        }
    }
    if let Some(routing) = &step.routing
        && let Some(tier) = routing.tier
    {
        fields.push(t.step.tier(tier.as_str()));
    }
    if security.risk_score > 0.0 {
        fields.push(t.step.risk_score(format_args!("{:.2}", security.risk_score)));
    }
    StepView {
        t,
        id: step.id.0,
        kind: step.kind.as_str(),
        status: step.status.as_str(),
        label: label(&step),
        started: step.started_at,
        findings: found(named),
        fields,
        texts,
        reason: step.reason.or(step.error),
    }
}

/// A finding of a step, and its place.
#[derive(Deserialize)]
struct Found {
    category: String,
    #[serde(rename = "type")]
    kind: String,
    start: usize,
    end: usize,
    #[serde(default)]
    message: Option<usize>,
    #[serde(default)]
    field: Option<String>,
    /// `input` or `output`; a request that was blocked has findings of its input alone.
    #[serde(default)]
    within: Option<String>,
}

impl Found {
    fn all(step: &Step) -> Vec<Self> {
        let found = step.security.findings.as_ref();
        found.and_then(|found| Vec::deserialize(found).ok()).unwrap_or_default()
    }

    fn is_in_output(&self) -> bool {
        self.within.as_deref() == Some("output")
    }

    /// Whether it is in the text of a message of the input. An input that is one text is the first one.
    fn is_in_message(&self, index: usize) -> bool {
        !self.is_in_output()
            && self.message.unwrap_or(0) == index
            && self.field.as_deref().is_none_or(|field| field == "content")
    }

    fn mark(&self) -> (usize, usize, String) {
        (self.start, self.end, format!("{}: {}", self.category, self.kind))
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

fn texts(t: &Texts, step: &Step, content: &ShownContent<'_>) -> Vec<Text> {
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
                    texts.push(text(t.step.input.to_owned(), &t.step.earlier_messages(left), &[]));
                }
                let shown = messages.into_iter().enumerate().skip(left);
                texts.extend(shown.map(|(index, shown)| {
                    message(shown, &marks_of(&|found| found.is_in_message(index)))
                }));
            }
            None => {
                let marks = marks_of(&|found| found.is_in_message(0));
                texts.push(text(t.step.input.to_owned(), &plain(input.get()), &marks));
            }
        }
    }
    let marks = marks_of(&Found::is_in_output);
    match content.output(step) {
        Some(Output::Json(json)) => {
            texts.push(text(t.step.output.to_owned(), &plain(json.get()), &[]));
        }
        Some(Output::Text(output)) => texts.push(text(t.step.output.to_owned(), output, &marks)),
        Some(Output::Allowed { allowed }) => {
            let verdict = if allowed { t.step.allowed } else { t.step.not_allowed };
            texts.push(text(t.step.output.to_owned(), verdict, &[]));
        }
        None => {}
    }
    texts.retain(|text| !text.marks.is_empty());
    texts
}

/// A message as it is shown. The marks are those of a content that is one text.
fn message(message: Message, marks: &[(usize, usize, String)]) -> Text {
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
    text(message.role, &shown, if is_text { marks } else { &[] })
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

/// The beginning of a text, with what was found in it: ranges of characters, and names.
fn text(name: String, text: &str, found: &[(usize, usize, String)]) -> Text {
    let end = text.floor_char_boundary(LONGEST_TEXT.min(text.len()));
    let whole = (end < text.len()).then_some(Bytes(text.len()));
    let marks = FindingMark::split(&text[..end], &in_stored(&text[..end], found));
    Text { name, marks, whole }
}

/// The places of findings in a text as it is stored: with placeholders for what was replaced, which are longer
/// or shorter.
fn in_stored(text: &str, found: &[(usize, usize, String)]) -> Vec<(usize, usize, String)> {
    if found.is_empty() {
        return Vec::new();
    }
    let characters: Vec<char> = text.chars().collect();
    let mut found = found.to_vec();
    found.sort_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
    let (mut moved, mut after) = (0, 0);
    let mut placed: Vec<(usize, usize, String)> = Vec::new();
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
        let Text { marks, whole, .. } = text("output".to_owned(), &long, &[]);
        assert_eq!((marks[0].text.len(), whole), (LONGEST_TEXT, Some(Bytes(2 * LONGEST_TEXT))));
        let odd = format!("a{long}");
        assert_eq!(text(String::new(), &odd, &[]).marks[0].text.len(), LONGEST_TEXT - 1);
        assert_eq!(text(String::new(), "short", &[]).whole, None);
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
        let read = |json: &str| message(serde_json::from_str(json).unwrap(), &[]);
        let parts =
            read(r#"{"role":"user","content":[{"type":"text","text":"<b>"},{"type":"image"}]}"#);
        assert_eq!((&*parts.name, &*parts.marks[0].text), ("user", "<b>\n{\"type\":\"image\"}"));
        let call = read(r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}"#);
        assert_eq!(call.marks[0].text, r#"[{"id":"a"}]"#);
    }
}
