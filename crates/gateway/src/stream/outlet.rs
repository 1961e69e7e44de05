//! The way out of a streamed answer: its strings are judged where the project asks for it, and
//! originals are put back where their placeholders stand.
//!
//! Each string of each choice is a [`Strand`], which holds back what may still become a finding or a
//! placeholder. What is held back is never overtaken by what the choice says later: it leaves, as it
//! is, before the choice goes on elsewhere or ends. Only tool calls run beside each other.

use checks::Placeholders;
use serde_json::{Map, Value};

use super::Piece;
use super::strand::{Judging, Strand};
use crate::leaves::{self, Place};
use crate::output::restored;

/// Lets out the answer of one call.
#[derive(Debug)]
pub(super) struct Outlet {
    placeholders: Placeholders,
    pub(super) judging: Option<Judging>,
    /// The text of choice 0, whichever way it comes.
    text: Strand,
    /// What of it was judged and has left, before it was restored.
    left: String,
    others: Vec<(Place, Strand)>,
}

impl Outlet {
    pub(super) fn new(placeholders: &Placeholders, judging: Option<Judging>) -> Self {
        Self {
            text: Strand::new(placeholders, None),
            left: String::new(),
            others: Vec::new(),
            placeholders: placeholders.clone(),
            judging,
        }
    }

    /// Why the answer must not go on, if it must not.
    pub(super) fn blocked(&self) -> Option<&str> {
        self.judging.as_ref()?.blocked.as_deref()
    }

    /// What has left of the text of choice 0, as it was judged.
    pub(super) fn left(&mut self) -> String {
        std::mem::take(&mut self.left)
    }

    /// Takes more text of choice 0.
    pub(super) fn text(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        self.release(pieces, |place| place.choice() == Some(0));
        let text = self.text_out(text);
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
            if place.is_fragment() && !place.is_note() {
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
            let new = self.string_out(place, text, ends(place));
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

    fn text_out(&mut self, text: &str) -> String {
        let judged = self.text.judged(text, self.judging.as_mut());
        if self.judging.is_some() {
            self.left.push_str(&judged);
        }
        self.text.restored(&judged)
    }

    /// A string with what may leave of it.
    fn string_out(&mut self, place: &Place, text: &str, ends: bool) -> String {
        if !place.is_fragment() || place.is_note() {
            return match &mut self.judging {
                Some(judging) => restored(&self.placeholders, place, &judging.whole(text)),
                None => restored(&self.placeholders, place, text),
            };
        }
        if place.is_text() {
            return self.text_out(text);
        }
        let known = self.others.iter().position(|(known, _)| known == place);
        let known = known.unwrap_or_else(|| {
            self.others.push((place.clone(), Strand::new(&self.placeholders, Some(place))));
            self.others.len() - 1
        });
        let strand = &mut self.others[known].1;
        let mut judged = strand.judged(text, self.judging.as_mut());
        if !ends {
            return strand.restored(&judged);
        }
        judged.push_str(&strand.judged_rest(self.judging.as_mut()));
        strand.restored_rest(&judged)
    }

    fn release_text(&mut self, pieces: &mut Vec<Piece>) {
        if self.text.holds() {
            let judged = self.text.judged_rest(self.judging.as_mut());
            self.left.push_str(&judged);
            let text = self.text.restored_rest(&judged);
            if !text.is_empty() {
                pieces.push(Piece::Text(text));
            }
        }
    }

    /// Gives what is held back of strings that are over.
    fn release(&mut self, pieces: &mut Vec<Piece>, is_over: impl Fn(&Place) -> bool) {
        for (place, strand) in &mut self.others {
            if strand.holds() && is_over(place) {
                let judged = strand.judged_rest(self.judging.as_mut());
                let text = strand.restored_rest(&judged);
                if !text.is_empty() {
                    pieces.push(Piece::Native(place.chunk(text)));
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "outlet_tests.rs"]
mod tests;
