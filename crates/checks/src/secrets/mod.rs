//! Credentials: by the format a provider gives them, by where they stand, by the name they are assigned to.

#[cfg(test)]
mod anywhere_tests;
pub(crate) mod assigned;
#[cfg(test)]
mod assigned_tests;
pub(crate) mod assignment_operator;
pub(crate) mod distant_assignment;
pub(crate) mod false_positives;
mod formatted;
pub(crate) mod key_block;
mod label;
pub(crate) mod structured;
#[cfg(test)]
mod structured_tests;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod url;
pub(crate) mod value_span;

use std::ops::Range;

use crate::pattern::watch::Watch;
use crate::scan::Scan;

/// A credential, before overlaps are resolved.
#[derive(Clone, Debug)]
pub(crate) struct Secret {
    /// The kind: the name of a format, `private_key`, `password`, ...
    pub(crate) kind: &'static str,
    /// The range in the bytes of the text given.
    pub(crate) bytes: Range<usize>,
    /// How live it looks, 0 to 1.
    pub(crate) score: f64,
}

/// All credentials of a text, in order, without overlaps.
pub(crate) fn find(text: &str, scan: &Scan, limit: usize, watch: &Watch<'_>) -> Vec<Secret> {
    let mut found = Vec::new();
    formatted::find(text, scan, &mut found, limit);
    if !watch.is_over() {
        structured::find(text, scan, &mut found, limit);
    }
    if !watch.is_over() {
        assigned::find(text, scan, &mut found, limit);
    }
    apart(text, found, limit)
}

/// Returns the secrets in order, without overlaps: the surer one stays, and the other keeps only its part in front of
/// it, if that is long enough to be a credential alone.
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

/// How much may stand between the margin and a line of base64.
const MAX_MARGIN: usize = 32;
/// The bytes allowed there.
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
    crate::vocabulary::dummy_values::is_scrambled(&run[run.len() - run.len().min(40)..])
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
    // The letter of a line end that is written as `\\n` is no part of the next line.
    &text[start + usize::from(length > 0 && text[..start].ends_with(b"\\"))..]
}

/// Whether dots or bullets stand for what is left out.
fn is_cut(behind: &[u8]) -> bool {
    ["..", "…", "•"].iter().any(|sign| behind.starts_with(sign.as_bytes()))
}
