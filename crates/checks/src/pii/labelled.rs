//! Values of no telling shape, named by the words right in front of them: "passport number: K1234567".

use std::ops::Range;

use crate::pii::context;
use crate::pii::digits::is_day;
use crate::pii::found::{Entity, Found};
use crate::pii::letters::digits as number;
use crate::pii::view::{View, before};
use crate::text::words::{ceil, is_name, is_one_of, is_unspaced};
use crate::vocabulary::contexts::Context as C;

/// The value that a label announces, and the form it must have to count.
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
    Label { context: C::Account, kind: "BANK_ACCOUNT", length: 6..29, digits: 6, score: 0.72 },
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
/// How far from the beginning of its line a label may begin whose value stands on the next one.
const MARGIN: usize = 16;
/// How far from its label a value of a list may end.
const LIST: usize = 400;
/// How far behind the one before its first digit may stand.
const GAP: usize = 12;

/// How far in front of an account, and how far behind its number, words of banks are looked for.
const BANK: (usize, usize) = (48, 28);
/// Words that are used of money alone.
#[rustfmt::skip]
const BANKING: &[&str] = &[
    "balance", "bank", "deposit", "deposits", "deposited", "debit", "debited", "withdraw", "withdrawal", "overdraft", "wire",
    "payee", "saldo", "überweisung", "überweisen", "abbuchung",
];
/// Owners of accounts that are of no bank.
const OWNERS: &[&str] =
    &["user", "admin", "service", "customer", "client", "player", "email", "test", "cloud"];

/// The kinds of values that the rows have.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    LABELS.iter().map(|row| row.kind)
}

/// Reads the value behind each label.
pub(super) fn find(view: &View<'_>, found: &mut Found) {
    find_in_columns(view, found);
    for hit in &view.scan.contexts {
        let (Range { start, end }, context) = (hit.range(), hit.meaning);
        if context::closes(view.bytes, start) {
            continue;
        }
        for label in LABELS.iter().filter(|label| label.context == context) {
            let Some(token) = value(view, label, start, end) else { continue };
            let Some(first) = label.read(view, token) else { continue };
            if context == C::PlainAccount && !is_of_bank(view, start, &first) {
                continue;
            }
            let mut last = first.clone();
            found.push(Entity::new(label.kind, first.clone(), label.score));
            let plural = is_plural(&view.text[start..first.start]);
            while let Some(next) = next_of_list(view.text, &last, plural)
                .and_then(|token| label.read(view, token))
                .filter(|next| is_like(view.bytes, plural, &first, next) && next.end - end <= LIST)
            {
                last = next.clone();
                found.push(Entity::new(label.kind, next, label.score));
            }
        }
    }
}

/// Reads the cells of tables, each under its label.
fn find_in_columns(view: &View<'_>, found: &mut Found) {
    for cell in &view.cells {
        let labels = LABELS.iter().filter(|label| label.context == cell.meaning);
        for label in labels.filter(|label| label.context != C::PlainAccount) {
            let token = cell.start()..token_end(view.bytes, cell.start());
            if label.read(view, token).is_some_and(|value| value == cell.range()) {
                found.push(Entity::new(label.kind, cell.range(), label.score));
            }
        }
    }
}

/// Whether a label speaks of more values than one: "account numbers: ".
fn is_plural(label: &str) -> bool {
    #[rustfmt::skip]
    const PLURALS: &[&str] = &[
        "numbers", "nos", "ids", "accounts", "passports", "licences", "licenses", "ssns", "accts", "codes", "nummern",
        "numéros", "números", "numeros", "numeri",
    ];
    let mut words = label.split(|c: char| !c.is_alphanumeric());
    words.any(|word| is_one_of(word, PLURALS))
}

/// The token behind what joins the values of a list: `, `, ` and `, the end of a line.
fn next_of_list(text: &str, last: &Range<usize>, plural: bool) -> Option<Range<usize>> {
    let rest = text.as_bytes().get(last.end..)?;
    let gap = rest.iter().take(GAP).position(u8::is_ascii_digit)?;
    // Letters in front of the digits are a part of it.
    let letters = rest[..gap].iter().rev().take_while(|b| b.is_ascii_alphanumeric()).count();
    let start = last.end + gap - letters;
    let joint = text.get(last.end..start)?;
    let end = token_end(text.as_bytes(), start);
    let next = text[end..].chars().next();
    let stuck =
        next.is_some_and(|c| matches!(c, '_' | '@' | ':' | '=' | '%' | '/') || c.is_alphabetic());
    let only_joins = !joint.trim_matches(' ').is_empty()
        && !joint.contains(['(', ')', '.', '"', '\''])
        && joint.matches('\n').count() < 2;
    // A stream may have let go of a shorter number before what it counts was known.
    let known = !text.as_bytes()[start..end].iter().all(u8::is_ascii_digit) || end - start >= 6;
    (only_joins
        && (plural || joint.contains(|c: char| c == ';' || c.is_alphabetic()))
        && !stuck
        && known
        && !context::counts(&text[end..])
        && context::is_list(joint.trim_matches(['-', '*', ' ', '\n', '\r', '/', '•'])))
    .then_some(start..end)
}

impl Label {
    /// The value that begins with a token, if it looks like one.
    fn read(&self, view: &View<'_>, token: Range<usize>) -> Option<Range<usize>> {
        let whole = self.fits(&view.bytes[token.clone()]);
        let range = if whole && !view.bytes[token.clone()].contains(&b' ') {
            token
        } else {
            in_groups(view.bytes, token, self)
        };
        self.fits(&view.bytes[range.clone()]).then_some(range)
    }

    /// Whether a value looks like what the label announces.
    fn fits(&self, value: &[u8]) -> bool {
        let length = value.iter().filter(|b| b.is_ascii_alphanumeric()).count();
        let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
        let is_document = matches!(self.context, C::Passport | C::NationalId);
        let enough = digits >= self.digits || is_document && is_german(value);
        let words = || value.split(|&b| b == b'-').any(is_word);
        self.length.contains(&length) && enough && !self.is_date(value, digits) && !words()
    }

    /// How many letters may stand apart in front of its number. The three in front of a passport's are its country.
    fn series(&self) -> usize {
        match self.context {
            C::Passport | C::NationalId => 3,
            C::Licence => 5,
            _ => 0,
        }
    }

    /// `12/03/1985`, `2019-2024`, and `20240115` where no account is meant.
    fn is_date(&self, value: &[u8], digits: usize) -> bool {
        let of_account = matches!(self.context, C::Account | C::PlainAccount | C::SortCode);
        digits == 8
            && match value.len() {
                8 => !of_account && is_run_date(value),
                9 => is_year(value) && value[4] == b'-' && is_year(&value[5..]),
                10 => is_dated(value),
                _ => false,
            }
    }
}

/// Whether a value of a list is like the first of it, and is no day.
fn is_like(bytes: &[u8], plural: bool, first: &Range<usize>, next: &Range<usize>) -> bool {
    let value = &bytes[next.clone()];
    let is_plain = |value: &[u8]| value.iter().all(u8::is_ascii_digit);
    let is_date = value.len() == 8 && is_plain(value) && is_run_date(value);
    value.len() == first.len()
        && (plural || is_plain(&bytes[first.clone()]) == is_plain(value))
        && !is_date
}

fn is_year(number: &[u8]) -> bool {
    number.starts_with(b"19") || number.starts_with(b"20")
}

/// `20240115`
fn is_run_date(digits: &[u8]) -> bool {
    is_year(digits) && is_day(number(&digits[4..6]), number(&digits[6..]))
}

/// `12/03/1985`, `1985-03-12`, and not `71 031 827`.
fn is_dated(value: &[u8]) -> bool {
    let sign = |at: usize| !value[at].is_ascii_digit();
    sign(2) && sign(5) || sign(4) && sign(7)
}

/// `C3JKLMN47`: nine of the letters and digits that no reader confuses.
fn is_german(value: &[u8]) -> bool {
    let is_clear = |b: &u8| b.is_ascii_digit() || b"CFGHJKLMNPRTVWXYZ".contains(b);
    value.len() == 9
        && value[0].is_ascii_uppercase()
        && value.iter().all(is_clear)
        && value.iter().filter(|b| b.is_ascii_digit()).count() >= 2
}

/// `Unicode-DFS-2016` names a licence of software.
fn is_word(part: &[u8]) -> bool {
    part.len() >= 3
        && part.iter().all(u8::is_ascii_alphabetic)
        && part.iter().any(u8::is_ascii_lowercase)
}

/// `4510 123456`, `AB 1234567`, `1234 5678 9012`: a value of more groups than the first.
fn in_groups(bytes: &[u8], first: Range<usize>, label: &Label) -> Range<usize> {
    let mut range = first;
    let mut length = range.len();
    // Only letters alone or a group that ends in a digit may be waiting for more; streams hold back no other.
    let goes_on = |range: &Range<usize>| {
        bytes[range.end - 1].is_ascii_digit()
            || bytes[range.clone()].iter().all(u8::is_ascii_uppercase)
    };
    while bytes.get(range.end) == Some(&b' ') && goes_on(&range) {
        let group = &bytes[range.end + 1..bytes.len().min(range.end + 24)];
        let part = |b: &&u8| b.is_ascii_uppercase() || b.is_ascii_digit();
        let count = group.iter().take_while(part).count();
        length += count;
        let ends = match group.get(count..) {
            Some([b'/' | b'-' | b':' | b'.' | b',', next, ..]) => !next.is_ascii_alphanumeric(),
            Some([next, ..]) => !is_name(*next),
            _ => true,
        };
        let group = &group[..count];
        let year = label.series() > 0 && count == 4 && is_year(group);
        let fits = count >= 2 && length < label.length.end && group.iter().any(u8::is_ascii_digit);
        if !fits || !ends || year {
            break;
        }
        range.end += 1 + count;
    }
    range
}

/// Whether a number of an account stands near one of a bank, or near words of one: "the balance of my account 12345678".
fn is_of_bank(view: &View<'_>, label: usize, range: &Range<usize>) -> bool {
    let words = |text: &str, all: &[&str]| {
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        words.any(|word| is_one_of(word, all))
    };
    let front = before(view.text, label, BANK.0);
    let behind = &view.text[range.end..ceil(view.text, (range.end + BANK.1).min(view.text.len()))];
    let last = front.trim_end().rsplit(' ').next().unwrap_or_default();
    // "AWS account", "G/L account", "account 1200000 (bank)"
    let is_named = last.len() > 1 && !last.bytes().any(|b| b.is_ascii_lowercase());
    let is_ledger = is_named && last.is_ascii() && !last.bytes().any(|b| b.is_ascii_digit())
        || words(last, &["ledger", "gl", "clearing", "suspense"])
        || behind.starts_with(" (");
    context::beside(view, &[C::SortCode, C::Routing, C::Ifsc], range.start, range.end)
        || view.bytes[range.clone()].iter().all(u8::is_ascii_digit)
            && !words(last, OWNERS)
            && !is_ledger
            && (words(front, BANKING) || words(behind, BANKING))
}

/// The first token with a digit behind a label, if only filler stands between: "number", "is", a colon, the end of a line
/// of a form. Letters before it are a part of it.
fn value(view: &View<'_>, label: &Label, begin: usize, from: usize) -> Option<Range<usize>> {
    let limit = ceil(view.text, (from + REACH).min(view.bytes.len()));
    // The rest of the label itself: "passports", "driver's".
    let in_word = view.bytes[from - 1].is_ascii_alphanumeric() || view.bytes[from - 1] >= 0x80;
    let mut at = if in_word { word_end(view.text, from) } else { from };
    let (mut words, mut series) = (0, None);
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
                return (!stuck && word.is_ascii()).then_some(series.unwrap_or(at)..end);
            }
            words += 1;
            let is_series = word.len() <= label.series()
                && word.bytes().all(|b| b.is_ascii_uppercase())
                && matches!(view.bytes[end..], [b' ', digit, ..] if digit.is_ascii_digit());
            let in_parentheses = view.bytes[at - 1] == b'(' && view.bytes.get(end) == Some(&b')');
            let country = label.context == C::Passport && word.len() == 3;
            if is_filler(word) || in_parentheses || country && is_series {
                series = None;
            } else if is_series {
                series = Some(at);
            } else {
                return None;
            }
            if words > 4 {
                return None;
            }
            at = end;
        } else if byte == b'\n' && heads_line(view.bytes, begin) && view.bytes[at - 1] != b'\n'
            || matches!(
                byte,
                b' ' | b':' | b'#' | b'\'' | b'"' | b'.' | b'=' | b'(' | b')' | b'-' | b'*' | b'`'
                // Fields, tables and elements: `"account_no":`, `| passport |`, `<passport>`.
                | b'_' | b'|' | b',' | b'<' | b'>' | b'[' | b'\t' | b'\r'
            )
        {
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

/// Whether a label stands where a line begins, as those of forms do.
fn heads_line(bytes: &[u8], label: usize) -> bool {
    label <= MARGIN || bytes[label - MARGIN..label].contains(&b'\n')
}

/// Returns the end of the letters that begin at `at`, up to a script without spaces.
fn word_end(text: &str, at: usize) -> usize {
    let letters = text[at..].chars().take(40);
    let letters = letters.take_while(|&c| c.is_alphabetic() && c != 'º' && !is_unspaced(c));
    at + letters.map(char::len_utf8).sum::<usize>()
}

/// Returns the end of the ASCII letters and digits that begin at `at`, with dashes between them.
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
        "ist", "osobisty", "osobistego", "seria", "serie", "série", "numer", "lautet", "è", "é", "hat", "die",
    ];
    is_one_of(word, FILLER)
}
