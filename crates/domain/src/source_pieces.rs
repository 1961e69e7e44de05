//! The strings of an answer that comes in events, each with a filter of its own.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::original::{Carrier, PieceKind, SourceEvent, SourcePiece};
use crate::single_string_chunk::clear_log_probabilities;

/// A filter of one string that comes in pieces.
pub trait PieceFilter: Clone {
    /// Takes more of the string; returns what may leave.
    fn push(&mut self, text: &str) -> String;
    /// Whether anything is held back.
    fn holds(&self) -> bool;
    /// Returns what is held back, as if nothing followed.
    fn rest(&mut self) -> String;
    /// Returns what is held back at the end of the string. The filter may be that of a string that readers
    /// join to this one.
    fn end(&mut self) -> String {
        self.rest()
    }
    /// Whether the last text had a part of what must not be repeated beside it either.
    fn hides(&self) -> bool {
        false
    }
}

/// The most events that wait behind text that is held back.
const MOST_WAITING: usize = 256;
/// The most bytes of the events that are kept because text of theirs is held back, or wait behind such text.
/// An event counts once for each of its strings, since each leaves in a copy.
const MOST_HELD_BYTES: usize = 16 * 1024 * 1024;
/// The most filters of strings that have ended which are kept.
const MOST_ENDED: usize = 1024;

/// Text is held back of events that have more bytes together than are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("text is held back of events with more than {MOST_HELD_BYTES} bytes")]
pub struct TooMuchHeld;

/// The block and kind of a string; of one that has ended, its candidate where that is one text.
type Key = (u64, PieceKind);

/// The strings of an answer that comes in events, each with a filter of its own. Text that a filter
/// holds back leaves in a later event, at the latest before its block ends and before whatever came
/// behind it in its block. A string that continues another goes on with its filter: that of the same block,
/// or, where each block is a part of one text, that of the last block of its kind in its candidate.
#[derive(Debug)]
pub struct SourcePieces<F> {
    open: BTreeMap<Key, Open<F>>,
    /// The bytes of the events that they keep.
    held_bytes: usize,
    /// The filters of strings that have ended and that others may continue.
    ended: BTreeMap<Key, F>,
    /// The ends of events that were held back whole.
    ends_due: Vec<u64>,
}

/// A string that has not ended.
#[derive(Debug)]
struct Open<F> {
    filter: F,
    /// The place of the filter among those of strings that have ended.
    continued: Option<Key>,
    /// The event of its last piece, and which of its pieces that is, if something is held back.
    last: Option<(Arc<SourceEvent>, usize)>,
    /// The events of its block behind that one.
    waiting: Vec<SourceEvent>,
    /// The text that was held back when the first of them came.
    held: String,
}

impl<F> Default for SourcePieces<F> {
    fn default() -> Self {
        let (open, ended) = (BTreeMap::new(), BTreeMap::new());
        Self { open, held_bytes: 0, ended, ends_due: Vec::new() }
    }
}

impl<F: PieceFilter> SourcePieces<F> {
    /// Takes an event, and adds what may leave. After an error, the event is left out.
    pub fn pass(
        &mut self,
        event: SourceEvent,
        begin: impl Fn(PieceKind) -> F,
        out: &mut Vec<SourceEvent>,
    ) -> Result<(), TooMuchHeld> {
        let (at, due) = (out.len(), std::mem::take(&mut self.ends_due));
        let passed = self.pass_event(event, begin, out);
        // The next filter needs the ends of an event that did not leave before what came behind it.
        let ends = out.get_mut(at).map_or(&mut self.ends_due, |event| &mut event.ends);
        ends.splice(0..0, due);
        passed
    }

    fn pass_event(
        &mut self,
        mut event: SourceEvent,
        begin: impl Fn(PieceKind) -> F,
        out: &mut Vec<SourceEvent>,
    ) -> Result<(), TooMuchHeld> {
        for block in &event.ends {
            // The rest of a string that ends in this very event leaves in it.
            if event.pieces.iter().all(|piece| piece.block != *block) {
                self.release(Some(*block), out);
            }
        }
        if event.is_end && event.pieces.is_empty() {
            self.release(None, out);
        }
        let carrier = event.carrier;
        let mut is_held = carrier == Carrier::Copy && !event.pieces.is_empty();
        let (mut holding, mut hides) = (BTreeMap::new(), false);
        for at in 0..event.pieces.len() {
            let (before, later) = event.pieces.split_at_mut(at + 1);
            let Some(piece) = before.last_mut() else { continue };
            let key = (piece.block, piece.kind);
            let open = self.open.entry(key).or_insert_with(|| {
                let continued = continued(piece, carrier);
                let earlier = continued.and_then(|earlier| self.ended.remove(&earlier));
                Open::new(earlier.unwrap_or_else(|| begin(key.1)), continued)
            });
            self.held_bytes -= open.kept_bytes();
            let mut text = open.filter.push(&piece.text);
            hides |= open.filter.hides();
            let is_over = event.ends.contains(&key.0)
                && later.iter().all(|more| (more.block, more.kind) != key);
            if is_over {
                text.push_str(&open.filter.end());
            }
            if !text.is_empty() || piece.text.is_empty() {
                text = open.let_out_waiting(text, out);
            }
            holding.remove(&key);
            if is_over {
                if let Some(open) = self.open.remove(&key) {
                    keep_ended(&mut self.ended, open.continued, open.filter);
                }
            } else {
                if open.waiting.is_empty() {
                    // A waiting event stays behind the one that it came behind.
                    open.last = None;
                    if open.filter.holds() {
                        holding.insert(key, at);
                    }
                }
                self.held_bytes += open.kept_bytes();
            }
            is_held &= text.is_empty() && !piece.text.is_empty();
            piece.is_changed |= text != piece.text;
            piece.text = text;
        }
        if !holding.is_empty() {
            self.keep(event.data.len().saturating_mul(holding.len()))?;
            let event = Arc::new(event.clone());
            for (key, at) in holding {
                if let Some(open) = self.open.get_mut(&key) {
                    open.last = Some((event.clone(), at));
                }
            }
        }
        if event.pieces.is_empty()
            && let Some(block) = event.beside
        {
            let mut strings = self.open.range(of_block(block));
            if let Some((key, open)) = strings.find(|(_, open)| open.last.is_some()) {
                let (key, is_full) = (*key, open.waiting.len() >= MOST_WAITING);
                if is_full {
                    self.release(Some(block), out);
                } else {
                    self.keep(event.data.len())?;
                    if let Some(open) = self.open.get_mut(&key) {
                        open.wait(event);
                    }
                    return Ok(());
                }
            }
        }
        if hides && carrier != Carrier::Copy {
            clear_log_probabilities(&mut event);
        }
        if is_held {
            self.ends_due.extend(event.ends);
        } else {
            out.push(event);
        }
        Ok(())
    }

    /// Counts the bytes of events that are going to be kept.
    fn keep(&mut self, bytes: usize) -> Result<(), TooMuchHeld> {
        let all = self.held_bytes.saturating_add(bytes);
        if all > MOST_HELD_BYTES {
            return Err(TooMuchHeld);
        }
        self.held_bytes = all;
        Ok(())
    }

    /// Lets out what is held back of a block, or of all.
    pub fn release(&mut self, block: Option<u64>, out: &mut Vec<SourceEvent>) {
        let over: Vec<Key> = match block {
            Some(block) => self.open.range(of_block(block)).map(|(key, _)| *key).collect(),
            None => self.open.keys().copied().collect(),
        };
        for key in over {
            let Some(mut open) = self.open.remove(&key) else { continue };
            self.held_bytes -= open.kept_bytes();
            let rest = open.filter.end();
            let last = open.last.clone();
            let behind = open.let_out_waiting(rest, out);
            out.extend(last.and_then(|(event, piece)| event.carrying(piece, behind)));
            keep_ended(&mut self.ended, open.continued, open.filter);
        }
    }
}

/// The place of a string's filter after its end. Strings of JSON are texts of their own.
fn continued(piece: &SourcePiece, carrier: Carrier) -> Option<Key> {
    match (piece.kind, carrier) {
        (PieceKind::Json, _) => None,
        // Each string of a choice is one block.
        (kind, Carrier::Chunk) => Some((piece.block, kind)),
        (kind, Carrier::Copy | Carrier::Content) => Some((piece.candidate, kind)),
    }
}

fn keep_ended<F>(ended: &mut BTreeMap<Key, F>, key: Option<Key>, filter: F) {
    let Some(key) = key else { return };
    if ended.len() >= MOST_ENDED {
        ended.pop_first();
    }
    ended.insert(key, filter);
}

/// The strings of a block.
fn of_block(block: u64) -> RangeInclusive<Key> {
    (block, PieceKind::Text)..=(block, PieceKind::Json)
}

impl<F: PieceFilter> Open<F> {
    fn new(filter: F, continued: Option<Key>) -> Self {
        Self { filter, continued, last: None, waiting: Vec::new(), held: String::new() }
    }

    /// The bytes of the events that are kept.
    fn kept_bytes(&self) -> usize {
        let last = self.last.iter().map(|(event, _)| event.data.len());
        last.chain(self.waiting.iter().map(|event| event.data.len())).sum()
    }

    /// Has an event wait behind the text that is held back.
    fn wait(&mut self, event: SourceEvent) {
        if self.waiting.is_empty() {
            // A copy gives up what it holds: the filter itself goes on as if nothing had happened.
            self.held = self.filter.clone().rest();
        }
        self.waiting.push(event);
    }

    /// Lets out the events that wait, behind the text that they came behind. Returns the rest of the
    /// text. What was replaced as a whole leaves as a whole.
    fn let_out_waiting(&mut self, text: String, out: &mut Vec<SourceEvent>) -> String {
        if self.waiting.is_empty() {
            return text;
        }
        let left = self.held.strip_prefix(&*text).filter(|left| !left.is_empty());
        if let Some(left) = left.map(str::to_owned) {
            // More of the text before them is still to come.
            self.held = left;
            out.extend(self.last.clone().and_then(|(event, piece)| event.carrying(piece, text)));
            return String::new();
        }
        let (before, behind) = match text.strip_prefix(&*self.held) {
            Some(behind) => (std::mem::take(&mut self.held), behind.to_owned()),
            None => (text, String::new()),
        };
        out.extend(self.last.take().and_then(|(event, piece)| event.carrying(piece, before)));
        out.append(&mut self.waiting);
        behind
    }
}

#[cfg(test)]
#[path = "source_pieces_tests.rs"]
mod tests;
