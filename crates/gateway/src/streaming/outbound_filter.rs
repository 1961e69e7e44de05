//! The way out of a streamed answer: its strings are judged if the project asks for it, and
//! placeholders are replaced with their originals.
//!
//! Each string of each choice is a [`StringFilter`], which holds back text that may still become a
//! finding or a placeholder. Later text of the choice never overtakes it: it leaves, as it is,
//! before the choice continues elsewhere or ends. Only tool calls run beside each other.
//!
//! The states of a string:
//!
//! ```text
//!            +--+ all of it is certain         +--+ still uncertain
//!            |  v                              |  v
//! start --> passing --- uncertain end --> withholding --- finding that blocks --> blocked
//!            ^                                 |
//!            +-- certain, or interrupted ------+
//! ```
//!
//! A blocked string blocks the whole answer; a finding may also begin and end in one piece.

use std::collections::{BTreeMap, BTreeSet};

use checks::Placeholders;
use serde_json::{Map, Value};

use crate::safety::answer_strings;
use crate::safety::chunk_parts;
use crate::safety::json_path::JsonPath;
use crate::safety::output_check::restored;
use crate::streaming::by_path::ByPath;
use crate::streaming::piece::Piece;
use crate::streaming::string_filter::{Judging, StringFilter};

/// Lets out the answer of one call.
#[derive(Debug)]
pub(super) struct OutboundFilter {
    placeholders: Placeholders,
    pub(super) judging: Option<Judging>,
    /// The text of choice 0, in whichever form it comes.
    text: StringFilter,
    /// The part of it that was judged and has left, before it was restored.
    left: String,
    /// The part of the refusal of choice 0 that was judged and has left, before it was restored.
    refused: String,
    others: ByPath<StringFilter>,
    /// The other strings that hold something back.
    holding: BTreeSet<Withheld>,
}

/// A string that holds something back: its choice, whether it belongs to a call of a tool, its
/// number.
type Withheld = (Option<u64>, bool, usize);

/// The part of a chunk that belongs to one choice.
#[derive(Default)]
struct ChoicePart {
    /// Whether it continues any string, and any beside calls of tools.
    continues: bool,
    has_words: bool,
    ends: bool,
}

impl OutboundFilter {
    pub(super) fn new(placeholders: &Placeholders, judging: Option<Judging>) -> Self {
        Self {
            text: StringFilter::new(placeholders, None),
            left: String::new(),
            refused: String::new(),
            others: ByPath::default(),
            holding: BTreeSet::new(),
            placeholders: placeholders.clone(),
            judging,
        }
    }

    /// Why the rest of the answer must not leave, if it must not.
    pub(super) fn blocked(&self) -> Option<&str> {
        self.judging.as_ref()?.blocked.as_deref()
    }

    /// The text of choice 0 that has left since the last call, as it was judged.
    pub(super) fn left(&mut self) -> String {
        std::mem::take(&mut self.left)
    }

    /// The refusal of choice 0 that has left since the last call, as it was judged.
    pub(super) fn refused(&mut self) -> String {
        std::mem::take(&mut self.refused)
    }

    /// Takes more text of choice 0.
    pub(super) fn text(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        if !self.holding.is_empty() {
            self.release(self.withheld(Some(0), true), pieces);
        }
        let text = self.text_out(text);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
    }

    /// Takes a chunk that holds more than the text of choice 0.
    pub(super) fn native(&mut self, mut chunk: Map<String, Value>, pieces: &mut Vec<Piece>) {
        let mut parts: BTreeMap<Option<u64>, ChoicePart> = BTreeMap::new();
        for choice in chunk_parts::ended(&mut chunk) {
            parts.entry(Some(choice)).or_default().ends = true;
        }
        let (mut continued, mut text_continues) = (BTreeSet::new(), false);
        answer_strings::visit(&mut chunk, |path, _| {
            if path.continues() {
                let part = parts.entry(path.choice()).or_default();
                part.continues = true;
                part.has_words |= !path.is_tool_call();
                text_continues |= path.is_text();
                continued.extend(self.others.number(path));
            }
        });
        if !text_continues && parts.get(&Some(0)).is_some_and(|part| part.continues) {
            self.release_text(pieces);
        }
        for (choice, part) in &parts {
            let mut over = self.withheld(*choice, part.has_words || part.ends);
            over.retain(|(.., number)| !continued.contains(number));
            self.release(over, pieces);
        }
        let mut changed = BTreeSet::new();
        answer_strings::visit(&mut chunk, |path, text| {
            let ends = parts.get(&path.choice()).is_some_and(|part| part.ends);
            let new = self.string_out(path, text, ends);
            if new != *text {
                *text = new;
                changed.insert(path.choice());
            }
        });
        answer_strings::drop_logprobs(&mut chunk, &changed);
        pieces.push(Piece::Native(chunk));
    }

    /// Passes on the text that is held back.
    pub(super) fn finish(&mut self, pieces: &mut Vec<Piece>) {
        self.release_text(pieces);
        self.release(self.holding.iter().copied().collect(), pieces);
    }

    fn text_out(&mut self, text: &str) -> String {
        let judged = self.text.judged(text, self.judging.as_mut());
        if self.judging.is_some() {
            self.left.push_str(&judged);
        }
        self.text.restored(&judged)
    }

    /// Takes a string, or a piece of one; returns the text that may leave.
    fn string_out(&mut self, path: &JsonPath, text: &str, ends: bool) -> String {
        if !path.continues() {
            return match &mut self.judging {
                Some(judging) => restored(&self.placeholders, path, &judging.whole(text)),
                None => restored(&self.placeholders, path, text),
            };
        }
        if path.is_text() {
            return self.text_out(text);
        }
        let begin = || StringFilter::new(&self.placeholders, Some(path));
        let (number, filter) = self.others.at(path, begin);
        let mut judged = filter.judged(text, self.judging.as_mut());
        if ends {
            judged.to_mut().push_str(&filter.judged_rest(self.judging.as_mut()));
        }
        if self.judging.is_some() && path.is_refusal() {
            self.refused.push_str(&judged);
        }
        let out = if ends { filter.restored_rest(&judged) } else { filter.restored(&judged) };
        let withheld = (path.choice(), path.is_tool_call(), number);
        if filter.holds() {
            self.holding.insert(withheld);
        } else {
            self.holding.remove(&withheld);
        }
        out
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

    /// The strings of a choice that hold something back, with or without those of calls of tools.
    fn withheld(&self, choice: Option<u64>, with_calls: bool) -> Vec<Withheld> {
        let all = (choice, false, 0)..=(choice, with_calls, usize::MAX);
        self.holding.range(all).copied().collect()
    }

    /// Passes on the text that is held back of strings that are over.
    fn release(&mut self, over: Vec<Withheld>, pieces: &mut Vec<Piece>) {
        for withheld in over {
            self.holding.remove(&withheld);
            let Some((path, filter)) = self.others.get_mut(withheld.2) else { continue };
            let judged = filter.judged_rest(self.judging.as_mut());
            if path.is_refusal() {
                self.refused.push_str(&judged);
            }
            let text = filter.restored_rest(&judged);
            if !text.is_empty() {
                pieces.push(Piece::Native(path.chunk(text)));
            }
        }
    }
}

#[cfg(test)]
#[path = "outbound_filter_tests.rs"]
mod tests;
