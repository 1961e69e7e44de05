//! Files in strings: `data:` URLs, and the bare base64 of fields that hold files. Their bytes decide whether they are text,
//! whatever they are called. A text is judged as one, and redacted so that the file stays a file.

use std::borrow::Cow;
use std::ops::Range;

use crate::redact::redactor::Redactor;
use crate::report::Finding;
use crate::text::codes::charset;
use crate::text::codes::charset::Characters;
use crate::text::codes::decoder::{Code, Decoder, is_base64};

const SCHEME: &str = "data:";
/// The longest beginning of a `data:` URL, up to its comma.
const MAX_HEAD: usize = 64 * 1024;
/// A longer beginning holds more than a type and the name of a file: it is judged as well.
const LONG_HEAD: usize = 128;
/// So much of a file tells whether all of it has to be looked at, in characters of base64.
const SAMPLE: usize = 1024;
/// How much of it is looked at in one go.
const CHUNK: usize = 64 * 1024;
/// One byte in so many may be unreadable in a text.
const FEW: usize = 8;
/// One byte in so many may be unreadable in a file taken for text.
const MANY: usize = 4;
/// Bare base64 that is shorter is judged as it stands where it is no text.
const SHORTEST_BARE: usize = 1024;
const SHORTEST_FILE: usize = 12;
/// Lines of base64 are as long as that at least.
const SHORTEST_LINE: usize = 40;

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

/// How a file is written in its string.
#[derive(Clone, Copy, Debug)]
enum Writing {
    Base64,
    /// As in URLs.
    Percent,
}

/// The location of a file in a string, and its declared properties.
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
    characters: Characters,
    /// How long the text of the file is: behind it stands what is judged as it came.
    length: usize,
    words: Range<usize>,
}

/// Tells what a string holds. `is_bare`: the field is one for files, which need not say that they are.
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

impl Place {
    /// The bytes of the file.
    fn bytes(&self, raw: &str) -> Vec<u8> {
        let payload = raw[self.payload.clone()].as_bytes();
        match self.writing {
            Writing::Percent => unescaped(payload),
            Writing::Base64 => decoded(payload),
        }
    }

    fn is_file_of_text(&self, payload: &[u8]) -> bool {
        self.is_textual || self.little.is_some() || may_be_text(payload, FEW)
    }

    /// Whether the beginning of a `data:` URL may hold words.
    fn has_words_in_front(&self, raw: &str) -> bool {
        let head = raw[..self.payload.start].trim_start_matches(is_unseen);
        let is_usual = |c: char| c.is_ascii_alphanumeric() || "/!#$&^_.+-*:;=\",".contains(c);
        head.len() > LONG_HEAD || !head.chars().all(is_usual)
    }

    /// Returns the part of a string that may be words, although it is declared as base64: they are judged as they came.
    fn words(&self, raw: &str, is_text: bool) -> Range<usize> {
        let payload = raw[self.payload.clone()].as_bytes();
        let has_front = self.has_words_in_front(raw);
        let are_words = match self.writing {
            Writing::Percent => false,
            Writing::Base64 => !is_text || !is_plain(&as_written(payload)),
        };
        let start = if has_front { 0 } else { self.payload.start };
        start..if are_words { self.payload.end } else { self.payload.start }
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

/// Finds the file in a string that is one.
fn place(raw: &str, is_bare: bool) -> Option<Place> {
    let start = raw.len() - raw.trim_start_matches(is_unseen).len();
    let end = raw.trim_end_matches(is_unseen).len();
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
        true if is_mostly_payload(bytes) => Writing::Base64,
        false if bytes.contains(&b'%') => Writing::Percent,
        _ => return None,
    };
    Some(Place { payload, writing, is_textual: is_textual(&media), little })
}

fn is_unseen(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "\u{feff}\u{200b}".contains(c)
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

/// Whether most of it is base64: readers pass over what is none.
fn is_mostly_payload(bytes: &[u8]) -> bool {
    bytes.iter().filter(|&&b| is_base64(b) || b == b'=').count() * 2 > bytes.len()
}

/// Whether base64 is written as programs write it, in one line or in long ones. Words with spaces between are none.
fn is_plain(payload: &[u8]) -> bool {
    let ends = memchr::memchr_iter(b'\n', payload).count();
    payload.iter().all(|&b| is_base64(b) || matches!(b, b'=' | b'\r' | b'\n'))
        && (ends == 0 || payload.len() / ends >= SHORTEST_LINE)
}

/// A payload without the escapes of URLs.
fn as_written(payload: &[u8]) -> Cow<'_, [u8]> {
    if payload.contains(&b'%') { Cow::Owned(unescaped(payload)) } else { Cow::Borrowed(payload) }
}

fn decoded(payload: &[u8]) -> Vec<u8> {
    let unescaped = as_written(payload);
    let mut decoder = Decoder::with_room(Code::Base64, unescaped.len() / 4 * 3);
    decode(&mut decoder, &unescaped);
    decoder.out
}

/// Goes on with a payload that is not escaped.
fn decode(decoder: &mut Decoder, mut rest: &[u8]) {
    while !rest.is_empty() {
        let taken = decoder.take(rest);
        // Space between lines, padding, and whatever else readers pass over.
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

/// Whether base64 is that of a text, of which one byte in so many may be unreadable: its beginning, its middle or its end
/// has to look so, and then all of it.
fn may_be_text(payload: &[u8], few: usize) -> bool {
    let payload = &*as_written(payload);
    let sample = |from: usize| {
        let bytes = decoded(&payload[from.min(payload.len())..payload.len().min(from + SAMPLE)]);
        is_text(&bytes, few)
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
    let (mut bad, most) = (0, payload.len() / 4 * 3 / few);
    let (mut wide, mut known) = (None, 0);
    let mut decoder = Decoder::with_room(Code::Base64, CHUNK);
    for chunk in payload.chunks(CHUNK) {
        decode(&mut decoder, chunk);
        let bytes = std::mem::take(&mut decoder.out);
        if known == 0 {
            wide = charset::order(&bytes, None);
        }
        bad += charset::strange(&bytes[(known % 2).min(bytes.len())..], wide);
        known += bytes.len();
        if bad > most {
            return false;
        }
    }
    true
}

/// Whether bytes are a text, of which one in so many may be unreadable.
fn is_text(bytes: &[u8], few: usize) -> bool {
    let strange = charset::strange(bytes, charset::order(bytes, None));
    !bytes.is_empty() && strange * few <= bytes.len()
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
