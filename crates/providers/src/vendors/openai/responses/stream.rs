//! Streamed events to canonical ones.

use std::collections::BTreeMap;

use domain::conversation::StreamEvent;
use domain::fees::Extras;
use domain::original::SourceEvent;
use domain::usage::Usage;
use serde_json::{Map, Value};

use crate::adapter::Decoder;
use crate::chat_form::answer::{arguments_piece, call_begins, reasoning_piece, refusal_piece};
use crate::chat_form::text;
use crate::error::Error;
use crate::vendors::openai::responses::charges;
use crate::vendors::openai::responses::event::Event;
use crate::vendors::openai::responses::items::{Item, as_arguments, finish, output, stored, usage};
use crate::vendors::openai::responses::pass;
use crate::wire::error_body::{error_within, names_error};
use crate::wire::json;
use crate::wire::sse::Sse;

/// Most bytes of one event: the first and the last repeat the instructions and tools of the request,
/// and the last the whole answer.
const MOST_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// Most items of one answer: each is remembered until the end.
const MOST_ITEMS: usize = 4096;

/// Reads one stream, and hands over the vendor's own events as well.
pub(super) struct Reader {
    sse: Sse,
    answer: Answer,
}

impl Default for Reader {
    fn default() -> Self {
        Self { sse: Sse::with_most(MOST_EVENT_BYTES), answer: Answer::default() }
    }
}

impl Decoder for Reader {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let answer = &mut self.answer;
        self.sse.feed(bytes, |data| answer.read(data, events))
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let answer = &mut self.answer;
        let last = self.sse.end(|data| answer.read(data, events));
        if answer.done {
            return Ok(());
        }
        last.and(Err(Error::cut_off()))
    }

    fn is_done(&self) -> bool {
        self.answer.done
    }
}

/// The state of the answer so far.
#[derive(Default)]
struct Answer {
    items: BTreeMap<u64, Seen>,
    calls: usize,
    refused: bool,
    /// The uses of the vendor's tools so far.
    extras: Extras,
    named: bool,
    done: bool,
}

/// An item as far as it has come.
#[derive(Default)]
struct Seen {
    /// Whether any of its words have come.
    has_words: bool,
    /// The index of the call among all calls, if it is one.
    call: Option<usize>,
}

impl Answer {
    fn read(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let data = data.trim_ascii();
        if self.done || data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        json::check_weight(data)?;
        let Ok(event) = serde_json::from_slice::<Event>(data) else {
            return match json::mended(data) {
                Some(mended) => self.read(&mended, events),
                None => Err(unreadable(data)),
            };
        };
        if event.kind == "error" {
            return Err(json::object(data).map_or_else(|error| error, |said| error_within(&said)));
        }
        let source = pass::event(data, &event)?;
        self.event(&event, events)?;
        events.push(StreamEvent::Source(SourceEvent { is_end: self.done, ..source }));
        if self.done {
            events.push(StreamEvent::Done);
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let at = event.output_index.unwrap_or(0);
        let delta = || text(event.delta.as_ref());
        match event.what() {
            "output_item.added" => {
                if let Some(item) = &event.item {
                    self.begin(at, &Item::of(item), events)?;
                }
            }
            "output_text.delta" => self.say(at, delta(), events)?,
            "refusal.delta" => self.refuse(at, delta(), events)?,
            "reasoning_summary_text.delta" | "reasoning_text.delta" => {
                self.think(at, delta(), events)?;
            }
            "function_call_arguments.delta" => self.argue(at, delta(), events)?,
            // Its pieces are no JSON, which the canonical form needs.
            "custom_tool_call_input.done" => {
                self.argue(at, &as_arguments(text(event.input.as_ref())), events)?;
            }
            "output_item.done" => {
                if let Some(item) = &event.item {
                    if charges::see(item, &mut self.extras) {
                        // A stream that breaks off later has no other report of it.
                        let used = Usage { extras: self.extras, ..Usage::unknown() };
                        events.push(StreamEvent::Prompt(used));
                    }
                    self.complete(at, Item::of(item), events)?;
                }
            }
            "failed" | "cancelled" => {
                let response = event.response.clone().unwrap_or_default();
                return Err(error_within(&response).having_used(usage(&response)));
            }
            "completed" | "incomplete" => {
                if let Some(response) = &event.response {
                    self.end(response, events)?;
                }
            }
            _ => self.name(event.response.as_ref(), events),
        }
        Ok(())
    }

    fn name(&mut self, response: Option<&Map<String, Value>>, events: &mut Vec<StreamEvent>) {
        let name = response.map(|response| text(response.get("model"))).unwrap_or_default();
        if !self.named && !name.is_empty() {
            self.named = true;
            events.push(StreamEvent::Model(name.to_owned()));
        }
    }

    fn seen(&mut self, at: u64) -> Result<&mut Seen, Error> {
        if self.items.len() >= MOST_ITEMS && !self.items.contains_key(&at) {
            return Err(Error::malformed("the stream has too many items"));
        }
        Ok(self.items.entry(at).or_default())
    }

    fn begin(&mut self, at: u64, item: &Item, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let calls = self.calls;
        let seen = self.seen(at)?;
        if let (Item::Call(id, name, _), None) = (item, seen.call) {
            if id.is_empty() || name.is_empty() {
                return Err(Error::malformed("a tool call has no id or no name"));
            }
            seen.call = Some(calls);
            events.push(call_begins(calls, id, name));
            self.calls += 1;
        }
        Ok(())
    }

    fn say(&mut self, at: u64, words: &str, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if !words.is_empty() {
            self.seen(at)?.has_words = true;
            events.push(StreamEvent::Text(words.to_owned()));
        }
        Ok(())
    }

    fn refuse(&mut self, at: u64, words: &str, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if !words.is_empty() {
            self.seen(at)?.has_words = true;
            self.refused = true;
            events.push(refusal_piece(words));
        }
        Ok(())
    }

    fn think(&mut self, at: u64, words: &str, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if !words.is_empty() {
            self.seen(at)?.has_words = true;
            events.push(reasoning_piece(words));
        }
        Ok(())
    }

    fn argue(&mut self, at: u64, words: &str, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let seen = self.seen(at)?;
        if let Some(call) = seen.call.filter(|_| !words.is_empty()) {
            seen.has_words = true;
            events.push(arguments_piece(call, words));
        }
        Ok(())
    }

    /// An item that is whole, of which some servers send no pieces.
    fn complete(
        &mut self,
        at: u64,
        item: Item,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        self.begin(at, &item, events)?;
        if self.seen(at)?.has_words {
            return Ok(());
        }
        match item {
            Item::Message(words, refusal) => {
                self.say(at, &words, events)?;
                self.refuse(at, &refusal, events)
            }
            Item::Reasoning(words) => self.think(at, &words, events),
            Item::Call(_, _, arguments) => self.argue(at, &arguments, events),
            Item::Other => Ok(()),
        }
    }

    fn end(
        &mut self,
        response: &Map<String, Value>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        self.name(Some(response), events);
        for (at, item) in (0..).zip(output(response)) {
            self.complete(at, Item::of(item), events)?;
        }
        let calls_tools = self.calls > 0;
        let reason = finish(response, calls_tools, self.refused);
        let reason = reason.ok_or_else(|| Error::malformed("its response is not complete"))?;
        events.push(StreamEvent::Finish(reason));
        events.extend(usage(response).map(StreamEvent::Usage));
        events.extend(stored(response).map(StreamEvent::Stored));
        self.done = true;
        Ok(())
    }
}

/// Returns the error for an event that is an error, or no event at all.
fn unreadable(data: &[u8]) -> Error {
    match json::object(data) {
        Ok(object) if names_error(&object) => error_within(&object),
        _ => Error::malformed("an event of the stream is none of the format's"),
    }
}
