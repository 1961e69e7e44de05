//! Files in strings: `data:` URLs, and the bare base64 of fields that hold files. Their bytes decide whether they are text,
//! whatever they are called. A text is judged as one, and redacted so that the file stays a file.

use std::borrow::Cow;
use std::ops::Range;

use super::decoder::{Code, Decoder, is_base64, is_utf16, unreadable, utf16};
use crate::redact::Redactor;
use crate::report::Finding;

const SCHEME: &str = "data:";
/// The longest beginning of a `data:` URL, up to its comma.
const MAX_HEAD: usize = 1024;
/// So much of a file tells whether all of it has to be looked at, in characters of base64.
const SAMPLE: usize = 1024;
/// How much of it is looked at in one go.
const CHUNK: usize = 64 * 1024;
/// One byte in so many may be unreadable in a text.
const FEW: usize = 8;
/// Bare base64 that is shorter is judged as it stands where it is no text.
const SHORTEST_BARE: usize = 1024;
const SHORTEST_FILE: usize = 12;
/// Lines of base64 are as long as that at least.
const SHORTEST_LINE: usize = 40;

/// What a string holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// No file: words, or what is no base64 for all that it claims.
    None,
    /// A file of text.
    Text,
    /// A picture, a sound, a PDF: nothing in it is looked at.
    Binary,
}

/// How a file is written in its string.
#[derive(Clone, Copy, Debug)]
enum Writing {
    Base64,
    /// As in URLs.
    Percent,
}

/// How the bytes of a file make a text.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    Utf8,
    Utf16 {
        little: bool,
    },
    /// Each byte a character.
    Bytes,
}

/// Where in a string a file is, and what is claimed of it.
#[derive(Debug)]
struct Place {
    payload: Range<usize>,
    writing: Writing,
    /// Whether it calls itself a text.
    is_textual: bool,
    /// Whether it calls itself UTF-16, with the low byte first or not.
    little: Option<bool>,
}

/// A file of text.
#[derive(Debug)]
pub struct FileText<'a> {
    raw: &'a str,
    place: Place,
    encoding: Encoding,
    text: String,
}

/// Tells what a string holds. `is_bare`: the field is one for files, which need not say that they are.
pub fn file_kind(raw: &str, is_bare: bool) -> FileKind {
    let Some(place) = place(raw, is_bare) else { return FileKind::None };
    let payload = raw[place.payload.clone()].as_bytes();
    if let Writing::Percent = place.writing {
        let textual = place.is_textual || is_text(&unescaped(payload));
        return if textual { FileKind::Text } else { FileKind::None };
    }
    if place.is_textual || place.little.is_some() || may_be_text(payload) {
        return FileKind::Text;
    }
    let is_named = raw[..place.payload.start].ends_with(',');
    let is_file = is_named || payload.len() >= SHORTEST_BARE && has_magic(payload);
    if is_file && is_plain(payload) { FileKind::Binary } else { FileKind::None }
}

impl<'a> FileText<'a> {
    /// Reads a string of which [`file_kind`] says that it holds a text.
    pub fn read(raw: &'a str, is_bare: bool) -> Option<Self> {
        let place = place(raw, is_bare)?;
        let payload = raw[place.payload.clone()].as_bytes();
        let bytes = match place.writing {
            Writing::Percent => unescaped(payload),
            Writing::Base64 => decoded(payload),
        };
        let (encoding, text) = read(bytes, place.little);
        Some(Self { raw, place, encoding, text })
    }

    /// What is to be judged.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where in its string the file stands, in characters.
    pub fn span(&self) -> Range<usize> {
        let start = self.raw[..self.place.payload.start].chars().count();
        start..start + self.raw[self.place.payload.clone()].chars().count()
    }

    /// Replaces findings in [`FileText::text`] and gives the string with the file written as before. `None` when nothing
    /// changes.
    pub fn redact(&self, redactor: &mut Redactor, findings: &[&Finding]) -> Option<String> {
        let text = redactor.redact(&self.text, findings)?;
        let bytes = match self.encoding {
            Encoding::Utf8 => text.into_bytes(),
            Encoding::Utf16 { little: true } => {
                text.encode_utf16().flat_map(u16::to_le_bytes).collect()
            }
            Encoding::Utf16 { little: false } => {
                text.encode_utf16().flat_map(u16::to_be_bytes).collect()
            }
            // Placeholders are ASCII, and all else was one byte.
            Encoding::Bytes => text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect(),
        };
        let payload = &self.raw[self.place.payload.clone()];
        let new = match self.place.writing {
            Writing::Base64 => encoded(&bytes, payload),
            Writing::Percent => escaped(&bytes),
        };
        let Range { start, end } = self.place.payload;
        Some([&self.raw[..start], &new, &self.raw[end..]].concat())
    }
}

/// Finds the file in a string that is one.
fn place(raw: &str, is_bare: bool) -> Option<Place> {
    let unseen = |c: char| c.is_whitespace() || c.is_control() || "\u{feff}\u{200b}".contains(c);
    let start = raw.len() - raw.trim_start_matches(unseen).len();
    let end = raw.trim_end_matches(unseen).len();
    let rest = &raw[start..end.max(start)];
    if !rest.get(..SCHEME.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME)) {
        let is_file = is_bare && rest.len() >= SHORTEST_FILE && is_payload(rest.as_bytes());
        let place = Place {
            payload: start..end,
            writing: Writing::Base64,
            is_textual: false,
            little: None,
        };
        return is_file.then_some(place);
    }
    let comma = rest.bytes().take(MAX_HEAD).position(|byte| byte == b',')?;
    let mut head = rest[SCHEME.len()..comma].split(';').map(str::trim);
    let media = head.next().unwrap_or_default().to_ascii_lowercase();
    let is_media = |c: char| c.is_ascii_alphanumeric() || "/!#$&^_.+-*".contains(c);
    if !media.chars().all(is_media) {
        return None;
    }
    let (mut is_base64, mut little) = (false, None);
    for parameter in head {
        is_base64 |= parameter.eq_ignore_ascii_case("base64");
        let charset = parameter.to_ascii_lowercase();
        let charset = charset.strip_prefix("charset=").map(|name| name.trim_matches(['"', '\'']));
        if let Some(name) = charset.filter(|name| name.starts_with("utf-16")) {
            little = Some(name != "utf-16be");
        }
    }
    let payload = start + comma + 1..end;
    let bytes = raw[payload.clone()].as_bytes();
    let writing = match is_base64 {
        true if is_payload(bytes) => Writing::Base64,
        false if bytes.contains(&b'%') => Writing::Percent,
        _ => return None,
    };
    Some(Place { payload, writing, is_textual: is_textual(&media), little })
}

/// Whether a type is one of text.
fn is_textual(media: &str) -> bool {
    const TYPES: [&str; 14] = [
        "json",
        "xml",
        "yaml",
        "x-yaml",
        "csv",
        "javascript",
        "x-javascript",
        "ecmascript",
        "sql",
        "x-www-form-urlencoded",
        "toml",
        "x-sh",
        "x-ndjson",
        "rtf",
    ];
    let kind = media.split_once('/').filter(|(of, _)| *of == "application").map(|(_, kind)| kind);
    media.is_empty()
        || media.starts_with("text/")
        || ["+json", "+xml", "+yaml"].iter().any(|end| media.ends_with(end))
        || kind.is_some_and(|kind| TYPES.contains(&kind))
}

/// Whether all of it is base64, which may be in lines and be escaped as in URLs.
fn is_payload(bytes: &[u8]) -> bool {
    let fits = |&b: &u8| is_base64(b) || b == b'=' || b.is_ascii_whitespace() || b == b'%';
    let escapes = || bytes.iter().enumerate().filter(|(_, b)| **b == b'%');
    let is_escape = |(at, _): (usize, &u8)| {
        let digits = bytes.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    !bytes.is_empty() && bytes.iter().all(fits) && escapes().all(is_escape)
}

/// Whether base64 is written as programs write it, in one line or in long ones. Words with spaces between are none.
fn is_plain(payload: &[u8]) -> bool {
    let ends = memchr::memchr_iter(b'\n', payload).count();
    payload.iter().all(|&b| is_base64(b) || matches!(b, b'=' | b'\r' | b'\n'))
        && (ends == 0 || payload.len() / ends >= SHORTEST_LINE)
}

fn decoded(payload: &[u8]) -> Vec<u8> {
    let unescaped = if payload.contains(&b'%') {
        Cow::Owned(unescaped(payload))
    } else {
        Cow::Borrowed(payload)
    };
    let mut decoder = Decoder::with_room(Code::Base64, unescaped.len() / 4 * 3);
    decode(&mut decoder, &unescaped);
    decoder.out
}

/// Goes on with a payload that is not escaped.
fn decode(decoder: &mut Decoder, mut rest: &[u8]) {
    while !rest.is_empty() {
        let taken = decoder.take(rest);
        // White space between lines, and padding.
        rest = &rest[(taken + 1).min(rest.len())..];
    }
}

fn unescaped(payload: &[u8]) -> Vec<u8> {
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

/// Whether base64 is that of a text: its beginning, its middle or its end has to look so, and then all of it.
fn may_be_text(payload: &[u8]) -> bool {
    let unescaped = if payload.contains(&b'%') {
        Cow::Owned(unescaped(payload))
    } else {
        Cow::Borrowed(payload)
    };
    let payload = &*unescaped;
    let sample = |from: usize| {
        is_text(&decoded(&payload[from.min(payload.len())..payload.len().min(from + SAMPLE)]))
    };
    // Ends of lines shift where a group of four begins.
    let any = |from: usize| (from..from + 4).any(sample);
    let (middle, last) = (payload.len() / 2, payload.len().saturating_sub(SAMPLE));
    if !(sample(0) || payload.len() > SAMPLE && (any(middle) || any(last))) {
        return false;
    }
    if payload.len() <= SAMPLE {
        return true;
    }
    let (mut bad, most) = (0, payload.len() / 4 * 3 / FEW);
    let mut wide = 0;
    let mut decoder = Decoder::with_room(Code::Base64, CHUNK);
    for chunk in payload.chunks(CHUNK) {
        decode(&mut decoder, chunk);
        let bytes = std::mem::take(&mut decoder.out);
        wide += usize::from(is_utf16(&bytes).is_some());
        bad += if wide > 0 { 0 } else { unreadable(&bytes) };
        if bad > most {
            return false;
        }
    }
    true
}

/// Whether bytes are a text.
fn is_text(bytes: &[u8]) -> bool {
    if let Some(little) = order(bytes, None) {
        let text = utf16(bytes, little);
        let strange = |c: &char| {
            let code = u32::from(*c);
            c.is_control() && !c.is_whitespace()
                || (0xe000..0xf900).contains(&code)
                || code == 0xfffd
        };
        return text.chars().filter(strange).count() * FEW <= text.chars().count();
    }
    !bytes.is_empty() && unreadable(bytes) * FEW <= bytes.len()
}

/// The order of bytes of UTF-16: as the first of them say, as is claimed, or as the zeros show.
fn order(bytes: &[u8], claimed: Option<bool>) -> Option<bool> {
    match bytes {
        [0xff, 0xfe, ..] => Some(true),
        [0xfe, 0xff, ..] => Some(false),
        _ => is_utf16(&bytes[..bytes.len().min(CHUNK)]).or(claimed),
    }
}

fn read(bytes: Vec<u8>, claimed: Option<bool>) -> (Encoding, String) {
    // Some claim UTF-16 of what is none.
    let claimed = claimed.filter(|_| std::str::from_utf8(&bytes).is_err());
    if let Some(little) = order(&bytes, claimed) {
        return (Encoding::Utf16 { little }, utf16(&bytes, little));
    }
    match String::from_utf8(bytes) {
        Ok(text) => (Encoding::Utf8, text),
        Err(error) => (Encoding::Bytes, error.as_bytes().iter().copied().map(char::from).collect()),
    }
}

/// Whether base64 begins as a known kind of picture, sound, film, document or archive does.
fn has_magic(payload: &[u8]) -> bool {
    const MAGIC: [&[u8]; 16] = [
        b"\x89PNG",
        b"\xff\xd8\xff",
        b"GIF8",
        b"RIFF",
        b"%PDF-",
        b"PK\x03\x04",
        b"ID3",
        b"fLaC",
        b"OggS",
        b"\x1aE\xdf\xa3",
        b"II*\0",
        b"MM\0*",
        b"\x1f\x8b",
        b"\xff\xfb",
        b"\xff\xf1",
        b"\xd0\xcf\x11\xe0",
    ];
    let head = decoded(&payload[..payload.len().min(32)]);
    MAGIC.iter().any(|magic| head.starts_with(magic)) || head.get(4..8) == Some(b"ftyp")
}

/// Bytes in base64 as another text is written: its alphabet, its padding, its lines.
fn encoded(bytes: &[u8], like: &str) -> String {
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
fn escaped(bytes: &[u8]) -> String {
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

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
