//! Credentials: by the format a provider gives them, by where they stand, by the name they are assigned to.

pub(crate) mod assigned;
#[cfg(test)]
mod assigned_tests;
mod extent;
mod far;
pub(crate) mod formats;
mod joint;
pub(crate) mod key_block;
mod label;
pub(crate) mod names;
mod placeholder;
mod refuted;
pub(crate) mod rules;
pub(crate) mod structured;
#[cfg(test)]
mod structured_tests;
#[cfg(test)]
pub(crate) mod tests;
mod url;

use std::ops::Range;

use self::formats::{Body, Charset, Format};
use crate::scan::Scan;
use crate::words::is_name;

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
        found.extend(formats::get(index).and_then(|format| formatted(text, at, format)));
        if found.len() > limit * 2 {
            break;
        }
    }
    structured::find(text, scan, &mut found, limit);
    assigned::find(text, scan, &mut found, limit);
    apart(text, found, limit)
}

/// What was found in order, without overlaps: what is surer keeps its place, and of the other what stands in front of it
/// and is long enough to be a credential without it.
fn apart(text: &str, mut found: Vec<Secret>, limit: usize) -> Vec<Secret> {
    found.sort_by(|a, b| a.bytes.start.cmp(&b.bytes.start).then(b.bytes.end.cmp(&a.bytes.end)));
    let mut kept: Vec<Secret> = Vec::new();
    for secret in found {
        match kept.last_mut() {
            Some(last) if last.bytes.end > secret.bytes.start => {
                if secret.score > last.score {
                    last.bytes.end = secret.bytes.start;
                    if !stands_alone(&text[last.bytes.clone()]) {
                        kept.pop();
                    }
                    kept.push(secret);
                }
            }
            _ => kept.push(secret),
        }
    }
    kept.truncate(limit);
    kept
}

/// Whether the beginning of a value is a password of its own: `Kd92mQx1Lp` of `Kd92mQx1Lp@db/x,AKIA...`.
fn stands_alone(value: &str) -> bool {
    let has = |class: fn(&u8) -> bool| value.bytes().any(|b| class(&b));
    value.len() >= 6 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

/// Scores: a live value, one made for tests, one whose check value does not fit, one that somebody typed in the order of
/// the keys or of the alphabet, and one that has the form but looks filled in. The last is for a person to look at; it
/// does not block by itself.
const LIVE: f64 = 0.95;
const TEST: f64 = 0.8;
const MISCOUNTED: f64 = 0.8;
const TYPED: f64 = 0.8;
const FILLED: f64 = 0.55;

fn formatted(text: &str, at: usize, format: &Format) -> Option<Secret> {
    let bytes = text.as_bytes();
    if !bytes[at..].starts_with(format.prefix.as_bytes()) {
        return None;
    }
    let from = at + format.prefix.len();
    let rest =
        bytes[from..].iter().take(format.length.1 + 4).take_while(|&&b| format.rest.has(b)).count();
    // Full stops and the like at the end belong to the sentence, unless they pad base64.
    let ends = matches!(format.rest, Charset::Dotted | Charset::Path | Charset::Signs);
    let trailing =
        bytes[from..from + rest].iter().rev().take_while(|b| b".,:=!-/@%$~+".contains(b));
    let rest = if ends { rest - trailing.count() } else { rest };
    let rest = rest - emphasis(&bytes[..at], &bytes[from..from + rest]);
    let end = from + rest;
    if rest < format.length.0 || rest > format.length.1 {
        return None;
    }
    let inside = at > 0 && bytes[at - 1] == b'.' && !matches!(format.rest, Charset::Path);
    // Of a value that is as long as the format says nothing is cut off.
    let is_whole = rest >= 16 && rest == format.length.0;
    let is_part = inside || goes_on(&bytes[..at], &bytes[end..], is_whole);
    let is_inside = || is_in_base64(bytes, at) || is_below_base64(bytes, at);
    if is_part || format.is_base64() && is_inside() {
        return None;
    }
    let score = liveness(format, &text[from..end])?;
    Some(Secret { kind: format.kind, bytes: at..end, score })
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

/// How much may stand between the margin and a line of base64.
const MAX_MARGIN: usize = 32;
/// What may stand there.
const MARGIN: &[u8] = b" \t\"'>";

/// Whether a place is in the middle of base64, by what stands in front of it in its line.
fn is_in_base64(text: &[u8], at: usize) -> bool {
    let run = line_of_base64(&text[..at]);
    run.len() >= 20 && is_code(run)
}

/// Whether the line in front of that of a place is base64, and this one begins as that one does.
fn is_below_base64(text: &[u8], at: usize) -> bool {
    let lead = &text[..at - line_of_base64(&text[..at]).len()];
    // Lines of base64 may be indented, quoted, or strings.
    let above = without_end(lead, MARGIN);
    let margin = &lead[above.len()..];
    let Some(above) = without_line_end(above) else { return false };
    let above = without_end(above, b" \"',;+");
    let above = above.strip_suffix(b"\\n").unwrap_or(above);
    let run = line_of_base64(above);
    let lead = &above[..above.len() - run.len()];
    let start = without_end(lead, MARGIN);
    // They are longer than most tokens, of which there may be lists.
    (60..=76).contains(&run.len())
        && lead[start.len()..] == *margin
        && (start.is_empty() || without_line_end(start).is_some())
        && is_code(run)
}

/// A text without the end of a line that it ends with, if it does; it may be written as `\\n`.
fn without_line_end(text: &[u8]) -> Option<&[u8]> {
    let ends = ["\\r\\n", "\\n", "\r\n", "\n"];
    ends.iter().find_map(|end| text.strip_suffix(end.as_bytes()))
}

/// Whether a run looks like base64 to its end.
fn is_code(run: &[u8]) -> bool {
    placeholder::is_scrambled(&run[run.len() - run.len().min(40)..])
}

/// A text without the bytes of a kind at its end, of which few are looked at.
fn without_end<'t>(text: &'t [u8], kind: &[u8]) -> &'t [u8] {
    let count = text.iter().rev().take(MAX_MARGIN).take_while(|b| kind.contains(b)).count();
    &text[..text.len() - count]
}

/// The characters of base64 that end a text; no more than make a line.
fn line_of_base64(text: &[u8]) -> &[u8] {
    let is_code = |b: &&u8| b.is_ascii_alphanumeric() || b"+/".contains(b);
    let length = text.iter().rev().take(80).take_while(is_code).count();
    let start = text.len() - length;
    // Of the end of a line that is written as `\\n` the letter is no part of the next one.
    &text[start + usize::from(length > 0 && text[..start].ends_with(b"\\"))..]
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

/// Whether dots or bullets stand for what is left out.
fn is_cut(behind: &[u8]) -> bool {
    ["..", "…", "•"].iter().any(|sign| behind.starts_with(sign.as_bytes()))
}

/// How live the characters behind a beginning look.
fn liveness(format: &Format, value: &str) -> Option<f64> {
    let masked = placeholder::is_masked(value);
    let filled = masked || placeholder::is_named(value) || !placeholder::is_varied(value);
    let typed = placeholder::is_counted(value);
    match format.body {
        Body::Checked(check) if !check(value) => return None,
        Body::Random if filled || !placeholder::is_mixed(value) => return None,
        Body::Free if filled || typed => return Some(FILLED),
        // Words and years are as free; live values are longer or change kind more often.
        Body::Free if value.len() < 20 && !placeholder::is_jumbled(value) => return None,
        Body::Free if !placeholder::is_mixed(value) => return None,
        _ => {}
    }
    if filled {
        let stand_in = masked || placeholder::is_asking(value) || !format.is_exact();
        return (!stand_in).then_some(FILLED);
    }
    if typed {
        return (format.is_exact() || value.len() == format.length.0).then_some(TYPED);
    }
    let counted = format.kind.starts_with("github") && value.len() == 36;
    Some(if counted && !formats::crc_fits(value) {
        MISCOUNTED
    } else if format.prefix.contains("test") || format.prefix.contains("sandbox") {
        TEST
    } else {
        LIVE
    })
}
