//! Words that name the number next to them.

use crate::pii::columns;
use crate::pii::view::View;
use crate::scan::Scan;
use crate::scan::hits::Hit;
use crate::text::words::{is_name, is_one_of};
use crate::vocabulary::contexts::Context;

/// Units and things that a number in front of them counts.
#[rustfmt::skip]
const COUNTED: &[&str] = &[
    "km", "kg", "calls", "people", "users", "customers", "times", "minutes", "records", "rows", "units", "points", "shares", "miles", "pieces", "items", "bytes", "dollars",
    "euros", "usd", "eur", "characters", "chars", "words", "letters", "tokens", "lines", "messages",
];
/// How far in front of a value a word may end that names it.
const WORD_REACH: usize = 64;
/// How far behind one it may begin, and how long it then is.
const WORD_BEHIND_REACH: (usize, usize) = (28, 24);

/// Whether a word of this meaning names a value, before or after, and not another one.
pub(super) fn near(view: &View<'_>, context: Context, start: usize, end: usize) -> bool {
    // A word that takes a value from the nearest word takes it from those in front of it, too.
    let nearest = before(view.scan, start, WORD_REACH).find(|hit| hit.meaning == context);
    nearest.is_some_and(|word| speaks(view, word, start))
        || behind(view.scan, start, end)
            .any(|hit| hit.meaning == context && !names_next(view.bytes, hit.end()))
        || columns::name(view, context, start, end)
}

/// Whether a word of these meanings stands near a value, also as the name of another value.
pub(super) fn beside(view: &View<'_>, contexts: &[Context], start: usize, end: usize) -> bool {
    let mut hits = before(view.scan, start, WORD_REACH).chain(behind(view.scan, start, end));
    hits.any(|hit| contexts.contains(&hit.meaning))
}

/// Whether a word of this meaning leads up to a value.
pub(crate) fn leads(scan: &Scan, context: Context, start: usize, reach: usize) -> bool {
    last(scan, context, start, reach).is_some()
}

/// Returns the end of the last word of this meaning in front of a value.
pub(crate) fn last(scan: &Scan, context: Context, start: usize, reach: usize) -> Option<usize> {
    before(scan, start, reach).find(|hit| hit.meaning == context).map(Hit::end)
}

/// The words in front of a value, the nearest first.
fn before(scan: &Scan, start: usize, reach: usize) -> impl Iterator<Item = &Hit> {
    // Hits are ordered by their end.
    let until = scan.contexts.partition_point(|hit| hit.end() <= start);
    scan.contexts[..until].iter().rev().take_while(move |hit| start - hit.end() <= reach)
}

/// The words behind a value.
fn behind(scan: &Scan, start: usize, end: usize) -> impl Iterator<Item = &Hit> {
    let from = scan.contexts.partition_point(|hit| hit.end() <= start);
    let until = end + WORD_BEHIND_REACH.0;
    scan.contexts[from..]
        .iter()
        .take_while(move |hit| hit.end() <= until + WORD_BEHIND_REACH.1)
        .filter(move |hit| hit.start() <= until)
}

/// Whether a word still speaks of a value that follows: until the next value or the next label, but for lists.
fn speaks(view: &View<'_>, word: &Hit, start: usize) -> bool {
    let end = word.end();
    let between = &view.text[end..start];
    if between.len() < 2 || encloses(between.as_bytes()) {
        return true;
    }
    let mut others = before(view.scan, start, between.len()).take_while(|hit| hit.start() >= end);
    !closes(view.bytes, word.start())
        && last_value(between.as_bytes()).is_none_or(|end| is_list(&between[end..]))
        && !is_relabelled(between.as_bytes())
        // "Medicare card: 2123" names one thing.
        && !others.any(|next| {
            next.meaning != word.meaning
                && next.meaning != Context::Card
                && next.meaning.names_field()
                && !is_joined(&view.text[end..next.start()])
                && mark_follows(view.bytes, next.end())
        })
}

/// Whether one label is of several names, by what stands between two of them: `SSN / Tax ID: `, `NHS number or `.
fn is_joined(gap: &str) -> bool {
    const SMALL: &[&str] = &["number", "no", "or", "and", "s"];
    !gap.contains(|c: char| !c.is_alphanumeric() && !" ,/(.".contains(c))
        && gap
            .split(|c: char| !c.is_alphanumeric())
            .all(|word| word.is_empty() || is_one_of(word, SMALL))
}

/// Whether a name at `start` ends an element: `</ssn>`.
pub(super) fn closes(bytes: &[u8], start: usize) -> bool {
    bytes[..start].ends_with(b"</")
}

/// Whether what follows a name stands in its brackets: `"phones": [{"number": `.
pub(super) fn encloses(between: &[u8]) -> bool {
    let Some(open) = between.iter().position(|&b| !is_name(b) && !b"\": =".contains(&b)) else {
        return false;
    };
    if !matches!(between[open], b'[' | b'{') {
        return false;
    }
    let mut depth = 0_i32;
    between[open..].iter().all(|b| {
        depth += i32::from(matches!(b, b'[' | b'{')) - i32::from(matches!(b, b']' | b'}'));
        depth > 0
    })
}

/// Returns the end of the last number that is long enough to be a value, and no date.
fn last_value(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut last) = (0, None);
    while at < bytes.len() {
        let (start, mut end, mut digits) = (at, at, 0);
        while at < bytes.len() && at - end < 3 {
            if bytes[at].is_ascii_digit() {
                digits += 1;
                end = at + 1;
            } else if end == start || !b"-./ ()".contains(&bytes[at]) {
                break;
            }
            at += 1;
        }
        if digits >= 7 && !is_date(&bytes[start..end], digits) {
            last = Some(end);
        }
        at = at.max(start + 1);
    }
    last
}

/// `12/03/1985`, `1985-03-12`, `2019-2024`.
fn is_date(number: &[u8], digits: usize) -> bool {
    let is_year = |part: &[u8]| part.starts_with(b"19") || part.starts_with(b"20");
    let (first, last) = (is_year(number), is_year(&number[number.len() - 4..]));
    digits == 8 && (number.len() == 10 && (first || last) || number.len() == 9 && first && last)
}

/// Whether a list goes on: `, `, ` and `, ` (home), `.
pub(super) fn is_list(gap: &str) -> bool {
    #[rustfmt::skip]
    const JOINTS: &[&str] = &[
        "and", "or", "und", "oder", "et", "ou", "y", "e", "o", "en", "i", "и", "to", "new", "now", "then",
        "but", "it", "is",
    ];
    if gap == "|" {
        return true;
    }
    let mut remark = false;
    gap.split_inclusive(|c: char| !c.is_alphanumeric()).all(|part| {
        let (word, sign) = match part.char_indices().last() {
            Some((at, sign)) if !sign.is_alphanumeric() => (&part[..at], sign),
            _ => (part, ' '),
        };
        let joins = word.is_empty() || remark || JOINTS.contains(&word);
        remark = sign == '(' || remark && sign == ' ';
        joins && !matches!(sign, ':' | '=' | '|' | '\t' | '<' | '{')
    })
}

/// Whether a number counts what stands behind it: "1234567 km".
pub(super) fn counts(behind: &str) -> bool {
    let word = behind.strip_prefix(' ').unwrap_or_default();
    let word = word.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    is_one_of(word, COUNTED)
}

/// Whether a label had its value and another label follows: `phone: none, order: `.
fn is_relabelled(between: &[u8]) -> bool {
    let is_mark = |&at: &usize| {
        let written = |other: Option<&u8>, not: fn(&u8) -> bool| other.is_none_or(|b| !not(b));
        matches!(between[at], b':' | b'=')
            && written(between.get(at + 1), |b| *b == b'/')
            && written(between.get(at.wrapping_sub(1)), u8::is_ascii_digit)
    };
    let Some(first) = (0..between.len()).find(is_mark) else { return false };
    let Some(second) =
        (first + 1..between.len()).rfind(|at| is_mark(at) && !is_part(&between[..*at]))
    else {
        return false;
    };
    let value = &between[first + 1..second];
    let ends = value.iter().rposition(|b| b",;\n|}&<\t".contains(b));
    ends.is_some_and(|end| value[..end].iter().any(u8::is_ascii_alphanumeric))
}

/// Whether what stands in front of a sign is the name of a part of the value, on a line or in brackets of its own:
/// `ssn:\n  value: `.
fn is_part(before: &[u8]) -> bool {
    let lead = before.trim_ascii_end();
    let letters = lead.iter().rev().take(8).take_while(|&&b| is_name(b)).count();
    let (lead, name) = lead.split_at(lead.len() - letters);
    let heads = lead.iter().rev().find(|b| **b != b' ');
    matches!(name, b"value" | b"number" | b"type") && heads.is_some_and(|b| b"\n{".contains(b))
}

/// Whether a word is the name of the next value: `"ssn": `, `ssn=`, `SSN no. 536228741`.
fn names_next(bytes: &[u8], end: usize) -> bool {
    let rest = behind_label(bytes, end);
    let sign = usize::from(rest.starts_with(b"#"));
    let token = rest[sign..].iter().take(24).take_while(|&&b| is_name(b) || b == b'-');
    is_mark(rest) || token.filter(|b| b.is_ascii_digit()).count() >= 5
}

/// Whether a word ends the name of a field: `"ssn": `, `ssn=`, `SSN No.: `.
fn mark_follows(bytes: &[u8], end: usize) -> bool {
    is_mark(behind_label(bytes, end))
}

fn is_mark(rest: &[u8]) -> bool {
    matches!(rest, [b':' | b'=', ..])
}

/// Returns the text behind a label, of which a word is the first.
fn behind_label(bytes: &[u8], end: usize) -> &[u8] {
    #[rustfmt::skip]
    const SMALL: &[&[u8]] = &[b"number", b"numbers", b"no", b"nr", b"num", b"n", b"is", b"id", b"code"];
    let name = |bytes: &[u8]| bytes.iter().take(24).take_while(|&&b| is_name(b)).count();
    let mut rest = &bytes[end + name(&bytes[end..])..];
    for _ in 0..=2 {
        let gap = rest.iter().take(3).take_while(|b| matches!(b, b' ' | b'.' | b'"')).count();
        rest = &rest[gap..];
        let word = name(rest);
        if !SMALL.iter().any(|small| rest[..word].eq_ignore_ascii_case(small)) {
            break;
        }
        rest = &rest[word..];
    }
    rest
}
