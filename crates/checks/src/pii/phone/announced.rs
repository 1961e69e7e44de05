//! Whether a word for a telephone says of the very number next to it what it is.

use super::super::View;
use super::super::context::{Context, encloses};
use crate::words::is_unspaced;

/// How far behind its word a number may stand.
const REACH: usize = 40;
/// How far in front of it.
const REACH_BACK: usize = 12;

/// Words that may stand between the two.
#[rustfmt::skip]
const SMALL: &[&str] = &[
    "number", "numbers", "no", "nr", "num", "nummer", "numero", "número", "numéro", "n", "is",
    "was", "at", "on", "to", "or", "and", "me", "us", "my", "his", "her", "the", "line", "phone",
    "mobile", "cell", "fax", "home", "work", "office", "es", "est", "ist", "unter", "é", "o", "s",
    "e", "direct", "tel", "telephone", "currently", "now", "him", "them", "back", "a", "w", "h", "m",
    "de", "le", "la", "el", "al", "y", "et", "und", "au", "op", "på", "pod", "er", "är", "jest", "to",
    "mobil", "mobiel", "móvil", "celular", "whatsapp", "contact", "contacto", "contato", "privat",
    "ext", "primary", "value", "नंबर", "رقم", "номер",
];
/// Words that make something else of the label: "phone order", `phone_verified_at`.
#[rustfmt::skip]
const OTHER: &[&str] = &[
    "id", "ids", "at", "ts", "on", "time", "timestamp", "date", "created", "updated", "code", "order",
    "ticket", "case", "ref", "reference", "invoice", "account", "serial", "imei", "imsi", "model",
    "version", "build", "price", "cost", "revenue", "sales", "total", "count", "users", "units",
    "calls", "minutes", "traffic", "size", "hash", "token", "key", "policy", "bill", "zeiten",
    "rechnung", "kosten", "bytes", "hits", "views", "downloads", "survey", "book", "extension",
];

/// A word with a meaning: where it begins and ends.
type Hit = (usize, usize, Context);

/// Whether a word in front of a number or behind it says so.
pub(super) fn is_announced(view: &View<'_>, start: usize, end: usize) -> bool {
    let hits = &view.scan.contexts;
    // Hits are ordered by their end.
    let (front, back) = hits.split_at(hits.partition_point(|hit| hit.1 <= start));
    let mut front = front.iter().rev().take_while(|hit| start - hit.1 <= REACH);
    let last = front.find(|hit| matches!(hit.2, Context::Phone | Context::Called));
    last.is_some_and(|hit| leads_up(view, hit, start)) || names_behind(view, back, end)
}

/// Whether a word leads up to a number: small words stand between, or the number is the value of a field of that name.
fn leads_up(view: &View<'_>, hit: &Hit, start: usize) -> bool {
    let between = &view.text[hit.1..start];
    // The rest of the word itself: "phones", "Telefonnummer".
    let rest = between.trim_start_matches(char::is_lowercase);
    !is_other(&between[..between.len() - rest.len()])
        && (all_words(rest, is_small)
            || hit.2 == Context::Phone && (is_field(rest) || is_part_of_field(rest)))
}

/// Whether a number is said to be one of a telephone right behind it: "415 555 2671 (mobile)".
fn names_behind(view: &View<'_>, hits: &[Hit], end: usize) -> bool {
    hits.iter()
        .take_while(|hit| hit.1 <= end + 3 * REACH_BACK)
        .filter(|hit| hit.0 >= end && hit.0 - end <= REACH_BACK)
        .filter(|hit| hit.2 == Context::Phone || is_place(&view.text[hit.0..hit.1]))
        .any(|hit| {
            let between = &view.text[end..hit.0];
            let next = view.bytes[hit.1..].iter().take(4).find(|b| !b" :>\t(".contains(b));
            !between.contains(['.', ',', ';', ':', '"', '\n'])
                && !matches!(view.bytes.get(hit.1), Some(b':' | b'='))
                && all_words(between, is_small)
                // Another number follows, which it is the name of.
                && !next.is_some_and(|b| b.is_ascii_digit() || *b == b'+')
        })
}

/// `416 60 039 office`: as in lists of the numbers of a person.
fn is_place(word: &str) -> bool {
    word.eq_ignore_ascii_case("office")
}

/// Whether what stands behind a word ends the name of a field: ` de contacto: `, `_primary": "`.
fn is_field(rest: &str) -> bool {
    let name = rest.trim_end_matches([' ', '"', '\'', '(', '[', '*', '_', '`', '\\']);
    let Some(name) = name.strip_suffix([':', '=', '：']) else { return false };
    !name.contains([',', ';', ':', '=', '!', '?', '{', '}', '\n'])
        && !name.contains(". ")
        && all_words(name, |word| !is_other(word) && !word.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether what stands behind a word leads into its brackets, to a number that has no name of its own:
/// `s": [{"type": "home", "number": "`.
fn is_part_of_field(rest: &str) -> bool {
    let name = rest.rsplit(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
    encloses(rest.as_bytes()) && name.is_none_or(is_small)
}

fn all_words(text: &str, test: impl Fn(&str) -> bool) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).all(test)
}

fn is_small(word: &str) -> bool {
    // Another number of a list, or the number of a field.
    let digits = word.bytes().all(|b| b.is_ascii_digit()) && word.len() != 2;
    digits
        || word.chars().all(is_unspaced)
        || SMALL.iter().any(|small| word.eq_ignore_ascii_case(small))
}

fn is_other(word: &str) -> bool {
    // `verifiedAt`
    let hump = word.rfind(|c: char| c.is_ascii_uppercase()).unwrap_or_default();
    OTHER
        .iter()
        .any(|other| word.eq_ignore_ascii_case(other) || word[hump..].eq_ignore_ascii_case(other))
}
