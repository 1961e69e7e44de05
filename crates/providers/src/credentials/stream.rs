//! Removes credentials from the events of a stream.

use std::collections::BTreeMap;

use domain::conversation::StreamEvent;
use domain::secret::Secret;
use domain::usage::Usage;
use serde_json::{Map, Value, json};

use crate::credentials::Credentials;
use crate::credentials::chunk_position::Way;
use crate::error::Error;

/// Least bytes of a credential's beginning at the end of a text for which the log probabilities of its
/// tokens are removed.
const TOLD_BY_TOKENS: usize = 4;

/// Most strings that are withheld at once, beside the text, and most bytes of them.
pub(crate) const MOST_WAITING: usize = 4096;
pub(crate) const MOST_WAITING_BYTES: usize = 1024 * 1024;
/// Most segments in the path of a string that continues from chunk to chunk.
const DEEPEST: usize = 8;

/// Cleans one stream.
#[derive(Debug)]
pub(crate) struct EchoFilter {
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
}

/// A segment of the path to a string that continues. The first names the choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Choice(u64),
    Member(&'static str),
    /// An item of a list, by its own index if it has one.
    Item(u64),
}

impl Segment {
    fn item(position: usize, item: &Value) -> Self {
        Self::Item(item.get("index").and_then(Value::as_u64).unwrap_or(position as u64))
    }
}

/// The path of the text of choice 0.
const TEXT: [Segment; 2] = [Segment::Choice(0), Segment::Member("content")];

impl EchoFilter {
    pub(crate) fn new(key: Option<&Secret>) -> Self {
        let credentials = Credentials::of(key);
        Self {
            credentials,
            text: String::new(),
            others: BTreeMap::new(),
            bytes: 0,
            usage: None,
            is_full: false,
        }
    }

    /// Cleans the events from index `from` on. Returns an error if too many strings would have to be
    /// withheld; the events after that are left out.
    pub(crate) fn pass(&mut self, events: &mut Vec<StreamEvent>, from: usize) -> Result<(), Error> {
        let Some(credentials) = self.credentials.take() else { return Ok(()) };
        let holds_nothing = self.holds_nothing();
        let is_clean = |event: &StreamEvent| match event {
            StreamEvent::Text(text) => {
                !credentials.are_in(text) && credentials.begun_at_end(text) == 0
            }
            StreamEvent::Model(name) => credentials.is_clean(name),
            StreamEvent::Native { chunk, .. } => {
                chunk.iter().all(|(name, value)| is_plain(&credentials, Way::Whole, name, value))
            }
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
                let goes_on = || chunk.values().any(|value| speaks(Way::Whole, value));
                self.count_before(self.usage.is_some() && goes_on(), events);
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
            StreamEvent::Prompt(_) => events.push(event),
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
            let mut tells = index == 0 && self.text.len() >= TOLD_BY_TOKENS;
            if let Some(delta) = choice.get_mut("delta") {
                let mut path = vec![Segment::Choice(index)];
                tells |= self.delta(credentials, Way::Delta, &mut path, delta);
                if ends {
                    self.drain(credentials, Way::Delta, &mut path, delta);
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
        way: Way,
        path: &mut Vec<Segment>,
        value: &mut Value,
    ) -> bool {
        let mut tells = false;
        match value {
            Value::String(piece) if way.goes_on() => {
                tells = self.piece(credentials, way, path, piece);
            }
            Value::Array(items) if way.has_items() && path.len() < DEEPEST => {
                for (position, item) in items.iter_mut().enumerate() {
                    path.push(Segment::item(position, item));
                    tells |= self.delta(credentials, way, path, item);
                    path.pop();
                }
            }
            Value::Object(members) if path.len() < DEEPEST => {
                tells = credentials.clean_names(members);
                for (name, value) in members {
                    let Some((name, way)) = way.into(name) else {
                        tells |= credentials.clean_value(value);
                        continue;
                    };
                    path.push(Segment::Member(name));
                    tells |= self.delta(credentials, way, path, value);
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
        way: Way,
        path: &mut Vec<Segment>,
        value: &mut Value,
    ) {
        if self.holds_nothing() {
            return;
        }
        match value {
            Value::String(piece) if way.goes_on() => {
                piece.push_str(credentials.rest(&self.take_waiting(place_of(way, path))));
            }
            Value::Array(items) if way.has_items() && path.len() < DEEPEST => {
                for (position, item) in items.iter_mut().enumerate().rev() {
                    path.push(Segment::item(position, item));
                    self.drain(credentials, way, path, item);
                    path.pop();
                }
            }
            Value::Object(members) if path.len() < DEEPEST => {
                for (name, value) in members.iter_mut().rev() {
                    if let Some((name, way)) = way.into(name) {
                        path.push(Segment::Member(name));
                        self.drain(credentials, way, path, value);
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
        way: Way,
        path: &[Segment],
        piece: &mut String,
    ) -> bool {
        let place = place_of(way, path);
        if piece.is_empty() {
            return self.waiting(place).len() >= TOLD_BY_TOKENS;
        }
        let mut waiting = self.take_waiting(place);
        let had = waiting.len() >= TOLD_BY_TOKENS;
        let found = credentials.pass(&mut waiting, piece);
        let tells = found || had || waiting.len() >= TOLD_BY_TOKENS;
        if place == TEXT {
            self.text = waiting;
        } else if !waiting.is_empty() {
            let bytes = self.bytes + waiting.len();
            if self.others.len() >= MOST_WAITING || bytes > MOST_WAITING_BYTES {
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

/// Whether nothing in a part of a chunk has to be cleaned or withheld.
fn is_plain(credentials: &Credentials, way: Way, name: &str, value: &Value) -> bool {
    !credentials.are_in(name)
        && value_is_plain(credentials, way.into(name).map_or(Way::Whole, |(_, way)| way), value)
}

fn value_is_plain(credentials: &Credentials, way: Way, value: &Value) -> bool {
    match value {
        Value::String(text) if way.goes_on() => {
            !credentials.are_in(text) && credentials.begun_at_end(text) == 0
        }
        Value::String(text) => credentials.is_clean(text),
        Value::Array(items) => items.iter().all(|item| value_is_plain(credentials, way, item)),
        Value::Object(members) => {
            members.iter().all(|(name, value)| is_plain(credentials, way, name, value))
        }
        _ => true,
    }
}

/// Whether a part of a chunk contains a call, or text whose tokens were counted.
fn speaks(way: Way, value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty() && (way.goes_on() || way == Way::Calls),
        Value::Array(items) => items.iter().any(|item| speaks(way, item)),
        Value::Object(members) => members.iter().any(|(name, value)| {
            // The model writes all of a call.
            let beside = if way == Way::Calls { way } else { Way::Whole };
            speaks(way.into(name).map_or(beside, |(_, way)| way), value)
        }),
        _ => false,
    }
}

fn push_text(text: &str, events: &mut Vec<StreamEvent>) {
    if !text.is_empty() {
        events.push(StreamEvent::Text(text.to_owned()));
    }
}

/// Returns the path of the string that a path belongs to: the parts of a content are one text.
fn place_of(way: Way, path: &[Segment]) -> &[Segment] {
    if way == Way::Content { &path[..2] } else { path }
}

/// Returns the text of a delta's content.
fn content_of(delta: &Value) -> String {
    match delta.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

/// Creates a chunk with nothing but the end of one string.
fn rest_chunk(place: &[Segment], text: &str) -> StreamEvent {
    let (mut value, mut choice) = (Value::from(text), 0);
    for segment in place.iter().rev() {
        value = match *segment {
            Segment::Choice(index) => {
                choice = index;
                break;
            }
            Segment::Member(name) => Value::Object(Map::from_iter([(name.to_owned(), value)])),
            Segment::Item(index) => {
                if let Value::Object(item) = &mut value {
                    item.insert("index".to_owned(), index.into());
                }
                Value::Array(vec![value])
            }
        };
    }
    let choices = json!([{"index": choice, "delta": value, "finish_reason": null}]);
    let chunk = Map::from_iter([("choices".to_owned(), choices)]);
    StreamEvent::Native { text: String::new(), chunk }
}
