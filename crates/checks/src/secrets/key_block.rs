//! Private keys in blocks: `-----BEGIN ... PRIVATE KEY-----`, lines of base64, `-----END`.

use memchr::memmem;

use crate::secrets::secret::Secret;
use crate::text::randomness;
use crate::text::words::{ceil, floor};
use crate::vocabulary::credential_rules::KEY_BLOCK;

const KEY_END: &str = "-----END";
/// The reported kind of a private key.
pub(crate) const PRIVATE_KEY: &str = "private_key";
/// The longest first or last line of a key block.
pub(crate) const KEY_LINE: usize = 80;
/// So much of a key without an end decides whether there is one.
const KEY_HEAD: usize = 400;
/// Within so much of the body there is something of the key, or only what is there to hide it.
const KEY_PADDED: usize = 2048;
/// A body has at least so many characters of a key.
const KEY_SOLID: usize = 40;
/// One that begins as keys do has at least so many.
const KEY_LEAD: usize = 12;
/// Shorter runs of letters and digits are words.
const SHORTEST_RUN: usize = 20;
/// No key is longer.
pub(crate) const MAX_KEY: usize = 12_000;

/// How much there is of a private key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Key {
    /// Too little to decide whether it is one.
    Begun,
    /// Enough to decide, without an end.
    Open,
    /// All of it, with its last line.
    Whole,
}

impl Key {
    /// Reads a text that begins with [`KEY_BLOCK`]; `None` when its first line is not that of a private key, or no key
    /// follows.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let rest = text.strip_prefix(KEY_BLOCK.as_bytes())?;
        let Some(body) = key_body(text) else {
            let is_cut = text.len() < KEY_LINE && memmem::find(rest, b"-----").is_none();
            return is_cut.then_some(Self::Begun);
        };
        let body = &text[body..text.len().min(body + MAX_KEY)];
        if key_end(body).is_some() {
            Some(Self::Whole)
        } else if open_body(body).is_some() {
            Some(Self::Open)
        } else {
            (body.len() < KEY_PADDED).then_some(Self::Begun)
        }
    }
}

/// Returns the start of the body in a text whose first line is that of a private key.
fn key_body(text: &[u8]) -> Option<usize> {
    let line = &text[..text.len().min(KEY_LINE)];
    let dashes = memmem::find(line.get(KEY_BLOCK.len()..)?, b"-----")?;
    let body = KEY_BLOCK.len() + dashes + 5;
    let is_secret = |name: &&[u8]| memmem::find(&line[..body], name).is_some();
    [&b"PRIVATE KEY"[..], b"OpenVPN Static key"].iter().any(is_secret).then_some(body)
}

/// How much of a body without an end is enough to take it for a key.
fn open_body(body: &[u8]) -> Option<usize> {
    if body.len() < KEY_HEAD {
        return None;
    }
    let padded = body.len().min(KEY_PADDED);
    let is_key = |length: usize| solid(&body[..length]) >= KEY_SOLID;
    let length = [KEY_HEAD, padded].into_iter().find(|&length| is_key(length));
    length.or_else(|| is_padding(&body[..padded]).then_some(padded))
}

/// Whether so much stands where the key should that it is there to hide it: no text is written like that.
fn is_padding(body: &[u8]) -> bool {
    let is_letter = |b: &u8| u8::from(b.is_ascii_alphanumeric() || !b.is_ascii());
    // Sums that fit into a byte are made of many bytes at once.
    let sums = body.chunks(255).map(|part| part.iter().map(is_letter).sum::<u8>());
    body.len() >= KEY_PADDED && sums.map(usize::from).sum::<usize>() * 4 < body.len()
}

/// How long the beginning of a body is that begins as keys do, however little there is of it: with the frame of one in
/// ASN.1, or OpenSSH's name.
fn begun_key(body: &str) -> Option<usize> {
    let inner = body.trim_start_matches("\\n").trim_start();
    let is_key = ["MII", "b3BlbnNzaC1rZXk"].iter().any(|lead| inner.starts_with(lead));
    let run = inner.bytes().take_while(|&b| is_base64(b)).count();
    let behind = &inner[run..];
    let is_cut_out =
        || ["...", "…", "<", "*"].iter().any(|sign| behind.trim_start().starts_with(sign));
    (is_key && run >= KEY_LEAD && !is_cut_out()).then_some(body.len() - behind.len())
}

/// How many characters of a key there are: in runs that are longer than words and mix kinds as words and paths do not.
fn solid(body: &[u8]) -> usize {
    body.split(|&b| !is_base64(b))
        .filter(|run| run.len() >= SHORTEST_RUN && randomness::is_scrambled(run))
        .map(<[u8]>::len)
        .sum()
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=".contains(&byte)
}

/// Returns the end of the last line of a key block.
pub(crate) fn key_end(text: &[u8]) -> Option<usize> {
    let line = memmem::find(text, KEY_END.as_bytes())?;
    let from = line + KEY_END.len();
    let dashes = memmem::find(&text[from..text.len().min(line + KEY_LINE)], b"-----")?;
    Some(from + dashes + 5)
}

/// Finds the blocks that have something like a body.
pub(super) fn find(text: &str, found: &mut Vec<Secret>, limit: usize) {
    let bytes = text.as_bytes();
    let most = found.len() + limit;
    // Up to where nothing has to be looked for again behind another first line: the last line, and what is solid.
    let (mut done, mut close, mut clear) = (0, 0, 0);
    for at in memmem::find_iter(bytes, KEY_BLOCK) {
        if at < done || found.len() >= most {
            continue;
        }
        let Some(body) = key_body(&bytes[at..]).map(|body| at + body) else { continue };
        if close < body {
            let end = memmem::find(&bytes[body..], KEY_END.as_bytes());
            close = end.map_or(usize::MAX, |end| body + end);
        }
        let to = floor(text, (body + MAX_KEY).min(bytes.len()));
        let closed = Some(close).filter(|&close| close < to);
        let end = closed.unwrap_or(to);
        let head = body..end.min(body + KEY_PADDED);
        let solid_head = solid(&bytes[head.start.max(clear).min(head.end)..head.end]);
        if solid_head == 0 {
            let open = bytes[head.clone()].iter().rev().take_while(|&&b| is_base64(b)).count();
            clear = clear.max(head.end - open);
        }
        let is_hidden = || {
            is_padding(&bytes[head.clone()])
                && (closed.is_none() || solid(&bytes[body..end]) >= KEY_SOLID)
        };
        let begun = || begun_key(&text[body..end]);
        let inner = if solid_head >= KEY_SOLID || is_hidden() {
            let open =
                || open_body(&bytes[body..to]).map(|length| ceil(text, body + length).min(to));
            closed.or_else(open).unwrap_or(to)
        } else if let Some(length) = begun() {
            // A short rest belongs to the key, a long text does not.
            if closed.is_some() || end - body < KEY_PADDED { end } else { body + length }
        } else {
            continue;
        };
        done = closed
            .map_or(inner, |close| key_end(&bytes[close..to]).map_or(close, |end| close + end));
        found.push(Secret { kind: PRIVATE_KEY, bytes: at..done, score: 0.98 });
    }
}
