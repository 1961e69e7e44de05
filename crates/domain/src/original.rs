//! A request as it came, and the events of an answer as they came: what passes on where caller and
//! provider speak the same format.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use crate::json_text::{Place, Token, Unreadable, quoted, rewrite};
use crate::safety::Origin;
use crate::single_string_chunk::{clear_log_probabilities, single_string_chunk};
use crate::stored_responses::Continuation;

/// The format of a vendor's API that a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireFormat {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's chat completions.
    ChatCompletions,
    /// Gemini's generateContent.
    GenerateContent,
    /// OpenAI's Responses.
    Responses,
}

impl WireFormat {
    /// The member of an answer that names the model.
    pub fn model_member(self) -> &'static str {
        match self {
            Self::Messages | Self::ChatCompletions | Self::Responses => "model",
            Self::GenerateContent => "modelVersion",
        }
    }
}

/// A request as it came, beside its canonical form.
#[derive(Clone, Debug, PartialEq)]
pub struct Original {
    /// Its format.
    pub format: WireFormat,
    /// The body: as it came, and after the screening as it may leave. `None` if it cannot pass.
    pub body: Option<String>,
    /// The strings of the body that the canonical form does not hold. They are judged beside it.
    pub beside: Vec<Beside>,
    /// The bytes of files in the body that the canonical form does not hold.
    pub files: usize,
    /// The bytes of signatures in it, which only their vendor can read.
    pub signatures: usize,
    /// Why the request cannot be translated to another format, if it cannot.
    pub untranslatable: Option<String>,
    /// Whether its canonical form lacks a part of the conversation that other formats do without.
    pub is_partial: bool,
    /// The addresses and tools that a provider would call for the caller.
    pub external_access: Vec<ExternalAccess>,
    /// The tools that items of the conversation add to those of the request, each with its place.
    pub added_tools: Vec<(String, Value)>,
    /// The tools that were left out of the body, as the caller learns it.
    pub left_out: Vec<String>,
    /// The headers that go on with it.
    pub headers: Vec<(&'static str, String)>,
    /// The stored responses and items that it continues.
    pub continuation: Continuation,
}

impl Original {
    /// A request that came with this body.
    pub fn new(format: WireFormat, body: String) -> Self {
        Self {
            format,
            body: Some(body),
            beside: Vec::new(),
            files: 0,
            signatures: 0,
            untranslatable: None,
            is_partial: false,
            external_access: Vec::new(),
            added_tools: Vec::new(),
            left_out: Vec::new(),
            headers: Vec::new(),
            continuation: Continuation::default(),
        }
    }

    /// The bytes of the body that the canonical form does not hold.
    pub fn bytes_beside(&self) -> usize {
        let known = self.files + self.signatures;
        known + self.beside.iter().map(|beside| beside.was.len()).sum::<usize>()
    }
}

/// A string or a number of a request that its canonical form does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The part of the request that it stands in: `metadata`, `messages[3]`.
    pub field: String,
    /// The member that holds it.
    pub name: String,
    /// How far safety trusts it.
    pub origin: Origin,
    /// How it is spelled in the request, without escapes.
    pub was: String,
    /// The string or number that is judged and redacted.
    pub value: Value,
}

/// One tool of a vendor's, or one address, that a provider would call for the caller, with the account of the
/// gateway's operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalAccess {
    /// Its place in the request.
    pub at: String,
    /// The type of the tool, or of the part that has the address.
    pub kind: String,
    /// The address, if it is one.
    pub address: Option<String>,
    /// Whether any public address will do.
    pub is_public_allowed: bool,
    /// The index of the tool among those of the request, if it is removed where it is not allowed instead
    /// of the request being refused.
    pub removable_tool: Option<usize>,
    /// The id of what the vendor stores. An access to what calls of the same project have made needs no
    /// permission.
    pub stored_id: Option<String>,
}

/// The kind of a string that the events of an answer continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PieceKind {
    /// Text of the answer.
    Text,
    /// Reasoning.
    Thought,
    /// The arguments of a tool: JSON in pieces.
    Json,
}

/// An event of a streamed answer, as its provider sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceEvent {
    /// Its name.
    pub name: String,
    /// Its JSON text.
    pub data: String,
    /// The parts of it that continue strings, in the order in which they stand there.
    pub pieces: Vec<SourcePiece>,
    /// The blocks of the answer that end with it.
    pub ends: Vec<u64>,
    /// The block of the answer that goes on with it beside its text: what is held back of the text goes
    /// first.
    pub beside: Option<u64>,
    /// Whether a block begins with it that is of use only as a whole: a call of a tool.
    pub begins_call: bool,
    /// Whether the end of the answer begins with it or goes on: it is sent when the call is recorded.
    pub is_end: bool,
    /// The event in which more of one of its strings may leave.
    pub carrier: Carrier,
}

/// The event in which text leaves that was held back when its own event left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A copy of its event, which holds nothing but the text. An event that has no text left is held
    /// back too.
    Copy,
    /// A chunk of chat completions with nothing but the text: see
    /// [`single_string_chunk`](crate::single_string_chunk).
    Chunk,
    /// A chunk of Gemini's with nothing but the text.
    Content,
}

/// The name of an event that reports the usage and nothing else, in a format whose events have no names.
pub const USAGE_ALONE: &str = "usage";
/// The name of one that reports the usage beside parts of the answer.
pub const USAGE_TOO: &str = "chunk with usage";
/// The name of one that has parts which only its vendor has.
pub const VENDOR_PARTS: &str = "chunk with parts of the vendor's";

/// More of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePiece {
    /// The block of the answer that it belongs to.
    pub block: u64,
    /// Its kind.
    pub kind: PieceKind,
    /// Its bytes in the data, quotes included.
    pub range: Range<usize>,
    /// The text that leaves in its place.
    pub text: String,
    /// Whether that is another than the one in the data.
    pub is_changed: bool,
}

impl SourceEvent {
    /// The JSON text that leaves: byte for byte as it came, if the pieces are unchanged.
    pub fn json(mut self) -> String {
        for piece in self.pieces.iter().rev().filter(|piece| piece.is_changed) {
            self.data.replace_range(piece.range.clone(), &quoted(&piece.text));
        }
        self.data
    }

    /// Replaces strings beside the pieces.
    pub fn rewrite(
        &mut self,
        change: impl Fn(&Place<'_, '_>, &str) -> Option<String>,
    ) -> Result<(), Unreadable> {
        let pieces = &self.pieces;
        let is_piece = |at: usize| pieces.iter().any(|piece| piece.range.start == at);
        // The strings that have another length now: their positions, and by how much.
        let mut moves: Vec<(usize, isize)> = Vec::new();
        let new = rewrite(&self.data, |place, token| {
            let (Token::Name(text) | Token::Text(text)) = token else { return None };
            let new = change(place, text).filter(|_| !is_piece(place.range.start))?;
            let longer = quoted(&new).len() as isize - place.range.len() as isize;
            moves.push((place.range.start, longer));
            Some(new)
        })?;
        let Some(new) = new else { return Ok(()) };
        self.data = new;
        for SourcePiece { range, .. } in &mut self.pieces {
            let before = moves.iter().filter(|(at, _)| *at < range.start);
            let moved = before.map(|(_, longer)| longer).sum();
            let there = |at: usize| at.saturating_add_signed(moved);
            *range = there(range.start)..there(range.end);
        }
        Ok(())
    }

    /// The event in which the rest of one of its pieces leaves; `None` if that is empty.
    fn carrying(mut self, piece: usize, rest: String) -> Option<Self> {
        if rest.is_empty() {
            return None;
        }
        let mut piece = self.pieces.get(piece)?.clone();
        match self.carrier {
            Carrier::Copy => {
                (piece.text, piece.is_changed) = (rest, true);
                self.pieces = vec![piece];
            }
            Carrier::Chunk | Carrier::Content => {
                let begins = piece.range.start;
                self.data = single_string_chunk(&self.data, begins, &rest, self.carrier)?;
                (self.name, self.pieces) = (String::new(), Vec::new());
            }
        }
        self.ends = Vec::new();
        Some(self)
    }
}

/// A filter of one string that comes in pieces.
pub trait PieceFilter {
    /// Takes more of the string; returns what may leave.
    fn push(&mut self, text: &str) -> String;
    /// Whether anything is held back.
    fn holds(&self) -> bool;
    /// Returns what is held back, as if nothing followed.
    fn rest(&mut self) -> String;
    /// Whether the last text had a part of what must not be repeated beside it either.
    fn hides(&self) -> bool {
        false
    }
}

/// The most events that wait behind text that is held back.
const MOST_WAITING: usize = 256;

/// The strings of an answer that comes in events, each with a filter of its own. Text that a filter
/// holds back leaves in a later event, at the latest before its block ends and before whatever came
/// behind it in its block.
#[derive(Debug)]
pub struct SourcePieces<F> {
    open: BTreeMap<(u64, PieceKind), Open<F>>,
}

/// A string that has not ended.
#[derive(Debug)]
struct Open<F> {
    filter: F,
    /// The event of its last piece, and which of its pieces that is, if something is held back.
    last: Option<(SourceEvent, usize)>,
    /// The events of its block behind that one.
    waiting: Vec<SourceEvent>,
    /// The text that was held back when the first of them came.
    held: String,
}

impl<F> Default for SourcePieces<F> {
    fn default() -> Self {
        Self { open: BTreeMap::new() }
    }
}

impl<F: PieceFilter> SourcePieces<F> {
    /// Takes an event, and adds what may leave.
    pub fn pass(
        &mut self,
        mut event: SourceEvent,
        begin: impl Fn(PieceKind) -> F,
        out: &mut Vec<SourceEvent>,
    ) {
        for block in &event.ends {
            // The rest of a string that ends in this very event leaves in it.
            if event.pieces.iter().all(|piece| piece.block != *block) {
                self.release(Some(*block), out);
            }
        }
        if event.is_end && event.pieces.is_empty() {
            self.release(None, out);
        }
        let mut is_held = event.carrier == Carrier::Copy && !event.pieces.is_empty();
        let (mut holding, mut hides) = (Vec::new(), false);
        for at in 0..event.pieces.len() {
            let (before, later) = event.pieces.split_at_mut(at + 1);
            let Some(piece) = before.last_mut() else { continue };
            let key = (piece.block, piece.kind);
            let open = self.open.entry(key).or_insert_with(|| Open {
                filter: begin(key.1),
                last: None,
                waiting: Vec::new(),
                held: String::new(),
            });
            let mut text = open.filter.push(&piece.text);
            hides |= open.filter.hides();
            let is_over = event.ends.contains(&key.0)
                && later.iter().all(|more| (more.block, more.kind) != key);
            if is_over {
                text.push_str(&open.filter.rest());
            }
            if !text.is_empty() || piece.text.is_empty() {
                text = open.let_out_waiting(text, out);
            }
            if is_over {
                self.open.remove(&key);
            } else if open.waiting.is_empty() {
                // A waiting event stays behind the one that it came behind.
                open.last = None;
                if open.filter.holds() {
                    holding.push((key, at));
                }
            }
            is_held &= text.is_empty() && !piece.text.is_empty();
            piece.is_changed |= text != piece.text;
            piece.text = text;
        }
        for (key, at) in holding {
            if let Some(open) = self.open.get_mut(&key) {
                open.last = Some((event.clone(), at));
            }
        }
        if event.pieces.is_empty()
            && let Some(block) = event.beside
        {
            let mut strings = self.open.iter_mut().filter(|((of, _), _)| *of == block);
            if let Some((_, open)) = strings.find(|(_, open)| open.last.is_some()) {
                if open.waiting.len() < MOST_WAITING {
                    open.wait(event, out);
                    return;
                }
                self.release(Some(block), out);
            }
        }
        if hides && event.carrier != Carrier::Copy {
            clear_log_probabilities(&mut event);
        }
        if !is_held {
            out.push(event);
        }
    }

    /// Lets out what is held back of a block, or of all.
    pub fn release(&mut self, block: Option<u64>, out: &mut Vec<SourceEvent>) {
        let is_over = |of: u64| block.is_none_or(|block| block == of);
        let over: Vec<_> = self.open.keys().copied().filter(|(of, _)| is_over(*of)).collect();
        for key in over {
            let Some(mut open) = self.open.remove(&key) else { continue };
            let rest = open.filter.rest();
            let last = open.last.clone();
            let behind = open.let_out_waiting(rest, out);
            out.extend(last.and_then(|(event, piece)| event.carrying(piece, behind)));
        }
    }
}

impl<F: PieceFilter> Open<F> {
    /// Has an event wait behind the text that is held back.
    fn wait(&mut self, event: SourceEvent, out: &mut Vec<SourceEvent>) {
        if self.waiting.is_empty() {
            // The filter shows what it holds by giving it up, and takes it back.
            self.held = self.filter.rest();
            let certain = self.filter.push(&self.held);
            if let Some(held) = self.held.strip_prefix(&certain) {
                self.held = held.to_owned();
            }
            out.extend(self.last.clone().and_then(|(event, piece)| event.carrying(piece, certain)));
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
#[path = "original_tests.rs"]
mod tests;
