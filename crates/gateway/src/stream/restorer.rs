//! Puts originals back where their placeholders stand, while the answer streams.
//!
//! Each string of each choice has a restorer of its own, which holds back what may still become a
//! placeholder. What is held back is never overtaken by what the choice says later: it leaves, as it
//! is, before the choice goes on elsewhere or ends. Only tool calls run beside each other.

use checks::{Placeholders, StreamRestorer};
use serde_json::{Map, Value};

use super::Piece;
use crate::leaves::{self, Place};
use crate::output::restored;

/// Restores the answer of one call.
#[derive(Debug)]
pub(super) struct Restorer {
    placeholders: Placeholders,
    /// The text of choice 0, whichever way it comes.
    text: StreamRestorer,
    others: Vec<Field>,
}

/// Another string of an answer.
#[derive(Debug)]
struct Field {
    place: Place,
    stream: StreamRestorer,
}

impl Restorer {
    pub(super) fn new(placeholders: &Placeholders) -> Self {
        Self { text: placeholders.stream(), others: Vec::new(), placeholders: placeholders.clone() }
    }

    /// Takes more text of choice 0.
    pub(super) fn text(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        self.release(pieces, |place| place.choice() == Some(0));
        let text = self.text.push(text);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
    }

    /// Takes a chunk that says more than that.
    pub(super) fn native(&mut self, mut chunk: Map<String, Value>, pieces: &mut Vec<Piece>) {
        let ended = leaves::ended(&mut chunk);
        let ends = |place: &Place| place.choice().is_some_and(|choice| ended.contains(&choice));
        let mut now = Vec::new();
        leaves::each(&mut chunk, |place, _| {
            if place.is_fragment() {
                now.push(place.clone());
            }
        });
        if !now.iter().any(Place::is_text) && now.iter().any(|now| now.choice() == Some(0)) {
            self.release_text(pieces);
        }
        self.release(pieces, |place| {
            let goes_on = now.contains(place);
            let elsewhere = now.iter().any(|now| {
                now.choice() == place.choice() && !(now.is_tool_call() && place.is_tool_call())
            });
            !goes_on && (elsewhere || ends(place))
        });
        let mut changed = Vec::new();
        leaves::each(&mut chunk, |place, text| {
            let new = self.restored(place, text, ends(place));
            if new != *text {
                *text = new;
                changed.push(place.choice());
            }
        });
        leaves::drop_logprobs(&mut chunk, &changed);
        pieces.push(Piece::Native(chunk));
    }

    /// Gives what is held back.
    pub(super) fn finish(&mut self, pieces: &mut Vec<Piece>) {
        self.release_text(pieces);
        self.release(pieces, |_| true);
    }

    /// A string with what is certain of it.
    fn restored(&mut self, place: &Place, text: &str, ends: bool) -> String {
        if !place.is_fragment() {
            return restored(&self.placeholders, place, text);
        }
        if place.is_text() {
            return self.text.push(text);
        }
        let known = self.others.iter().position(|field| field.place == *place);
        let known = known.unwrap_or_else(|| {
            let stream = fresh(&self.placeholders, place);
            self.others.push(Field { place: place.clone(), stream });
            self.others.len() - 1
        });
        let stream = &mut self.others[known].stream;
        let mut out = stream.push(text);
        if ends {
            let over = std::mem::replace(stream, fresh(&self.placeholders, place));
            out.push_str(&over.finish());
        }
        out
    }

    fn release_text(&mut self, pieces: &mut Vec<Piece>) {
        if self.text.holds() {
            let over = std::mem::replace(&mut self.text, self.placeholders.stream());
            pieces.push(Piece::Text(over.finish()));
        }
    }

    /// Gives what is held back of strings that are over.
    fn release(&mut self, pieces: &mut Vec<Piece>, is_over: impl Fn(&Place) -> bool) {
        for Field { place, stream } in &mut self.others {
            if stream.holds() && is_over(place) {
                let over = std::mem::replace(stream, fresh(&self.placeholders, place));
                pieces.push(Piece::Native(place.chunk(over.finish())));
            }
        }
    }
}

fn fresh(placeholders: &Placeholders, place: &Place) -> StreamRestorer {
    if place.is_json() { placeholders.json_stream() } else { placeholders.stream() }
}

#[cfg(test)]
#[path = "restorer_tests.rs"]
mod tests;
