//! Streamed events to canonical ones.

use domain::conversation::StreamEvent;
use domain::event_template::TemplateCache;
use domain::json_weight::{InnerJson, tree_bytes};
use domain::model::Model;
use domain::original::SourceEvent;
use serde_json::{Map, Value};

use crate::adapter::Decoder;
use crate::chat_form::answer::{
    arguments_piece, call_begins, reasoning_piece, refusal_piece, state_piece, stop_sequence_piece,
    stopped_piece,
};
use crate::chat_form::text;
use crate::error::Error;
use crate::vendors::anthropic::decode::{Counts, details, explanation, finish, own_state};
use crate::vendors::anthropic::events::{Event, Start};
use crate::vendors::anthropic::pass;
use crate::wire::error_body::{error_within, names_error};
use crate::wire::json;
use crate::wire::sse::Sse;

/// Most blocks of one answer, and most bytes of them that are kept: several times those of the longest
/// answer of a model.
const MOST_BLOCKS: usize = 1024;
const MOST_KEPT_BYTES: usize = 4 * 1024 * 1024;
/// Most bytes of their trees.
const MOST_TREE_BYTES: usize = 32 * 1024 * 1024;

/// Reads one stream.
pub(super) struct Reader {
    sse: Sse,
    message: Message,
}

impl Reader {
    pub(super) fn new(model: &Model) -> Self {
        let model = model.upstream_name().to_owned();
        Self { sse: Sse::default(), message: Message { model, ..Message::default() } }
    }

    /// A reader that hands over the vendor's own events, too.
    pub(super) fn passing(model: &Model) -> Self {
        let mut reader = Self::new(model);
        reader.message.passes = true;
        reader
    }
}

impl Decoder for Reader {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let message = &mut self.message;
        self.sse.feed(bytes, |data| message.read(data, events))
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let message = &mut self.message;
        let last = self.sse.end(|data| message.read(data, events));
        if message.done {
            return Ok(());
        }
        last.and(Err(Error::cut_off()))
    }

    fn is_done(&self) -> bool {
        self.message.done
    }
}

/// The state of the answer so far.
#[derive(Default)]
struct Message {
    /// The name of the model that the provider state is valid for.
    model: String,
    /// The blocks, to be sent back verbatim if the model thinks, which is known only when the last has
    /// begun.
    blocks: Vec<Block>,
    kept: usize,
    /// The bytes of the trees that the blocks began with.
    trees: usize,
    calls: usize,
    counts: Counts,
    started: bool,
    finished: bool,
    done: bool,
    /// Whether the vendor's own events are handed over.
    passes: bool,
    /// The last of those.
    last: TemplateCache,
}

/// A block as it has come so far.
struct Block {
    /// The block as in a whole answer, except the input of a call.
    value: Value,
    call: Option<Call>,
}

/// A call of a tool.
struct Call {
    /// Its index among the calls.
    index: usize,
    /// Its arguments so far.
    json: String,
}

impl Message {
    fn read(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if self.done || data.trim_ascii().is_empty() {
            return Ok(());
        }
        json::check_weight(data)?;
        let Ok(event) = serde_json::from_slice::<Event<'_>>(data) else {
            return match json::mended(data) {
                Some(mended) => self.read(&mended, events),
                None => Err(unreadable(data)),
            };
        };
        let source =
            if self.passes { Some(pass::event(data, &event, &mut self.last)?) } else { None };
        self.event(event, data, events)?;
        events.extend(
            source.map(|event| StreamEvent::Source(SourceEvent { is_end: self.finished, ..event })),
        );
        Ok(())
    }

    fn event(
        &mut self,
        event: Event<'_>,
        data: &[u8],
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        match &*event.kind {
            "message_start" => self.start(event.message, events),
            "content_block_start" => return self.block_starts(event, data.len(), events),
            "content_block_delta" => return self.block_goes_on(event, events),
            "content_block_stop" => self.block_stops(event.index, events),
            "message_delta" => self.changes(event, events),
            "message_stop" if !self.finished => return Err(Error::cut_off()),
            "message_stop" => {
                self.done = true;
                events.push(StreamEvent::Done);
            }
            "error" => return Err(unreadable(data)),
            // `ping`, and future kinds of events.
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, start: Option<Start>, events: &mut Vec<StreamEvent>) {
        // A message starts once.
        let Some(start) = start.filter(|_| !self.started) else { return };
        self.started = true;
        if let Some(usage) = &start.usage {
            self.counts = self.counts.with(usage);
            events.extend(self.counts.usage().map(StreamEvent::Prompt));
            self.counts = self.counts.of_prompt();
        }
        if !start.model.is_empty() {
            events.push(StreamEvent::Model(start.model));
        }
    }

    fn block_starts(
        &mut self,
        event: Event<'_>,
        bytes: usize,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        if event.index != self.blocks.len() || event.index >= MOST_BLOCKS {
            return Err(Error::malformed("the blocks of the stream are not in order"));
        }
        let value = event.content_block.unwrap_or_default();
        self.keep(bytes)?;
        self.trees += tree_bytes(&value);
        if self.trees > MOST_TREE_BYTES {
            return Err(Error::malformed("its blocks have too many values"));
        }
        if self.counts.charges.see(&value) && !self.finished {
            // A stream that breaks off later has no other report of it.
            events.extend(self.counts.of_prompt().usage().map(StreamEvent::Prompt));
        }
        let mut call = None;
        match text(value.get("type")) {
            // Both are empty at first in every stream seen so far.
            "text" => push_text(text(value.get("text")), events),
            "thinking" => thought(text(value.get("thinking")), events),
            "tool_use" => {
                let (id, name) = (text(value.get("id")), text(value.get("name")));
                if id.is_empty() || name.is_empty() {
                    return Err(Error::malformed("a tool call has no id or no name"));
                }
                events.push(call_begins(self.calls, id, name));
                call = Some(Call { index: self.calls, json: String::new() });
                self.calls += 1;
            }
            _ => {}
        }
        self.blocks.push(Block { value, call });
        Ok(())
    }

    fn block_goes_on(
        &mut self,
        event: Event<'_>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let delta = event.delta;
        let bytes = delta.text.len().max(delta.thinking.len()).max(delta.partial_json.len());
        self.keep(bytes.max(delta.signature.len()))?;
        let Some(block) = self.blocks.get_mut(event.index) else {
            return Err(Error::malformed("the stream goes on with a block that has not begun"));
        };
        match &*delta.kind {
            "text_delta" => {
                block.add("text", &delta.text);
                if !delta.text.is_empty() {
                    events.push(StreamEvent::Text(delta.text.into_owned()));
                }
            }
            "thinking_delta" => {
                block.add("thinking", &delta.thinking);
                thought(&delta.thinking, events);
            }
            "signature_delta" => block.add("signature", &delta.signature),
            "input_json_delta" => {
                if let Some(call) = &mut block.call
                    && !delta.partial_json.is_empty()
                {
                    call.json.push_str(&delta.partial_json);
                    events.push(arguments_piece(call.index, &delta.partial_json));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A call without arguments sends no piece of them, or an empty one.
    fn block_stops(&mut self, index: usize, events: &mut Vec<StreamEvent>) {
        let Some(block) = self.blocks.get_mut(index) else { return };
        if let Some(call) = block.call.as_mut().filter(|call| call.json.is_empty()) {
            call.json = match block.value.get("input") {
                Some(input @ Value::Object(_)) => input.to_string(),
                _ => "{}".to_owned(),
            };
            events.push(arguments_piece(call.index, &call.json));
        }
    }

    fn changes(&mut self, event: Event<'_>, events: &mut Vec<StreamEvent>) {
        let known = self.counts.usage();
        if let Some(usage) = &event.usage {
            self.counts = self.counts.with(usage);
        }
        if self.finished {
            // Each report covers everything so far: the last one counts.
            let more = self.counts.usage().filter(|usage| Some(*usage) != known);
            events.extend(more.map(StreamEvent::Usage));
            return;
        }
        let reason = event.delta.stop_reason.unwrap_or_default();
        let Some(reason) = finish(&reason, self.calls > 0) else {
            return;
        };
        self.finished = true;
        if let Some(details) = details(event.delta.stop_details) {
            let refusal = explanation(&details).map(refusal_piece);
            events.push(stopped_piece(details));
            events.extend(refusal);
        }
        events.extend(event.delta.stop_sequence.as_deref().map(stop_sequence_piece));
        // A call that was cut off cannot be sent back.
        let blocks = std::mem::take(&mut self.blocks).into_iter();
        let mut inner = InnerJson::default();
        let blocks = blocks.map(|block| block.whole(&mut inner));
        let state = blocks.collect::<Option<_>>().and_then(|all| own_state(&self.model, all));
        events.extend(state.map(state_piece));
        events.push(StreamEvent::Finish(reason));
        events.extend(self.counts.usage().map(StreamEvent::Usage));
    }

    fn keep(&mut self, bytes: usize) -> Result<(), Error> {
        self.kept += bytes;
        if self.kept > MOST_KEPT_BYTES {
            return Err(Error::malformed("the answer is longer than 4 MiB"));
        }
        Ok(())
    }
}

impl Block {
    /// Adds to one of the block's texts.
    fn add(&mut self, name: &str, piece: &str) {
        match self.value.get_mut(name) {
            Some(Value::String(text)) => text.push_str(piece),
            _ => {
                if let Value::Object(block) = &mut self.value {
                    block.insert(name.to_owned(), piece.into());
                }
            }
        }
    }

    /// Returns the block as in a whole answer.
    fn whole(mut self, inner: &mut InnerJson) -> Option<Value> {
        if let (Some(call), Value::Object(block)) = (self.call, &mut self.value) {
            let input: Map<String, Value> = inner.read(&call.json)?;
            block.insert("input".to_owned(), Value::Object(input));
        }
        Some(self.value)
    }
}

fn push_text(text: &str, events: &mut Vec<StreamEvent>) {
    if !text.is_empty() {
        events.push(StreamEvent::Text(text.to_owned()));
    }
}

fn thought(text: &str, events: &mut Vec<StreamEvent>) {
    if !text.is_empty() {
        events.push(reasoning_piece(text));
    }
}

/// Returns the error for an event that is an error, or no event at all.
fn unreadable(data: &[u8]) -> Error {
    match json::object(data) {
        Ok(object) if names_error(&object) => error_within(&object),
        _ => Error::malformed("an event of the stream is none of the format's"),
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
