//! Removes credentials from answers and events that leave as they came.

use std::sync::Arc;

use domain::conversation::{Reply, StreamEvent};
use domain::json_text::{Token, rewrite};
use domain::original::{PieceFilter, SourceEvent, SourcePieces};

use crate::credentials::Credentials;
use crate::error::Error;

impl Credentials {
    /// Cleans the answer as it came. One that cannot be read is left out.
    pub(super) fn clean_source(&self, reply: &mut Reply) {
        let Some(source) = &reply.source else { return };
        match rewrite(source, |_, token| match token {
            Token::Name(text) | Token::Text(text) => self.cleaned(text),
            Token::Number(_) => None,
        }) {
            Ok(None) => {}
            Ok(Some(clean)) => reply.source = Some(clean),
            Err(_) => reply.source = None,
        }
    }

    pub(crate) fn cleaned(&self, text: &str) -> Option<String> {
        if self.is_clean(text) {
            return None;
        }
        let mut clean = text.to_owned();
        self.clean(&mut clean).then_some(clean)
    }
}

/// One string that comes in pieces.
#[derive(Debug)]
struct Piece {
    credentials: Arc<Credentials>,
    /// The withheld end.
    held: String,
}

impl PieceFilter for Piece {
    fn push(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        self.credentials.pass(&mut self.held, &mut text);
        text
    }

    fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    fn rest(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.credentials.rest(&held).to_owned()
    }
}

/// Cleans the events of one stream.
#[derive(Debug)]
pub(super) struct SourceFilter {
    credentials: Arc<Credentials>,
    pieces: SourcePieces<Piece>,
}

impl SourceFilter {
    pub(super) fn new(credentials: Credentials) -> Self {
        Self { credentials: Arc::new(credentials), pieces: SourcePieces::default() }
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
            let cleaned = event.rewrite(|_, text| self.credentials.cleaned(text));
            cleaned
                .map_err(|_| Error::malformed("an event of the stream is none of the format's"))?;
            let credentials = &self.credentials;
            let begin = |_| Piece { credentials: credentials.clone(), held: String::new() };
            self.pieces.pass(event, begin, &mut out);
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
