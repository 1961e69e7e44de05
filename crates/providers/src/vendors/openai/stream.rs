//! Streamed chunks to canonical events.

use std::collections::HashMap;

use domain::conversation::StreamEvent;
use domain::fees::Surcharge;
use domain::model::Model;
use domain::step::FinishReason;
use domain::usage::Usage;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::adapter::Decoder;
use crate::chat_form::text;
use crate::error::Error;
use crate::vendors::openai::calls::Calls;
use crate::vendors::openai::decode;
use crate::vendors::openai::pass::PassThrough;
use crate::vendors::openai::searches::{cites_pages, with_search};
use crate::vendors::openai::tier::{SERVICE_TIER, is_priority};
use crate::vendors::openai::wire::{
    Delta, Says, Text, WireUsage, finish_reason, formalise_reasons,
};
use crate::wire::json;
use crate::wire::sse::{Sse, TooLong};
use crate::wire::token_counts::Group;

/// Most choices of one stream: each is remembered until the end.
const MOST_CHOICES: usize = 32_768;

/// Reads one stream.
#[derive(Default)]
pub(super) struct Reader {
    sse: Sse,
    chunks: Chunks,
}

impl Reader {
    /// A reader that hands over the server's own chunks, too.
    pub(super) fn passing(model: &Model) -> Self {
        let passing = Some(PassThrough::new(model.identifier.clone()));
        Self { sse: Sse::default(), chunks: Chunks { passing, ..Chunks::default() } }
    }
}

impl Decoder for Reader {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let chunks = &mut self.chunks;
        self.sse.feed(bytes, |data| chunks.read(data, events))
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let chunks = &mut self.chunks;
        let last = self.sse.end(|data| chunks.read(data, events));
        if chunks.done || chunks.is_complete() {
            return Ok(());
        }
        last.and(Err(Error::cut_off()))
    }

    fn is_done(&self) -> bool {
        self.chunks.done
    }
}

impl From<TooLong> for Error {
    fn from(_: TooLong) -> Self {
        Self::malformed("an event is too long")
    }
}

/// The state of the stream so far.
#[derive(Default)]
struct Chunks {
    named: bool,
    /// Whether a usage was reported.
    reported: bool,
    calls: Calls,
    calls_tools: bool,
    /// Whether it has cited a page.
    searched: bool,
    /// Whether it is served in the faster tier, as far as that is known.
    is_priority: Option<bool>,
    refused: bool,
    /// Whether choice 0 has begun, and whether it has ended.
    begun: bool,
    finished: bool,
    /// The other choices, and whether each has ended.
    others: HashMap<u64, bool>,
    done: bool,
    /// Set if the server's own chunks are handed over.
    passing: Option<PassThrough>,
}

/// The members that decide whether a chunk is plain.
#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, borrow)]
    model: Text<'a>,
    #[serde(default, borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Group<WireUsage>,
    #[serde(default, borrow)]
    service_tier: Text<'a>,
    #[serde(default)]
    error: Says,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: u64,
    #[serde(default, borrow)]
    delta: Delta<'a>,
    #[serde(default, borrow)]
    finish_reason: Text<'a>,
    #[serde(default)]
    logprobs: Says,
}

impl Chunk<'_> {
    /// Whether it is part of an answer; some servers put their errors in objects of another shape.
    fn is_answer(&self) -> bool {
        self.choices.is_some() || matches!(self.usage, Group::Known(_))
    }
}

impl Chunks {
    fn read(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let data = data.trim_ascii();
        if self.done || data.is_empty() {
            return Ok(());
        }
        if data == b"[DONE]" {
            if !self.is_complete() {
                return Err(Error::cut_off());
            }
            self.done = true;
            events.push(StreamEvent::Done);
            return Ok(());
        }
        json::check_weight(data)?;
        match serde_json::from_slice::<Chunk<'_>>(data) {
            Ok(chunk) if !chunk.error.0 && chunk.is_answer() => self.plain(chunk, data, events),
            _ => self.unusual(data, events),
        }?;
        let is_end = self.is_complete();
        if let Some(passing) = &mut self.passing {
            events.push(StreamEvent::Source(passing.event(data, is_end)?));
        }
        Ok(())
    }

    /// Reads the common case: nothing but text of choice 0, its end, or the usage.
    fn plain(
        &mut self,
        chunk: Chunk<'_>,
        data: &[u8],
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let choices = chunk.choices.unwrap_or_default();
        let is_plain =
            |choice: &Choice<'_>| choice.index == 0 && !choice.delta.more && !choice.logprobs.0;
        let ends = choices.iter().any(|choice| !choice.finish_reason.0.is_empty());
        if choices.len() > 1
            || !choices.iter().all(is_plain)
            || (ends && self.calls.lack_arguments())
        {
            return self.unusual(data, events);
        }
        self.name(&chunk.model.0, events);
        self.is_priority = is_priority(&chunk.service_tier.0).or(self.is_priority);
        for choice in choices {
            self.begun = true;
            if !choice.delta.content.0.is_empty() {
                events.push(StreamEvent::Text(choice.delta.content.0.into_owned()));
            }
            self.finish(&choice.finish_reason.0, events);
        }
        match chunk.usage {
            Group::Missing => {}
            Group::Known(usage) => self.report(usage.read(), events),
            Group::Nonsense => self.report(None, events),
        }
        Ok(())
    }

    /// Reads everything else: errors, and chunks that are passed on whole.
    fn unusual(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let mut chunk: Map<String, Value> = json::read(data)
            .map_err(|_| Error::malformed("a chunk of the stream is no JSON object"))?;
        // Callers get the usage once, at the end.
        let is_told = chunk.get("usage").is_some_and(|usage| !usage.is_null());
        let told = if is_told { chunk.shift_remove("usage") } else { None };
        let usage = decode::usage(told.as_ref());
        if let Some(error) = decode::error_in(&chunk) {
            // Some servers report nothing, and write it as 0.
            let usage = usage.filter(|usage| *usage != Usage::default());
            events.extend(usage.map(StreamEvent::Usage));
            return Err(error);
        }
        self.calls.settle(&mut chunk)?;
        self.note_choices(&chunk)?;
        self.name(text(chunk.get("model")), events);
        self.is_priority = is_priority(text(chunk.get(SERVICE_TIER))).or(self.is_priority);
        let first = decode::first_choice(&chunk);
        let reason = text(first.and_then(|choice| choice.get("finish_reason"))).to_owned();
        let delta = first.and_then(|choice| choice.get("delta")?.as_object());
        let text = decode::content_text(delta.and_then(|delta| delta.get("content")));
        if !self.searched && cites_pages(&chunk) {
            self.searched = true;
            // A stream that breaks off later has no other report of it.
            events.push(StreamEvent::Prompt(with_search(None)));
        }
        self.calls_tools |= delta.is_some_and(decode::calls_tools);
        self.refused |= delta.is_some_and(decode::refuses);
        let has_choices =
            chunk.get("choices").and_then(Value::as_array).is_some_and(|c| !c.is_empty());
        if has_choices {
            formalise_reasons(&mut chunk);
            events.push(StreamEvent::Native { text, chunk });
        }
        self.finish(&reason, events);
        if told.is_some() {
            self.report(usage, events);
        }
        Ok(())
    }

    /// Passes a usage report on. A nonsensical one counts only if it contradicts an earlier one.
    fn report(&mut self, usage: Option<Usage>, events: &mut Vec<StreamEvent>) {
        if usage.is_some() || self.reported {
            self.reported = true;
            let usage = if self.searched { Some(with_search(usage)) } else { usage };
            let mut usage = usage.unwrap_or_else(Usage::unknown);
            usage.extras.surcharges[Surcharge::Priority] = self.is_priority;
            events.push(StreamEvent::Usage(usage));
        }
    }

    /// Records the choices that a chunk begins, and, except for choice 0, those it ends.
    fn note_choices(&mut self, chunk: &Map<String, Value>) -> Result<(), Error> {
        let choices = chunk.get("choices").and_then(Value::as_array);
        for choice in choices.into_iter().flatten() {
            let ends = !text(choice.get("finish_reason")).is_empty();
            match choice.get("index").and_then(Value::as_u64).unwrap_or(0) {
                0 => self.begun = true,
                other => *self.others.entry(other).or_default() |= ends,
            }
        }
        if self.others.len() > MOST_CHOICES {
            return Err(Error::malformed("it has too many choices"));
        }
        Ok(())
    }

    /// Whether every choice that has begun has ended: a stream that ends before is cut off, whatever
    /// its last words.
    fn is_complete(&self) -> bool {
        let has_begun = self.begun || !self.others.is_empty();
        has_begun && (self.finished || !self.begun) && self.others.values().all(|ended| *ended)
    }

    fn name(&mut self, model: &str, events: &mut Vec<StreamEvent>) {
        if !self.named && !model.is_empty() {
            self.named = true;
            events.push(StreamEvent::Model(model.to_owned()));
        }
    }

    fn finish(&mut self, reason: &str, events: &mut Vec<StreamEvent>) {
        if reason.is_empty() || self.finished {
            return;
        }
        self.finished = true;
        // An unknown reason still ends the answer.
        let reason = finish_reason(reason).unwrap_or(FinishReason::Stop);
        let reason = match reason {
            FinishReason::Stop if self.calls_tools => FinishReason::ToolCalls,
            FinishReason::Stop if self.refused => FinishReason::Refusal,
            reason => reason,
        };
        events.push(StreamEvent::Finish(reason));
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
