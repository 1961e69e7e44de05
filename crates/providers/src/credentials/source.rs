//! Removes credentials from answers and events that leave as they came.

use std::collections::HashMap;
use std::sync::Arc;

use domain::conversation::{Reply, StreamEvent};
use domain::joined_texts::{JoinedTexts, differs_if_joined};
use domain::json_text::{Token, rewrite};
use domain::original::SourceEvent;
use domain::source_pieces::{PieceFilter, SourcePieces};
use serde_json::{Map, Value};

use crate::credentials::{Credentials, LOGPROB_LEAK_BYTES};
use crate::error::Error;

/// The log probabilities of Gemini's format, which have no canonical form.
const LOG_PROBABILITIES: &str = "logprobsResult";

impl Credentials {
    /// Cleans the answer as it came. One that cannot be read is left out, and so is one with a credential
    /// that is split over texts which its readers join.
    pub(super) fn clean_source(&self, reply: &mut Reply) {
        let Some(source) = &reply.source else { return };
        if differs_if_joined(source, |text| self.clean_copy(text)).unwrap_or(true) {
            reply.source = None;
            return;
        }
        if !self.may_be_in_json(source) {
            return;
        }
        match rewrite(source, |_, token| match token {
            Token::Name(text) | Token::Text(text) => self.cleaned(text),
            Token::Number(_) => None,
        }) {
            Ok(None) => {}
            // They repeat the text, token by token: such an answer is written anew.
            Ok(Some(_))
                if reply.native.as_ref().is_some_and(has_log_probabilities)
                    || source.contains(LOG_PROBABILITIES) =>
            {
                reply.source = None;
            }
            Ok(Some(clean)) => reply.source = Some(clean),
            Err(_) => reply.source = None,
        }
    }

    /// A text without credentials.
    pub(crate) fn clean_copy(&self, text: &str) -> String {
        self.cleaned(text).unwrap_or_else(|| text.to_owned())
    }

    pub(crate) fn cleaned(&self, text: &str) -> Option<String> {
        if self.is_clean(text) {
            return None;
        }
        let mut clean = text.to_owned();
        self.clean(&mut clean).then_some(clean)
    }
}

fn has_log_probabilities(answer: &Map<String, Value>) -> bool {
    let choices = answer.get("choices").and_then(Value::as_array);
    let mut all = choices.into_iter().flatten().filter_map(|choice| choice.get("logprobs"));
    all.any(|log_probabilities| !log_probabilities.is_null())
}

/// One string that comes in pieces.
#[derive(Clone, Debug)]
struct Piece {
    credentials: Arc<Credentials>,
    /// The withheld end.
    held: String,
    /// The beginning of it that has left: at the end of a string, before readers joined another to it.
    left: String,
    /// Whether the last text had a credential in it, or may have had.
    hides: bool,
}

impl PieceFilter for Piece {
    fn push(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        self.hides = self.held.len() >= LOGPROB_LEAK_BYTES;
        self.hides |= self.credentials.pass(&mut self.held, &mut text);
        self.hides |= self.held.len() >= LOGPROB_LEAK_BYTES;
        self.unsent(text)
    }

    fn hides(&self) -> bool {
        self.hides
    }

    fn holds(&self) -> bool {
        self.held.len() > self.left.len()
    }

    fn rest(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        let rest = self.credentials.rest(&held);
        if rest != held && held != self.left {
            self.left.clear();
            return rest.to_owned();
        }
        // A credential may still be completed by a text that readers join to it.
        let new = self.unsent(held.clone());
        (self.left, self.held) = (held.clone(), held);
        new
    }
}

impl Piece {
    /// A text without the beginning that has left.
    fn unsent(&mut self, text: String) -> String {
        if self.left.is_empty() {
            return text;
        }
        if let Some(left) = self.left.strip_prefix(&*text) {
            self.left = left.to_owned();
            return String::new();
        }
        let left = std::mem::take(&mut self.left);
        match text.strip_prefix(&*left) {
            Some(unsent) => unsent.to_owned(),
            None => text,
        }
    }
}

/// Cleans the events of one stream.
#[derive(Debug)]
pub(super) struct SourceFilter {
    credentials: Arc<Credentials>,
    pieces: SourcePieces<Piece>,
    /// The texts that come as a whole.
    joined: JoinedTexts,
}

impl SourceFilter {
    pub(super) fn new(credentials: Credentials) -> Self {
        let (pieces, joined) = (SourcePieces::default(), JoinedTexts::default());
        Self { credentials: Arc::new(credentials), pieces, joined }
    }

    /// Cleans the provider's own events from index `from` on.
    pub(super) fn pass(&mut self, events: &mut Vec<StreamEvent>, from: usize) -> Result<(), Error> {
        let new = events.split_off(from);
        let mut out = Vec::new();
        for event in new {
            let StreamEvent::Source(mut event) = event else {
                events.push(event);
                continue;
            };
            let malformed = |_| Error::malformed("an event of the stream is none of the format's");
            let joined = if event.pieces.is_empty() {
                let clean = |text: &str| self.credentials.clean_copy(text);
                self.joined.replaced(&event.name, &event.data, clean).map_err(malformed)?
            } else {
                HashMap::new()
            };
            if !joined.is_empty() || self.credentials.may_be_in_json(&event.data) {
                let cleaned = event.rewrite(|place, text| {
                    let joined = joined.get(&place.range.start).cloned();
                    joined.or_else(|| self.credentials.cleaned(text))
                });
                cleaned.map_err(malformed)?;
            }
            let credentials = &self.credentials;
            let credentials = || credentials.clone();
            let begin = |_| Piece {
                credentials: credentials(),
                held: String::new(),
                left: String::new(),
                hides: false,
            };
            let passed = self.pieces.pass(event, begin, &mut out);
            passed.map_err(|error| Error::malformed(error.to_string()))?;
            events.extend(out.drain(..).map(StreamEvent::Source));
        }
        Ok(())
    }

    /// Releases the withheld text at the end of the stream.
    pub(super) fn end(&mut self, events: &mut Vec<StreamEvent>) {
        let mut out: Vec<SourceEvent> = Vec::new();
        self.pieces.release(None, &mut out);
        events.extend(out.into_iter().map(StreamEvent::Source));
    }
}
