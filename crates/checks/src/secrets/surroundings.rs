//! The text around a value: lines of base64 that it is a part of, dots that cut it short.

use crate::text::randomness;

/// How much may stand between the margin and a line of base64.
const MAX_MARGIN: usize = 32;
/// The bytes allowed there.
const MARGIN: &[u8] = b" \t\"'>";

/// Whether a place is in the middle of base64, by what stands in front of it in its line.
pub(super) fn is_in_base64(text: &[u8], at: usize) -> bool {
    let run = line_of_base64(&text[..at]);
    run.len() >= 20 && is_code(run)
}

/// Whether the line in front of that of a place is base64, and this one begins as that one does.
pub(super) fn is_below_base64(text: &[u8], at: usize) -> bool {
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

/// Whether dots or bullets stand for what is left out.
pub(super) fn is_cut(behind: &[u8]) -> bool {
    ["..", "…", "•"].iter().any(|sign| behind.starts_with(sign.as_bytes()))
}

/// A text without the end of a line that it ends with, if it does; it may be written as `\\n`.
fn without_line_end(text: &[u8]) -> Option<&[u8]> {
    let ends = ["\\r\\n", "\\n", "\r\n", "\n"];
    ends.iter().find_map(|end| text.strip_suffix(end.as_bytes()))
}

/// Whether a run looks like base64 to its end.
fn is_code(run: &[u8]) -> bool {
    randomness::is_scrambled(&run[run.len() - run.len().min(40)..])
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
