//! Undoes cheap disguises: full-width characters, invisible characters, typographic dashes, spaces and quotes.
//!
//! Detectors read the folded text; [`Folded::original`] leads their ranges back.

use std::borrow::Cow;
use std::ops::Range;

/// A text as detectors read it.
pub(crate) struct Folded<'a> {
    /// What detectors read.
    pub(crate) text: Cow<'a, str>,
    source: &'a str,
    /// For each byte of `text`, where its character starts in the source. Empty when nothing was folded.
    map: Vec<u32>,
    /// Characters that no reader sees, decoded where they spell something.
    pub(crate) hidden: String,
}

impl<'a> Folded<'a> {
    /// Folds a text; borrows it when there is nothing to fold.
    pub(crate) fn new(source: &'a str) -> Self {
        let plain =
            Self { text: Cow::Borrowed(source), source, map: Vec::new(), hidden: String::new() };
        if source.is_ascii() || u32::try_from(source.len()).is_err() {
            return plain;
        }
        let Some(first) =
            source.char_indices().find(|&(_, c)| fold(c) != Fold::Keep).map(|(i, _)| i)
        else {
            return plain;
        };
        let mut text = String::with_capacity(source.len());
        let mut map: Vec<u32> = (0..first).map(|i| i as u32).collect();
        let mut hidden = String::new();
        text.push_str(&source[..first]);
        // Bytes of multi-byte characters before `first` must all point at the start of their character.
        for (start, c) in source[..first].char_indices().filter(|(_, c)| c.len_utf8() > 1) {
            map[start..start + c.len_utf8()].fill(start as u32);
        }
        for (start, c) in source[first..].char_indices() {
            let c = match fold(c) {
                Fold::Keep => c,
                Fold::To(other) => other,
                Fold::Drop => continue,
                Fold::Hidden(other) => {
                    hidden.push(other);
                    continue;
                }
            };
            text.push(c);
            map.resize(text.len(), (first + start) as u32);
        }
        Self { text: Cow::Owned(text), source, map, hidden }
    }

    /// The range in the source that a range of the folded text came from.
    pub(crate) fn original(&self, range: Range<usize>) -> Range<usize> {
        if self.map.is_empty() || range.is_empty() {
            return range;
        }
        let start = self.map[range.start] as usize;
        let last = self.map[range.end - 1] as usize;
        let width = self.source[last..].chars().next().map_or(0, char::len_utf8);
        start..last + width
    }
}

#[derive(PartialEq)]
enum Fold {
    Keep,
    To(char),
    Drop,
    Hidden(char),
}

fn fold(c: char) -> Fold {
    if c < '\u{a0}' {
        return Fold::Keep;
    }
    match c {
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => Fold::To(' '),
        '\u{ad}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2060}'..='\u{2064}'
        | '\u{feff}'
        | '\u{202a}'..='\u{202e}'
        | '\u{e0000}'..='\u{e001f}'
        | '\u{e007f}' => Fold::Drop,
        // The word lists are in lower case; ASCII is compared without case anyway.
        'А'..='Я' => char::from_u32(c as u32 + 0x20).map_or(Fold::Keep, Fold::To),
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe63}' => Fold::To('-'),
        '\u{2018}' | '\u{2019}' | '\u{201b}' => Fold::To('\''),
        '\u{201c}' | '\u{201d}' | '\u{201f}' => Fold::To('"'),
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).map_or(Fold::Keep, Fold::To),
        '\u{e0020}'..='\u{e007e}' => {
            char::from_u32(c as u32 - 0xe0000).map_or(Fold::Drop, Fold::Hidden)
        }
        _ => Fold::Keep,
    }
}
