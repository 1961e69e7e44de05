//! Undoes cheap disguises: full-width characters, digits of other scripts, invisible characters, typographic dashes, dots,
//! spaces, quotes and what else stands before a word.
//!
//! Detectors read the normalized text; [`Normalized::original`] leads their ranges back.

use std::borrow::Cow;
use std::ops::Range;

use crate::text::spans;

/// A text as detectors read it.
pub(crate) struct Normalized<'a> {
    /// The text that detectors read.
    pub(crate) text: Cow<'a, str>,
    source: &'a str,
    /// The pieces that make up `text`. Empty when nothing was changed.
    pieces: Vec<Piece>,
    /// Characters that no reader sees, decoded where they spell something.
    pub(crate) hidden: String,
    /// The position in the normalized text at which the first of them was left out.
    pub(crate) hidden_at: usize,
}

/// A stretch of the source as it was, or one character in place of another. Small: a text may be changed throughout.
struct Piece {
    /// Its start in the normalized text.
    at: u32,
    /// Its start in the source, and whether it is [`KEPT`].
    from: u32,
}

/// The highest bit of a place: what stands there is as it was.
const KEPT: u32 = 1 << 31;

impl Piece {
    fn new(at: usize, from: usize, kept: bool) -> Self {
        Self { at: at as u32, from: from as u32 | if kept { KEPT } else { 0 } }
    }

    fn is_kept(&self) -> bool {
        self.from & KEPT != 0
    }

    fn from(&self) -> u32 {
        self.from & !KEPT
    }
}

impl<'a> Normalized<'a> {
    /// Normalizes a text; borrows it when nothing changes.
    pub(crate) fn new(source: &'a str) -> Self {
        let (mut text, mut pieces, mut hidden) = (String::new(), Vec::new(), String::new());
        let (mut done, mut flag_end, mut hidden_at) = (0, 0, 0);
        for (start, c, mapping) in mapped_characters(source) {
            if done == 0 {
                text.reserve(source.len());
            }
            if start > done {
                let kept = Piece::new(text.len(), done, true);
                spans::push(&mut pieces, kept, start, source.len());
                text.push_str(&source[done..start]);
            }
            done = start + c.len_utf8();
            match mapping {
                Mapping::To(other) => {
                    let changed = Piece::new(text.len(), start, false);
                    spans::push(&mut pieces, changed, start, source.len());
                    text.push(other);
                }
                Mapping::Hidden(_) if start < flag_end => {}
                Mapping::Hidden(other) => match flag(&source[..start], &source[start..]) {
                    Some(length) => flag_end = start + length,
                    None => {
                        if hidden.is_empty() {
                            hidden_at = text.len();
                        }
                        hidden.push(other);
                    }
                },
                Mapping::Mark => join(&mut text, &mut pieces, start, c, source.len()),
                Mapping::Drop | Mapping::Keep => {}
            }
        }
        if done == 0 {
            return Self { text: Cow::Borrowed(source), source, pieces, hidden, hidden_at };
        }
        let kept = Piece::new(text.len(), done, true);
        spans::push(&mut pieces, kept, done, source.len());
        text.push_str(&source[done..]);
        Self { text: Cow::Owned(text), source, pieces, hidden, hidden_at }
    }

    /// The range in the source that a range of the normalized text came from.
    pub(crate) fn original(&self, range: Range<usize>) -> Range<usize> {
        if self.text.is_empty() {
            return 0..self.source.len();
        }
        if self.pieces.is_empty() || range.is_empty() {
            return range;
        }
        let (start, last) = (self.character(range.start), self.character(range.end - 1));
        let mut rest = self.source[last..].chars();
        let width = rest.next().map_or(0, char::len_utf8);
        // Characters left out beside it belong to it.
        let left_out = |c: &char| is_mark(*c) || is_tag(*c);
        let behind: usize = rest.take_while(left_out).map(char::len_utf8).sum();
        let before = self.source[..start].chars().rev();
        let before: usize = before.take_while(|&c| is_tag(c)).map(char::len_utf8).sum();
        start - before..last + width + behind
    }

    /// Returns the start of the source character that a byte of the normalized text came from.
    fn character(&self, at: usize) -> usize {
        let begun = self.pieces.partition_point(|piece| piece.at as usize <= at);
        let piece = &self.pieces[begun.saturating_sub(1)];
        let offset = if piece.is_kept() { at - piece.at as usize } else { 0 };
        self.source.floor_char_boundary(piece.from() as usize + offset)
    }
}

/// Whether a character is drawn over the one before it.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Whether a character is one of those that spell what no reader sees.
fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// Joins a mark, or the next part of a Korean syllable, with the character that stands at the end, as most texts write
/// them. Of no use is a mark that no letter is written with. `from`: where the mark stands in the source, which has `all`
/// bytes.
fn join(text: &mut String, pieces: &mut Vec<Piece>, from: usize, mark: char, all: usize) {
    let Some(last) = text.chars().next_back() else {
        pieces.push(Piece::new(0, from, true));
        return text.push(mark);
    };
    let Some(whole) = unicode_normalization::char::compose(last, mark) else {
        if !is_mark(mark) {
            text.push(mark);
        }
        return;
    };
    text.pop();
    let at = text.len() as u32;
    match pieces.last_mut() {
        Some(piece) if piece.is_kept() && piece.at < at => {
            let whole = Piece { at, from: piece.from() + (at - piece.at) };
            spans::push(pieces, whole, from, all);
        }
        Some(piece) => piece.from &= !KEPT,
        None => {}
    }
    text.push(whole);
}

/// The flags of England, Scotland and Wales behind a black one: the only ones that are written with hidden letters.
const FLAGS: [&str; 3] = [
    "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// How many bytes of hidden letters make a flag of what stands before.
fn flag(before: &str, rest: &str) -> Option<usize> {
    let flag = FLAGS.iter().find(|flag| rest.starts_with(**flag))?;
    before.ends_with('\u{1f3f4}').then_some(flag.len())
}

/// The characters of a text that do not stay as they are.
fn mapped_characters(text: &str) -> impl Iterator<Item = (usize, char, Mapping)> {
    let plain = text.is_ascii() || text.len() >= KEPT as usize;
    let bytes = if plain { &[][..] } else { text.as_bytes() };
    bytes.windows(2).enumerate().filter_map(|(at, pair)| {
        if !may_fold(pair[0], pair[1]) {
            return None;
        }
        let c = text[at..].chars().next()?;
        Some((at, c, mapping(c))).filter(|(_, _, mapping)| *mapping != Mapping::Keep)
    })
}

/// Whether a character that begins with these two bytes may be one that [`mapping`] changes: most need not be decoded.
fn may_fold(first: u8, second: u8) -> bool {
    match first {
        0xce => (0x86..0xaa).contains(&second),
        0xd0 => (0x80..0xb0).contains(&second),
        0xd9 => (0xa0..0xaa).contains(&second),
        0xdb => (0xb0..0xba).contains(&second),
        0xe0 => DIGITS.iter().any(|&zero| second == 0x80 | (zero >> 6 & 0x3f) as u8),
        0xcd => second < 0xb0,
        0xe1 => matches!(second, 0x85..=0x87 | 0xa0),
        0xe2 => matches!(second, 0x80 | 0x81 | 0x88),
        0xe3 => matches!(second, 0x80 | 0x83 | 0x85),
        0xf0 => second == 0x9d,
        0xc2 | 0xcc | 0xef | 0xf3 => true,
        _ => false,
    }
}

#[derive(PartialEq)]
enum Mapping {
    Keep,
    To(char),
    Drop,
    Hidden(char),
    /// Belongs to the character before.
    Mark,
}

/// The zeros of scripts of India and of Southeast Asia whose digits are written in numbers; nine others follow each.
const DIGITS: [u32; 12] = [
    0x0966, 0x09e6, 0x0a66, 0x0ae6, 0x0b66, 0x0be6, 0x0c66, 0x0ce6, 0x0d66, 0x0e50, 0x0ed0, 0x0f20,
];

/// The digit that a character of another script is.
fn digit(c: char) -> Option<char> {
    let code = c as u32;
    let value = match code {
        0x0660..=0x0669 | 0x06f0..=0x06f9 => code & 0xf,
        // Bold, double-struck and the like.
        0x1d7ce..=0x1d7ff => (code - 0x1d7ce) % 10,
        _ => DIGITS.iter().map(|&zero| code.wrapping_sub(zero)).find(|&value| value < 10)?,
    };
    char::from_digit(value, 10)
}

fn mapping(c: char) -> Mapping {
    if c < '\u{a0}' {
        return Mapping::Keep;
    }
    match c {
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => {
            Mapping::To(' ')
        }
        '\u{ad}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2060}'..='\u{2065}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{180e}'
        | '\u{3164}'
        | '\u{fe0f}'
        | '\u{feff}'
        | '\u{202a}'..='\u{202e}'
        | '\u{e0000}'..='\u{e001f}'
        | '\u{e007f}' => Mapping::Drop,
        '\u{300}'..='\u{36f}' | '\u{1161}'..='\u{11ff}' => Mapping::Mark,
        // The word lists are in lower case; ASCII is compared without case anyway.
        'А'..='Я' => char::from_u32(c as u32 + 0x20).map_or(Mapping::Keep, Mapping::To),
        // Those of Greek and of Ukrainian, Belarusian, Serbian and Macedonian.
        '\u{386}'..='\u{3a9}' | '\u{400}'..='\u{40f}' => {
            c.to_lowercase().next().map_or(Mapping::Keep, Mapping::To)
        }
        '\u{2010}'..='\u{2015}' | '\u{2043}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' => {
            Mapping::To('-')
        }
        '\u{2024}' | '\u{2027}' | '\u{30fb}' | '\u{fe52}' => Mapping::To('.'),
        '\u{2044}' | '\u{2215}' => Mapping::To('/'),
        '\u{fe6b}' => Mapping::To('@'),
        '\u{2018}'..='\u{201b}' | '‹' | '›' => Mapping::To('\''),
        '\u{201c}'..='\u{201f}' | '«' | '»' | '「'..='』' => Mapping::To('"'),
        '¡' => Mapping::To('!'),
        '¿' => Mapping::To('?'),
        '\u{ff01}'..='\u{ff5e}' => {
            char::from_u32(c as u32 - 0xfee0).map_or(Mapping::Keep, Mapping::To)
        }
        '\u{e0020}'..='\u{e007e}' => {
            char::from_u32(c as u32 - 0xe0000).map_or(Mapping::Drop, Mapping::Hidden)
        }
        _ => digit(c).map_or(Mapping::Keep, Mapping::To),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_that_folds_is_passed_over() {
        for c in ('\0'..=char::MAX).filter(|&c| mapping(c) != Mapping::Keep) {
            let text = c.to_string();
            assert!(may_fold(text.as_bytes()[0], text.as_bytes()[1]), "{c:?}");
        }
    }

    #[test]
    fn ranges_lead_back() {
        let normalized = Normalized::new("é\u{200b}Яa\u{200b}\u{ff11}ж.");
        assert_eq!(normalized.text, "éяa1ж.");
        let places: Vec<_> = normalized
            .text
            .char_indices()
            .map(|(at, c)| normalized.original(at..at + c.len_utf8()))
            .collect();
        assert_eq!(places, [0..2, 5..7, 7..8, 11..14, 14..16, 16..17]);
    }

    #[test]
    fn flags_hide_nothing() {
        for hidden in FLAGS {
            let (flag, bare) = (format!("\u{1f3f4}{hidden} won"), format!("{hidden} won"));
            assert_eq!(Normalized::new(&flag).hidden, "");
            assert!(Normalized::new(&bare).hidden.starts_with("gb"));
            assert_eq!(Normalized::new(&format!("{flag}\u{e0068}\u{e0069}")).hidden, "hi");
        }
    }

    #[test]
    fn marks_and_syllables_are_joined() {
        let normalized =
            Normalized::new("xe\u{301}\u{336}y И\u{306} a\u{302}\u{301}. ᄒ\u{1161}\u{11ab}");
        assert_eq!(normalized.text, "x\u{e9}y \u{439} \u{1ea5}. \u{d55c}");
        let places: Vec<_> = normalized
            .text
            .char_indices()
            .map(|(at, c)| normalized.original(at..at + c.len_utf8()))
            .collect();
        assert_eq!(places[..5], [0..1, 1..6, 6..7, 7..8, 8..12]);
        assert_eq!(Normalized::new("i\u{34f}g\u{fe0f}n\u{3164}o\u{336}re").text, "ignore");
        let leading = Normalized::new("\u{336}i\u{34f}g");
        assert_eq!((&*leading.text, leading.original(0..3)), ("\u{336}ig", 0..5));
    }

    #[test]
    fn no_quote_runs_into_a_word() {
        for text in ["„word“", "«word»", "「word」", "“word”"] {
            assert_eq!(Normalized::new(text).text, "\"word\"", "{text}");
        }
        assert_eq!(Normalized::new("¡word! ¿word?").text, "!word! ?word?");
    }
}
