//! Values of no telling shape, named by the words right in front of them: "passport number: K1234567".

use std::ops::Range;

use super::context::Context as C;
use super::{Entity, View};

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
    for &(_, end, context) in &view.scan.contexts {
        for label in LABELS.iter().filter(|label| label.context == context) {
            if let Some(range) = value(view, end) {
                let token = &view.bytes[range.clone()];
                let length = token.iter().filter(|b| b.is_ascii_alphanumeric()).count();
                let digits = token.iter().filter(|b| b.is_ascii_digit()).count();
                let date = digits == 8 && token.len() == 10;
                if label.length.contains(&length) && digits >= label.digits && !date {
                    found.push(Entity::new(label.kind, range, label.score));
                }
            }
        }
    }
}

/// The first token with a digit behind `from`, if only filler stands between: "number", "is", a colon.
fn value(view: &View<'_>, from: usize) -> Option<Range<usize>> {
    let limit = (from + REACH).min(view.bytes.len());
    let mut at = from;
    // The rest of the label itself: "passports", "driver's".
    while at < limit && view.bytes[at].is_ascii_alphabetic() {
        at += 1;
    }
    let mut words = 0;
    while at < limit {
        let byte = view.bytes[at];
        if byte.is_ascii_alphanumeric() {
            let mut end = at;
            while end < view.bytes.len()
                && end - at < 40
                && (view.bytes[end].is_ascii_alphanumeric() || joins(view.bytes, end))
            {
                end += 1;
            }
            if view.bytes[at..end].iter().any(u8::is_ascii_digit) {
                let stuck =
                    view.bytes.get(end).is_some_and(|b| *b == b'_' || *b == b'@' || *b >= 0x80);
                return (!stuck).then_some(at..end);
            }
            let word = &view.bytes[at..end];
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
            return None;
        }
    }
    None
}

fn joins(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at], b'-') && bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric)
}

fn is_filler(word: &[u8]) -> bool {
    const FILLER: &[&str] = &[
        "number",
        "numbers",
        "no",
        "nr",
        "num",
        "is",
        "was",
        "id",
        "the",
        "s",
        "license",
        "licence",
        "card",
        "it",
        "my",
        "his",
        "her",
        "account",
        "with",
        "of",
        "code",
        "and",
        "identification",
        "value",
        "dl",
        "umber",
        "o",
        "insurance",
        "nummer",
        "numero",
        "are",
        "as",
        "follows",
        "here",
        "for",
        "record",
        "ending",
        "like",
    ];
    std::str::from_utf8(word).is_ok_and(|w| FILLER.iter().any(|f| w.eq_ignore_ascii_case(f)))
}
