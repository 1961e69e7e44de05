//! The way out of a provider's own events: strings are judged if the project asks for it, placeholders
//! are replaced with their originals, and the end waits until the call is recorded. Everything else
//! leaves as it was sent.
//!
//! If outputs are judged, everything from the first call of a tool on is withheld: calls are judged as
//! a whole, once all of the answer has come.

use std::sync::{Arc, Mutex};

use checks::{Placeholders, Redactor, StreamRestorer};
use domain::json_text::{Token, rewrite};
use domain::model::Model;
use domain::original::{PieceFilter, PieceKind, SourceEvent, SourcePieces};
use serde_json::Value;

use crate::lock::lock;
use crate::streaming::fragments::{MAX_WITHHELD_BYTES, MAX_WITHHELD_CHUNKS, TooMany};
use crate::streaming::piece::Piece;
use crate::streaming::string_filter::{Judging, StringFilter};

/// The event that begins an answer, and the path of the model's name in it.
const START: &str = "message_start";
const MODEL: [&str; 2] = ["message", "model"];

/// Lets out the events of one call.
#[derive(Debug)]
pub(super) struct SourceFilter {
    /// The name by which the caller knows the model.
    model: String,
    placeholders: Placeholders,
    judged: Option<Judged>,
    pieces: SourcePieces<Restored>,
    /// What waits for the verdict on the whole answer.
    withheld: Vec<SourceEvent>,
    withheld_bytes: usize,
    /// The end of the answer.
    ending: Vec<SourceEvent>,
}

/// What the strings of a judged answer share.
#[derive(Clone, Debug)]
struct Judged {
    judging: Arc<Mutex<Judging>>,
    /// The text of the answer that was judged and has left, before it was restored.
    left: Arc<Mutex<String>>,
}

/// One string that comes in pieces.
#[derive(Debug)]
struct Restored {
    kind: PieceKind,
    /// Set if it is judged on its way.
    judged: Option<(StringFilter, Judged)>,
    restorer: StreamRestorer,
}

impl PieceFilter for Restored {
    fn push(&mut self, text: &str) -> String {
        let Some((filter, judged)) = &mut self.judged else { return self.restorer.push(text) };
        let said = filter.judged(text, Some(&mut lock(&judged.judging)));
        judged.note(self.kind, &said);
        self.restorer.push(&said)
    }

    fn holds(&self) -> bool {
        self.restorer.holds() || self.judged.as_ref().is_some_and(|(filter, _)| filter.holds())
    }

    fn rest(&mut self) -> String {
        let mut out = String::new();
        if let Some((filter, judged)) = &mut self.judged {
            let said = filter.judged_rest(Some(&mut lock(&judged.judging)));
            judged.note(self.kind, &said);
            out = self.restorer.push(&said);
        }
        out.push_str(&self.restorer.rest());
        out
    }
}

impl Judged {
    fn note(&self, kind: PieceKind, said: &str) {
        if kind == PieceKind::Text {
            lock(&self.left).push_str(said);
        }
    }
}

impl SourceFilter {
    pub(super) fn new(
        model: &Model,
        placeholders: &Placeholders,
        judging: Option<Judging>,
    ) -> Self {
        let judged = judging
            .map(|judging| Judged { judging: Arc::new(Mutex::new(judging)), left: Arc::default() });
        Self {
            model: model.identifier.clone(),
            placeholders: placeholders.clone(),
            judged,
            pieces: SourcePieces::default(),
            withheld: Vec::new(),
            withheld_bytes: 0,
            ending: Vec::new(),
        }
    }

    /// Whether the answer is judged on its way.
    pub(super) fn is_judged(&self) -> bool {
        self.judged.is_some()
    }

    /// Why the rest of the answer must not leave, if it must not.
    pub(super) fn blocked(&self) -> Option<String> {
        lock(&self.judged.as_ref()?.judging).blocked.clone()
    }

    /// The text that has left since the last call, as it was judged.
    pub(super) fn left(&mut self) -> String {
        let left = self.judged.as_ref().map(|judged| std::mem::take(&mut *lock(&judged.left)));
        left.unwrap_or_default()
    }

    /// Exchanges the redactor of the answer: the verdict on the whole of it uses the same.
    pub(super) fn exchange(&mut self, redactor: Redactor) -> Redactor {
        match &self.judged {
            Some(judged) => std::mem::replace(&mut lock(&judged.judging).redactor, redactor),
            None => redactor,
        }
    }

    /// Takes the next event.
    pub(super) fn pass(
        &mut self,
        event: SourceEvent,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), TooMany> {
        if self.blocked().is_some() {
            return Ok(());
        }
        if self.is_judged() && (event.begins_call || !self.withheld.is_empty()) && !event.is_end {
            self.withheld_bytes += size_of::<SourceEvent>() + 2 * event.data.len();
            self.withheld.push(event);
            if self.withheld_bytes > MAX_WITHHELD_BYTES {
                return Err(TooMany::WithheldBytes);
            }
            if self.withheld.len() > MAX_WITHHELD_CHUNKS {
                return Err(TooMany::WithheldChunks);
            }
            return Ok(());
        }
        self.let_out(event, pieces);
        Ok(())
    }

    fn let_out(&mut self, mut event: SourceEvent, pieces: &mut Vec<Piece>) {
        if event.name == START {
            let name = |text: &str| Some(self.model.clone()).filter(|model| model != text);
            let named = rewrite(&event.data, |place, token| match token {
                Token::Text(text) if place.is_at(&MODEL) => name(text),
                _ => None,
            });
            if let Ok(Some(named)) = named {
                event.data = named;
            }
        }
        let mut out = Vec::new();
        if self.placeholders.is_empty() && self.judged.is_none() {
            out.push(event);
        } else {
            let (placeholders, judged) = (&self.placeholders, &self.judged);
            let whole = |text: &str| {
                let new = match judged {
                    Some(judged) => placeholders.restore(&lock(&judged.judging).whole(text)),
                    None => placeholders.restore(text),
                };
                Some(new).filter(|new| new != text)
            };
            // It was read before.
            let _ = event.rewrite(whole);
            // The arguments of a call were judged with the whole answer.
            let is_call = event.piece.as_ref().is_some_and(|piece| piece.call.is_some());
            let begin = |kind| {
                let judged = judged.clone().filter(|_| !is_call);
                let filter = |judged| (StringFilter::new(&Placeholders::default(), None), judged);
                let restorer = match kind {
                    PieceKind::Json => placeholders.json_stream(),
                    PieceKind::Text | PieceKind::Thought => placeholders.stream(),
                };
                Restored { kind, judged: judged.map(filter), restorer }
            };
            self.pieces.pass(event, begin, &mut out);
        }
        for event in out {
            if event.is_end {
                self.ending.push(event);
            } else {
                pieces.push(piece(event));
            }
        }
    }

    /// Lets out what waited for the verdict, with the calls of tools as they were redacted: the first
    /// piece of a call's arguments becomes all of them, the others are left out.
    pub(super) fn pass_withheld(&mut self, message: Option<&Value>, pieces: &mut Vec<Piece>) {
        let calls = message.and_then(|message| message.get("tool_calls"));
        let arguments = |call: usize| calls?.get(call)?.get("function")?.get("arguments")?.as_str();
        let mut last = None;
        for mut event in std::mem::take(&mut self.withheld) {
            if self.blocked().is_some() {
                return;
            }
            if let Some(piece) = &mut event.piece
                && let Some(call) = piece.call
                && let Some(arguments) = arguments(call)
            {
                if last == Some(call) {
                    continue;
                }
                last = Some(call);
                piece.is_changed |= piece.text != arguments;
                arguments.clone_into(&mut piece.text);
            }
            self.let_out(event, pieces);
        }
    }

    /// Lets out what is held back of an answer that breaks off: half a word was not judged, and does
    /// not leave.
    pub(super) fn release(&mut self, pieces: &mut Vec<Piece>) {
        if !self.is_judged() {
            self.release_judged(pieces);
        }
    }

    /// Lets out what is held back of a whole answer.
    pub(super) fn release_judged(&mut self, pieces: &mut Vec<Piece>) {
        let mut out = Vec::new();
        self.pieces.release(None, &mut out);
        pieces.extend(out.into_iter().map(piece));
    }

    /// Lets out the end of an answer that is recorded.
    pub(super) fn end(&mut self, pieces: &mut Vec<Piece>) {
        self.release(pieces);
        pieces.extend(self.ending.drain(..).map(piece));
    }
}

fn piece(event: SourceEvent) -> Piece {
    Piece::Source(event.name.clone(), event.json())
}

#[cfg(test)]
#[path = "source_filter_tests.rs"]
mod tests;
