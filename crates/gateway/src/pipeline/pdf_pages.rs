//! The pages of a PDF, counted without reading it as one: by its page objects and the references to
//! them, in the file and in its compressed object streams.
//!
//! The file is a caller's: whatever the scan cannot follow makes the count unsure, and the work on one
//! file is bounded.

use std::collections::HashSet;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use flate2::{Decompress, FlushDecompress, Status};

/// The most bytes that all object streams of a file are unpacked to.
const MOST_UNPACKED: usize = 8 * 1024 * 1024;
/// The longest dictionary before a stream that is looked at, in bytes.
const LONGEST_DICTIONARY: usize = 64 * 1024;
/// The longest name that matters here.
const LONGEST_NAME: usize = 64;
/// The most references to pages that are compared.
const MOST_KIDS: usize = 100_000;

/// Base64 without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// The pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// Nothing in it is a page.
    Missing,
    /// No more than these.
    AtMost(u64),
    /// There may be any number of them; at least these were seen.
    Unsure(u64),
}

/// Counts the pages of a PDF in base64.
pub(super) fn count(base64: &str) -> Pages {
    of(&decoded(base64, usize::MAX))
}

/// The first bytes of a file in base64. What does not belong into base64 is passed over, as lenient
/// servers do.
pub(super) fn decoded(base64: &str, most: usize) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        b'+' | b'/' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => Some(byte),
        _ => None,
    };
    let digits = base64.bytes().filter_map(digit);
    let mut digits: Vec<u8> = digits.take(most.div_ceil(3).saturating_mul(4)).collect();
    // A single digit at the end is no byte.
    if digits.len() % 4 == 1 {
        digits.pop();
    }
    BASE64.decode(digits).unwrap_or_default()
}

fn of(file: &[u8]) -> Pages {
    let mut found = Found::default();
    found.scan(file);
    let mut left = MOST_UNPACKED;
    for at in memchr::memmem::find_iter(file, b"stream") {
        if file[..at].ends_with(b"end") {
            continue;
        }
        let from = at.saturating_sub(LONGEST_DICTIONARY);
        let before = &file[from..at];
        let from = memchr::memmem::rfind(before, b"obj").map_or(0, |obj| obj + 3);
        match packing(&before[from..]) {
            Packing::Other => {}
            Packing::Unknown => found.is_unsure = true,
            Packing::Deflated => match unpack(line(&file[at + b"stream".len()..]), &mut left) {
                Some(objects) => found.scan(&objects),
                None => found.is_unsure = true,
            },
        }
    }
    found.pages()
}

/// The data behind the keyword `stream`, which a line ends.
fn line(data: &[u8]) -> &[u8] {
    let data = data.strip_prefix(b"\r").unwrap_or(data);
    data.strip_prefix(b"\n").unwrap_or(data)
}

/// How the objects of a stream are packed.
enum Packing {
    /// It holds no objects, or they are not packed at all.
    Other,
    Deflated,
    Unknown,
}

/// The packing of a stream, by its dictionary.
fn packing(dictionary: &[u8]) -> Packing {
    let names: Vec<Vec<u8>> = names(dictionary).map(|(name, _)| name).collect();
    let has = |name: &[u8]| names.iter().any(|known| known == name);
    let holds_objects = has(b"ObjStm") || (has(b"N") && has(b"First"));
    if !holds_objects || !has(b"Filter") {
        return Packing::Other;
    }
    let is_other = |name: &Vec<u8>| name.ends_with(b"Decode") && name != b"FlateDecode";
    if has(b"FlateDecode") && !has(b"Predictor") && !has(b"Crypt") && !names.iter().any(is_other) {
        Packing::Deflated
    } else {
        Packing::Unknown
    }
}

/// Unpacks a stream; `None` if it cannot be unpacked, or to more bytes than are left.
fn unpack(data: &[u8], left: &mut usize) -> Option<Vec<u8>> {
    let mut inflate = Decompress::new(true);
    let mut out = Vec::with_capacity(16 * 1024);
    loop {
        if out.len() >= *left {
            return None;
        }
        out.reserve((out.len() + 1).min(*left - out.len()));
        let (read, before) = (inflate.total_in(), out.len());
        let rest = data.get(usize::try_from(read).ok()?..)?;
        match inflate.decompress_vec(rest, &mut out, FlushDecompress::None).ok()? {
            Status::StreamEnd => break,
            Status::Ok | Status::BufError => {
                if inflate.total_in() == read && out.len() == before {
                    return None;
                }
            }
        }
    }
    *left = left.checked_sub(out.len())?;
    Some(out)
}

/// What was found in a file so far.
#[derive(Default)]
struct Found {
    /// Page objects.
    pages: u64,
    /// References from the nodes of the page tree.
    kids: u64,
    /// The objects that they refer to.
    known: HashSet<u64>,
    is_unsure: bool,
}

impl Found {
    fn scan(&mut self, bytes: &[u8]) {
        let mut is_type = false;
        for (name, behind) in names(bytes) {
            match &name[..] {
                b"Page" if is_type => self.pages += 1,
                b"Kids" => self.references(&bytes[behind..]),
                _ => {}
            }
            is_type = name == b"Type";
        }
    }

    /// Counts the references of a node: `[1 0 R 2 0 R]`. A tree has each once; pages that are there twice
    /// could be there any number of times.
    fn references(&mut self, list: &[u8]) {
        let list = list.trim_ascii_start();
        let end = memchr::memchr(b']', list);
        let (Some(b'['), Some(end)) = (list.first(), end) else {
            self.is_unsure = true;
            return;
        };
        let mut words = list[1..end].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
            let (Some(number), Some(_), Some(b"R")) = (number, words.next(), words.next()) else {
                self.is_unsure = true;
                return;
            };
            self.kids += 1;
            if self.known.len() >= MOST_KIDS || !self.known.insert(number) {
                self.is_unsure = true;
            }
        }
    }

    fn pages(&self) -> Pages {
        let most = self.pages.max(self.kids);
        match most {
            _ if self.is_unsure => Pages::Unsure(self.pages),
            0 => Pages::Missing,
            most => Pages::AtMost(most),
        }
    }
}

/// The names in a text, without escapes, each with the position behind it.
fn names(bytes: &[u8]) -> impl Iterator<Item = (Vec<u8>, usize)> {
    memchr::memchr_iter(b'/', bytes).map(|slash| {
        let mut name = Vec::new();
        let mut at = slash + 1;
        while let Some(byte) = bytes.get(at).filter(|byte| is_regular(**byte)) {
            if name.len() == LONGEST_NAME {
                break;
            }
            let digits = bytes.get(at + 1..at + 3).filter(|_| *byte == b'#');
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(escaped) => {
                    name.push(escaped);
                    at += 3;
                }
                None => {
                    name.push(*byte);
                    at += 1;
                }
            }
        }
        (name, at)
    })
}

/// Whether a byte is part of a name.
fn is_regular(byte: u8) -> bool {
    byte > b' ' && !b"()<>[]{}/%".contains(&byte)
}

#[cfg(test)]
#[path = "pdf_pages_tests.rs"]
mod tests;
