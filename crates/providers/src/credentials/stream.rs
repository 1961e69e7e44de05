//! Removes credentials from the events of a stream.

use std::collections::BTreeMap;

use domain::conversation::StreamEvent;
use domain::secret::Secret;
use domain::usage::Usage;
use serde_json::{Map, Value};

use crate::credentials::chunk::{
    Segment, TEXT, content_of, has_generated_text, is_plain, rest_chunk, string_path,
};
use crate::credentials::chunk_position::Position;
use crate::credentials::source::SourceFilter;
use crate::credentials::{Credentials, LOGPROB_LEAK_BYTES};
use crate::error::Error;

/// Most strings that are withheld at once, beside the text, and most bytes of them.
pub(crate) const MOST_WITHHELD_STRINGS: usize = 4096;
pub(crate) const MOST_WITHHELD_BYTES: usize = 1024 * 1024;
/// Most segments in the path of a string that continues from chunk to chunk.
const MOST_SEGMENTS: usize = 8;

/// Cleans one stream.
#[derive(Debug)]
pub(crate) struct StreamFilter {
    credentials: Option<Credentials>,
    /// The withheld end of the text of choice 0.
    text: String,
    /// The withheld ends of other strings, by their paths.
    others: BTreeMap<Vec<Segment>, String>,
    /// The bytes of `others`.
    bytes: usize,
    /// A count of tokens that came after the withheld text: it must not overtake it.
    usage: Option<Usage>,
    /// Whether more strings would have to be withheld than allowed.
    is_full: bool,
    /// Cleans the provider's own events, if they are handed over.
    sources: Option<SourceFilter>,
}

impl StreamFilter {
    pub(crate) fn new(key: Option<&Secret>) -> Self {
        let credentials = Credentials::of(key);
        Self {
            credentials,
            text: String::new(),
            others: BTreeMap::new(),
            bytes: 0,
            usage: None,
            is_full: false,
            sources: None,
        }
    }

    /// Cleans the provider's own events as well.
    pub(crate) fn clean_sources(&mut self, key: Option<&Secret>) {
        self.sources = Credentials::of(key).map(SourceFilter::new);
    }

    /// Cleans the events from index `from` on. Returns an error if too many strings would have to be
    /// withheld; the events after that are left out.
    pub(crate) fn pass(&mut self, events: &mut Vec<StreamEvent>, from: usize) -> Result<(), Error> {
        if let Some(sources) = &mut self.sources {
            sources.pass(events, from)?;
        }
        let Some(credentials) = self.credentials.take() else { return Ok(()) };
        let holds_nothing = self.holds_nothing();
        let is_clean = |event: &StreamEvent| match event {
            StreamEvent::Text(text) => {
                !credentials.are_in(text) && credentials.begun_at_end(text) == 0
            }
            StreamEvent::Model(name) => credentials.is_clean(name),
            StreamEvent::Native { chunk, .. } => chunk
                .iter()
                .all(|(name, value)| is_plain(&credentials, Position::Whole, name, value)),
            _ => true,
        };
        if !holds_nothing || !events[from..].iter().all(is_clean) {
            let new = events.split_off(from);
            for event in new {
                self.event(&credentials, event, events);
                if self.is_full {
                    break;
                }
            }
        }
        self.credentials = Some(credentials);
        if self.is_full {
            return Err(Error::malformed("too many strings of the stream go on at once"));
        }
        Ok(())
    }

    /// Releases the withheld text at the end of the stream.
    pub(crate) fn end(&mut self, events: &mut Vec<StreamEvent>) {
        if let Some(sources) = &mut self.sources {
            sources.end(events);
        }
        let Some(credentials) = self.credentials.take() else { return };
        self.flush(&credentials, None, events);
        self.release_usage(events);
        self.credentials = Some(credentials);
    }

    fn event(
        &mut self,
        credentials: &Credentials,
        event: StreamEvent,
        events: &mut Vec<StreamEvent>,
    ) {
        match event {
            StreamEvent::Text(mut text) => {
                self.count_before(!text.is_empty(), events);
                credentials.pass(&mut self.text, &mut text);
                if !text.is_empty() {
                    events.push(StreamEvent::Text(text));
                }
            }
            StreamEvent::Native { mut text, mut chunk } => {
                let continues =
                    || chunk.values().any(|value| has_generated_text(Position::Whole, value));
                self.count_before(self.usage.is_some() && continues(), events);
                self.chunk(credentials, &mut chunk, &mut text, events);
                events.push(StreamEvent::Native { text, chunk });
            }
            StreamEvent::Model(mut name) => {
                credentials.clean(&mut name);
                events.push(StreamEvent::Model(name));
            }
            StreamEvent::Finish(_) => {
                // Choice 0 ends; others may continue.
                self.flush(credentials, Some(0), events);
                self.release_usage(events);
                events.push(event);
            }
            StreamEvent::Done => {
                self.flush(credentials, None, events);
                self.release_usage(events);
                events.push(event);
            }
            StreamEvent::Usage(usage) => {
                self.usage = Some(self.usage.map_or(usage, |known| known.followed_by(usage)));
            }
            StreamEvent::Prompt(_) | StreamEvent::Source(_) | StreamEvent::Stored(_) => {
                events.push(event);
            }
        }
        self.release_usage(events);
    }

    fn holds_nothing(&self) -> bool {
        self.text.is_empty() && self.others.is_empty()
    }

    /// Releases a count of earlier text before more text follows.
    fn count_before(&mut self, more_comes: bool, events: &mut Vec<StreamEvent>) {
        if more_comes {
            events.extend(self.usage.take().map(StreamEvent::Usage));
        }
    }

    /// Releases a count once the text that it counts has left.
    fn release_usage(&mut self, events: &mut Vec<StreamEvent>) {
        self.count_before(self.holds_nothing(), events);
    }

    fn chunk(
        &mut self,
        credentials: &Credentials,
        chunk: &mut Map<String, Value>,
        text: &mut String,
        events: &mut Vec<StreamEvent>,
    ) {
        let choices = chunk.get_mut("choices").map(Value::take);
        credentials.clean_members(chunk);
        let Some(mut choices) = choices else { return };
        for choice in choices.as_array_mut().into_iter().flatten() {
            let Value::Object(choice) = choice else {
                credentials.clean_value(choice);
                continue;
            };
            let index = choice.get("index").and_then(Value::as_u64).unwrap_or(0);
            let finish = choice.get("finish_reason").and_then(Value::as_str);
            let ends = finish.is_some_and(|reason| !reason.is_empty());
            let mut tells = index == 0 && self.text.len() >= LOGPROB_LEAK_BYTES;
            if let Some(delta) = choice.get_mut("delta") {
                let mut path = vec![Segment::Choice(index)];
                tells |= self.delta(credentials, Position::Delta, &mut path, delta);
                if ends {
                    self.drain(credentials, Position::Delta, &mut path, delta);
                }
                if index == 0 {
                    *text = content_of(delta);
                }
            }
            if ends {
                // Completed strings leave before the end of their choice.
                self.flush(credentials, Some(index), events);
            }
            if tells {
                choice.shift_remove("logprobs");
            }
            for (name, value) in choice.iter_mut() {
                if name != "delta" {
                    credentials.clean_value(value);
                }
            }
        }
        chunk.insert("choices".to_owned(), choices);
    }

    /// Cleans a part of a delta. Returns whether it contains a credential, or may.
    fn delta(
        &mut self,
        credentials: &Credentials,
        position: Position,
        path: &mut Vec<Segment>,
        value: &mut Value,
    ) -> bool {
        let mut tells = false;
        match value {
            Value::String(piece) if position.continues() => {
                tells = self.piece(credentials, position, path, piece);
            }
            Value::Array(items) if position.has_items() && path.len() < MOST_SEGMENTS => {
                for (index, item) in items.iter_mut().enumerate() {
                    path.push(Segment::item(index, item));
                    tells |= self.delta(credentials, position, path, item);
                    path.pop();
                }
            }
            Value::Object(members) if path.len() < MOST_SEGMENTS => {
                tells = credentials.clean_names(members);
                for (name, value) in members {
                    let Some((name, position)) = position.into(name) else {
                        tells |= credentials.clean_value(value);
                        continue;
                    };
                    path.push(Segment::Member(name));
                    tells |= self.delta(credentials, position, path, value);
                    path.pop();
                }
            }
            value => tells = credentials.clean_value(value),
        }
        tells
    }

    /// Appends the withheld ends to the strings of a choice's last delta. The last part of a string
    /// that has several gets it.
    fn drain(
        &mut self,
        credentials: &Credentials,
        position: Position,
        path: &mut Vec<Segment>,
        value: &mut Value,
    ) {
        if self.holds_nothing() {
            return;
        }
        match value {
            Value::String(piece) if position.continues() => {
                piece.push_str(credentials.rest(&self.take_waiting(string_path(position, path))));
            }
            Value::Array(items) if position.has_items() && path.len() < MOST_SEGMENTS => {
                for (index, item) in items.iter_mut().enumerate().rev() {
                    path.push(Segment::item(index, item));
                    self.drain(credentials, position, path, item);
                    path.pop();
                }
            }
            Value::Object(members) if path.len() < MOST_SEGMENTS => {
                for (name, value) in members.iter_mut().rev() {
                    if let Some((name, position)) = position.into(name) {
                        path.push(Segment::Member(name));
                        self.drain(credentials, position, path, value);
                        path.pop();
                    }
                }
            }
            _ => {}
        }
    }

    fn piece(
        &mut self,
        credentials: &Credentials,
        position: Position,
        path: &[Segment],
        piece: &mut String,
    ) -> bool {
        let place = string_path(position, path);
        if piece.is_empty() {
            return self.waiting(place).len() >= LOGPROB_LEAK_BYTES;
        }
        let mut waiting = self.take_waiting(place);
        let had = waiting.len() >= LOGPROB_LEAK_BYTES;
        let found = credentials.pass(&mut waiting, piece);
        let tells = found || had || waiting.len() >= LOGPROB_LEAK_BYTES;
        if place == TEXT {
            self.text = waiting;
        } else if !waiting.is_empty() {
            let bytes = self.bytes + waiting.len();
            if self.others.len() >= MOST_WITHHELD_STRINGS || bytes > MOST_WITHHELD_BYTES {
                self.is_full = true;
            } else {
                self.bytes = bytes;
                self.others.insert(place.to_vec(), waiting);
            }
        }
        tells
    }

    /// Returns the withheld end of the string at a path.
    fn waiting(&self, place: &[Segment]) -> &str {
        if place == TEXT {
            return &self.text;
        }
        self.others.get(place).map_or("", String::as_str)
    }

    fn take_waiting(&mut self, place: &[Segment]) -> String {
        if place == TEXT {
            return std::mem::take(&mut self.text);
        }
        let waiting = self.others.remove(place).unwrap_or_default();
        self.bytes -= waiting.len();
        waiting
    }

    /// Releases the withheld text of one choice or of all.
    fn flush(
        &mut self,
        credentials: &Credentials,
        choice: Option<u64>,
        events: &mut Vec<StreamEvent>,
    ) {
        if choice.is_none_or(|choice| choice == 0) {
            push_text(credentials.rest(&std::mem::take(&mut self.text)), events);
        }
        let leave = match choice {
            None => std::mem::take(&mut self.others),
            Some(choice) => self.take_choice(choice),
        };
        for (place, text) in leave {
            self.bytes = self.bytes.saturating_sub(text.len());
            events.push(rest_chunk(&place, credentials.rest(&text)));
        }
    }

    /// Takes the strings of one choice, without visiting those of others.
    fn take_choice(&mut self, choice: u64) -> BTreeMap<Vec<Segment>, String> {
        let of_choice = self.others.range(vec![Segment::Choice(choice)]..);
        let places: Vec<_> = of_choice
            .map(|(place, _)| place)
            .take_while(|place| place.first() == Some(&Segment::Choice(choice)))
            .cloned()
            .collect();
        places.into_iter().filter_map(|place| self.others.remove_entry(&place)).collect()
    }
}

fn push_text(text: &str, events: &mut Vec<StreamEvent>) {
    if !text.is_empty() {
        events.push(StreamEvent::Text(text.to_owned()));
    }
}
