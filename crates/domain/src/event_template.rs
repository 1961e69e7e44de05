//! Events that repeat each other: those that continue one string mostly differ in nothing but their piece,
//! so that one is read token by token, and those after it by comparing what stands around the piece.

use std::ops::Range;

use crate::json_text;
use crate::original::{SourceEvent, SourcePiece};

/// The JSON text of an event around its only piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFrame {
    before: String,
    after: String,
}

impl EventFrame {
    /// The text around a piece of this text; `None` unless it is the only one.
    pub fn of(data: &str, pieces: &[SourcePiece]) -> Option<Self> {
        let [SourcePiece { range, .. }] = pieces else { return None };
        Self::around(data, range)
    }

    /// The text around these bytes of it.
    pub fn around(data: &str, range: &Range<usize>) -> Option<Self> {
        let (before, after) = (data.get(..range.start)?, data.get(range.end..)?);
        Some(Self { before: before.to_owned(), after: after.to_owned() })
    }

    /// Whether an event has nothing else around its only piece.
    pub fn is_around(&self, event: &SourceEvent) -> bool {
        let [SourcePiece { range, .. }] = &event.pieces[..] else { return false };
        event.data.get(..range.start) == Some(&self.before)
            && event.data.get(range.end..) == Some(&self.after)
    }

    /// The string that stands in the frame in this text, quotes included; `None` if anything else does.
    fn string_in<'d>(&self, data: &'d str) -> Option<&'d str> {
        let string = data.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        json_text::is_string(string).then_some(string)
    }
}

/// The last event of a stream that was read token by token, if those that repeat it can be read from it.
#[derive(Debug, Default)]
pub struct LastEvent(Option<(EventFrame, SourceEvent)>);

impl LastEvent {
    /// An event that differs from the last one in the text of its piece alone.
    pub fn repeated(&self, data: &str) -> Option<SourceEvent> {
        let (frame, last) = self.0.as_ref()?;
        let string = frame.string_in(data)?;
        let text = json_text::unquoted(string).ok()?.into_owned();
        let SourcePiece { block, kind, ref range, .. } = *last.pieces.first()?;
        let data = [&last.data[..range.start], string, &last.data[range.end..]].concat();
        let range = range.start..range.start + string.len();
        let pieces = vec![SourcePiece { block, kind, range, text, is_changed: false }];
        Some(SourceEvent { name: last.name.clone(), data, pieces, ends: Vec::new(), ..*last })
    }

    /// Keeps an event that was read from a text with this frame around its piece.
    pub fn keep(&mut self, frame: Option<EventFrame>, event: &SourceEvent) {
        let is_plain = event.ends.is_empty() && !event.begins_call && !event.is_end;
        self.0 = frame
            .filter(|_| is_plain && event.pieces.len() == 1)
            .map(|frame| (frame, event.clone()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json_text::{Token, visit};
    use crate::original::{Carrier, PieceKind};

    /// An event with a piece at each string named `text`.
    fn read(data: &str) -> SourceEvent {
        let mut pieces = Vec::new();
        visit(data, |place, token| {
            if let (Token::Text(text), "text") = (token, place.name()) {
                let (range, text) = (place.range.clone(), text.to_owned());
                let kind = PieceKind::Text;
                pieces.push(SourcePiece { block: 3, kind, range, text, is_changed: false });
            }
        })
        .unwrap();
        SourceEvent {
            name: "delta".to_owned(),
            data: data.to_owned(),
            pieces,
            ends: Vec::new(),
            beside: None,
            begins_call: false,
            is_end: false,
            carrier: Carrier::Copy,
        }
    }

    fn last(data: &str) -> LastEvent {
        let (mut last, event) = (LastEvent::default(), read(data));
        last.keep(EventFrame::of(data, &event.pieces), &event);
        last
    }

    proptest! {
        #[test]
        fn an_event_is_read_from_the_last_as_it_would_be_alone(
            one in ".{0,6}", other in ".{0,6}", more in ".{0,3}", note in prop::option::of("[a-z\"]{0,3}"),
        ) {
            let event = |text: &str, note: Option<&str>| {
                let note = note.map(|note| format!(r#","note":{}"#, json_text::quoted(note)));
                let text = json_text::quoted(text);
                format!(r#"{{"delta":{{"text":{text}}}{},"m":{}}}"#, note.unwrap_or_default(),
                    json_text::quoted(&more))
            };
            let (first, second) = (event(&one, None), event(&other, note.as_deref()));
            let found = last(&first).repeated(&second);
            prop_assert_eq!(found.is_some(), note.is_none());
            if let Some(found) = found {
                prop_assert_eq!(found, read(&second));
            }
        }
    }

    #[test]
    fn what_stands_around_the_piece_is_compared() {
        let data = r#"{"text":"a","n":1}"#;
        let repeated =
            |other: &str| last(data).repeated(other).map(|event| event.pieces[0].text.clone());
        assert_eq!(repeated(r#"{"text":"b\"c","n":1}"#).unwrap(), "b\"c");
        for other in [
            r#"{"text":"a","n":2}"#,
            r#"{"text":"a","x":"y","n":1}"#,
            r#"{"text":"a","text":"b","n":1}"#,
            r#"{"text":7,"n":1}"#,
            r#"{"text":"a\","n":1}"#,
            r#"{"text":"","n":1}"#.trim_end_matches('}'),
        ] {
            assert_eq!(repeated(other), None, "{other}");
        }
        let frame = EventFrame::of(data, &read(data).pieces).unwrap();
        assert!(frame.is_around(&read(r#"{"text":"other","n":1}"#)));
        assert!(!frame.is_around(&read(r#"{"text":"other","n":12}"#)));
        assert!(!frame.is_around(&read(r#"{"texts":"other","n":1}"#)));
    }
}
