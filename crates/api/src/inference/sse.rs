//! Server-sent events in the chat-completion-chunk format.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::Write as _;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::ids::{StepId, TraceId};
use domain::original::{USAGE_ALONE, USAGE_TOO};
use domain::step::FinishReason;
use domain::time::Timestamp;
use domain::usage::Usage;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use gateway::{Piece, Refusal, Started, Streamed};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::http::dialect::Dialect;
use crate::http::error::Failure;
use crate::http::vendor_errors::ResponsesError;
use crate::inference::finding::FindingBody;

/// The header that keeps proxies from buffering.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// At most this many choices are ended when a stream is stopped; a request for many choices gets
/// 128.
const MOST_CHOICES: usize = 128;

/// One event: a chunk in the chat-completion-chunk format as JSON text, or `[DONE]`.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what is written by hand")]
pub struct EventBody {
    data: String,
}

/// The end of every stream that did not break.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// A piece of text, as a chunk has it.
#[derive(Serialize)]
struct Content<'a> {
    content: &'a str,
}

/// The differences between the endpoints that stream.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether a first chunk names the role.
    pub with_role: bool,
    /// Whether a chunk with the usage follows the last one.
    pub with_usage: bool,
    /// The API that it belongs to.
    pub dialect: Dialect,
}

/// A streamed answer as a response.
pub fn respond(streamed: Streamed, style: Style, now: Timestamp) -> Response {
    events(match streamed {
        Streamed::Pieces(started, pieces) => body(&started, pieces, style),
        Streamed::Blocked(refusal) => refused(refusal, now, style.dialect).into(),
    })
}

/// The events of an answer.
pub fn body(started: &Started, pieces: BoxStream<'static, Vec<Piece>>, style: Style) -> Body {
    let mut encoder = Encoder::new(started, style);
    Body::from_stream(pieces.map(move |pieces| Ok::<_, Infallible>(encoder.encode(pieces))))
}

/// All events of a request that was refused before any model was called.
pub fn refused(refusal: Refusal, now: Timestamp, dialect: Dialect) -> Vec<u8> {
    let Refusal { reason, step, trace, cause } = refusal;
    let mut chunk = chunk_fields(step, now, "");
    match dialect {
        Dialect::Sluice => {
            close(&mut chunk, [0], &json!({}));
            add_records(&mut chunk, &reason, step, trace);
            if let Some(cause) = FindingBody::of(cause) {
                chunk.insert("cause".to_owned(), json!(cause));
            }
        }
        Dialect::Vendor => {
            close(&mut chunk, [0], &json!({"role": "assistant", "refusal": reason}));
        }
    }
    let mut out = Vec::new();
    event(&mut out, &chunk);
    out.extend_from_slice(DONE);
    out
}

/// Events as a response.
pub fn events(body: Body) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Writes an event of a provider's as it came.
pub fn source_event(out: &mut String, name: &str, json: &str) {
    // A name of several lines would be other fields.
    if !name.bytes().any(|byte| matches!(byte, b'\n' | b'\r')) {
        out.push_str("event: ");
        out.push_str(name);
        out.push('\n');
    }
    for line in lines(json) {
        out.push_str("data: ");
        out.push_str(line);
        out.push('\n');
    }
    out.push('\n');
}

/// The lines of a JSON text. A search for one of two characters would look at each character by itself.
fn lines(json: &str) -> impl Iterator<Item = &str> {
    json.split('\n').flat_map(|line| line.split('\r'))
}

/// The id that a completion has in the chat-completions format.
pub fn completion_id(step: StepId) -> String {
    format!("chatcmpl-{step}")
}

/// Writes pieces as events. The common beginning of all chunks is written once.
struct Encoder {
    head: Vec<u8>,
    fields: Map<String, Value>,
    step: StepId,
    trace: TraceId,
    style: Style,
    begun: bool,
    /// The choices whose role was sent.
    roles: BTreeSet<u64>,
    /// Further choices that have content and no end yet.
    unended: BTreeSet<u64>,
    /// Whether the pieces are the provider's own chunks: little is added to them.
    has_sources: bool,
    /// Whether one of those has reported the usage.
    reported: bool,
}

impl Encoder {
    fn new(started: &Started, style: Style) -> Self {
        let fields = chunk_fields(started.step, started.created, &started.model);
        let mut head = Vec::new();
        write(&mut head, &fields);
        // The object stays open.
        head.pop();
        Self {
            head,
            fields,
            step: started.step,
            trace: started.trace,
            style,
            begun: false,
            roles: BTreeSet::new(),
            unended: BTreeSet::new(),
            has_sources: started.has_sources,
            reported: false,
        }
    }

    fn encode(&mut self, pieces: Vec<Piece>) -> Bytes {
        let mut out = Vec::with_capacity(256 * pieces.len());
        if !self.begun && self.style.with_role && !self.has_sources {
            let delta = json!({"role": "assistant", "content": ""});
            self.chunk(&mut out, &delta, None);
            self.roles.insert(0);
        }
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.chunk(&mut out, &Content { content: &text }, None),
                Piece::Native(chunk) => self.native(&mut out, chunk),
                Piece::Source(name, json) => self.source(&mut out, &name, &json),
                Piece::End { usage, .. } if self.has_sources => self.end_sources(&mut out, usage),
                Piece::End { finish, usage, blocked } => self.end(&mut out, finish, usage, blocked),
                Piece::Broken(error) => {
                    let failure = Failure::from(error);
                    match self.style.dialect {
                        Dialect::Sluice => event(&mut out, &failure.into_body()),
                        Dialect::Vendor => {
                            event(&mut out, &ResponsesError::of(failure, Dialect::Vendor));
                        }
                    }
                }
            }
        }
        out.into()
    }

    /// The first chunk carries the ids of the stream's records.
    fn open(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&self.head);
        if self.is_first_of_ours() {
            // Writing to memory cannot fail.
            let _ = write!(out, r#","step_id":{},"trace_id":"{}""#, self.step, self.trace);
        }
    }

    /// Whether the chunk that begins is the one with the ids of the records. A vendor's have none.
    fn is_first_of_ours(&mut self) -> bool {
        !std::mem::replace(&mut self.begun, true) && self.style.dialect == Dialect::Sluice
    }

    fn chunk(&mut self, out: &mut Vec<u8>, delta: &impl Serialize, finish: Option<&str>) {
        self.open(out);
        out.extend_from_slice(br#","choices":[{"index":0,"delta":"#);
        write(out, delta);
        out.extend_from_slice(br#","finish_reason":"#);
        write(out, &finish);
        out.extend_from_slice(b"}]}\n\n");
    }

    /// The provider's own chunk under our id, model and time.
    fn native(&mut self, out: &mut Vec<u8>, mut chunk: Map<String, Value>) {
        let choices = chunk.get_mut("choices").and_then(Value::as_array_mut);
        for choice in choices.into_iter().flatten() {
            let index = choice["index"].as_u64().unwrap_or(0);
            self.write_role_once(index, choice);
            if index > 0 && !choice["finish_reason"].is_null() {
                self.unended.remove(&index);
            } else if index > 0 && self.unended.len() < MOST_CHOICES {
                self.unended.insert(index);
            }
        }
        for (key, value) in &self.fields {
            chunk.insert(key.clone(), value.clone());
        }
        if self.is_first_of_ours() {
            chunk.insert("step_id".to_owned(), json!(self.step));
            chunk.insert("trace_id".to_owned(), json!(self.trace));
        }
        event(out, &chunk);
    }

    /// The provider's own chunk as it came. The usage that only the gateway has asked for stays here.
    fn source(&mut self, out: &mut Vec<u8>, name: &str, json: &str) {
        if name == USAGE_ALONE && !self.style.with_usage {
            return;
        }
        self.begun = true;
        self.reported |= matches!(name, USAGE_ALONE | USAGE_TOO);
        for line in lines(json) {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        out.push(b'\n');
    }

    /// Some servers do not report the usage that was asked for.
    fn end_sources(&mut self, out: &mut Vec<u8>, usage: Usage) {
        if self.style.with_usage && !self.reported {
            self.usage(out, usage);
        }
        out.extend_from_slice(DONE);
    }

    fn usage(&self, out: &mut Vec<u8>, usage: Usage) {
        let mut chunk = self.fields.clone();
        chunk.insert("choices".to_owned(), json!([]));
        chunk.insert("usage".to_owned(), usage.chat_form());
        event(out, &chunk);
    }

    /// Clients put the pieces of a string together: a role that comes twice is no role any more.
    fn write_role_once(&mut self, index: u64, choice: &mut Value) {
        let Some(delta) = choice.get_mut("delta").and_then(Value::as_object_mut) else { return };
        if delta.get("role").is_some_and(Value::is_string) && !self.roles.insert(index) {
            delta.shift_remove("role");
        }
    }

    fn end(
        &mut self,
        out: &mut Vec<u8>,
        finish: FinishReason,
        usage: Usage,
        blocked: Option<String>,
    ) {
        match blocked {
            None => self.chunk(out, &Map::new(), Some(finish.chat_word())),
            Some(reason) => {
                let mut chunk = self.fields.clone();
                let choices = std::iter::once(0).chain(std::mem::take(&mut self.unended));
                match self.style.dialect {
                    Dialect::Sluice => {
                        close(&mut chunk, choices, &json!({}));
                        add_records(&mut chunk, &reason, self.step, self.trace);
                    }
                    Dialect::Vendor => close(&mut chunk, choices, &json!({"refusal": reason})),
                }
                event(out, &chunk);
            }
        }
        if self.style.with_usage {
            self.usage(out, usage);
        }
        out.extend_from_slice(DONE);
    }
}

fn chunk_fields(step: StepId, created: Timestamp, model: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), completion_id(step).into());
    fields.insert("object".to_owned(), "chat.completion.chunk".into());
    fields.insert("created".to_owned(), created.unix_seconds().into());
    fields.insert("model".to_owned(), model.into());
    fields
}

/// Ends choices that are refused.
fn close(chunk: &mut Map<String, Value>, choices: impl IntoIterator<Item = u64>, delta: &Value) {
    let choices = choices.into_iter();
    let choices = choices
        .map(|index| json!({"index": index, "delta": delta, "finish_reason": "content_filter"}));
    chunk.insert("choices".to_owned(), choices.collect());
}

/// Adds the reason of a refusal, and the ids of its records.
fn add_records(chunk: &mut Map<String, Value>, reason: &str, step: StepId, trace: TraceId) {
    chunk.insert("reason".to_owned(), reason.into());
    chunk.insert("step_id".to_owned(), json!(step));
    chunk.insert("trace_id".to_owned(), json!(trace));
}

fn event(out: &mut Vec<u8>, json: &impl Serialize) {
    out.extend_from_slice(b"data: ");
    write(out, json);
    out.extend_from_slice(b"\n\n");
}

fn write(out: &mut Vec<u8>, json: &impl Serialize) {
    // Writing text to memory cannot fail.
    let _ = serde_json::to_writer(out, json);
}

#[cfg(test)]
mod tests {
    use gateway::Mode;

    use super::*;

    fn encoder(with_role: bool) -> Encoder {
        let started = Started {
            step: StepId(7),
            trace: "0190a0c4-7f3e-7000-8000-000000000001".parse().unwrap(),
            model: "m".to_owned(),
            created: Timestamp(0),
            dropped: Vec::new(),
            mode: Mode::Translated,
            has_sources: false,
        };
        let dialect = Dialect::Sluice;
        Encoder::new(&started, Style { with_role, with_usage: false, dialect })
    }

    fn native(index: u64, delta: Value, finish: Value) -> Piece {
        let choice = json!({"index": index, "delta": delta, "finish_reason": finish});
        Piece::Native(Map::from_iter([("choices".to_owned(), json!([choice]))]))
    }

    /// The chunks that pieces become.
    fn chunks(encoder: &mut Encoder, pieces: Vec<Piece>) -> Vec<Value> {
        let out = String::from_utf8(encoder.encode(pieces).to_vec()).unwrap();
        let events = out.split_terminator("\n\n").map(|event| &event["data: ".len()..]);
        let chunks = events.filter(|event| *event != "[DONE]");
        chunks.map(|chunk| serde_json::from_str(chunk).unwrap()).collect()
    }

    #[test]
    fn the_role_of_each_choice_is_told_once() {
        let says = |index: u64, more: Value| {
            let mut delta = json!({"role": "assistant"});
            delta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            native(index, delta, Value::Null)
        };
        for with_role in [true, false] {
            let mut encoder = encoder(with_role);
            let first = vec![
                says(0, json!({})),
                says(0, json!({"reasoning": "Hm"})),
                says(1, json!({"content": "a"})),
            ];
            let mut all = chunks(&mut encoder, first);
            let rest = vec![says(1, json!({"content": "b"})), says(0, json!({"refusal": "No"}))];
            all.extend(chunks(&mut encoder, rest));
            for index in [0_usize, 1] {
                let choices = all.iter().flat_map(|chunk| chunk["choices"].as_array().unwrap());
                let deltas = choices
                    .filter(|choice| choice["index"] == index)
                    .map(|choice| choice["delta"].as_object().unwrap());
                let (mut roles, mut said) = (Vec::new(), String::new());
                for (name, value) in deltas.flatten() {
                    match name.as_str() {
                        "role" => roles.push(value.as_str().unwrap()),
                        _ => said.push_str(value.as_str().unwrap()),
                    }
                }
                assert_eq!(roles, ["assistant"], "{with_role} {index}");
                assert_eq!(said, ["HmNo", "ab"][index], "nothing else is lost");
            }
        }
    }

    #[test]
    fn a_stopped_stream_ends_every_choice_that_has_begun() {
        let said = |index: u64, finish: Value| native(index, json!({"content": "a"}), finish);
        let stopped = Piece::End {
            finish: FinishReason::ContentFilter,
            usage: Usage::default(),
            blocked: Some("no".to_owned()),
        };
        let pieces =
            vec![said(2, Value::Null), said(1, Value::Null), said(1, "stop".into()), stopped];
        let all = chunks(&mut encoder(false), pieces);
        let ended: Vec<&Value> = all[3]["choices"].as_array().unwrap().iter().collect();
        let ends = |index| json!({"index": index, "delta": {}, "finish_reason": "content_filter"});
        assert_eq!(ended, [&ends(0), &ends(2)]);
    }
}
