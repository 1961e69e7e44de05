//! Hexadecimal digits in groups: `6a 61 6e`, `6a:61:6e`, `0x6a, 0x61`, `6a61 6e65`.

use crate::text::codes::decoder::{Code, Decoder, is_control, readable};
use crate::text::codes::pieces::{Piece, Pieces};

/// The fewest bytes that are worth undoing, and the fewest characters that write so many.
const FEWEST: usize = 8;
const SHORTEST: usize = 2 * FEWEST + 1;
/// How far apart they are looked for.
const STRIDE: usize = 16;
/// The most signs between two groups.
const MAX_SIGNS: usize = 3;

/// Undoes the groups that turn into text.
pub(super) fn find(bytes: &[u8], out: &mut Pieces) {
    let mut done = 0;
    for (index, block) in bytes.chunks(STRIDE).enumerate() {
        let Some(four) = block.first_chunk::<4>() else { return };
        if has_digit(*four) && index * STRIDE >= done {
            done = around(bytes, index * STRIDE, done, out);
        }
    }
}

/// Undoes the groups around a place; returns how far the text was read.
#[cold]
fn around(bytes: &[u8], at: usize, done: usize, out: &mut Pieces) -> usize {
    let lead = bytes[..at].iter().rev().take(STRIDE).take_while(|&&b| may_stand(b)).count();
    let end = at + bytes[at..].iter().take_while(|&&b| may_stand(b)).count();
    if end - (at - lead) >= SHORTEST {
        in_range(bytes, (at - lead).max(done), end, out);
    }
    end
}

/// Whether one of four bytes is a digit from 0 to 7: the first of the two that write a letter is one.
#[inline]
fn has_digit(four: [u8; 4]) -> bool {
    let rest = (u32::from_le_bytes(four) ^ 0x3030_3030) & 0xf8f8_f8f8;
    rest.wrapping_sub(0x0101_0101) & !rest & 0x8080_8080 != 0
}

/// Whether a byte may stand in such groups or between them.
fn may_stand(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || is_between(byte) || matches!(byte, b'x' | b'X' | b'\\')
}

fn is_between(byte: u8) -> bool {
    matches!(byte, b' ' | b',' | b':' | b';' | b'-' | b'|' | b'\t' | b'\r' | b'\n')
}

/// Undoes the groups of a range.
fn in_range(bytes: &[u8], start: usize, end: usize, out: &mut Pieces) {
    let mut at = start;
    // The rest of a word that begins before the range is no group.
    if start > 0 && bytes[start - 1].is_ascii_alphanumeric() {
        at += bytes[start..end].iter().take_while(|&&b| !is_between(b)).count();
    }
    let mut open: Option<(usize, usize, Decoder)> = None;
    while at < end {
        let signs = bytes[at..end].iter().take_while(|&&b| is_between(b)).count();
        at += signs;
        let length = bytes[at..end].iter().take_while(|&&b| !is_between(b)).count();
        let group = &bytes[at..at + length];
        if open.as_ref().is_some_and(|_| signs > MAX_SIGNS) {
            close(open.take(), out);
        }
        let is_whole = at + length < end || !bytes.get(end).is_some_and(u8::is_ascii_alphanumeric);
        match undo(group, &bytes[at.saturating_sub(1)..at]).filter(|_| is_whole) {
            Some(digits) => {
                let (_, last, decoder) =
                    open.get_or_insert_with(|| (at, at, Decoder::new(Code::Hexadecimal)));
                let known = decoder.out.len();
                decoder.take(digits);
                *last = at + length;
                if decoder.out[known..].iter().any(|&byte| is_control(byte)) {
                    decoder.out.truncate(known);
                    *last = at;
                    close(open.take(), out);
                }
            }
            None => close(open.take(), out),
        }
        at += length;
    }
    close(open, out);
}

/// Returns the start of the groups that end a text.
pub(super) fn open_from(bytes: &[u8]) -> usize {
    let (mut at, mut open) = (bytes.len(), bytes.len());
    loop {
        let signs = bytes[..at].iter().rev().take(MAX_SIGNS + 1).take_while(|&&b| is_between(b));
        let end = at - signs.count();
        let length = bytes[..end].iter().rev().take_while(|&&b| may_stand(b) && !is_between(b));
        let start = end - length.count();
        let before = &bytes[start.saturating_sub(1)..start];
        let mut group = Decoder::new(Code::Hexadecimal);
        let digits = undo(&bytes[start..end], before).unwrap_or_default();
        group.take(digits);
        let is_text = !group.out.is_empty() && !group.out.iter().any(|&b| is_control(b));
        if at - end > MAX_SIGNS || !is_text || before.iter().any(u8::is_ascii_alphanumeric) {
            return open;
        }
        (at, open) = (start, start);
        if !before.first().is_some_and(|&b| is_between(b)) {
            return open;
        }
    }
}

/// The digits of a group, without what begins it. Dashes stand between pairs alone: other groups are parts of numbers.
fn undo<'b>(group: &'b [u8], before: &[u8]) -> Option<&'b [u8]> {
    let begins = [&b"0x"[..], b"0X", b"\\x", b"x"];
    let digits = begins.iter().find_map(|begin| group.strip_prefix(*begin)).unwrap_or(group);
    let is_even = !digits.is_empty() && digits.len().is_multiple_of(2);
    let is_even = is_even && (before != b"-" || digits.len() == 2);
    (is_even && digits.iter().all(u8::is_ascii_hexdigit)).then_some(digits)
}

fn close(open: Option<(usize, usize, Decoder)>, out: &mut Pieces) {
    let Some((start, end, decoder)) = open else { return };
    if decoder.out.len() >= FEWEST
        && let Some(text) = readable(decoder.out)
    {
        out.push(&Piece { bytes: start..end, text });
    }
}
