//! Streamed answers to canonical events.

use domain::conversation::StreamEvent;
use domain::model::Model;
use domain::step::FinishReason;
use domain::usage::Usage;

use crate::adapter::Decoder;
use crate::chat_form::answer::{
    arguments_piece, call_begins, image_piece, reasoning_piece, refusal_piece, state_piece,
};
use crate::error::Error;
use crate::vendors::gemini::decode::with_searches;
use crate::vendors::gemini::is_recent;
use crate::vendors::gemini::pass::PassThrough;
use crate::vendors::gemini::provider_state::StateBuilder;
use crate::vendors::gemini::wire::{Generated, Part, PartContent, part_content};
use crate::wire::sse::Sse;

/// Most bytes of one event of a model that generates images: an image comes whole, in one event.
const MOST_IMAGE_BYTES: usize = 16 * 1024 * 1024;

/// Reads one stream.
pub(super) struct Reader {
    sse: Sse,
    answer: StreamState,
}

impl Reader {
    pub(super) fn new(model: &Model) -> Self {
        let answer = StreamState {
            model: model.upstream_name().to_owned(),
            is_recent: is_recent(model),
            ..StreamState::default()
        };
        let has_images = answer.model.contains("image");
        let sse = if has_images { Sse::with_most(MOST_IMAGE_BYTES) } else { Sse::default() };
        Self { sse, answer }
    }

    /// A reader that hands over the vendor's own chunks, too.
    pub(super) fn passing(model: &Model) -> Self {
        let mut reader = Self::new(model);
        reader.answer.passing = Some(PassThrough::new(model.identifier.clone()));
        reader
    }
}

impl Decoder for Reader {
    fn feed(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let answer = &mut self.answer;
        self.sse.feed(bytes, |data| answer.read_event(data, events))
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let answer = &mut self.answer;
        let was_finished = answer.finish.is_some();
        let last = self.sse.end(|data| answer.read_event(data, events));
        // An unreadable rest after the reason to stop takes nothing back.
        if !was_finished {
            last?;
        }
        answer.end(events)
    }

    /// Returns false: the only mark of the end is the end of the connection, and the last count of
    /// tokens may come after the reason to stop.
    fn is_done(&self) -> bool {
        false
    }
}

/// The state of the answer so far.
#[derive(Default)]
struct StreamState {
    /// The name that the model is called by.
    model: String,
    is_recent: bool,
    named: bool,
    calls: usize,
    images: usize,
    kept: StateBuilder,
    /// Whether the prompt's count was passed on.
    counted: bool,
    /// The searches so far that are charged for.
    searches: u32,
    /// Whether a usage was reported.
    reported: bool,
    /// The reason to stop. Some models repeat it with every event, so it counts at the end.
    finish: Option<FinishReason>,
    /// Set if the vendor's own chunks are handed over.
    passing: Option<PassThrough>,
}

impl StreamState {
    fn read_event(&mut self, data: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if data.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut response = Generated::read(data)?;
        let shape = self.passing.as_ref().map(|_| response.shape());
        self.searches = self.searches.max(response.searches(self.is_recent));
        let usage = match response.usage() {
            // Nonsense after a report contradicts it.
            None if self.reported && response.is_metered() => Some(Usage::unknown()),
            usage => usage.and_then(|usage| with_searches(Some(usage), self.searches)),
        };
        if !self.named
            && let Some(name) = response.model_version.take().filter(|name| !name.is_empty())
        {
            self.named = true;
            events.push(StreamEvent::Model(name));
        }
        let heard = self.answer(&mut response, events);
        // Counts before the reason to stop are of an unfinished answer, and some lack the completion.
        // The last one counts.
        let counts = |usage: Usage| usage.completion > 0 || usage.open.is_doubtful();
        let ends = self.finish.is_some() && usage.is_some_and(counts);
        if heard.is_err() || ends || self.finish == Some(FinishReason::ContentFilter) {
            self.reported |= usage.is_some();
            events.extend(usage.map(StreamEvent::Usage));
        } else if !self.counted
            && let Some(usage) = usage
        {
            self.counted = true;
            events.push(StreamEvent::Prompt(usage));
        }
        heard?;
        match (&mut self.passing, shape) {
            (Some(passing), Some(shape)) => passing.pass(data, &shape, events),
            _ => Ok(()),
        }
    }

    fn answer(
        &mut self,
        response: &mut Generated,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let Some(mut candidate) = response.candidate() else {
            if let Some(reason) = response.blocked()
                && self.finish.is_none()
            {
                self.finish = Some(FinishReason::ContentFilter);
                events.push(refusal_piece(&reason));
            }
            return Ok(());
        };
        for part in candidate.take_parts() {
            self.part(part, response.response_id.as_deref(), events)?;
        }
        let passes = self.passing.is_some();
        self.finish = candidate.finish(self.calls > 0, passes)?.or(self.finish);
        Ok(())
    }

    fn end(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let reason = match self.finish {
            None => return Err(Error::cut_off()),
            Some(FinishReason::Stop) if self.calls > 0 => FinishReason::ToolCalls,
            Some(reason) => reason,
        };
        if let Some(passing) = &mut self.passing {
            passing.end(events);
        }
        events.extend(self.kept.state(&self.model).map(state_piece));
        events.push(StreamEvent::Finish(reason));
        Ok(())
    }

    fn part(
        &mut self,
        part: Part,
        response_id: Option<&str>,
        events: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        match part_content(&part, self.calls, response_id)? {
            PartContent::Text("") | PartContent::Thought("") | PartContent::Other => {}
            PartContent::Image(url) => {
                events.push(image_piece(self.images, &url));
                self.images += 1;
            }
            PartContent::Text(text) => events.push(StreamEvent::Text(text.to_owned())),
            PartContent::Thought(text) => events.push(reasoning_piece(text)),
            PartContent::Call { id, name, arguments } => {
                events.push(call_begins(self.calls, &id, name));
                events.push(arguments_piece(self.calls, &arguments));
                self.calls += 1;
            }
        }
        self.kept.add(part)
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
