//! Orders hidden by encoding: base64, hexadecimal, numbers, escapes, ROT13, text backwards. Bounded in size and depth, and begun
//! only where something has the shape of it.

use std::ops::Range;
use std::sync::LazyLock;

use crate::injection::numbers;
use crate::text::base64::{base64, hexadecimal};
use aho_corasick::{AhoCorasick, MatchKind};

/// No more decoded bytes, over all pieces.
const MAX_BYTES: usize = 32 * 1024;
/// The shortest run worth decoding. The scan looks for shorter ones, and reports whether there is any.
const MIN_RUN: usize = 20;
const _: () = assert!(MIN_RUN >= crate::scan::runs::LONG_RUN as usize);
/// A code may begin behind one of the first signs of its run that are signs of base64 as well: `/`, `x-`.
const MAX_BEGINNINGS: usize = 6;
/// So much of a run decides whether it is worth decoding.
const SAMPLE: usize = 32;
/// The fewest pairs of digits that are a text, and how far apart they are looked for: some nine bytes are seen of them.
const MIN_PAIRS: usize = 11;
const STRIDE: usize = 24;
/// Fewer escapes are ordinary: addresses and code are full of them.
const MIN_ESCAPES: usize = 8;
/// Text further than this from an escape does not belong to it.
const NEAR: usize = 256;

/// A decoded piece and where its code stands.
pub(crate) struct Piece {
    /// Place of the code in the text.
    pub(crate) bytes: Range<usize>,
    /// The decoded text.
    pub(crate) text: String,
}

/// Pieces of one text, decoded and put together.
#[derive(Default)]
pub(crate) struct Decoded {
    /// The decoded texts, one after the other.
    pub(crate) text: String,
    /// The start of each in that text, and the range of its code in the source.
    places: Vec<(usize, Range<usize>)>,
}

impl Decoded {
    /// Adds a piece. Lines of one code go on where the last one ended.
    fn push(&mut self, source: &[u8], piece: Piece) {
        if let Some((_, last)) = self.places.last() {
            let gap = &source[last.end.min(piece.bytes.start)..piece.bytes.start];
            if gap.len() > 2 || !gap.iter().all(u8::is_ascii_whitespace) {
                self.text.push_str("\n\n");
            }
        }
        self.places.push((self.text.len(), piece.bytes));
        self.text.push_str(&piece.text);
    }

    /// Returns the range of the code that the text at `at` was decoded from.
    pub(crate) fn source(&self, at: usize) -> Range<usize> {
        let begun = self.places.partition_point(|(start, _)| *start <= at);
        self.places.get(begun.saturating_sub(1)).map_or(0..0, |(_, bytes)| bytes.clone())
    }
}

/// Decodes the pieces of a text that turn into readable text. `long` is whether it has long runs without space.
pub(crate) fn pieces(text: &str, long: bool) -> Decoded {
    let bytes = text.as_bytes();
    let mut out = Decoded::default();
    if long {
        runs(bytes, &mut out);
    }
    pairs(bytes, &mut out);
    numbers::runs(bytes, |place, letters| {
        if out.text.len() < MAX_BYTES
            && let Some(text) = readable(letters)
        {
            out.push(bytes, Piece { bytes: place, text });
        }
    });
    out
}

/// Runs of base64 or hexadecimal.
fn runs(bytes: &[u8], out: &mut Decoded) {
    let part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'-' | b'_');
    let mut at = 0;
    // Stepping by the shortest run meets every run that is long enough, at a fraction of the reads.
    while at + MIN_RUN <= bytes.len() && out.text.len() < MAX_BYTES {
        let probe = at + MIN_RUN - 1;
        if !part(bytes[probe]) {
            at = probe + 1;
            continue;
        }
        let start = probe - bytes[at..probe].iter().rev().take_while(|&&b| part(b)).count();
        let end = probe + bytes[probe..].iter().take_while(|&&b| part(b)).count();
        if end - start >= MIN_RUN {
            let run = &bytes[start..end];
            let signs = run.iter().enumerate();
            let signs = signs.filter(|(_, b)| !b.is_ascii_alphanumeric() || **b == b'x');
            let begins = std::iter::once(0).chain(signs.map(|(sign, _)| sign + 1));
            let left = MAX_BYTES - out.text.len();
            let found = begins
                .take(MAX_BEGINNINGS)
                .find_map(|from| Some((from, code(&run[from..], left)?)));
            if let Some((from, text)) = found {
                out.push(bytes, Piece { bytes: start + from..end, text });
            }
        }
        at = end.max(at + 1);
    }
}

/// Returns the decoded text of a run, if it is a code.
fn code(run: &[u8], limit: usize) -> Option<String> {
    if run.len() < MIN_RUN {
        return None;
    }
    let is_plain = |b: &&u8| matches!(**b, 0 | b'\n' | b' '..=b'~' | 0x80..);
    let promises = |decoded: &[u8]| {
        decoded.len() > 9 && decoded.iter().filter(is_plain).count() * 8 >= decoded.len() * 7
    };
    let sample = &run[..run.len().min(SAMPLE)];
    if promises(&hexadecimal(sample, SAMPLE))
        && let Some(text) = readable(hexadecimal(run, limit))
    {
        return Some(text);
    }
    if promises(&base64(sample, SAMPLE)) { readable(base64(run, limit)) } else { None }
}

/// Pairs of hexadecimal digits with one sign between: `49 67 6e`, `49:67:6e`.
fn pairs(bytes: &[u8], out: &mut Decoded) {
    let is_pair = |at: usize, sign: u8| {
        bytes.get(at..at + 3).is_some_and(|three| {
            three[0] == sign && three[1].is_ascii_hexdigit() && three[2].is_ascii_hexdigit()
        })
    };
    let mut at = 0;
    while at + 9 <= bytes.len() && out.text.len() < MAX_BYTES {
        let sign = |at: usize| {
            let sign = bytes[at];
            let is_sign = matches!(sign, b' ' | b':' | b'-' | b',');
            (is_sign && is_pair(at, sign) && is_pair(at + 3, sign)).then_some(sign)
        };
        let Some((begin, sign)) = (at..at + 3).find_map(|at| Some((at, sign(at)?))) else {
            at += STRIDE;
            continue;
        };
        let before = (1..=begin / 3).take_while(|n| is_pair(begin - 3 * n, sign)).count();
        let after = (0..bytes.len()).take_while(|n| is_pair(begin + 3 * n, sign)).count();
        // The first pair has no sign before it.
        let first = begin - 3 * before;
        let start = first.saturating_sub(2);
        let lead = bytes[start..first].iter().all(u8::is_ascii_hexdigit) && first - start == 2;
        let end = begin + 3 * after;
        let from = if lead { start } else { first + 1 };
        let digits: Vec<u8> = bytes[from..end].iter().copied().filter(|&b| b != sign).collect();
        if digits.len() >= 2 * MIN_PAIRS
            && let Some(text) = readable(hexadecimal(&digits, MAX_BYTES - out.text.len()))
        {
            out.push(bytes, Piece { bytes: from..end, text });
        }
        at = end.max(at + STRIDE);
    }
}

/// A text with its escapes undone.
#[derive(Debug)]
pub(crate) struct Unescaped {
    pub(crate) text: String,
    /// Whether many of them stood for plain letters, which nobody has to escape. JSON and URLs write other scripts so.
    pub(crate) hid_letters: bool,
}

/// A text with its escapes undone: `%49`, `\x49`, `\u0049`, `&#73;`. Only where there are many, and only what stands near
/// them; at most about `limit` bytes.
pub(crate) fn unescape(text: &str, limit: usize) -> Option<Unescaped> {
    let bytes = text.as_bytes();
    let (mut out, mut done, mut count, mut letters) = (Vec::new(), 0, 0, 0);
    for at in memchr::memchr3_iter(b'%', b'\\', b'&', bytes) {
        if at < done {
            continue;
        }
        let Some((value, length)) = escape(&bytes[at..]) else { continue };
        if at - done > NEAR {
            out.extend_from_slice(b"\n\n");
            done = at - NEAR;
        }
        out.extend_from_slice(&bytes[done..at]);
        match value {
            // Bytes of UTF-8, and characters by their number.
            Escaped::Byte(byte) => out.push(byte),
            Escaped::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        letters += usize::from(out.last().is_some_and(u8::is_ascii_alphabetic));
        done = at + length;
        count += 1;
        if out.len() >= limit {
            break;
        }
    }
    if count < MIN_ESCAPES {
        return None;
    }
    out.extend_from_slice(&bytes[done..bytes.len().min(done + NEAR)]);
    let text = String::from_utf8_lossy(&out).into_owned();
    Some(Unescaped { text, hid_letters: letters >= MIN_ESCAPES })
}

enum Escaped {
    Byte(u8),
    Char(char),
}

/// Returns the meaning of the escape that a text begins with, and its length.
fn escape(text: &[u8]) -> Option<(Escaped, usize)> {
    let number = |from: usize, digits: usize, base| {
        let digits = std::str::from_utf8(text.get(from..from + digits)?).ok()?;
        u32::from_str_radix(digits, base).ok()
    };
    let byte = |from| number(from, 2, 16).map(|value| (Escaped::Byte(value as u8), from + 2));
    match text {
        [b'%', ..] => byte(1),
        [b'\\', b'x', ..] => byte(2),
        [b'\\', b'u', ..] => Some((Escaped::Char(char::from_u32(number(2, 4, 16)?)?), 6)),
        [b'&', b'#', rest @ ..] => {
            let end = rest.iter().take(8).position(|&b| b == b';')?;
            let value = match rest.first()? {
                b'x' | b'X' => number(3, end - 1, 16),
                _ => number(2, end, 10),
            };
            Some((Escaped::Char(char::from_u32(value?)?), 2 + end + 1))
        }
        _ => None,
    }
}

fn readable(mut decoded: Vec<u8>) -> Option<String> {
    if decoded.len() > 1 && decoded.iter().skip(1).step_by(2).all(|&byte| byte == 0) {
        // UTF-16.
        decoded.retain(|&byte| byte != 0);
    }
    let text = String::from_utf8(decoded).ok()?;
    let count = text.chars().count();
    let plain =
        text.chars().filter(|c| c.is_alphanumeric() || " .,:;!?'\"-\n".contains(*c)).count();
    (count >= 12 && plain * 100 >= count * 88 && text.contains(' ')).then_some(text)
}

/// How a text is turned.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Turned {
    /// By thirteen letters.
    Rotated,
    Backwards,
}

/// Strings that no language has, but orders in ROT13 or backwards do: from "instruction", "prompt" and "previous".
const TURNED: [&str; 6] = ["afgehpgvba", "ebzcg", "erivbhf", "noitcurtsni", "tpmorp", "suoiverp"];
static TURNED_WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let upper = TURNED.map(str::to_ascii_uppercase);
    // For leftmost matches, vector instructions look for the beginnings.
    AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostFirst)
        .build(TURNED.into_iter().chain(upper.iter().map(String::as_str)))
        .ok()
});

/// Whether and how the beginning of a text is turned.
pub(crate) fn turned(text: &str, most: usize) -> Option<Turned> {
    let start = &text.as_bytes()[..text.len().min(most)];
    let word = TURNED_WORDS.as_ref()?.find(start)?.pattern().as_usize() % TURNED.len();
    Some(if word < TURNED.len() / 2 { Turned::Rotated } else { Turned::Backwards })
}

/// Rotates letters by thirteen.
pub(crate) fn rot13(text: &str, limit: usize) -> String {
    let turn = |c: char, base: u8| ((c as u8 - base + 13) % 26 + base) as char;
    text.chars()
        .take(limit)
        .map(|c| match c {
            'a'..='z' => turn(c, b'a'),
            'A'..='Z' => turn(c, b'A'),
            _ => c,
        })
        .collect()
}
