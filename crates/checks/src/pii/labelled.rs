//! Values of no telling shape, named by the words right in front of them: "passport number: K1234567".

use std::ops::Range;

use super::context::{self, Context as C};
use super::{Entity, View};
use crate::words::{ceil, free_after, is_unspaced};

/// What a label announces, and what its value must look like to be believed.
struct Label {
    context: C,
    kind: &'static str,
    length: Range<usize>,
    digits: usize,
    score: f64,
}

#[rustfmt::skip]
const LABELS: &[Label] = &[
    Label { context: C::Passport, kind: "PASSPORT", length: 6..13, digits: 5, score: 0.58 },
    Label { context: C::Licence, kind: "DRIVER_LICENSE", length: 5..21, digits: 4, score: 0.58 },
    Label { context: C::Account, kind: "BANK_ACCOUNT", length: 6..22, digits: 6, score: 0.72 },
    Label { context: C::PlainAccount, kind: "BANK_ACCOUNT", length: 6..13, digits: 6, score: 0.57 },
    Label { context: C::Routing, kind: "ROUTING_NUMBER", length: 9..13, digits: 9, score: 0.58 },
    Label { context: C::Aadhaar, kind: "IN_AADHAAR", length: 12..17, digits: 12, score: 0.58 },
    Label { context: C::Pan, kind: "IN_PAN", length: 9..12, digits: 3, score: 0.58 },
    Label { context: C::TaxId, kind: "TAX_ID", length: 7..18, digits: 6, score: 0.58 },
    Label { context: C::Ssn, kind: "US_SSN", length: 9..12, digits: 5, score: 0.58 },
    Label { context: C::Health, kind: "HEALTH_ID", length: 5..16, digits: 4, score: 0.58 },
    Label { context: C::Ifsc, kind: "ROUTING_NUMBER", length: 11..12, digits: 3, score: 0.58 },
    Label { context: C::SortCode, kind: "ROUTING_NUMBER", length: 5..10, digits: 5, score: 0.58 },
    Label { context: C::Voter, kind: "VOTER_ID", length: 8..17, digits: 6, score: 0.58 },
    Label { context: C::NationalId, kind: "NATIONAL_ID", length: 6..20, digits: 5, score: 0.58 },
];

/// How far behind its label a value may stand.
const REACH: usize = 34;

/// Reads the value behind each label.
pub(super) fn find(view: &View<'_>, found: &mut Vec<Entity>) {
    for &(start, end, context) in &view.scan.contexts {
        if context::closes(view.bytes, start) {
            continue;
        }
        for label in LABELS.iter().filter(|label| label.context == context) {
            if let Some(range) = value(view, end) {
                let range = with_number(view, range, context);
                let token = &view.bytes[range.clone()];
                let length = token.iter().filter(|b| b.is_ascii_alphanumeric()).count();
                let digits = token.iter().filter(|b| b.is_ascii_digit()).count();
                let date = digits == 8 && token.len() == 10;
                let fits = label.length.contains(&length) && digits >= label.digits && !date;
                if fits && (context != C::PlainAccount || is_of_bank(view, &range)) {
                    found.push(Entity::new(label.kind, range, label.score));
                }
            }
        }
    }
}

/// Whether a number of an account stands near one of a bank.
fn is_of_bank(view: &View<'_>, range: &Range<usize>) -> bool {
    context::beside(view, &[C::SortCode, C::Routing, C::Ifsc], range.start, range.end)
}

/// `4510 123456`: passports and licences of Russia have a series and a number.
fn with_number(view: &View<'_>, range: Range<usize>, context: C) -> Range<usize> {
    let behind = &view.bytes[range.end..];
    let digits = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_digit);
    let is_series = matches!(context, C::Passport | C::Licence)
        && range.len() == 4
        && digits(&view.bytes[range.clone()]);
    let is_number = matches!(behind, [b' ', number @ ..] if number.len() >= 6 && digits(&number[..6]))
        && free_after(view.bytes, range.end + 7);
    if is_series && is_number { range.start..range.end + 7 } else { range }
}

/// The first token with a digit behind `from`, if only filler stands between: "number", "is", a colon.
fn value(view: &View<'_>, from: usize) -> Option<Range<usize>> {
    let limit = ceil(view.text, (from + REACH).min(view.bytes.len()));
    // The rest of the label itself: "passports", "driver's".
    let mut at = word_end(view.text, from);
    let mut words = 0;
    while at < limit {
        let byte = view.bytes[at];
        let end = word_end(view.text, at);
        if byte.is_ascii_digit() || end > at {
            let end = token_end(view.bytes, at).max(end);
            let word = &view.text[at..end];
            if word.bytes().any(|b| b.is_ascii_digit()) {
                let next = view.text[end..].chars().next();
                let stuck = next.is_some_and(|c| {
                    matches!(c, '_' | '@') || c.is_alphabetic() && !is_unspaced(c)
                });
                return (!stuck && word.is_ascii()).then_some(at..end);
            }
            words += 1;
            if words > 4 || !is_filler(word) {
                return None;
            }
            at = end;
        } else if matches!(
            byte,
            b' ' | b':' | b'#' | b'\'' | b'"' | b'.' | b'=' | b'(' | b')' | b'-' | b'*' | b'`'
                // Fields, tables and elements: `"account_no":`, `| passport |`, `<passport>`.
                | b'_' | b'|' | b',' | b'<' | b'>' | b'[' | b'\t'
        ) {
            at += 1;
        } else {
            // "n°", "№", and scripts written without spaces, where no word ends.
            let c = view.text[at..].chars().next()?;
            if !(matches!(c, '°' | 'º' | '№') || is_unspaced(c)) {
                return None;
            }
            at += c.len_utf8();
        }
    }
    None
}

/// Where the letters end that begin at `at`, up to a script without spaces.
fn word_end(text: &str, at: usize) -> usize {
    let letters = text[at..].chars().take(40);
    let letters = letters.take_while(|&c| c.is_alphabetic() && c != 'º' && !is_unspaced(c));
    at + letters.map(char::len_utf8).sum::<usize>()
}

/// Where the letters and digits of ASCII end that begin at `at`, with dashes between them.
fn token_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at;
    while end < bytes.len()
        && end - at < 40
        && (bytes[end].is_ascii_alphanumeric() || joins(bytes, end))
    {
        end += 1;
    }
    end
}

fn joins(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at], b'-') && bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric)
}

fn is_filler(word: &str) -> bool {
    #[rustfmt::skip]
    const FILLER: &[&str] = &[
        "number", "numbers", "no", "nr", "num", "is", "was", "id", "the", "s", "license", "licence",
        "card", "it", "my", "his", "her", "account", "with", "of", "code", "and", "identification",
        "value", "dl", "umber", "o", "insurance", "nummer", "numero", "are", "as", "follows", "here",
        "for", "record", "ending", "like", "n", "número", "numéro", "номер", "серия", "и", "est", "es",
        "ist",
    ];
    FILLER.iter().any(|filler| word.eq_ignore_ascii_case(filler))
}
