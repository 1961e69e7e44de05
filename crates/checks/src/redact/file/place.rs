//! The location of a file in a string, and whether it is a text.

use std::ops::Range;

use crate::redact::file::payload::{
    as_written, decode, decoded, is_mostly_payload, is_payload, is_plain, unescaped,
};
use crate::text::codes::charset;
use crate::text::codes::decoder::{Code, Decoder};

const SCHEME: &str = "data:";
/// The longest beginning of a `data:` URL, up to its comma.
const MAX_HEAD: usize = 64 * 1024;
/// A longer beginning holds more than a type and the name of a file: it is judged as well.
const LONG_HEAD: usize = 128;
/// So much of a file decides whether all of it has to be looked at, in characters of base64.
const SAMPLE: usize = 1024;
/// How much of it is looked at in one go.
const CHUNK: usize = 64 * 1024;
const SHORTEST_FILE: usize = 12;
/// One byte in so many may be unreadable in a text.
pub(super) const FEW: usize = 8;
/// One byte in so many may be unreadable in a file taken for text.
pub(super) const MANY: usize = 4;

/// How a file is written in its string.
#[derive(Clone, Copy, Debug)]
pub(super) enum Writing {
    Base64,
    /// As in URLs.
    Percent,
}

/// The location of a file in a string, and its declared properties.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) payload: Range<usize>,
    pub(super) writing: Writing,
    /// Whether it calls itself a text.
    pub(super) is_textual: bool,
    /// Whether it calls itself UTF-16, with the low byte first or not.
    pub(super) little: Option<bool>,
}

impl Place {
    /// The bytes of the file.
    pub(super) fn bytes(&self, raw: &str) -> Vec<u8> {
        let payload = raw[self.payload.clone()].as_bytes();
        match self.writing {
            Writing::Percent => unescaped(payload),
            Writing::Base64 => decoded(payload),
        }
    }

    pub(super) fn is_file_of_text(&self, payload: &[u8]) -> bool {
        self.is_textual || self.little.is_some() || may_be_text(payload, FEW)
    }

    /// Whether the beginning of a `data:` URL may hold words.
    pub(super) fn has_words_in_front(&self, raw: &str) -> bool {
        let head = raw[..self.payload.start].trim_start_matches(is_unseen);
        let is_usual = |c: char| c.is_ascii_alphanumeric() || "/!#$&^_.+-*:;=\",".contains(c);
        head.len() > LONG_HEAD || !head.chars().all(is_usual)
    }

    /// Returns the part of a string that may be words, although it is declared as base64: they are judged as they came.
    pub(super) fn words(&self, raw: &str, is_text: bool) -> Range<usize> {
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

/// Finds the file in a string that is one.
pub(super) fn place(raw: &str, is_bare: bool) -> Option<Place> {
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

pub(super) fn is_unseen(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "\u{feff}\u{200b}".contains(c)
}

/// Whether a type is one of text.
pub(super) fn is_textual(media: &str) -> bool {
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

/// Whether base64 is that of a text, of which one byte in so many may be unreadable: its beginning, its middle or its end
/// has to look so, and then all of it.
pub(super) fn may_be_text(payload: &[u8], few: usize) -> bool {
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
pub(super) fn is_text(bytes: &[u8], few: usize) -> bool {
    let strange = charset::strange(bytes, charset::order(bytes, None));
    !bytes.is_empty() && strange * few <= bytes.len()
}

/// Whether base64 begins as a known kind of picture, sound, film, document or archive does.
pub(super) fn has_magic(payload: &[u8]) -> bool {
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
