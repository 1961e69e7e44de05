//! The material of a request: the text, list or quotation that it brings to be worked on.
//!
//! "Translate this: ..." is as easy with a page behind the colon as with a line. Material is told by the
//! shape of a text, in any language: quotation marks, a colon, a blank line, a list behind a question.

use std::ops::Range;

mod closing;
mod work;

pub(crate) use work::is_worked_on;

/// Most characters of an instruction; a longer text sets up a case.
const MOST_REQUEST_CHARS: usize = 480;
/// Most bytes at the end of a text that are searched for the end of its material: more behind it are no instruction.
const TAIL_BYTES: usize = 4 * MOST_REQUEST_CHARS;
/// Most bytes of material that are looked at.
const SAMPLE_BYTES: usize = 1024;
/// Most characters of a last sentence or paragraph that belongs to the instruction.
const MOST_CLOSING_CHARS: usize = 160;
/// Least characters that are material: a quoted word is a word of the instruction.
const LEAST_CHARS: usize = 8;

/// Quotation marks, opening and closing.
const QUOTES: [(char, &[char]); 7] = [
    ('"', &['"']),
    ('“', &['”']),
    ('„', &['“', '”']),
    ('«', &['»']),
    ('»', &['«']),
    ('「', &['」']),
    ('『', &['』']),
];

/// Returns where the material of a text lies; all around it is the instruction.
pub(crate) fn find(text: &str) -> Option<Range<usize>> {
    let (from, end) = tail(text, 0);
    let text = &text[..from + end.trim_end().len()];
    let head = first_chars(text, MOST_REQUEST_CHARS);
    let quotation = quotation(text, head);
    let start = [
        quotation.as_ref().map(|quoted| quoted.start),
        behind_colon(text, head),
        behind_blank_line(head),
        list_behind_sentence(text, head),
    ]
    .into_iter()
    .flatten()
    .min();
    let Some(start) = start else {
        let end = closing::find(text)?;
        let brings = text[..end].chars().take(LEAST_CHARS).count() == LEAST_CHARS;
        return brings.then_some(0..end);
    };
    let end = match quotation {
        Some(quoted) if blank(&text[start..quoted.start]) => quoted.end,
        _ => end_of_material(text, start),
    };
    let material = &text[start..end];
    (material.chars().take(LEAST_CHARS).count() == LEAST_CHARS).then_some(start..end)
}

fn first_chars(text: &str, most: usize) -> &str {
    match text.as_bytes().get(..most) {
        None => text,
        Some(head) if head.is_ascii() => &text[..most],
        Some(_) => text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end]),
    }
}

fn blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == ':')
}

/// The last bytes of a text from `from` on, and where they begin.
fn tail(text: &str, from: usize) -> (usize, &str) {
    let start = text.ceil_char_boundary(from.max(text.len().saturating_sub(TAIL_BYTES)));
    (start, &text[start..])
}

/// From the first opening quotation mark to the last that closes it, if that is much of the text.
fn quotation(text: &str, head: &str) -> Option<Range<usize>> {
    let mut marks = head.char_indices();
    let (start, open) = marks.find(|(_, c)| QUOTES.iter().any(|(open, _)| open == c))?;
    let (_, closing) = QUOTES.iter().find(|(mark, _)| *mark == open)?;
    let (from, rest) = tail(text, start + open.len_utf8());
    let at = from + rest.rfind(*closing)?;
    let end = at + text[at..].chars().next().map_or(0, char::len_utf8);
    let quoted = &text[start..end];
    let is_much = 5 * quoted.len() >= 2 * text.len();
    (is_much && is_quoted_through(quoted, open, closing)).then_some(start..end)
}

/// Whether little of a text stands outside of quotation marks: a story with direct speech is no quotation.
fn is_quoted_through(text: &str, open: char, closing: &[char]) -> bool {
    let mut inside = false;
    let mut outside_bytes = 0;
    let sample = first_chars(text, SAMPLE_BYTES);
    for c in sample.chars() {
        if inside && closing.contains(&c) {
            inside = false;
        } else if c == open {
            inside = true;
        } else if !inside && !c.is_whitespace() {
            outside_bytes += c.len_utf8();
        }
    }
    8 * outside_bytes <= sample.len()
}

/// Behind a colon that ends the first sentence or a line.
fn behind_colon(text: &str, head: &str) -> Option<usize> {
    let mut is_first_sentence = true;
    let mut before = ' ';
    for (at, c) in head.char_indices() {
        let end = at + c.len_utf8();
        let next = text[end..].chars().next()?;
        match c {
            '：' if is_first_sentence || next == '\n' => return Some(end),
            ':' if next == '\n' || is_first_sentence && next.is_whitespace() => return Some(end),
            ':' if is_first_sentence && QUOTES.iter().any(|(open, _)| *open == next) => {
                return Some(end);
            }
            '\n' if before == '\n' => return None,
            _ => is_first_sentence &= !ends_sentence(c, next),
        }
        before = c;
    }
    None
}

fn ends_sentence(c: char, next: char) -> bool {
    matches!(c, '。' | '？' | '！' | '।' | '؟')
        || matches!(c, '.' | '?' | '!') && next.is_whitespace()
}

/// Behind the blank line that ends the first paragraph.
fn behind_blank_line(head: &str) -> Option<usize> {
    let at = head.find("\n\n").or_else(|| head.find("\n\r\n"))?;
    Some(at + head[at..].find(|c: char| !c.is_whitespace())?)
}

/// Behind the first sentence, where nothing but a list of few words each follows.
fn list_behind_sentence(text: &str, head: &str) -> Option<usize> {
    let mut chars = head.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map_or('\n', |(_, next)| *next);
        if ends_sentence(c, next) {
            let from = at + c.len_utf8();
            let rest = &text[from..];
            return (list_end(rest) == Some(rest.len())).then_some(from);
        }
    }
    None
}

/// Returns the end of a list that a text begins with: three items or more, of three words at most.
fn list_end(text: &str) -> Option<usize> {
    let head = first_chars(text, MOST_REQUEST_CHARS);
    let mut end = head.len();
    let mut chars = head.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map_or('\n', |(_, next)| *next);
        if ends_sentence(c, next) || c == '\n' && at > 0 {
            end = at + c.len_utf8();
            break;
        }
    }
    let list = &head[..end];
    let items = 1 + list.chars().filter(|c| matches!(c, ',' | '、' | '，' | '،' | ';')).count();
    let words = list.split_whitespace().count();
    (items >= 3 && words <= 3 * items).then_some(end)
}

/// The end of material without quotation marks: that of its list, or the beginning of a closing instruction.
fn end_of_material(text: &str, start: usize) -> usize {
    let (from, rest) = tail(text, start);
    let is_closing = |at: usize| {
        if at + TAIL_BYTES < text.len() {
            return false;
        }
        let closing = text[at..].trim();
        let last = closing.chars().next_back();
        closing.chars().nth(MOST_CLOSING_CHARS).is_none()
            && last.is_some_and(|c| matches!(c, '?' | '.' | '!' | ':' | '？' | '。' | '؟'))
    };
    if let Some(end) = list_end(&text[start..]).map(|end| start + end)
        && is_closing(end)
        && !text[end..].trim().contains('\n')
    {
        return end;
    }
    if let Some(at) = rest.rfind("\n\n") {
        return if is_closing(from + at) { from + at } else { text.len() };
    }
    let asks = text.ends_with(['?', '？', '؟']);
    let mut ends = rest
        .char_indices()
        .rev()
        .skip(1)
        .skip_while(|(_, c)| !matches!(c, '.' | '?' | '!' | '。' | '？' | '！' | '\n'));
    match ends.next() {
        Some((at, c)) if asks && is_closing(from + at + c.len_utf8()) => from + at + c.len_utf8(),
        _ => text.len(),
    }
}

#[cfg(test)]
mod tests;
