//! Whether a word for a telephone names the very number next to it.

use std::ops::Range;

use crate::pii::columns;
use crate::pii::context::{counts, encloses};
use crate::pii::phone::otherwise;
use crate::pii::view::View;
use crate::scan::hits::Hit;
use crate::text::words::{is_one_of, is_unspaced};
use crate::vocabulary::contexts::Context;

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
    "de", "le", "la", "el", "al", "y", "et", "und", "au", "op", "på", "pod", "er", "är", "jest",
    "mobil", "mobiel", "móvil", "celular", "whatsapp", "contact", "contacto", "contato", "privat",
    "ext", "primary", "value", "नंबर", "رقم", "номер", "kom", "as", "è", "il", "mig", "meg", "mich", "mir", "nous", "mi",
    "numer", "nosso", "mon", "mio", "pro", "para", "до", "по", "номеру", "мне",
];
/// Words that make something else of the label: "phone order", `phone_verified_at`.
#[rustfmt::skip]
const OTHER: &[&str] = &[
    "id", "ids", "ts", "time", "timestamp", "date", "created", "updated", "code", "order",
    "ticket", "case", "ref", "reference", "invoice", "account", "serial", "imei", "imsi", "model",
    "version", "build", "price", "cost", "revenue", "sales", "total", "count", "users", "units",
    "calls", "minutes", "traffic", "size", "hash", "token", "key", "policy", "bill", "zeiten",
    "rechnung", "kosten", "bytes", "hits", "views", "downloads", "survey", "book", "extension",
    "tracking", "barcode", "sku", "upc", "isbn", "amount", "balance", "transaction", "confirmation", "customer",
    "employee", "student", "member", "zip", "postal", "process", "pid", "offset", "error", "status", "seed", "people",
    "records", "requests", "rows", "dollars", "euros", "usd", "eur", "argument", "function", "method", "registration",
    "subscribers", "customers", "devices", "qq",
];

/// Words in front of a `call` that asks somebody to call.
#[rustfmt::skip]
const TELLING: &[&str] = &["please", "pls", "to", "or", "can", "just", "and", "then", "will", "ll", "should", "also", "do", "may", "could"];
/// Words for the owner of a number, behind it.
const OWN: &[&str] = &["my number", "his number", "her number"];
/// Names of two words that belong to nobody's number.
const MEANS: &[&str] = &["contact info", "contact details", "caller id", "pod numer"];
/// More words in a row are about something else.
const MAX_WORDS: usize = 6;

/// How like a telephone number one is written.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// As most are: a sentence may say that it is one.
    pub(super) usual: bool,
    /// As hardly anything else is: a word that may be said of many things says it.
    pub(super) telling: bool,
}

/// Whether a word in front of a number or behind it says so.
pub(super) fn is_announced(view: &View<'_>, start: usize, end: usize, shape: Shape) -> bool {
    let hits = &view.scan.contexts;
    // Hits are ordered by their end.
    let (front, back) = hits.split_at(hits.partition_point(|hit| hit.end() <= start));
    let near = front.iter().rev().take_while(|hit| start - hit.end() <= REACH);
    let mut words = near
        .filter(|hit| matches!(hit.meaning, Context::Phone | Context::Called | Context::Likely));
    // A word that says less than others leaves it to those before it: "Phone contact: 5551234".
    let leading = words
        .find_map(|hit| {
            let leads = leads_up(view, hit, start, shape);
            (leads || hit.meaning != Context::Likely).then_some(leads)
        })
        .unwrap_or_default();
    leading && !counts(&view.text[end..])
        || names_behind(view, back, end, shape.usual)
        || columns::name(view, Context::Phone, start, end)
}

/// Whether a word leads up to a number: small words stand between, or the number is the value of a field of that name.
fn leads_up(view: &View<'_>, hit: &Hit, start: usize, shape: Shape) -> bool {
    let between = &view.text[hit.end()..start];
    // The rest of the word itself: "phones", "Telefonnummer".
    let rest = between.trim_start_matches(char::is_lowercase);
    let is_likely = hit.meaning == Context::Likely;
    !is_other(&between[..between.len() - rest.len()])
        && is_told(view, hit)
        && if is_likely {
            let says = shape.telling || shape.usual && is_somebodys(&view.text[hit.range()]);
            says && all_words(rest, is_small) && !rest.contains('\n')
        } else {
            is_led_to(view, hit, rest, shape.usual)
        }
}

/// Whether a word names the number of a person, "his number", and not only what may be one of a telephone: "P:", "text".
fn is_somebodys(word: &str) -> bool {
    word.contains(' ') && !is_one_of(word, MEANS)
}

/// Whether what stands behind a word leads to a number.
fn is_led_to(view: &View<'_>, hit: &Hit, rest: &str, usual: bool) -> bool {
    all_words(rest, is_small)
        || usual && !is_common(&view.text[hit.range()]) && is_sentence(rest)
        || hit.meaning == Context::Phone && (is_field(rest) || is_part_of_field(rest))
}

/// Whether sentences are about a word without a number of anybody: "call the function with", "office space of".
fn is_common(word: &str) -> bool {
    word.eq_ignore_ascii_case("call") || is_place(word)
}

/// Whether a sentence goes on to its number: ` number I gave you is `, ` me after 5pm at `.
fn is_sentence(rest: &str) -> bool {
    let words = rest.trim_end_matches([' ', ':']);
    let is_hour = |word: &str| {
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
        word.len() - unit.len() <= 2 && ["am", "pm", "h"].contains(&unit)
    };
    let plain = |word: &str| {
        !is_other(word)
            && !otherwise::is_thing(word)
            && (!word.contains(|c: char| c.is_ascii_digit()) || is_hour(word))
    };
    words.starts_with(' ')
        && !words.contains(['.', ';', ':', '=', '?', '!', '|', '"', '{', '<', '\t', '\n'])
        && words.split_whitespace().count() <= MAX_WORDS
        && all_words(words, plain)
}

/// Whether "call" tells somebody to, and does not count what programs do: "API call 483920185", "call #1234567"; whether a
/// letter names a line of a card, "T: "; and whether a word stands in a text, not in a name: `j.cell.2018`.
fn is_told(view: &View<'_>, hit: &Hit) -> bool {
    let Range { start, end } = hit.range();
    let word = &view.text[start..end];
    let before = view.text[..start].trim_end_matches(' ');
    if let &[letter, b':'] = word.as_bytes() {
        return letter.is_ascii_uppercase()
            && before.chars().next_back().is_none_or(|sign| "\n|,;(·•".contains(sign));
    }
    if hit.meaning == Context::Called && view.text[..start].ends_with(['.', '/']) {
        return false;
    }
    if !is_one_of(word, &["call", "text", "ring", "bel"]) {
        return true;
    }
    // "text: 0123456789" is none.
    let is_verb = word.eq_ignore_ascii_case("call") || view.bytes.get(end) == Some(&b' ');
    let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let told = word.is_empty() || is_one_of(word, TELLING);
    told && is_verb && !view.text[end..].trim_start_matches(' ').starts_with('#')
}

/// Whether a number is said to be one of a telephone right behind it: "415 555 2671 (mobile)".
fn names_behind(view: &View<'_>, hits: &[Hit], end: usize, usual: bool) -> bool {
    let is_own = |word: &str| usual && is_one_of(word, OWN);

    hits.iter()
        .take_while(|hit| hit.end() <= end + 3 * REACH_BACK)
        .filter(|hit| hit.start() >= end && hit.start() - end <= REACH_BACK)
        .filter(|hit| {
            let word = &view.text[hit.range()];
            hit.meaning == Context::Phone || is_place(word) || is_own(word)
        })
        .any(|hit| {
            let between = &view.text[end..hit.start()];
            let next = view.bytes[hit.end()..].iter().take(4).find(|b| !b" :>\t(".contains(b));
            !between.contains(['.', ',', ';', ':', '"', '\n'])
                && !matches!(view.bytes.get(hit.end()), Some(b':' | b'='))
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
    let name =
        rest.trim_end_matches([' ', '"', '\'', '(', '[', '*', '_', '`', '\\', '\t', '\r', '\n']);
    let Some(name) = name.strip_suffix([':', '=', '：']) else { return false };
    let own = name.trim_end_matches(['"', '\'', '`', '\\', ' ']);
    !name.contains([',', ';', ':', '=', '!', '?', '{', '}', '\n'])
        && !name.contains(". ")
        // `verified_at`, `updatedOn`
        && !["at", "on", "At", "On"].iter().any(|end| own.ends_with(end))
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
    digits || word.chars().all(is_unspaced) && !otherwise::is_thing(word) || is_one_of(word, SMALL)
}

fn is_other(word: &str) -> bool {
    // `verifiedAt`
    let hump = word.rfind(|c: char| c.is_ascii_uppercase()).unwrap_or_default();
    OTHER
        .iter()
        .any(|other| word.eq_ignore_ascii_case(other) || word[hump..].eq_ignore_ascii_case(other))
}
