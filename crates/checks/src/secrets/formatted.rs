//! Credentials that begin as a provider's do: what follows, how it must end, and how live it looks.

use crate::scan::Scan;
use crate::secrets::secret::Secret;
use crate::secrets::surroundings::{is_below_base64, is_cut, is_in_base64};
use crate::text::randomness;
use crate::text::words::is_name;
use crate::vocabulary::dummy_values;
use crate::vocabulary::formats::format::{Body, Charset, Format};
use crate::vocabulary::formats::{self, bodies};

/// Scores: a live value, one made for tests, one whose check value does not fit, one that somebody typed in the order of
/// the keys or of the alphabet, and one that has the form but looks filled in. The last is for a person to look at; it
/// does not block by itself.
const LIVE_SCORE: f64 = 0.95;
const TEST_SCORE: f64 = 0.8;
const MISCOUNTED_SCORE: f64 = 0.8;
const TYPED_SCORE: f64 = 0.8;
const FILLED_SCORE: f64 = 0.55;

/// How long the value of a token of GitHub or npm is that ends in its check value.
const COUNTED_LENGTH: usize = 36;
/// A beginning of so many characters does not stand in random text by chance.
const SURE_PREFIX_LENGTH: usize = 6;
/// A longer beginning is not the end of one word and another one.
const MAX_WORD_END: usize = 8;
/// More capitals and digits in front of a value of these are the beginning of another one.
const MAX_CAPITALS: usize = 3;
/// How much of values is read for each byte of the text, and for any text. Beginnings inside of values, each of which
/// reads all that follows, would read more: nothing but a text that is made for it has so many.
const READ_PER_BYTE: usize = 2;
const READ_ALLOWANCE: usize = 2 << 10;

/// Looks at each beginning that the scan has met.
pub(super) fn find(text: &str, scan: &Scan, found: &mut Vec<Secret>, limit: usize) {
    for (places, place) in [(&scan.formats, Place::Begun), (&scan.glued, Place::Glued)] {
        let (mut reader, mut live, mut all) = (Reader::new(text), 0..0, Vec::new());
        for same in places.chunk_by(|one, other| one.0 == other.0) {
            let at = same[0].0 as usize;
            // Nothing inside of a live value is surer than it.
            if live.contains(&at) {
                continue;
            }
            // In the order of the tables: of those that find the same the first stands.
            all.clear();
            all.extend(same.iter().flat_map(|&(_, index)| formats::alike(index)));
            all.sort_unstable();
            for format in all.iter().filter_map(|&index| formats::get(index)) {
                let Some(secret) = reader.read(at, format, place) else { continue };
                if secret.score >= LIVE_SCORE {
                    live = at + 1..secret.bytes.end.max(live.end);
                }
                found.push(secret);
            }
            if found.len() > limit * 2 {
                return;
            }
        }
    }
}

/// The text in front of a beginning.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Nothing that it is a part of.
    Begun,
    /// A letter, a digit or `_` that it is glued to.
    Glued,
}

/// Reads values, each run of characters once however many beginnings stand in it.
struct Reader<'t> {
    text: &'t str,
    /// The last run of each set: from where on it was read, and where it ends.
    runs: [(usize, usize); Charset::COUNT],
    /// How much of values was read.
    read: usize,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self { text, runs: [(0, 0); Charset::COUNT], read: 0 }
    }

    /// Returns the end of the characters of a set that begin at `from`.
    fn run_end(&mut self, charset: Charset, from: usize) -> usize {
        let bytes = self.text.as_bytes();
        let (known, end) = self.runs[charset as usize];
        if (known..end).contains(&from) {
            return end;
        }
        let mut at = from;
        while at < bytes.len() && charset.has(bytes[at]) {
            at += 1;
            if at == known && at < end {
                at = end;
            }
        }
        self.runs[charset as usize] = (from, at);
        at
    }

    fn read(&mut self, at: usize, format: &Format, place: Place) -> Option<Secret> {
        let bytes = self.text.as_bytes();
        if !bytes[at..].starts_with(format.prefix.as_bytes()) {
            return None;
        }
        let from = at + format.prefix.len();
        let run = self.run_end(format.rest, from);
        let secret = |end, score| Secret { kind: format.kind, bytes: at..end, score };
        let counted = from + COUNTED_LENGTH;
        if format.is_counted() && run >= counted && bodies::crc_fits(&self.text[from..counted]) {
            // Its check value shows where it ends, whatever stands in front of it or behind.
            return self.score(format, from, counted).map(|score| secret(counted, score));
        }
        let mut rest = (run - from).min(format.length.1 + 4);
        // Full stops and the like at the end belong to the sentence, unless they pad base64.
        if matches!(format.rest, Charset::Dotted | Charset::Path | Charset::Signs) {
            let value = bytes[from..from + rest].iter().rev();
            rest -= value.take_while(|b| b".,:=!-/@%$~+".contains(b)).count();
        }
        rest -= emphasis(&bytes[..at], &bytes[from..from + rest]);
        let end = from + rest;
        if rest < format.length.0 || rest > format.length.1 {
            return None;
        }
        let dotted = at > 0 && bytes[at - 1] == b'.' && !matches!(format.rest, Charset::Path);
        let is_glued = place == Place::Glued || dotted;
        if is_glued && !format.stands_anywhere()
            || self.is_part(from, end, format, is_glued)
            || format.is_base64() && (is_in_base64(bytes, at) || is_below_base64(bytes, at))
        {
            return None;
        }
        // A value beyond the limit of what is read is judged by its form alone.
        if self.read > READ_ALLOWANCE + READ_PER_BYTE * self.text.len() {
            return Some(secret(end, TYPED_SCORE));
        }
        self.read += rest;
        if is_glued && !self.is_sure(at, from, end, format) {
            return None;
        }
        self.score(format, from, end).map(|score| secret(end, score))
    }

    fn score(&self, format: &Format, from: usize, end: usize) -> Option<f64> {
        liveness(format, &self.text[from..end])
    }

    /// Whether what stands behind a value is a part of it.
    fn is_part(&self, from: usize, end: usize, format: &Format, is_glued: bool) -> bool {
        let bytes = self.text.as_bytes();
        let at = from - format.prefix.len();
        let behind = &bytes[end..];
        // If the form fixes the length, another word may begin right behind the value.
        let ends = format.length.0 == format.length.1 && format.prefix.len() >= SURE_PREFIX_LENGTH;
        let is_other = |b: &u8| is_name(*b) && !format.rest.has(*b);
        if ends && behind.first().is_some_and(is_other) {
            return false;
        }
        // Nothing is cut off a value that has the format's exact length.
        let is_whole = end - from >= 16 && end - from == format.length.0;
        let before = if is_glued { &[] } else { &bytes[..at] };
        goes_on(before, behind, is_whole)
    }

    /// Whether a value behind a letter, a digit, `_` or a full stop is no part of a word, a name or a code.
    fn is_sure(&self, at: usize, from: usize, end: usize, format: &Format) -> bool {
        let (bytes, value) = (self.text.as_bytes(), &self.text[from..end]);
        let before = &bytes[..at];
        // A value typed to try a gateway counts if its format may have a checksum, or behind `_`.
        let is_typed = randomness::is_counted(value);
        let is_random = if is_typed {
            format.is_counted() || before.ends_with(b"_")
        } else {
            randomness::is_mixed(value)
        };
        // `kotlin_api_` and a hash.
        let is_hash = !matches!(format.rest, Charset::Hex) && randomness::is_hex(value);
        let capitals = || {
            let is_part = |b: &&u8| format.rest.has(**b);
            before.iter().rev().take(MAX_CAPITALS + 1).take_while(is_part).count()
        };
        // `task_live_`, `work_test_`: words that end like this have a vowel there, and identifiers behind them no capitals.
        let is_word_end = || {
            let lead = format.prefix.get(..2).unwrap_or_default();
            let vowel = before.last().is_some_and(|b| b"aeiouAEIOU".contains(b));
            vowel
                && ["sk", "rk", "pk", "ck"].contains(&lead)
                && format.prefix.len() <= MAX_WORD_END
                && !value.bytes().any(|b| b.is_ascii_uppercase())
        };
        is_random
            && format.is_own(value)
            && !is_hash
            && (format.prefix.len() >= SURE_PREFIX_LENGTH || !is_in_base64(bytes, at))
            && !(matches!(format.rest, Charset::Upper) && capitals() > MAX_CAPITALS)
            && !is_word_end()
    }
}

/// The credential of a format that begins at a place.
#[cfg(test)]
pub(super) fn formatted(text: &str, at: usize, format: &Format) -> Option<Secret> {
    Reader::new(text).read(at, format, Place::Begun)
}

/// How much of values is read in a text.
#[cfg(test)]
pub(super) fn bytes_read(text: &str) -> usize {
    let scan = Scan::new(text, crate::scan::Scope::Leaks);
    let read = |places: &[(u32, u16)], place| {
        let mut reader = Reader::new(text);
        for &(at, index) in places {
            for format in formats::alike(index).filter_map(formats::get) {
                reader.read(at as usize, format, place);
            }
        }
        reader.read
    };
    read(&scan.formats, Place::Begun).max(read(&scan.glued, Place::Glued))
}

/// How many of the `_` at the end of a value close what as many in front of it have opened.
fn emphasis(before: &[u8], value: &[u8]) -> usize {
    let trailing = value.iter().rev().take_while(|&&b| b == b'_').count();
    if trailing == opened(before, b'_') { trailing } else { 0 }
}

/// How many of a sign stand in front, at most three.
fn opened(before: &[u8], sign: u8) -> usize {
    before.iter().rev().take(3).take_while(|&&b| b == sign).count()
}

/// Whether what stands behind a value shows that it goes on, is masked or is cut short.
fn goes_on(before: &[u8], behind: &[u8], is_whole: bool) -> bool {
    let Some(&next) = behind.first() else { return false };
    match next {
        b'_' | b'*' => {
            let count = behind.iter().take(4).take_while(|&&b| b == next).count();
            let is_emphasis = count == opened(before, next) || next == b'*' && count <= 2;
            !is_emphasis || behind.get(count).is_some_and(|&b| next == b'_' && is_name(b))
        }
        // A tag of a page ends it; others are to be filled in.
        b'<' => !is_tag(behind),
        b'#' | b'[' | b'{' => true,
        _ => is_name(next) || !is_whole && is_cut(behind),
    }
}

/// Whether a tag or a comment of HTML begins a text.
fn is_tag(text: &[u8]) -> bool {
    const TAGS: [&[u8]; 16] = [
        b"br", b"li", b"p", b"td", b"tr", b"th", b"div", b"span", b"code", b"pre", b"b", b"i",
        b"hr", b"dd", b"dt", b"ul",
    ];
    let name = &text[1..];
    let name = &name[..name.iter().take(5).take_while(|b| b.is_ascii_alphabetic()).count()];
    let ends = text.get(1 + name.len()).is_none_or(|b| b" />\n\r\t".contains(b));
    [&b"</"[..], b"<!--"].iter().any(|tag| text.starts_with(tag))
        || ends && TAGS.iter().any(|tag| tag.eq_ignore_ascii_case(name))
}

/// How live the characters behind a beginning look.
fn liveness(format: &Format, value: &str) -> Option<f64> {
    let masked = dummy_values::is_masked(value);
    let filled = masked || dummy_values::is_named(value) || !randomness::is_varied(value);
    let typed = randomness::is_counted(value);
    match format.body {
        Body::Checked(check) if !check(value) => return None,
        Body::Random if filled || !randomness::is_mixed(value) => return None,
        Body::Free if filled || typed => return Some(FILLED_SCORE),
        // Words and years are as free; live values are longer or change kind more often.
        Body::Free if value.len() < 20 && !randomness::is_jumbled(value) => return None,
        Body::Free if !randomness::is_mixed(value) => return None,
        _ => {}
    }
    if filled {
        let stand_in = masked || dummy_values::is_asking(value) || !format.is_exact();
        return (!stand_in).then_some(FILLED_SCORE);
    }
    if typed {
        return (format.is_exact() || value.len() == format.length.0).then_some(TYPED_SCORE);
    }
    let counted = format.kind.starts_with("github") && value.len() == 36;
    Some(if counted && !bodies::crc_fits(value) {
        MISCOUNTED_SCORE
    } else if format.prefix.contains("test") || format.prefix.contains("sandbox") {
        TEST_SCORE
    } else {
        LIVE_SCORE
    })
}
