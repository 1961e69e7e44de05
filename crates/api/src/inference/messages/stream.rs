//! A streamed answer in Anthropic's format.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use domain::step::FinishReason;
use domain::usage::Usage;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use gateway::{Piece, Refusal, Started};
use serde_json::{Value, json};

use crate::http::dialect::Dialect;
use crate::http::error::Failure;
use crate::http::vendor_errors::MessagesError;
use crate::inference::canonical::block_sequencer::{BlockEvent, BlockSequencer, ContentKind, Part};
use crate::inference::canonical::chunk_reader::ChunkReader;
use crate::inference::messages::answer::{
    self, Ending, MessageAnswer, redacted_thinking, stop_details, stop_reason, usage,
};
use crate::inference::sse;

/// The events of an answer.
pub fn body(started: &Started, pieces: BoxStream<'static, Vec<Piece>>, dialect: Dialect) -> Body {
    let mut writer = Writer::new(started, dialect);
    Body::from_stream(pieces.map(move |pieces| Ok::<_, Infallible>(writer.write(pieces))))
}

/// All events of a request that was refused before any model was called.
pub fn refused(refusal: Refusal, dialect: Dialect) -> String {
    let mut out = String::new();
    let details = stop_details(&refusal.reason);
    begin(&mut out, &answer::refused(refusal).without_end().in_dialect(dialect));
    end(&mut out, (Some("refusal"), None), Some(details), Usage::default());
    out
}

/// Writes pieces as events.
struct Writer {
    /// The answer that the stream begins with; taken once it has been sent.
    blank: Option<MessageAnswer>,
    dialect: Dialect,
    /// Whether the pieces are the provider's own events: nothing is added to them but an error.
    has_sources: bool,
    reader: ChunkReader,
    sequencer: BlockSequencer,
    /// The number of the open block, or of the next.
    index: u64,
    /// The type of the open block's pieces, and the name of their text.
    delta: (&'static str, &'static str),
    /// The reason that the model gives for its refusal.
    refusal: String,
    refuses: bool,
    ending: Ending,
}

impl Writer {
    fn new(started: &Started, dialect: Dialect) -> Self {
        let blank = MessageAnswer::blank(started.step, started.trace, started.model.clone());
        let has_sources = started.has_sources;
        Self {
            // The provider's own events begin with an answer of their own.
            blank: (!has_sources).then(|| blank.in_dialect(dialect)),
            has_sources,
            dialect,
            reader: ChunkReader::default(),
            sequencer: BlockSequencer::default(),
            index: 0,
            delta: ("", ""),
            refusal: String::new(),
            refuses: false,
            ending: Ending::default(),
        }
    }

    fn write(&mut self, pieces: Vec<Piece>) -> Bytes {
        let mut out = String::with_capacity(256 * pieces.len());
        if let Some(blank) = self.blank.take() {
            begin(&mut out, &blank);
        }
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.sequencer.text(ContentKind::Text, text),
                Piece::Native(mut chunk) => {
                    self.ending.take_from(&mut chunk, "delta");
                    self.reader.read(chunk, &mut self.sequencer);
                }
                Piece::Source(name, json) => {
                    sse::source_event(&mut out, &name, &json);
                    continue;
                }
                Piece::End { .. } if self.has_sources => continue,
                Piece::End { finish, usage, blocked } => {
                    self.end(&mut out, finish, usage, blocked);
                    continue;
                }
                Piece::Broken(error) => {
                    let error = MessagesError::of(Failure::from(error), self.dialect);
                    event(&mut out, "error", &error);
                    continue;
                }
            }
            let events = self.sequencer.take_events();
            self.write_events(&mut out, events);
        }
        out.into()
    }

    fn write_events(&mut self, out: &mut String, events: Vec<BlockEvent>) {
        for next in events {
            match next {
                BlockEvent::Begin(part) => self.block_begins(out, part),
                BlockEvent::More(text) => {
                    if self.refuses {
                        self.refusal.push_str(&text);
                    }
                    let (kind, name) = self.delta;
                    let delta = json!({"type": kind, name: text});
                    let more = json!({"type": "content_block_delta", "index": self.index,
                        "delta": delta});
                    event(out, "content_block_delta", &more);
                }
                BlockEvent::End => self.block_ends(out),
            }
        }
    }

    fn block_begins(&mut self, out: &mut String, part: Part) {
        let block = match &part {
            Part::Content(ContentKind::Thought) => {
                json!({"type": "thinking", "thinking": "", "signature": ""})
            }
            Part::Content(ContentKind::Text | ContentKind::Refusal) => {
                json!({"type": "text", "text": ""})
            }
            Part::Call { id, name } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": {}})
            }
        };
        self.refuses = part == Part::Content(ContentKind::Refusal);
        self.delta = match part {
            Part::Content(ContentKind::Thought) => ("thinking_delta", "thinking"),
            Part::Content(ContentKind::Text | ContentKind::Refusal) => ("text_delta", "text"),
            Part::Call { .. } => ("input_json_delta", "partial_json"),
        };
        self.block(out, &block);
    }

    fn block(&mut self, out: &mut String, block: &Value) {
        let start = json!({"type": "content_block_start", "index": self.index,
            "content_block": block});
        event(out, "content_block_start", &start);
    }

    fn block_ends(&mut self, out: &mut String) {
        let stop = json!({"type": "content_block_stop", "index": self.index});
        event(out, "content_block_stop", &stop);
        self.index += 1;
    }

    fn end(
        &mut self,
        out: &mut String,
        finish: FinishReason,
        usage: Usage,
        blocked: Option<String>,
    ) {
        let events = self.sequencer.finish();
        self.write_events(out, events);
        // It comes long after the thinking is over: it goes into a block of its own. The vendor's own
        // answers end with their text, and clients show the last block, so at the root it is left out
        // where no call needs it back.
        let is_wanted = self.dialect == Dialect::Sluice || self.sequencer.has_calls();
        if let Some(state) = self.sequencer.take_state().filter(|_| is_wanted) {
            self.block(out, &redacted_thinking(&state));
            self.block_ends(out);
        }
        let refusal = Some(std::mem::take(&mut self.refusal)).filter(|text| !text.is_empty());
        let own = self.ending.details.take().filter(|_| blocked.is_none());
        let refusal = blocked.or(refusal);
        let details = own.or_else(|| refusal.as_deref().map(stop_details));
        let reason = stop_reason(finish, self.sequencer.has_calls(), details.is_some());
        end(out, self.ending.reason(reason), details, usage);
    }
}

fn begin(out: &mut String, blank: &MessageAnswer) {
    event(out, "message_start", &json!({"type": "message_start", "message": blank}));
}

fn end(
    out: &mut String,
    (reason, sequence): (Option<&str>, Option<String>),
    details: Option<Value>,
    used: Usage,
) {
    let mut delta = json!({"stop_reason": reason, "stop_sequence": sequence});
    if let Some(details) = details {
        delta["stop_details"] = details;
    }
    let usage = usage(used);
    event(out, "message_delta", &json!({"type": "message_delta", "delta": delta, "usage": usage}));
    event(out, "message_stop", &json!({"type": "message_stop"}));
}

fn event(out: &mut String, name: &str, data: &impl serde::Serialize) {
    out.push_str("event: ");
    out.push_str(name);
    out.push_str("\ndata: ");
    // Strings, numbers and their lists and maps always serialize.
    out.push_str(&serde_json::to_string(data).unwrap_or_default());
    out.push_str("\n\n");
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
