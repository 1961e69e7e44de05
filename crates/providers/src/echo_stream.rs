//! Takes credentials out of the events of a stream.

use std::collections::BTreeMap;

use domain::conversation::StreamEvent;
use domain::secret::Secret;
use serde_json::{Map, Value, json};

use crate::chat_form::{IMAGES, STATE, STOP_DETAILS, STOP_SEQUENCE};
use crate::echo::Credentials;
use crate::error::Error;

/// Members of a delta that come whole: their end never waits.
const WHOLE: [&str; 11] = [
    "role",
    "type",
    "id",
    "name",
    "format",
    "signature",
    "data",
    IMAGES,
    STATE,
    STOP_DETAILS,
    STOP_SEQUENCE,
];
/// So much of a credential at the end of a text takes the log probabilities of its tokens away.
const TOLD_BY_TOKENS: usize = 4;

/// So many strings wait at once at the most, beside the text.
pub(crate) const MOST_WAITING: usize = 4096;

/// Cleans one stream.
#[derive(Debug)]
pub(crate) struct EchoFilter {
    credentials: Option<Credentials>,
    /// The end of the text of choice 0 that waits.
    text: String,
    /// Those of other strings, by choice and place.
    others: BTreeMap<(u64, Vec<Segment>), String>,
    /// Whether more strings would have to wait than may.
    is_full: bool,
}

/// A step on the way to a string within a delta.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Member(String),
    /// An item of a list, by its own index where it has one.
    Item(u64),
}

impl Segment {
    fn item(position: usize, item: &Value) -> Self {
        Self::Item(item.get("index").and_then(Value::as_u64).unwrap_or(position as u64))
    }
}

impl EchoFilter {
    pub(crate) fn new(key: Option<&Secret>) -> Self {
        let credentials = Credentials::of(key);
        Self { credentials, text: String::new(), others: BTreeMap::new(), is_full: false }
    }

    /// Cleans the events from a place on. An error where too many strings would have to wait: what
    /// comes after that is left out.
    pub(crate) fn pass(&mut self, events: &mut Vec<StreamEvent>, from: usize) -> Result<(), Error> {
        let Some(credentials) = self.credentials.take() else { return Ok(()) };
        let holds_nothing = self.text.is_empty() && self.others.is_empty();
        let is_clean = |event: &StreamEvent| match event {
            StreamEvent::Text(text) => {
                !credentials.are_in(text) && credentials.begun_at_end(text) == 0
            }
            StreamEvent::Model(name) => !credentials.are_in(name),
            StreamEvent::Native { chunk, .. } => {
                chunk.iter().all(|(name, value)| is_plain(&credentials, name, value, false))
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

    /// Hands over what waits: nothing comes any more.
    pub(crate) fn end(&mut self, events: &mut Vec<StreamEvent>) {
        let Some(credentials) = self.credentials.take() else { return };
        self.flush(&credentials, None, events);
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
                credentials.pass(&mut self.text, &mut text);
                if !text.is_empty() {
                    events.push(StreamEvent::Text(text));
                }
            }
            StreamEvent::Native { mut text, mut chunk } => {
                self.chunk(credentials, &mut chunk, &mut text, events);
                events.push(StreamEvent::Native { text, chunk });
            }
            StreamEvent::Model(mut name) => {
                credentials.clean(&mut name);
                events.push(StreamEvent::Model(name));
            }
            StreamEvent::Finish(_) => {
                // Choice 0 ends; others may go on.
                self.flush(credentials, Some(0), events);
                events.push(event);
            }
            StreamEvent::Done => {
                self.flush(credentials, None, events);
                events.push(event);
            }
            StreamEvent::Usage(_) | StreamEvent::Prompt(_) => events.push(event),
        }
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
            let mut tells = false;
            if let Some(delta) = choice.get_mut("delta") {
                let mut path = Vec::new();
                tells = self.delta(credentials, index, &mut path, delta);
                if ends {
                    self.drain(credentials, index, &mut path, delta);
                }
                if index == 0 {
                    *text = content_of(delta);
                }
            }
            if ends {
                // Strings that go on no more leave before the end.
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

    /// Cleans a part of a delta. Whether its text held a credential, or may.
    fn delta(
        &mut self,
        credentials: &Credentials,
        choice: u64,
        path: &mut Vec<Segment>,
        value: &mut Value,
    ) -> bool {
        match value {
            Value::String(piece) => self.piece(credentials, choice, path, piece),
            Value::Array(items) => {
                let mut tells = false;
                for (position, item) in items.iter_mut().enumerate() {
                    path.push(Segment::item(position, item));
                    tells |= self.delta(credentials, choice, path, item);
                    path.pop();
                }
                tells
            }
            Value::Object(members) => {
                let mut tells = credentials.clean_names(members);
                for (name, value) in members {
                    if WHOLE.contains(&name.as_str()) {
                        credentials.clean_value(value);
                        continue;
                    }
                    path.push(Segment::Member(name.clone()));
                    tells |= self.delta(credentials, choice, path, value);
                    path.pop();
                }
                tells
            }
            _ => false,
        }
    }

    /// Gives the strings of a choice's last delta what waits of them. The last part of a string that
    /// has several gets it.
    fn drain(
        &mut self,
        credentials: &Credentials,
        choice: u64,
        path: &mut Vec<Segment>,
        value: &mut Value,
    ) {
        if self.text.is_empty() && self.others.is_empty() {
            return;
        }
        match value {
            Value::String(piece) => {
                piece.push_str(credentials.rest(&self.take_waiting(choice, path)));
            }
            Value::Array(items) => {
                for (position, item) in items.iter_mut().enumerate().rev() {
                    path.push(Segment::item(position, item));
                    self.drain(credentials, choice, path, item);
                    path.pop();
                }
            }
            Value::Object(members) => {
                for (name, value) in members.iter_mut().rev() {
                    if !WHOLE.contains(&name.as_str()) {
                        path.push(Segment::Member(name.clone()));
                        self.drain(credentials, choice, path, value);
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
        choice: u64,
        path: &[Segment],
        piece: &mut String,
    ) -> bool {
        let is_content = is_content(path);
        let mut waiting = self.take_waiting(choice, path);
        let had = waiting.len() >= TOLD_BY_TOKENS;
        let found = credentials.pass(&mut waiting, piece);
        let tells = found || had || waiting.len() >= TOLD_BY_TOKENS;
        if choice == 0 && is_content {
            self.text = waiting;
        } else if self.others.len() >= MOST_WAITING {
            self.is_full |= !waiting.is_empty();
        } else if !waiting.is_empty() {
            self.others.insert((choice, place_of(path).to_vec()), waiting);
        }
        is_content && tells
    }

    /// Takes what waits of the string at a path.
    fn take_waiting(&mut self, choice: u64, path: &[Segment]) -> String {
        if choice == 0 && is_content(path) {
            std::mem::take(&mut self.text)
        } else if self.others.is_empty() {
            String::new()
        } else {
            self.others.remove(&(choice, place_of(path).to_vec())).unwrap_or_default()
        }
    }

    /// Hands over what waits, of one choice or of all.
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
        for ((choice, place), text) in leave {
            events.push(rest_chunk(choice, &place, credentials.rest(&text)));
        }
    }

    /// Takes the strings of one choice, without a look at those of others.
    fn take_choice(&mut self, choice: u64) -> BTreeMap<(u64, Vec<Segment>), String> {
        let of_choice = self.others.range((choice, Vec::new())..);
        let places: Vec<_> = of_choice
            .map(|(place, _)| place)
            .take_while(|place| place.0 == choice)
            .cloned()
            .collect();
        places.into_iter().filter_map(|place| self.others.remove_entry(&place)).collect()
    }
}

/// Whether nothing in a part of a chunk has to be cleaned, or, within a delta, to wait.
fn is_plain(credentials: &Credentials, name: &str, value: &Value, in_delta: bool) -> bool {
    let in_delta = (in_delta || name == "delta") && !WHOLE.contains(&name);
    let is_sound = |text: &str| {
        !credentials.are_in(text)
            && if in_delta {
                credentials.begun_at_end(text) == 0
            } else {
                !credentials.is_much(&text[text.len() - credentials.begun_at_end(text)..])
            }
    };
    !credentials.are_in(name)
        && match value {
            Value::String(text) => is_sound(text),
            Value::Array(items) => {
                items.iter().all(|item| is_plain(credentials, "", item, in_delta))
            }
            Value::Object(members) => {
                members.iter().all(|(name, value)| is_plain(credentials, name, value, in_delta))
            }
            _ => true,
        }
}

fn push_text(text: &str, events: &mut Vec<StreamEvent>) {
    if !text.is_empty() {
        events.push(StreamEvent::Text(text.to_owned()));
    }
}

/// Whether a place is the content of a choice, as a text or in parts.
fn is_content(path: &[Segment]) -> bool {
    let is = |segment: Option<&Segment>, name: &str| matches!(segment, Some(Segment::Member(member)) if member == name);
    is(path.first(), "content") && (path.len() == 1 || is(path.last(), "text"))
}

/// The place of the string that a path leads to: the parts of a content are one text.
fn place_of(path: &[Segment]) -> &[Segment] {
    if is_content(path) { &path[..1] } else { path }
}

/// The text of a delta's content.
fn content_of(delta: &Value) -> String {
    match delta.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
        }
        _ => String::new(),
    }
}

/// A chunk with nothing but the end of one string.
fn rest_chunk(choice: u64, place: &[Segment], text: &str) -> StreamEvent {
    let mut value = Value::from(text);
    for segment in place.iter().rev() {
        value = match segment {
            Segment::Member(name) => Value::Object(Map::from_iter([(name.clone(), value)])),
            Segment::Item(index) => {
                if let Value::Object(item) = &mut value {
                    item.insert("index".to_owned(), (*index).into());
                }
                Value::Array(vec![value])
            }
        };
    }
    let choices = json!([{"index": choice, "delta": value, "finish_reason": null}]);
    let chunk = Map::from_iter([("choices".to_owned(), choices)]);
    StreamEvent::Native { text: String::new(), chunk }
}
