//! Numbers as people write them: groups of digits with separators between.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::pii::network;
use crate::text::spans::{self, Span};
use crate::text::words::{ADDRESS, DIGIT, LETTER, STICKY, behind_escape, kind, next_digit};

/// More groups than this never form one number.
pub(super) const MAX_GROUPS: usize = 8;
/// Nor more digits.
pub(super) const MAX_DIGITS: usize = 24;
/// Nor fewer.
pub(super) const MIN_DIGITS: usize = 6;
/// Groups that are further apart never belong together.
pub(super) const MAX_GAP: usize = 3;

/// The separator between the groups of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// There is one group only, or the ends of lines between them.
    None,
    One(u8),
    /// Different ones: `12.345-6`.
    Mixed,
    /// One that only the groups of a card are written with.
    Wide,
}

/// Whether a gap is one of cards alone: `4111 - 1111`, `4111_1111`.
pub(super) fn is_wide(gap: &[u8]) -> bool {
    matches!(gap, b"_" | b"\t" | b"  " | b" - " | b" / " | b" . " | b"\xc2\xb7")
}

/// A candidate: one or more groups of digits.
pub(super) struct Number<'a> {
    /// The digits, as numbers.
    pub(super) digits: &'a [u8],
    /// How many digits each group has.
    pub(super) lens: &'a [u8],
    /// The kinds of numbers that may have such groups, as bits of [`ROWS_AT`](crate::pii::identity_numbers::ROWS_AT).
    pub(super) shapes: u64,
    pub(super) separator: Separator,
    pub(super) range: Range<usize>,
    /// Whether a line ends between two of its groups.
    pub(super) broken: bool,
}

/// The parts of a text that have digits in them.
#[derive(Default)]
pub(super) struct Runs {
    /// Digits that stand alone.
    pub(super) groups: Vec<Span>,
    /// Tokens that mix letters and digits.
    pub(super) tokens: Vec<Span>,
    /// The starts of those of both that may be part of a network address.
    pub(super) joined: Vec<u32>,
}

/// Splits out all runs.
pub(super) fn split(text: &str) -> Runs {
    let text = spans::addressable(text);
    let bytes = text.as_bytes();
    let mut out = Runs::default();
    let mut at = 0;
    while let Some(digit) = next_digit(bytes, at) {
        let mut start = digit;
        while start > at && kind(bytes, start - 1) & LETTER != 0 {
            start -= 1;
        }
        if let Some(behind) = escaped(bytes, start) {
            start = behind;
            if behind > digit {
                at = behind;
                continue;
            }
        }
        let mut end = digit + 1;
        while kind(bytes, end) & DIGIT != 0 {
            end += 1;
        }
        let digits = end - start;
        while kind(bytes, end) & (DIGIT | LETTER) != 0 {
            end += 1;
        }
        at = end;
        let (before, behind) = (kind(bytes, start.wrapping_sub(1)), kind(bytes, end));
        if (before | behind) & STICKY != 0 && attached(text, start, end) {
            continue;
        }
        if start == digit && digits == end - start {
            spans::push(&mut out.groups, Span::new(start, end, ()), at, bytes.len());
        } else if start == digit && is_extended(&bytes[start..end], digits) {
            let end = start + digits;
            spans::push(&mut out.groups, Span::new(start, end, ()), at, bytes.len());
        } else if end - start <= 100 {
            spans::push(&mut out.tokens, Span::new(start, end, ()), at, bytes.len());
        } else {
            continue;
        }
        if (before | behind) & ADDRESS != 0 && network::is_joined(bytes, start, end) {
            spans::push(&mut out.joined, start as u32, at, bytes.len());
        }
    }
    out
}

/// Returns the end of an escape that runs into a token: the `n` of a written `\n`, `3D` behind `%`, `31m` behind `[`.
fn escaped(bytes: &[u8], start: usize) -> Option<usize> {
    let sign = match bytes.get(start.wrapping_sub(1))? {
        // `5%536`: a share of something.
        b'%' if start > 1 && bytes[start - 2].is_ascii_digit() => return None,
        b'\\' | b'%' | b'[' => start - 1,
        b';' => {
            let is_part = |b: &&u8| b.is_ascii_digit() || **b == b';';
            let parts = bytes[..start].iter().rev().take(8).take_while(is_part).count();
            start.checked_sub(parts + 1)?
        }
        _ => return None,
    };
    behind_escape(bytes, sign)
}

/// `0190x769`: the end of a phone number with its extension.
fn is_extended(run: &[u8], digits: usize) -> bool {
    matches!(run[digits], b'x' | b'X')
        && (3..=7).contains(&digits)
        && (2..=7).contains(&(run.len() - digits))
        && run[digits + 1..].iter().all(u8::is_ascii_digit)
}

/// Whether a word character other than a letter or digit of ASCII sticks to the token. Scripts written without spaces
/// (Chinese, Japanese, Korean, Thai) do not stick.
fn attached(text: &str, start: usize, end: usize) -> bool {
    // Nor does `_` between the groups of a card.
    let digit = |at: usize| kind(text.as_bytes(), at) & DIGIT != 0;
    let quad = end - start == 4;
    let sticks = |c: char, beyond: usize| {
        c == '_' && !(quad && digit(beyond))
            || c.is_alphabetic() && (c as u32) < 0x0e00 && !c.is_ascii()
    };
    text[..start].chars().next_back().is_some_and(|c| sticks(c, start.wrapping_sub(2)))
        || text[end..].chars().next().is_some_and(|c| sticks(c, end + 1))
}

impl Number<'_> {
    /// Whether this is a part of something longer: of `1.2.3.4`, `2020-01-01`, `12/34`, `0.1234567`.
    pub(super) fn is_continued(&self, bytes: &[u8]) -> bool {
        let Range { start, end } = self.range;
        let at = |at: usize| bytes.get(at).copied().unwrap_or(0);
        // A number known by its check digit or its form alone stands in lists: with a date, a time or the next one.
        let telling = self.digits.len() >= 13 || self.lens == [3, 2, 4];
        let left = at(start.wrapping_sub(2)).is_ascii_digit()
            && match at(start.wrapping_sub(1)) {
                b'-' | b'.' => true,
                b'/' | b':' => !telling,
                b',' => at(start.wrapping_sub(2)) == b'0' && is_zero(bytes, start - 2),
                _ => false,
            };
        let right = match at(end) {
            b'-' => at(end + 1).is_ascii_alphanumeric(),
            b'.' => at(end + 1).is_ascii_digit(),
            b'/' | b':' => !telling && at(end + 1).is_ascii_digit(),
            b',' => is_thousands(self.lens) && at(end + 1).is_ascii_digit(),
            _ => false,
        };
        left || right
    }
}

/// Whether a digit stands alone, as in front of a comma of decimals, and not in a list.
fn is_zero(bytes: &[u8], at: usize) -> bool {
    at.checked_sub(1).and_then(|i| bytes.get(i)).is_none_or(|b| *b == b' ')
}

/// Whether groups are those of a large count: `12 345 678`.
pub(super) fn is_thousands(lens: &[u8]) -> bool {
    matches!(lens, [1..=3, rest @ ..] if !rest.is_empty() && rest.iter().all(|l| *l == 3))
}
