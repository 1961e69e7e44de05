//! A request as it came, and the events of an answer as they came: what passes on where caller and
//! provider speak the same format.

use std::ops::Range;

use serde_json::Value;

use crate::json_text::{Place, Token, Unreadable, quoted, rewrite};
use crate::safety::Origin;
use crate::single_string_chunk::single_string_chunk;
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

/// The longest name of the caller's that is shown, in characters.
pub const LONGEST_NAME: usize = 64;

/// A name of the caller's as it may stand in a list in a header.
pub fn shown_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_graphic() && c != ',';
    name.chars().take(LONGEST_NAME).map(|c| if fits(c) { c } else { '?' }).collect()
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
    /// Whether a file in it, or in the canonical form, is a video: its tokens do not follow from its bytes.
    pub has_video: bool,
    /// The bytes of signatures in it, which only their vendor can read.
    pub signatures: usize,
    /// Why the request cannot be translated to another format, if it cannot.
    pub untranslatable: Option<String>,
    /// Whether its canonical form lacks a part of the conversation that other formats do without.
    pub is_partial: bool,
    /// Whether its canonical form lacks tools that only the vendor has.
    pub lacks_tools: bool,
    /// The parts that its canonical form lacks, as the header names them where they are left out.
    pub omitted: Vec<String>,
    /// The addresses and tools that a provider would call for the caller.
    pub external_access: Vec<ExternalAccess>,
    /// The tools that items of the conversation add to those of the request, each with its place. Those
    /// of stored responses that it continues are reduced to what their charges depend on.
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
            has_video: false,
            signatures: 0,
            untranslatable: None,
            is_partial: false,
            lacks_tools: false,
            omitted: Vec::new(),
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

/// The most pieces of one event. A chunk of as many choices as a request may ask for has fewer.
pub const MOST_PIECES: usize = 1024;

/// More of a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePiece {
    /// The candidate that it is a part of, where an answer has several and each is read by itself; else 0.
    pub candidate: u64,
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

impl SourcePiece {
    /// A piece as it came, of the only candidate.
    pub fn new(block: u64, kind: PieceKind, range: Range<usize>, text: String) -> Self {
        Self { candidate: 0, block, kind, range, text, is_changed: false }
    }
}

impl SourceEvent {
    /// An event with these pieces that ends nothing.
    pub fn new(name: String, data: String, pieces: Vec<SourcePiece>) -> Self {
        Self {
            name,
            data,
            pieces,
            ends: Vec::new(),
            beside: None,
            begins_call: false,
            is_end: false,
            carrier: Carrier::Copy,
        }
    }

    /// The JSON text that leaves: byte for byte as it came, if the pieces are unchanged.
    pub fn json(self) -> String {
        if self.pieces.iter().all(|piece| !piece.is_changed) {
            return self.data;
        }
        let (mut out, mut copied) = (String::with_capacity(self.data.len()), 0);
        for piece in self.pieces.iter().filter(|piece| piece.is_changed) {
            out.push_str(&self.data[copied..piece.range.start]);
            out.push_str(&quoted(&piece.text));
            copied = piece.range.end;
        }
        out.push_str(&self.data[copied..]);
        out
    }

    /// Whether one of its pieces begins at this byte of the data.
    pub fn has_piece_at(&self, at: usize) -> bool {
        self.pieces.binary_search_by_key(&at, |piece| piece.range.start).is_ok()
    }

    /// Replaces strings beside the pieces.
    pub fn rewrite(
        &mut self,
        change: impl Fn(&Place<'_, '_>, &str) -> Option<String>,
    ) -> Result<(), Unreadable> {
        let event = &*self;
        // The strings that have another length now: their positions, and by how much.
        let mut moves: Vec<(usize, isize)> = Vec::new();
        let new = rewrite(&event.data, |place, token| {
            let (Token::Name(text) | Token::Text(text)) = token else { return None };
            let new = change(place, text).filter(|_| !event.has_piece_at(place.range.start))?;
            let longer = quoted(&new).len() as isize - place.range.len() as isize;
            moves.push((place.range.start, longer));
            Some(new)
        })?;
        let Some(new) = new else { return Ok(()) };
        self.data = new;
        let (mut moves, mut moved) = (moves.into_iter().peekable(), 0);
        for SourcePiece { range, .. } in &mut self.pieces {
            while let Some((_, longer)) = moves.next_if(|(at, _)| *at < range.start) {
                moved += longer;
            }
            let there = |at: usize| at.saturating_add_signed(moved);
            *range = there(range.start)..there(range.end);
        }
        Ok(())
    }

    /// The event in which the rest of one of its pieces leaves; `None` if that is empty.
    pub(crate) fn carrying(&self, piece: usize, rest: String) -> Option<Self> {
        if rest.is_empty() {
            return None;
        }
        let piece = self.pieces.get(piece)?;
        let (name, data, range, is_changed) = match self.carrier {
            Carrier::Copy => (self.name.clone(), self.data.clone(), piece.range.clone(), true),
            Carrier::Chunk | Carrier::Content => {
                let begins = piece.range.start;
                let (data, range) = single_string_chunk(&self.data, begins, &rest, self.carrier)?;
                (String::new(), data, range, false)
            }
        };
        let pieces = vec![SourcePiece { range, text: rest, is_changed, ..*piece }];
        Some(Self { name, data, pieces, ends: Vec::new(), ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(block: u64, extra: &str, text: &str) -> SourceEvent {
        let before = format!(r#"{{"x": {extra}, "delta": {{"text": "#);
        let spelled = format!("\"\\u0020{text}\"");
        let range = before.len()..before.len() + spelled.len();
        let data = format!("{before}{spelled}}} }}");
        let piece = SourcePiece::new(block, PieceKind::Text, range, format!(" {text}"));
        let pieces = vec![piece];
        SourceEvent::new("delta".to_owned(), data, pieces)
    }

    #[test]
    fn the_piece_stands_where_it_stood() {
        let as_it_came = r#"{"x": 1.0, "delta": {"text": "\u0020a"} }"#;
        assert_eq!(piece(0, "1.0", "a").json(), as_it_came);
        let mut event = piece(0, r#""old""#, "old");
        event.rewrite(|_, text| (text == "old").then(|| "something new".to_owned())).unwrap();
        assert_eq!(event.json(), r#"{"x": "something new", "delta": {"text": "\u0020old"} }"#);
        let mut event = piece(0, r#""old""#, "old");
        event.pieces[0].is_changed = true;
        event.rewrite(|_, text| (text == "old").then(String::new)).unwrap();
        assert_eq!(event.json(), r#"{"x": "", "delta": {"text": " old"} }"#);
    }
}
