//! Files in strings: `data:` URLs, and the bare base64 of fields that hold files. Their bytes decide whether they are text,
//! whatever they are called. A text is judged as one, and redacted so that the file stays a file.

mod payload;
mod place;

use std::ops::Range;

use crate::redact::file::payload::{encoded, escaped, is_plain, unescaped};
use crate::redact::file::place::{
    FEW, MANY, Place, Writing, has_magic, is_text, may_be_text, place,
};
use crate::redact::redactor::Redactor;
use crate::report::Finding;
use crate::text::codes::charset::Characters;

/// Bare base64 that is shorter is judged as it stands where it is no text.
const SHORTEST_BARE: usize = 1024;

/// Stands between the text of a file and what is judged as it came.
const BORDER: &str = "\n\n----\n\n";

/// The content of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// No file: words, or what is no base64 for all that it claims.
    None,
    /// A file of text.
    Text,
    /// A picture, a sound, a PDF: nothing in it is looked at.
    Binary,
}

/// A file of text.
#[derive(Debug)]
pub struct FileText<'a> {
    raw: &'a str,
    place: Place,
    characters: Characters,
    /// How long the text of the file is: behind it stands what is judged as it came.
    length: usize,
    words: Range<usize>,
}

/// Returns what a string holds. `is_bare`: the field is one for files, which need not be marked as such.
pub fn file_kind(raw: &str, is_bare: bool) -> FileKind {
    let Some(place) = place(raw, is_bare) else { return FileKind::None };
    let payload = raw[place.payload.clone()].as_bytes();
    if let Writing::Percent = place.writing {
        let textual = place.is_textual || is_text(&unescaped(payload), FEW);
        return if textual { FileKind::Text } else { FileKind::None };
    }
    if place.is_file_of_text(payload) {
        return FileKind::Text;
    }
    let is_named = raw[..place.payload.start].ends_with(',');
    let is_file = is_named || payload.len() >= SHORTEST_BARE && has_magic(payload);
    match is_file && is_plain(payload) {
        // Words in front of it are judged.
        true if place.has_words_in_front(raw) => FileKind::Text,
        true => FileKind::Binary,
        false => FileKind::None,
    }
}

impl<'a> FileText<'a> {
    /// Reads a string of which [`file_kind`] says that it holds a text.
    pub fn read(raw: &'a str, is_bare: bool) -> Option<Self> {
        let place = place(raw, is_bare)?;
        let payload = raw[place.payload.clone()].as_bytes();
        let (mut characters, mut words) = (Characters::default(), 0..place.payload.start);
        if matches!(place.writing, Writing::Percent) || place.is_file_of_text(payload) {
            characters = Characters::read(&place.bytes(raw), place.little);
            let is_text = matches!(place.writing, Writing::Percent) || may_be_text(payload, MANY);
            words = place.words(raw, is_text);
        }
        let length = characters.text.len();
        if !words.is_empty() {
            characters.text.push_str(BORDER);
            characters.text.push_str(&raw[words.clone()]);
        }
        Some(Self { raw, place, characters, length, words })
    }

    /// Returns the text to judge.
    pub fn text(&self) -> &str {
        &self.characters.text
    }

    /// Returns the range of the file in its string, in characters.
    pub fn span(&self) -> Range<usize> {
        let from = self.words.start.min(self.place.payload.start);
        let start = self.raw[..from].chars().count();
        start..start + self.raw[from..self.place.payload.end].chars().count()
    }

    /// Replaces findings in [`FileText::text`] and gives the string with the file written as before. `None` when nothing
    /// changes.
    pub fn redact(&self, redactor: &mut Redactor, findings: &[&Finding]) -> Option<String> {
        let all = findings.iter().map(|finding| (finding.bytes.clone(), &*finding.kind));
        let mut changes = redactor.changes(self.text(), all)?;
        let in_words = changes.partition_point(|(range, _)| range.end <= self.length);
        let in_words = changes.split_off(in_words);
        let Range { start, end } = self.place.payload;
        let mut new = String::with_capacity(self.raw.len());
        let mut done = 0;
        let is_changed_as_file = !changes.is_empty();
        for (range, change) in in_words {
            let place =
                |at: usize| at.saturating_sub(self.length + BORDER.len()) + self.words.start;
            let mut range = place(range.start)..place(range.end);
            if is_changed_as_file && range.end > start {
                // A file in which words stand besides is replaced as a whole.
                range = range.start.min(start)..end;
            }
            if range.start >= done {
                new.push_str(&self.raw[done..range.start]);
                new.push_str(&change);
            }
            done = done.max(range.end);
        }
        if is_changed_as_file && done <= start {
            let payload = &self.raw[self.place.payload.clone()];
            let bytes = self.characters.replaced(&self.place.bytes(self.raw), &changes);
            new.push_str(&self.raw[done..start]);
            new.push_str(&match self.place.writing {
                Writing::Base64 => encoded(&bytes, payload),
                Writing::Percent => escaped(&bytes),
            });
            done = end;
        }
        new.push_str(&self.raw[done..]);
        Some(new)
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
