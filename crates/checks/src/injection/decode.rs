//! Orders hidden by encoding: base64, hexadecimal and characters that no reader sees. Bounded in number, size and depth.

/// More encoded pieces than this are not looked at.
const MAX_PIECES: usize = 24;
/// Nor more decoded bytes, over all pieces.
const MAX_BYTES: usize = 32 * 1024;
/// The shortest run worth decoding. The scan tells whether there is any, by shorter ones.
const MIN_RUN: usize = 24;
const _: () = assert!(MIN_RUN >= crate::scan::LONG as usize);

/// A decoded piece and where its code stands.
pub(crate) struct Piece {
    /// Place of the code in the text.
    pub(crate) bytes: std::ops::Range<usize>,
    /// What it says.
    pub(crate) text: String,
}

/// Decodes the pieces of a text that turn into readable text.
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    let bytes = text.as_bytes();
    let part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_');
    let mut out = Vec::new();
    let (mut at, mut left) = (0, MAX_BYTES);
    // Stepping by the shortest run meets every run that is long enough, at a fraction of the reads.
    while at + MIN_RUN <= bytes.len() && out.len() < MAX_PIECES && left > 0 {
        let probe = at + MIN_RUN - 1;
        if !part(bytes[probe]) {
            at = probe + 1;
            continue;
        }
        let start = probe - bytes[at..probe].iter().rev().take_while(|&&b| part(b)).count();
        let end = probe + bytes[probe..].iter().take_while(|&&b| part(b)).count();
        if end - start >= MIN_RUN {
            let run = &bytes[start..end];
            let decoded = readable(hexadecimal(run, left)).or_else(|| readable(base64(run, left)));
            if let Some(text) = decoded {
                left = left.saturating_sub(text.len());
                out.push(Piece { bytes: start..end, text });
            }
            at = end;
        } else {
            at = start.max(at) + 1;
            at = at.max(end);
        }
    }
    out
}

fn readable(decoded: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(decoded).ok()?;
    let count = text.chars().count();
    let plain =
        text.chars().filter(|c| c.is_alphanumeric() || " .,:;!?'\"-\n".contains(*c)).count();
    (count >= 12 && plain * 100 >= count * 88 && text.contains(' ')).then_some(text)
}

/// Decodes base64 in either alphabet, up to `limit` bytes; stops at what does not belong.
pub(crate) fn base64(code: &[u8], limit: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity((code.len() * 3 / 4).min(limit));
    let (mut bits, mut held) = (0u32, 0);
    for &byte in code {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            if out.len() >= limit {
                break;
            }
        }
    }
    out
}

fn hexadecimal(code: &[u8], limit: usize) -> Vec<u8> {
    if !code.len().is_multiple_of(2) || !code.iter().all(u8::is_ascii_hexdigit) {
        return Vec::new();
    }
    let digit = |b: u8| (b as char).to_digit(16).map_or(0, |d| d as u8);
    code.chunks_exact(2).take(limit).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Whether a text has what an order in ROT13 would have: the ends of "instruction", "prompt" and
/// "previous", which no language has.
pub(crate) fn looks_rotated(text: &str, most: usize) -> bool {
    let start = &text.as_bytes()[..text.len().min(most)];
    let words: [&[u8]; 3] = [b"afgehpgvba", b"ebzcg", b"erivbhf"];
    words.iter().any(|word| memchr::memmem::find(start, word).is_some())
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
