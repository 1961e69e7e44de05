//! Consecutive events with the same JSON but for one string. The first of them is read token by token, and
//! those after it by comparing the text around that string.

use std::ops::Range;

use crate::json_text;
use crate::original::{SourceEvent, SourcePiece};

/// The JSON text of an event before and after its only piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTemplate {
    before: String,
    after: String,
}

impl EventTemplate {
    /// The template of an event with this JSON text; `None` unless it has exactly one piece.
    pub fn of(data: &str, pieces: &[SourcePiece]) -> Option<Self> {
        let [SourcePiece { range, .. }] = pieces else { return None };
        Self::around(data, range)
    }

    /// The template of an event whose only piece has these bytes of its JSON text.
    pub fn around(data: &str, range: &Range<usize>) -> Option<Self> {
        let (before, after) = (data.get(..range.start)?, data.get(range.end..)?);
        Some(Self { before: before.to_owned(), after: after.to_owned() })
    }

    /// Whether an event matches this template.
    pub fn matches(&self, event: &SourceEvent) -> bool {
        let [SourcePiece { range, .. }] = &event.pieces[..] else { return false };
        event.data.get(..range.start) == Some(&self.before)
            && event.data.get(range.end..) == Some(&self.after)
    }

    /// The string that replaces the piece in this text, quotes included; `None` if the text does not match,
    /// or if no string stands there.
    fn string_in<'d>(&self, data: &'d str) -> Option<&'d str> {
        let string = data.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        json_text::is_string(string).then_some(string)
    }
}

/// The last event of a stream that was read token by token, with its template. Empty if no other event can
/// be read by it.
#[derive(Debug, Default)]
pub struct TemplateCache(Option<(EventTemplate, SourceEvent)>);

impl TemplateCache {
    /// Reads an event by the remembered one; `None` unless the two differ in the text of their piece alone.
    pub fn read_with_last(&self, data: &str) -> Option<SourceEvent> {
        let (template, last) = self.0.as_ref()?;
        let string = template.string_in(data)?;
        let text = json_text::unquoted(string).ok()?.into_owned();
        let piece = last.pieces.first()?;
        let range = &piece.range;
        let data = [&last.data[..range.start], string, &last.data[range.end..]].concat();
        let range = range.start..range.start + string.len();
        let pieces = vec![SourcePiece { range, text, is_changed: false, ..*piece }];
        Some(SourceEvent { name: last.name.clone(), data, pieces, ends: Vec::new(), ..*last })
    }

    /// Remembers an event and its template, in the place of the one before.
    pub fn remember(&mut self, template: Option<EventTemplate>, event: &SourceEvent) {
        let is_plain = event.ends.is_empty() && !event.begins_call && !event.is_end;
        self.0 = template
            .filter(|_| is_plain && event.pieces.len() == 1)
            .map(|template| (template, event.clone()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json_text::{Token, visit};
    use crate::original::PieceKind;

    /// An event with a piece at each string named `text`.
    fn read(data: &str) -> SourceEvent {
        let mut pieces = Vec::new();
        visit(data, |place, token| {
            if let (Token::Text(text), "text") = (token, place.name()) {
                let (range, text) = (place.range.clone(), text.to_owned());
                pieces.push(SourcePiece::new(3, PieceKind::Text, range, text));
            }
        })
        .unwrap();
        SourceEvent::new("delta".to_owned(), data.to_owned(), pieces)
    }

    fn last(data: &str) -> TemplateCache {
        let (mut last, event) = (TemplateCache::default(), read(data));
        last.remember(EventTemplate::of(data, &event.pieces), &event);
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
            let found = last(&first).read_with_last(&second);
            prop_assert_eq!(found.is_some(), note.is_none());
            if let Some(found) = found {
                prop_assert_eq!(found, read(&second));
            }
        }
    }

    #[test]
    fn what_stands_around_the_piece_is_compared() {
        let data = r#"{"text":"a","n":1}"#;
        let repeated = |other: &str| {
            last(data).read_with_last(other).map(|event| event.pieces[0].text.clone())
        };
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
        let template = EventTemplate::of(data, &read(data).pieces).unwrap();
        assert!(template.matches(&read(r#"{"text":"other","n":1}"#)));
        assert!(!template.matches(&read(r#"{"text":"other","n":12}"#)));
        assert!(!template.matches(&read(r#"{"texts":"other","n":1}"#)));
    }
}
