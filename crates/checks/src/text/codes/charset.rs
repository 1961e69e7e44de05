//! How the bytes of a file make a text. A file may be written in several ways, one after the other or at once: what begins
//! as UTF-16 may go on as ASCII, and two bytes at the beginning prove nothing. So each stretch is read as it shows itself,
//! and where two readings make sense, both are judged.

use std::ops::Range;

use crate::text::codes::decoder::{is_control, is_utf16, unreadable, utf16};

/// So much of a file shows whether all of it is UTF-16.
const SAMPLE: usize = 64 * 1024;
/// The fewest zeros that make a stretch one of UTF-16, and how far apart two of them may be.
const FEWEST_ZEROS: usize = 6;
const MAX_GAP: usize = 32;
/// Fewer characters in a row that can be read prove nothing.
const SHORTEST_READABLE: usize = 12;
/// So many are no UTF-16, whatever they are.
const LONG_READABLE: usize = 24;
/// One byte in so many may be unreadable in a text.
const FEW: usize = 8;
/// Stands between two readings of the same bytes.
const BORDER: &str = "\n\n----\n\n";
/// A byte that is no UTF-8 stands as the character of its number behind this one, which nobody uses.
const FIRST_PRIVATE: u32 = 0x0010_fe00;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    /// UTF-8, and each byte that is none a character.
    Bytes,
    Utf16 {
        little: bool,
    },
}

/// A stretch of a file, and where its text begins.
#[derive(Debug)]
struct Stretch {
    start: u32,
    end: u32,
    text: u32,
    encoding: Encoding,
}

/// The text of a file.
#[derive(Debug, Default)]
pub(crate) struct Characters {
    pub(crate) text: String,
    stretches: Vec<Stretch>,
    /// Whether bytes that are no UTF-8 are Latin.
    is_latin: bool,
}

impl Characters {
    /// Reads the bytes of a file. `claimed`: it calls itself UTF-16, with the low byte first or not.
    pub(crate) fn read(bytes: &[u8], claimed: Option<bool>) -> Self {
        let mut all = Self { is_latin: is_latin(bytes), ..Self::default() };
        // Files are parts of bodies, which are far smaller.
        if u32::try_from(bytes.len().saturating_mul(8)).is_err() {
            all.text = String::from_utf8_lossy(bytes).into_owned();
            return all;
        }
        let order = order(bytes, claimed);
        let rest = Rest::of(bytes, order);
        let wide = order.filter(|little| !rest.is_text || is_han(bytes, *little));
        if let Some(little) = wide {
            let even = bytes.len() / 2 * 2;
            all.push(bytes, 0..even, Encoding::Utf16 { little });
            all.push(bytes, even..bytes.len(), Encoding::Bytes);
        }
        if wide.is_none() || rest.is_readable {
            if wide.is_some() {
                all.text.push_str(BORDER);
            }
            stretches(bytes, order, |range, encoding| all.push(bytes, range, encoding));
        }
        all
    }

    fn push(&mut self, bytes: &[u8], range: Range<usize>, encoding: Encoding) {
        if range.is_empty() {
            return;
        }
        let [start, end, text] = [range.start, range.end, self.text.len()].map(|at| at as u32);
        self.stretches.push(Stretch { start, end, text, encoding });
        let bytes = &bytes[range];
        match encoding {
            Encoding::Utf16 { little } => self.text.push_str(&utf16(bytes, little)),
            Encoding::Bytes => {
                self.text.reserve(bytes.len());
                for chunk in bytes.utf8_chunks() {
                    self.text.push_str(chunk.valid());
                    for &byte in chunk.invalid() {
                        let c = self.character(byte);
                        self.text.push(c);
                    }
                }
            }
        }
    }

    /// The character of a byte that is no UTF-8.
    fn character(&self, byte: u8) -> char {
        let private = || char::from_u32(FIRST_PRIVATE + u32::from(byte)).unwrap_or('\u{fffd}');
        if self.is_latin { char::from(byte) } else { private() }
    }

    /// The bytes of the file with ranges of its text replaced, which are in order and do not overlap. All others stay as
    /// they are.
    pub(crate) fn replaced(&self, bytes: &[u8], changes: &[(Range<usize>, String)]) -> Vec<u8> {
        let mut places = self.places(bytes, changes);
        // Two readings have the same bytes.
        places.sort_by_key(|(range, ..)| range.start);
        let mut out = Vec::with_capacity(bytes.len());
        let mut done = 0;
        for (range, encoding, change) in places {
            if range.start >= done {
                out.extend_from_slice(&bytes[done..range.start]);
                match encoding {
                    Encoding::Bytes => out.extend_from_slice(change.as_bytes()),
                    Encoding::Utf16 { little: true } => {
                        out.extend(change.encode_utf16().flat_map(u16::to_le_bytes));
                    }
                    Encoding::Utf16 { little: false } => {
                        out.extend(change.encode_utf16().flat_map(u16::to_be_bytes));
                    }
                }
            }
            done = done.max(range.end);
        }
        out.extend_from_slice(&bytes[done.min(bytes.len())..]);
        out
    }

    /// The position of each change in the file, and its form there.
    fn places<'c>(
        &self,
        bytes: &[u8],
        changes: &'c [(Range<usize>, String)],
    ) -> Vec<(Range<usize>, Encoding, &'c str)> {
        let mut places: Vec<(Range<usize>, Encoding, &str)> = Vec::with_capacity(changes.len());
        // The change that is begun, and whether its beginning was met.
        let (mut next, mut is_open) = (0, false);
        for stretch in &self.stretches {
            let mut see = |text: Range<usize>, source: Range<usize>| {
                while let Some((range, change)) = changes.get(next) {
                    if !is_open && range.start < text.end {
                        places.push((source.clone(), stretch.encoding, change));
                        is_open = true;
                    }
                    if is_open && let Some((place, ..)) = places.last_mut() {
                        // The other reading begins again.
                        place.end = place.end.max(source.end);
                    }
                    if !is_open || range.end > text.end {
                        break;
                    }
                    (next, is_open) = (next + 1, false);
                }
            };
            self.each(stretch, bytes, &mut see);
        }
        places
    }

    /// Calls back with each character of a stretch: where it stands in the text, and where in the file.
    fn each(
        &self,
        stretch: &Stretch,
        bytes: &[u8],
        see: &mut impl FnMut(Range<usize>, Range<usize>),
    ) {
        let [start, end, text] = [stretch.start, stretch.end, stretch.text].map(|at| at as usize);
        let (mut at, mut source) = (text, start);
        let mut step = |length: usize, width: usize| {
            see(at..at + length, source..source + width);
            (at, source) = (at + length, source + width);
        };
        match stretch.encoding {
            Encoding::Utf16 { .. } => {
                let mut left = (end - start) / 2;
                for c in self.text[text..].chars() {
                    let Some(rest) = left.checked_sub(c.len_utf16()) else { break };
                    step(c.len_utf8(), 2 * c.len_utf16());
                    left = rest;
                }
            }
            Encoding::Bytes => {
                for chunk in bytes[start..end].utf8_chunks() {
                    chunk.valid().chars().for_each(|c| step(c.len_utf8(), c.len_utf8()));
                    for &byte in chunk.invalid() {
                        step(self.character(byte).len_utf8(), 1);
                    }
                }
            }
        }
    }
}

/// Whether more of the characters that are no ASCII are single bytes, as in Latin, than UTF-8.
fn is_latin(bytes: &[u8]) -> bool {
    let (mut single, mut several) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        single += chunk.invalid().len();
        several += chunk.valid().bytes().filter(|byte| *byte >= 0xc0).count();
    }
    single > several
}

/// The order of bytes of UTF-16, if all of a file may be UTF-16: as the first of them have it, as is claimed, or as the
/// zeros show.
pub(crate) fn order(bytes: &[u8], claimed: Option<bool>) -> Option<bool> {
    match bytes {
        [0xff, 0xfe, ..] => Some(true),
        [0xfe, 0xff, ..] => Some(false),
        _ => is_utf16(&bytes[..bytes.len().min(SAMPLE)]).or(claimed),
    }
}

/// The part of a file that is not shown to be UTF-16 by its zeros.
struct Rest {
    /// Whether it is a text as it is, but for a few bytes.
    is_text: bool,
    /// Whether any of it can be read as it is.
    is_readable: bool,
}

impl Rest {
    fn of(bytes: &[u8], order: Option<bool>) -> Self {
        let (mut length, mut bad, mut is_readable) = (0, 0, false);
        stretches(bytes, order, |range, encoding| {
            if encoding == Encoding::Bytes {
                let (start, rest) = (range.start, &bytes[range]);
                let rest = rest.strip_prefix(b"\xff\xfe").unwrap_or(rest);
                let rest = rest.strip_prefix(b"\xfe\xff").unwrap_or(rest);
                (length, bad) = (length + rest.len(), bad + unreadable(rest));
                let is_odd = start % 2 == 1;
                is_readable |= has_readable(rest, order, is_odd);
            }
        });
        Self { is_text: is_readable && bad * FEW <= length, is_readable }
    }
}

/// Whether UTF-16 has nearly nothing but Chinese and Japanese characters, where it could be ASCII as well.
fn is_han(bytes: &[u8], little: bool) -> bool {
    let high = bytes.iter().skip(usize::from(little)).step_by(2);
    let others = high.filter(|high| !matches!(high, 0x30 | 0x4e..=0x7e)).count();
    others * 16 <= bytes.len() / 2
}

/// Whether characters in a row can be read that are no UTF-16 by chance. `is_odd`: a character of UTF-16 begins behind the
/// first byte.
fn has_readable(bytes: &[u8], order: Option<bool>, is_odd: bool) -> bool {
    let is_strange = |high: &u8| !matches!(high, 0x30 | 0x4e..0xa0 | 0xff);
    let is_run = |run: Range<usize>| {
        let high = (run.start + usize::from(is_odd) + usize::from(order == Some(true))) % 2;
        let mut high = bytes[run.clone()].iter().skip(high).step_by(2);
        run.len() >= LONG_READABLE || run.len() >= SHORTEST_READABLE && high.any(is_strange)
    };
    let mut start = 0;
    for chunk in bytes.utf8_chunks() {
        let end = start + chunk.valid().len();
        let mut from = start;
        for (at, _) in chunk.valid().bytes().enumerate().filter(|(_, byte)| is_control(*byte)) {
            if is_run(from..start + at) {
                return true;
            }
            from = start + at + 1;
        }
        if is_run(from..end) {
            return true;
        }
        start = end + chunk.invalid().len();
    }
    false
}

/// Calls back with the stretches of a file, in order: those of UTF-16, as their zeros show, and all others.
fn stretches(bytes: &[u8], wide: Option<bool>, mut see: impl FnMut(Range<usize>, Encoding)) {
    let mut done = 0;
    let mut close = |first: usize, last: usize, count: usize| {
        if count < FEWEST_ZEROS || count * 16 < last - first {
            return;
        }
        // Zeros at even places are the high bytes of a file that begins with such; else the text began at an odd place.
        let little = first % 2 == 1 || wide != Some(false);
        let range = if little { first.saturating_sub(1)..last + 1 } else { first..last + 2 };
        let start = range.start.max(done);
        let start = start + (range.end - start) % 2;
        let end = if range.end > bytes.len() { range.end - 2 } else { range.end };
        if start >= end {
            return;
        }
        see(done..start, Encoding::Bytes);
        see(start..end, Encoding::Utf16 { little });
        done = end;
    };
    let mut run: Option<(usize, usize, usize)> = None;
    for at in memchr::memchr_iter(0, bytes) {
        match &mut run {
            Some((_, last, count)) if (at - *last) % 2 == 0 && at - *last <= MAX_GAP => {
                (*last, *count) = (at, *count + 1);
            }
            _ => {
                if let Some((first, last, count)) = run.replace((at, at, 1)) {
                    close(first, last, count);
                }
            }
        }
    }
    if let Some((first, last, count)) = run {
        close(first, last, count);
    }
    see(done..bytes.len(), Encoding::Bytes);
}

/// How many bytes of a part of a file stand in no text, as it is best read. `wide`: the order of bytes if all of the file
/// may be UTF-16, of which the part begins at a character.
pub(crate) fn strange(bytes: &[u8], wide: Option<bool>) -> usize {
    let of_wide = |bytes: &[u8], little| {
        let units = bytes.len() / 2 * 2;
        let text = utf16(&bytes[..units], little);
        let strange = text.chars().filter(|c| !is_plausible(*c)).map(|c| 2 * c.len_utf16());
        strange.sum::<usize>() + bytes.len() - units
    };
    let mut count = 0;
    stretches(bytes, wide, |range, encoding| {
        count += match encoding {
            Encoding::Bytes => unreadable(&bytes[range]),
            Encoding::Utf16 { little } => of_wide(&bytes[range], little),
        };
    });
    let as_wide = wide.filter(|_| count > 0).map(|little| of_wide(bytes, little));
    as_wide.map_or(count, |wide| wide.min(count))
}

/// Whether a character stands in texts: layout, and the scripts that people write.
fn is_plausible(c: char) -> bool {
    match u32::from(c) {
        0..0x20 => c.is_whitespace(),
        0x7f..0xa0 => false,
        // Latin to Hindi and Thai, signs, Chinese, Korean, wide forms, pictures.
        code => [
            0x20..0x0700,
            0x0900..0x1200,
            0x1e00..0x2800,
            0x3000..0x3200,
            0x4e00..0xa000,
            0xac00..0xd7a4,
            0xfeff..0xfff0,
            0x1f000..0x20000,
        ]
        .iter()
        .any(|range| range.contains(&code)),
    }
}
