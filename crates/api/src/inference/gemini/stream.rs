//! A streamed answer in Gemini's format: server-sent events, or one JSON array.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use domain::ids::StepId;
use domain::json_weight::InnerJson;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use gateway::{Piece, Refusal, Started};
use serde::Serialize;
use serde_json::{Value, json};

use crate::http::error::Failure;
use crate::http::vendor_errors::GeminiError;
use crate::inference::canonical::answer::Call;
use crate::inference::canonical::block_sequencer::{BlockEvent, BlockSequencer, ContentKind, Part};
use crate::inference::canonical::chunk_reader::ChunkReader;
use crate::inference::gemini::answer::{self, Ending, GeneratedContent, function_call, sign};
use crate::inference::gemini::generate::{AnswerForm, AnswerOptions};

/// The chunks of an answer.
pub(super) fn body(
    started: &Started,
    pieces: BoxStream<'static, Vec<Piece>>,
    options: AnswerOptions,
) -> Body {
    let mut writer = Writer::new(started, options);
    Body::from_stream(pieces.map(move |pieces| Ok::<_, Infallible>(writer.write(pieces))))
}

/// The only chunk of a request that was refused before any model was called.
pub(super) fn refused(refusal: Refusal, form: AnswerForm) -> String {
    let mut out = Chunks { form, began: false };
    let mut text = String::new();
    out.write(&mut text, &answer::refused(refusal));
    out.end(&mut text);
    text
}

/// Writes chunks one after the other.
struct Chunks {
    form: AnswerForm,
    began: bool,
}

impl Chunks {
    fn write(&mut self, out: &mut String, chunk: &impl Serialize) {
        // Strings, numbers and their lists and maps always serialize.
        self.write_json(out, &serde_json::to_string(chunk).unwrap_or_default());
    }

    fn write_json(&mut self, out: &mut String, chunk: &str) {
        if self.form == AnswerForm::Events {
            for line in chunk.split(['\n', '\r']) {
                out.push_str("data: ");
                out.push_str(line);
                out.push_str("\r\n");
            }
            out.push_str("\r\n");
        } else {
            out.push_str(if self.began { ",\r\n" } else { "[" });
            out.push_str(chunk);
        }
        self.began = true;
    }

    fn end(&self, out: &mut String) {
        if self.form == AnswerForm::Array {
            out.push_str(if self.began { "]" } else { "[]" });
        }
    }
}

/// Writes pieces as chunks.
struct Writer {
    step: StepId,
    model: String,
    with_thoughts: bool,
    /// Whether the pieces are the provider's own chunks: nothing is added to them but an error.
    has_sources: bool,
    chunks: Chunks,
    reader: ChunkReader,
    sequencer: BlockSequencer,
    /// The open part.
    open: Option<Part>,
    /// The arguments of an open call.
    arguments: String,
    inner: InnerJson,
    /// The parts of the next chunk.
    parts: Vec<Value>,
    /// The first call and everything behind it: its signature comes at the end of the answer.
    held: Vec<Value>,
    refuses: bool,
}

impl Writer {
    fn new(started: &Started, options: AnswerOptions) -> Self {
        Self {
            step: started.step,
            model: started.model.clone(),
            with_thoughts: options.with_thoughts,
            has_sources: started.has_sources,
            chunks: Chunks { form: options.form, began: false },
            reader: ChunkReader::default(),
            sequencer: BlockSequencer::default(),
            open: None,
            arguments: String::new(),
            inner: InnerJson::default(),
            parts: Vec::new(),
            held: Vec::new(),
            refuses: false,
        }
    }

    fn write(&mut self, pieces: Vec<Piece>) -> Bytes {
        let mut out = String::with_capacity(256);
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.sequencer.text(ContentKind::Text, text),
                Piece::Native(chunk) => self.reader.read(chunk, &mut self.sequencer),
                Piece::Source(_, json) => {
                    self.chunks.write_json(&mut out, &json);
                    continue;
                }
                Piece::End { .. } if self.has_sources => {
                    self.chunks.end(&mut out);
                    continue;
                }
                Piece::End { finish, usage, blocked } => {
                    let refuses = self.refuses;
                    self.end(&mut out, Ending { finish, usage, blocked, refuses });
                    continue;
                }
                Piece::Broken(error) => {
                    self.flush(&mut out);
                    self.chunks.write(&mut out, &GeminiError::of(Failure::from(error)));
                    self.chunks.end(&mut out);
                    continue;
                }
            }
            let events = self.sequencer.take_events();
            self.take(events);
        }
        self.flush(&mut out);
        out.into()
    }

    /// Writes the parts that are ready.
    fn flush(&mut self, out: &mut String) {
        if !self.parts.is_empty() {
            let parts = std::mem::take(&mut self.parts);
            let chunk = GeneratedContent::of(self.step, self.model.clone(), parts, None);
            self.chunks.write(out, &chunk);
        }
    }

    fn take(&mut self, events: Vec<BlockEvent>) {
        for event in events {
            match event {
                BlockEvent::Begin(part) => self.open = Some(part),
                BlockEvent::More(text) => match self.open {
                    Some(Part::Content(kind)) => self.say(kind, &text),
                    Some(Part::Call { .. }) => self.arguments.push_str(&text),
                    None => {}
                },
                BlockEvent::End => {
                    if let Some(Part::Call { id, name }) = self.open.take() {
                        let arguments = std::mem::take(&mut self.arguments);
                        let call = Call { id, name, arguments };
                        self.held.push(function_call(&call, &mut self.inner));
                    }
                }
            }
        }
    }

    /// More of a text, in one part with the text before it.
    fn say(&mut self, kind: ContentKind, more: &str) {
        let thought = kind == ContentKind::Thought;
        self.refuses |= kind == ContentKind::Refusal;
        if thought && !self.with_thoughts {
            return;
        }
        let parts = if self.held.is_empty() { &mut self.parts } else { &mut self.held };
        let last = parts.last_mut().filter(|part| part.get("thought").is_some() == thought);
        if let Some(Value::String(text)) = last.and_then(|part| part.get_mut("text")) {
            text.push_str(more);
            return;
        }
        let mut part = json!({"text": more});
        if thought {
            part["thought"] = true.into();
        }
        parts.push(part);
    }

    fn end(&mut self, out: &mut String, end: Ending) {
        let events = self.sequencer.finish();
        self.take(events);
        let refuses = self.refuses;
        let mut parts = std::mem::take(&mut self.parts);
        // Calls of an answer that is withheld are not to be made.
        if end.blocked.is_none() {
            parts.append(&mut self.held);
            if let Some(state) = self.sequencer.take_state() {
                sign(&mut parts, &state);
            }
        }
        let end = Ending { refuses, ..end };
        let chunk = GeneratedContent::of(self.step, self.model.clone(), parts, Some(end));
        self.chunks.write(out, &chunk);
        self.chunks.end(out);
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
