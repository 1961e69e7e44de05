//! Credentials: by the format a provider gives them, by where they stand, by the name they are assigned to.

pub(crate) mod assigned;
pub(crate) mod formats;
mod placeholder;
pub(crate) mod structured;

use std::ops::Range;

use crate::scan::Scan;
use crate::words::is_word;

/// A credential, before overlaps are resolved.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    /// What it is: the name of a format, `private_key`, `password`, ...
    pub(crate) kind: &'static str,
    /// Where, in the bytes of the text given.
    pub(crate) bytes: Range<usize>,
    /// How live it looks, 0 to 1.
    pub(crate) score: f64,
}

/// All credentials of a text, in order, without overlaps.
pub(crate) fn find(text: &str, scan: &Scan, limit: usize) -> Vec<Secret> {
    let mut found = Vec::new();
    for &(at, index) in &scan.formats {
        found.extend(formatted(text, at, &formats::FORMATS[index as usize]));
        if found.len() > limit * 2 {
            break;
        }
    }
    structured::find(text, scan, &mut found, limit);
    assigned::find(text, scan, &mut found, limit);
    found.sort_by(|a, b| a.bytes.start.cmp(&b.bytes.start).then(b.bytes.end.cmp(&a.bytes.end)));
    let mut kept: Vec<Secret> = Vec::new();
    for secret in found {
        match kept.last_mut() {
            Some(last) if last.bytes.end > secret.bytes.start => {
                if secret.score > last.score {
                    *last = secret;
                }
            }
            _ => kept.push(secret),
        }
    }
    kept.truncate(limit);
    kept
}

fn formatted(text: &str, at: usize, format: &formats::Format) -> Option<Secret> {
    let bytes = text.as_bytes();
    if !bytes[at..].starts_with(format.prefix.as_bytes()) {
        return None;
    }
    let from = at + format.prefix.len();
    let rest =
        bytes[from..].iter().take(format.length.1 + 1).take_while(|&&b| format.rest.has(b)).count();
    let trailing =
        bytes[from..from + rest].iter().rev().take_while(|b| b".,:=!-/@".contains(b)).count();
    // Full stops and the like at the end belong to the sentence, unless they pad base64.
    let rest = if matches!(format.rest, formats::Charset::Dotted | formats::Charset::Path) {
        rest - trailing
    } else {
        rest
    };
    let end = from + rest;
    if rest < format.length.0
        || rest > format.length.1
        || bytes.get(end).is_some_and(|&b| is_word(b))
    {
        return None;
    }
    let value = &text[from..end];
    let cut = matches!(bytes.get(end), Some(b'#' | b'*' | b'<' | b'[' | b'{'))
        || bytes[end..].starts_with(b"..");
    let inside = at > 0 && bytes[at - 1] == b'.';
    let anthropic = format.kind.starts_with("anthropic") && !value.ends_with("AA");
    if cut
        || inside
        || anthropic
        || placeholder::is_masked(value)
        || placeholder::is_counted(value)
        || !placeholder::is_varied(value)
    {
        return None;
    }
    let test = format.prefix.contains("test") || format.prefix.contains("sandbox");
    Some(Secret { kind: format.kind, bytes: at..end, score: if test { 0.8 } else { 0.95 } })
}
