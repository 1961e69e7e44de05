//! Runs of base64 and of hexadecimal digits, over the ends of lines too.

use crate::text::codes::decoder::{
    Code, Decoder, is_base64, is_control, promises, readable, unreadable,
};
use crate::text::codes::escapes;
use crate::text::codes::pieces::{Piece, Pieces};

/// The shortest run worth undoing: an American social security number in base64.
pub(crate) const SHORTEST_CODE: usize = 15;
/// A code may begin behind one of the first or the last signs of its run that are signs of base64 as well: `/`, `x-`.
const MAX_BEGINNINGS: usize = 6;
/// So much of a run decides whether it is worth undoing.
const SAMPLE: usize = 24;
/// A shorter line is not broken off: the code ends with it.
const SHORTEST_LINE: usize = 16;
/// How much may stand between two lines of a code.
const MAX_GAP: usize = 40;
/// The shortest token of 1Password for a service.
const SERVICE_TOKEN: usize = 207;
/// From the middle of a code on no run is shorter that is taken for one.
const CUT: usize = 64;
/// So many times the length of a text may be undone for nothing. From then on a code ends where it stops being readable.
const SPARE: usize = 8;
/// One byte in so many may be unreadable in the text of a code.
const FEW: usize = 16;
/// How far more bytes than that may be unreadable before the lines that follow are given up.
const MAX_SURPLUS: usize = 256;

/// Undoes the runs that turn into text. `dense` names the blocks of 64 bytes that may hold them.
pub(super) fn find(bytes: &[u8], dense: impl Iterator<Item = usize>, out: &mut Pieces) {
    let (mut done, mut run_end) = (0, 0);
    let mut reader = Reader::new(bytes);
    for block in dense {
        let (mut at, until) =
            ((block * 64).saturating_sub(SHORTEST_CODE - 1).max(done), block * 64 + 64);
        // Stepping by the shortest run meets every run that is long enough, at a fraction of the reads.
        while at < until && at + SHORTEST_CODE <= bytes.len() {
            let probe = at + SHORTEST_CODE - 1;
            if !is_base64(bytes[probe]) {
                at = probe + 1;
                continue;
            }
            let lead = bytes[done..probe].iter().rev().take_while(|&&b| is_base64(b)).count();
            // A code may end within a run, which is not read to its end again.
            if probe >= run_end {
                run_end = probe + count(&bytes[probe..], is_base64);
            }
            let end = run_end;
            let start = probe - lead;
            at = end;
            if end - start >= SHORTEST_CODE {
                if let Some(token) = signed_token(bytes, start, end) {
                    at = token;
                } else if let Some(piece) = reader.undo(start, end) {
                    at = piece.bytes.end;
                    out.push(&piece);
                }
            }
            done = at;
        }
    }
}

/// How many bytes at the beginning are of one kind.
fn count(bytes: &[u8], is_one: impl Fn(u8) -> bool) -> usize {
    let count = bytes.iter().take_while(|&&b| is_one(b)).count();
    #[cfg(test)]
    crate::text::codes::decoder::work::note(count);
    count
}

/// The end of a signed token (JWT) that begins with a run, or of one of 1Password, which hold JSON in base64. The
/// check for tokens judges what it says of its bearer.
fn signed_token(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    let run = &bytes[start..end];
    if run.starts_with(b"ops_") && run.len() >= SERVICE_TOKEN {
        return Some(end);
    }
    if !run.starts_with(b"eyJ") || bytes.get(end) != Some(&b'.') {
        return None;
    }
    let mut head = Decoder::new(Code::Base64);
    head.take(&run[..run.len().min(400)]);
    let is_head = [&b"\"alg\""[..], b"\"typ\"", b"\"enc\""]
        .iter()
        .any(|name| memchr::memmem::find(&head.out, name).is_some());
    // All the rest is passed over, or none of it is read.
    is_head.then(|| end + count(&bytes[end..], |b| is_base64(b) || b == b'.'))
}

/// Undoes runs, and limits what it reads for nothing.
struct Reader<'b> {
    bytes: &'b [u8],
    /// How many characters may still be undone that turn out to be part of no code.
    spare: usize,
}

impl<'b> Reader<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, spare: bytes.len().saturating_mul(SPARE) }
    }

    /// The first code in a run.
    fn undo(&mut self, start: usize, end: usize) -> Option<Piece> {
        let bytes = self.bytes;
        let run = &bytes[start..end];
        // A stream that is cut may begin in the middle of a code.
        let cut = (1..4).filter(|_| start == 0 && end >= CUT);
        let signs = run.iter().enumerate();
        let signs = signs.filter(|(_, b)| !b.is_ascii_alphanumeric() || **b == b'x');
        let last = signs.clone().rev().take(MAX_BEGINNINGS);
        let signs = signs.take(MAX_BEGINNINGS).chain(last).map(|(sign, _)| start + sign + 1);
        let escape = behind_escape(bytes, start);
        let mut begins = std::iter::once(start).chain(cut).chain(signs).chain(escape);
        let (from, (text, to)) = begins.find_map(|from| Some((from, self.begun_at(from, end)?)))?;
        let is_announced =
            from >= start + 2 && [&b"0x"[..], b"0X"].contains(&&bytes[from - 2..from]);
        Some(Piece { bytes: from - if is_announced { 2 } else { 0 }..to, text })
    }

    /// The text of the code that begins at a place, and where that code ends.
    fn begun_at(&mut self, from: usize, end: usize) -> Option<(String, usize)> {
        if end < from + SHORTEST_CODE {
            return None;
        }
        let sample = &self.bytes[from..end.min(from + SAMPLE)];
        let is_hexadecimal = sample.iter().all(u8::is_ascii_hexdigit);
        let found = is_hexadecimal.then(|| self.code(from, Code::Hexadecimal)).flatten();
        found.or_else(|| self.code(from, Code::Base64))
    }

    /// The text of a code of one kind, and where it ends.
    fn code(&mut self, from: usize, code: Code) -> Option<(String, usize)> {
        let mut decoder = Decoder::new(code);
        decoder.take(&self.bytes[from..self.bytes.len().min(from + SAMPLE)]);
        if !promises(&decoder.out) {
            return None;
        }
        if self.spare == 0 {
            return beginning(self.bytes, from, code);
        }
        let (found, read) = lines(self.bytes, from, code);
        let used = found.as_ref().map_or(from, |(_, end)| *end);
        self.spare = self.spare.saturating_sub(read.saturating_sub(used));
        found
    }
}

/// Returns the place behind an escape that a run begins with: `%20`, and `\n` as it is written.
fn behind_escape(bytes: &[u8], start: usize) -> Option<usize> {
    let at = start.checked_sub(1).filter(|&at| matches!(bytes[at], b'%' | b'\\'))?;
    let is_sign =
        matches!(bytes[at..], [b'\\', b'n' | b'r' | b't' | b'b' | b'f' | b'v' | b'0', ..]);
    if is_sign {
        return Some(start + 1);
    }
    escapes::read(&bytes[at..]).map(|escape| at + escape.length)
}

/// The lines of a code, and where the last of them ends; and how far was read for it.
fn lines(bytes: &[u8], from: usize, code: Code) -> (Option<(String, usize)>, usize) {
    let mut decoder = Decoder::new(code);
    let mut at = from;
    let mut length = decoder.take(&bytes[at..]);
    let mut read = at + length;
    // Nothing that goes on can make a text of this.
    if unreadable_at_end(&decoder) {
        return (None, read);
    }
    let is_wide = is_mixed(&decoder.out);
    let mut bad = if is_wide { 0 } else { unreadable(&decoder.out) };
    // The last line up to which all is a text: what follows takes nothing from it.
    let mut good = None;
    loop {
        at += length;
        let surplus = bad.saturating_mul(FEW).saturating_sub(decoder.out.len());
        let padding = bytes[at..].iter().take(2).take_while(|&&b| b == b'=').count();
        let ends = code == Code::Base64 && padding > 0;
        at += if ends { padding } else { 0 };
        if surplus == 0 {
            good = Some((decoder.mark(), at));
        }
        if ends || surplus > MAX_SURPLUS {
            break;
        }
        let Some(next) = next_line(bytes, at).filter(|_| length >= SHORTEST_LINE) else { break };
        let mark = decoder.mark();
        let known = decoder.out.len();
        length = decoder.take(&bytes[next..]);
        read = next + length;
        // The next word of a sentence is no line of a code.
        let behind = bytes.get(next + length);
        let is_last = |b: &u8| code == Code::Hexadecimal || b"=\r\n\"'`\\<".contains(b);
        let is_line = length >= SHORTEST_LINE || behind.is_none_or(is_last);
        let new = &decoder.out[known..];
        let is_mixed = is_mixed(new);
        if length == 0
            || !is_line
            || new.iter().any(|&b| is_control(b)) && !is_mixed
            || is_mixed != is_wide && new.len() >= 8
            || unreadable_at_end(&decoder)
        {
            decoder.back_to(mark);
            break;
        }
        let whole = &decoder.out[known - cut_at_end(&decoder.out[..known])..];
        bad += if is_wide { 0 } else { unreadable(whole) };
        at = next;
    }
    let Some((mark, end)) = good else { return (None, read) };
    decoder.back_to(mark);
    (readable(decoder.out).map(|text| (text, end)), read)
}

/// How many bytes at the end may be the beginning of a character.
fn cut_at_end(bytes: &[u8]) -> usize {
    let first = bytes.iter().rev().take(3).position(|&b| b & 0xc0 != 0x80);
    first.filter(|&back| bytes[bytes.len() - 1 - back] >= 0xc0).map_or(0, |back| back + 1)
}

/// The readable beginning of a code, and where it ends. It reads hardly more than it gives back.
fn beginning(bytes: &[u8], from: usize, code: Code) -> Option<(String, usize)> {
    let mut decoder = Decoder::new(code);
    let (mut at, mut line) = (from, 0);
    loop {
        let mark = decoder.mark();
        let known = decoder.out.len();
        let length = decoder.take(&bytes[at..bytes.len().min(at + CUT)]);
        let new = &decoder.out[known..];
        if unreadable(new) * 4 > new.len() && !is_mixed(new) {
            decoder.back_to(mark);
            break;
        }
        (at, line) = (at + length, line + length);
        if length == CUT {
            continue;
        }
        let Some(next) = next_line(bytes, at).filter(|_| line >= SHORTEST_LINE) else { break };
        let ahead = &bytes[next..bytes.len().min(next + SHORTEST_LINE)];
        if !ahead.iter().all(|&b| is_base64(b) || b"=\r\n\"'`\\<".contains(&b)) {
            break;
        }
        (at, line) = (next, 0);
    }
    let text = match crate::text::codes::decoder::is_utf16(&decoder.out) {
        Some(little) => crate::text::codes::decoder::utf16(&decoder.out, little),
        None => String::from_utf8_lossy(&decoder.out).into_owned(),
    };
    (at >= from + SHORTEST_CODE).then_some((text, at))
}

/// Whether the last line that was undone is no text at all.
fn unreadable_at_end(decoder: &Decoder) -> bool {
    let last = &decoder.out[decoder.out.len() - decoder.out.len().min(256)..];
    unreadable(last) * 2 > last.len() && !is_mixed(last)
}

/// Whether bytes may be of UTF-16.
fn is_mixed(bytes: &[u8]) -> bool {
    crate::text::codes::decoder::is_utf16(bytes).is_some()
}

/// Returns the start of a code in lines that ends a text, with the end of its line.
pub(super) fn open_from(bytes: &[u8]) -> usize {
    let gap =
        |b: &&u8| matches!(**b, b'\n' | b'\r' | b' ' | b'\t' | b'>' | b'#' | b'*' | b'|' | b'\\');
    let gap = bytes.iter().rev().take(MAX_GAP).take_while(gap).count();
    let end = bytes.len() - gap;
    let is_line = bytes[end..].contains(&b'\n') || bytes[end..].contains(&b'\r');
    if !is_line || end == 0 || !is_base64(bytes[end - 1]) {
        return bytes.len();
    }
    let mut pieces = Pieces::default();
    find(&bytes[..end], 0..end.div_ceil(64), &mut pieces);
    let last = pieces.iter().last().filter(|(place, _)| place.end == end);
    last.map_or(bytes.len(), |(place, _)| place.start)
}

/// Returns the possible start of the next line of a code: behind the end of this one, which may be written out, and the
/// marks that quote the next.
fn next_line(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..bytes.len().min(at + MAX_GAP)];
    let (mut count, mut ends) = (0, false);
    while let Some(&byte) = rest.get(count) {
        match byte {
            b'\n' | b'\r' => ends = true,
            b' ' | b'\t' => {}
            b'>' | b'#' | b'*' | b'|' if ends => {}
            b'\\' if matches!(rest.get(count + 1), Some(b'n' | b'r')) => {
                (ends, count) = (true, count + 1);
            }
            // A line of code may go on there.
            b'\\' if matches!(rest.get(count + 1), Some(b'\n' | b'\r')) => {}
            _ => break,
        }
        count += 1;
    }
    let begins = rest.get(count).is_some_and(|&byte| is_base64(byte));
    (ends && begins).then_some(at + count)
}
