//! The bytes of a file as its string writes them: in base64, or escaped as in URLs.

use std::borrow::Cow;

use crate::text::codes::decoder::{Code, Decoder, is_base64};

/// Lines of base64 are as long as that at least.
const SHORTEST_LINE: usize = 40;

/// Whether all of it is base64, which may be in lines and be escaped as in URLs.
pub(super) fn is_payload(bytes: &[u8]) -> bool {
    let fits = |&b: &u8| is_base64(b) || b == b'=' || b.is_ascii_whitespace() || b == b'%';
    let escapes = || bytes.iter().enumerate().filter(|(_, b)| **b == b'%');
    let is_escape = |(at, _): (usize, &u8)| {
        let digits = bytes.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    !bytes.is_empty() && bytes.iter().all(fits) && escapes().all(is_escape)
}

/// Whether most of it is base64: readers pass over what is none.
pub(super) fn is_mostly_payload(bytes: &[u8]) -> bool {
    bytes.iter().filter(|&&b| is_base64(b) || b == b'=').count() * 2 > bytes.len()
}

/// Whether base64 is written as programs write it, in one line or in long ones. Words with spaces between are none.
pub(super) fn is_plain(payload: &[u8]) -> bool {
    let ends = memchr::memchr_iter(b'\n', payload).count();
    payload.iter().all(|&b| is_base64(b) || matches!(b, b'=' | b'\r' | b'\n'))
        && (ends == 0 || payload.len() / ends >= SHORTEST_LINE)
}

/// A payload without the escapes of URLs.
pub(super) fn as_written(payload: &[u8]) -> Cow<'_, [u8]> {
    if payload.contains(&b'%') { Cow::Owned(unescaped(payload)) } else { Cow::Borrowed(payload) }
}

pub(super) fn decoded(payload: &[u8]) -> Vec<u8> {
    let unescaped = as_written(payload);
    let mut decoder = Decoder::with_room(Code::Base64, unescaped.len() / 4 * 3);
    decode(&mut decoder, &unescaped);
    decoder.out
}

/// Goes on with a payload that is not escaped.
pub(super) fn decode(decoder: &mut Decoder, mut rest: &[u8]) {
    while !rest.is_empty() {
        let taken = decoder.take(rest);
        // Space between lines, padding, and whatever else readers pass over.
        rest = &rest[(taken + 1).min(rest.len())..];
    }
}

pub(super) fn unescaped(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len());
    let mut rest = payload;
    while let Some((&byte, further)) = rest.split_first() {
        let digits = rest.get(1..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let value = digits.filter(|_| byte == b'%').and_then(|d| u8::from_str_radix(d, 16).ok());
        out.push(value.unwrap_or(byte));
        rest = if value.is_some() { &rest[3..] } else { further };
    }
    out
}

/// Bytes in base64 as another text is written: its alphabet, its padding, its lines.
pub(super) fn encoded(bytes: &[u8], like: &str) -> String {
    let is_for_urls = like.contains(['-', '_']);
    let signs = if is_for_urls { b"-_" } else { b"+/" };
    let line_end = ["\r\n", "\n", " "].into_iter().find(|end| like.contains(end));
    let width = line_end.and_then(|end| like.find(end)).unwrap_or(usize::MAX).max(4);
    let letters = like.bytes().filter(|&b| is_base64(b)).count();
    let pads =
        like.contains('=') || like.contains('%') || letters.is_multiple_of(4) && !is_for_urls;
    let letter = |index: u32| match index as u8 {
        index @ 0..26 => b'A' + index,
        index @ 26..52 => b'a' + (index - 26),
        index @ 52..62 => b'0' + (index - 52),
        62 => signs[0],
        _ => signs[1],
    };
    let mut out = String::with_capacity(bytes.len() / 3 * 4 + 4);
    let mut column = 0;
    let mut push = |letter: char| {
        if column == width {
            out.push_str(line_end.unwrap_or_default());
            column = 0;
        }
        out.push(letter);
        column += 1;
    };
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0, |bits, &byte| bits << 8 | u32::from(byte));
        let bits = bits << (24 - 8 * three.len());
        for index in 0..=three.len() {
            push(char::from(letter(bits >> (18 - 6 * index) & 63)));
        }
        if pads {
            (three.len()..3).for_each(|_| push('='));
        }
    }
    out
}

/// Bytes as they stand in a URL.
pub(super) fn escaped(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?[]".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
