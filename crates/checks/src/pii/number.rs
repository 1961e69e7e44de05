//! Numbers as people write them: groups of digits with separators between.

use std::ops::Range;

use super::{Entity, View, ids, phone};
use crate::words::{is_word, next_digit};

/// More groups than this never form one number.
const MAX_GROUPS: usize = 8;
/// Nor more digits.
const MAX_DIGITS: usize = 24;
/// Nor fewer.
const MIN_DIGITS: usize = 6;

/// A candidate: one or more groups of digits.
pub(super) struct Number<'a> {
    /// The digits, as numbers.
    pub(super) digits: &'a [u8],
    /// How many digits each group has.
    pub(super) lens: &'a [u8],
    /// The one separator between all groups; 0 for a single group, `*` for differing ones.
    pub(super) separator: u8,
    pub(super) range: Range<usize>,
    /// Whether digits go on right behind or in front, after a separator without space.
    pub(super) continued: bool,
}

/// Splits out runs of digits that stand alone, and tokens that mix letters and digits.
pub(super) fn split(text: &str) -> (Vec<Range<usize>>, Vec<Range<usize>>) {
    let bytes = text.as_bytes();
    let (mut groups, mut tokens) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(digit) = next_digit(bytes, at) {
        let mut start = digit;
        while start > at && bytes[start - 1].is_ascii_alphabetic() {
            start -= 1;
        }
        let mut end = digit + 1;
        while end < bytes.len() && bytes[end].is_ascii_alphanumeric() {
            end += 1;
        }
        at = end;
        if attached(text, start, end) {
            continue;
        }
        let digits = bytes[start..end].iter().take_while(|b| b.is_ascii_digit()).count();
        // `0190x769`: the end of a phone number with its extension.
        let extended = matches!(bytes.get(start + digits), Some(b'x' | b'X'))
            && (3..=7).contains(&digits)
            && (2..=7).contains(&(end - start - digits))
            && bytes[start + digits + 1..end].iter().all(u8::is_ascii_digit);
        if digits == end - start {
            groups.push(start..end);
        } else if extended {
            groups.push(start..start + digits);
        } else if end - start <= 100 {
            tokens.push(start..end);
        }
    }
    (groups, tokens)
}

/// Whether a word character other than a letter or digit of ASCII sticks to the token. Scripts written without spaces
/// (Chinese, Japanese, Korean, Thai) do not stick.
fn attached(text: &str, start: usize, end: usize) -> bool {
    let sticks = |c: char| c == '_' || c.is_alphabetic() && (c as u32) < 0x0e00 && !c.is_ascii();
    let left = start > 0
        && is_word(text.as_bytes()[start - 1])
        && text[..start].chars().next_back().is_some_and(sticks);
    left || end < text.len()
        && is_word(text.as_bytes()[end])
        && text[end..].chars().next().is_some_and(sticks)
}

/// Tries every chain of groups as an identity number, a card or a phone number.
pub(super) fn find(view: &View<'_>, found: &mut Vec<Entity>, limit: usize) {
    for first in 0..view.groups.len() {
        if found.len() > limit * 4 {
            return;
        }
        chains_from(view, first, found);
        phone::find(view, first, found);
    }
}

fn chains_from(view: &View<'_>, first: usize, found: &mut Vec<Entity>) {
    // Most numbers are short and stand alone: refused before anything is gathered.
    let alone = view.groups.get(first + 1).is_none_or(|n| n.start != view.groups[first].end + 1);
    if alone && view.groups[first].len() < MIN_DIGITS {
        return;
    }
    let (mut digits, mut lens) = ([0u8; MAX_DIGITS], [0u8; MAX_GROUPS]);
    let (mut count, mut separator) = (0, 0u8);
    let start = view.groups[first].start;
    for (index, group) in view.groups[first..].iter().take(MAX_GROUPS).enumerate() {
        if index > 0 {
            let gap = &view.bytes[view.groups[first + index - 1].end..group.start];
            let &[byte @ (b' ' | b'-' | b'.' | b'/' | b':' | b'+')] = gap else { return };
            separator = if index == 1 || separator == byte { byte } else { b'*' };
        }
        if count + group.len() > MAX_DIGITS {
            return;
        }
        for &byte in &view.bytes[group.clone()] {
            digits[count] = byte - b'0';
            count += 1;
        }
        lens[index] = group.len() as u8;
        if count >= MIN_DIGITS {
            let number = Number {
                digits: &digits[..count],
                lens: &lens[..=index],
                separator,
                range: start..group.end,
                continued: continued(view.bytes, start, group.end),
            };
            ids::find(view, &number, found);
        }
    }
}

/// Whether a number goes on before or behind, without space or after one: `1.2.3.4`, `2020-01-01`, `12/34`.
fn continued(bytes: &[u8], start: usize, end: usize) -> bool {
    let tight = |b: u8| matches!(b, b'-' | b'.' | b'/' | b':' | b',');
    let left = start >= 2 && tight(bytes[start - 1]) && bytes[start - 2].is_ascii_digit();
    let right =
        end + 1 < bytes.len() && tight(bytes[end]) && bytes[end + 1].is_ascii_alphanumeric();
    left || right
}
