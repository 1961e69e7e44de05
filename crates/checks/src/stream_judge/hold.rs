//! The places from which a text may still become a finding that reaches over white space or depends on later text.

use std::sync::LazyLock;

use domain::safety::Category;
use memchr::memmem;
use regex::Regex;

use crate::pii::address::latin;
use crate::pii::birthday::MONTHS;
use crate::pii::person::{DEGREES, PARTICLES};
use crate::policy::compiled::Policy;
use crate::scan::{Scan, Scope};
use crate::secrets::key_block::Key;
use crate::text::codes;
use crate::text::normalize::Normalized;
use crate::text::words::{self, is_unspaced};
use crate::vocabulary::contexts::Context;
use crate::vocabulary::credential_rules::{KEY_BLOCK, PASSWORD_REACH, PASSWORD_TAG};

/// How far behind a value a word may end that names it: it begins within 28 bytes and has at most 24.
pub(super) const NAME_BEHIND_REACH: usize = 52;
/// No number, name or address with the words that name it takes more than this.
const VALUE_REACH: usize = 128;
/// How far behind a word that announces it a birthday may end.
const BIRTHDAY_REACH: usize = 60;
/// The longest IBAN, in groups.
const MAX_IBAN_LENGTH: usize = 70;
/// Fewer digits are no identity and no telephone number.
const FEWEST_DIGITS: usize = 6;
/// A longer run of letters and digits is no number.
const MAX_RUN: usize = 24;
/// Groups of digits that are further apart are not one number.
const MAX_GAP: usize = 3;
/// How far from its word the key of a wallet may begin, and how long the word is.
const WALLET_REACH: usize = 170;

/// No credential that is made of letters alone is shorter, but for those behind an option.
const SHORTEST_CREDENTIAL: usize = 16;
/// The beginnings of options for passwords.
const PASSWORD_OPTIONS: [&[u8]; 2] = [b"-p", b"-a"];

/// The beginnings of addresses that more words may complete, at the end of a text.
static STREET: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        r"\d{1,5}[A-Za-z]?,? (?:[NSEW]\.? )?(?:(?:\p{Lu}[\p{L}'.-]+|\d{1,3}(?:st|nd|rd|th)) ){0,3}",
        r"\d{1,4} (?:bis|ter),? ",
        r"\d{1,4}(?: (?:bis|ter))?,? (?:rue|avenue|boulevard) (?:(?:de|du|des|la|le|les|l') ?)*(?:\p{Lu}\p{L}+[ -])?",
        r"(?:[Cc]alle|[Vv]ia|[Rr]ua|Avenida|[Pp]iazza|[Cc]orso|[Uu]l\.|C/) (?:de |del |della |dei |la |da |do |das |dos )*(?:\p{Lu}\p{L}*,? ){0,3}",
        r"\p{Lu}\p{L}+(?:straße|strasse|str\.|allee|platz|straat|gracht) ",
        r"\p{Lu}\p{L}{2,}(?:er|en|e) (?:(?:Straße|Strasse|Str\.|Allee|Platz|Weg) )?",
    ];
    let post_box = r"[Pp]\.?[Oo]\.? ?(?:[Bb]ox )?";
    Regex::new(&latin(&format!(r"(?:\b(?:{})|{post_box})\z", forms.join("|")))).ok()
});

/// Returns the start of the first value that is not certain in a text that is certain up to a border. Text up to `said`
/// has left already.
pub(super) fn open_from(policy: &Policy, text: &str, said: usize, border: usize) -> usize {
    let mut open = border;
    if policy.acts_on(Category::Secret) {
        open = open.min(key(text)).min(tagged(text, border)).min(wallet_key(text, said, border));
    }
    if policy.acts_on(Category::Pii) {
        open = open.min(personal(text, border, text[border..].chars().next()));
        let own = Normalized::new(&text[said..border]);
        if let Some(at) = policy.recognizers().open_from(&own.text) {
            open = open.min(said + own.original(at..at + 1).start);
        }
    }
    open.min(encoded(policy, text, said, border)).max(said)
}

/// Returns the start of a code of which more may come, or behind which personal data may begin that is not certain.
fn encoded(policy: &Policy, text: &str, said: usize, border: usize) -> usize {
    let from = words::floor(text, said.saturating_sub(2 * VALUE_REACH));
    let tail = &text[from..border];
    let mut open = codes::open_from(tail);
    if let Some(view) = codes::undone(tail) {
        let undone = view.text();
        let mut begin = undone.len();
        if policy.acts_on(Category::Secret) {
            begin = begin.min(tagged(undone, begin));
        }
        if policy.acts_on(Category::Pii) {
            begin = begin.min(personal(undone, undone.len(), text[border..].chars().next()));
        }
        open = open.min(view.begin(begin));
    }
    from + open
}

/// Whether what is certain is words alone, of small letters and not long: nothing is found in such, whatever stands
/// in front, but for a project's own kinds. Most text need not be judged.
pub(super) fn is_plain(policy: &Policy, text: &str, said: usize, open: usize) -> bool {
    let acts = policy.acts_on(Category::Pii);
    let is_word = |unit: &str| {
        let word = unit.trim_start_matches('(').trim_end_matches(['.', ',', ';', ':', ')']);
        let mut letters = word.bytes();
        // Names of persons begin with a capital.
        let first = letters
            .next()
            .is_none_or(|b| b.is_ascii_lowercase() || !acts && b.is_ascii_uppercase());
        unit.len() < SHORTEST_CREDENTIAL && first && letters.all(|b| b.is_ascii_lowercase())
    };
    // A word that is cut cannot be judged.
    let is_whole = |at: usize| text[..at].chars().next_back().is_none_or(char::is_whitespace);
    is_whole(said)
        && is_whole(open)
        && !(acts && policy.recognizers().is_any())
        && text[said..open].split_whitespace().all(is_word)
        && PASSWORD_OPTIONS
            .iter()
            .all(|option| memmem::find(&text.as_bytes()[..open], option).is_none())
        && memmem::find(&text.as_bytes()[..open], KEY_BLOCK.as_bytes()).is_none()
}

/// The beginning of a private key of which more has to be seen, whether it has left or not.
pub(super) fn key(text: &str) -> usize {
    let bytes = text.as_bytes();
    memmem::find_iter(bytes, KEY_BLOCK)
        .find(|&at| matches!(Key::read(&bytes[at..]), Some(Key::Begun)))
        .unwrap_or(text.len())
}

/// A password between tags that may go on: it may hold quotes.
fn tagged(text: &str, border: usize) -> usize {
    let before = &text.as_bytes()[..border];
    let value = memmem::rfind(before, PASSWORD_TAG.as_bytes()).map(|at| at + PASSWORD_TAG.len());
    let goes_on = |&value: &usize| {
        border - value < PASSWORD_REACH
            && !text[value..border].contains(|c: char| c.is_whitespace() || "<>${}".contains(c))
    };
    value.filter(goes_on).unwrap_or(border)
}

/// A number that is the key of a wallet if a word behind it names one.
fn wallet_key(text: &str, said: usize, border: usize) -> usize {
    let bytes = &text.as_bytes()[..border];
    let from = said.max(border.saturating_sub(WALLET_REACH));
    let is_key = |at: &usize| {
        bytes[at + 2..].iter().take(65).take_while(|b| b.is_ascii_hexdigit()).count() == 64
    };
    memmem::find_iter(&bytes[from..], b"0x").map(|at| from + at).find(is_key).unwrap_or(border)
}

/// Personal data of which more may come, or that words which follow may name.
fn personal(text: &str, border: usize, next: Option<char>) -> usize {
    let from = words::floor(text, border.saturating_sub(2 * VALUE_REACH));
    let normalized = Normalized::new(&text[from..border]);
    let tail = &*normalized.text;
    let reach = tail.len().saturating_sub(VALUE_REACH);
    let start = |unit: &str| unit.as_ptr() as usize - tail.as_ptr() as usize;
    let near = |unit| near(start(unit), unit, reach);
    let units: Vec<_> = tail.split_whitespace().map(near).collect();
    let mut open = numbers(tail, &units, next);
    if let Some(street) = STREET.as_ref().and_then(|street| street.find(tail)) {
        open = open.min(street.start());
    }
    open = open.min(birthday(tail)).min(titled(tail, &units));
    // Text further back than anything reaches is certain, whatever it looks like.
    if open < reach {
        open = units.iter().map(|unit| unit.0).find(|&at| at >= reach).unwrap_or(tail.len());
    }
    if open == tail.len() { border } else { from + normalized.original(open..open + 1).start }
}

/// Returns the part of a word that begins within reach, if it is longer than that: no value in it begins earlier,
/// whatever else it is made of.
fn near(at: usize, unit: &str, reach: usize) -> (usize, &str) {
    if at >= reach || at + unit.len() <= reach {
        return (at, unit);
    }
    let further = words::ceil(unit, reach - at);
    let run = unit[further..].find(|c: char| !c.is_alphanumeric()).map(|sign| further + sign);
    let from = run.unwrap_or(further);
    (at + from, &unit[from..])
}

/// A chain of groups of digits.
struct Chain {
    start: usize,
    end: usize,
    digits: usize,
    is_open: bool,
}

/// The first number that may go on, or that words which follow may name.
fn numbers(tail: &str, units: &[(usize, &str)], next: Option<char>) -> usize {
    let mut open = tail.len();
    let mut chain: Option<Chain> = None;
    for (index, &(at, unit)) in units.iter().enumerate() {
        let is_last = index + 1 == units.len();
        let (first, digits) = digits(unit);
        if begins_iban(unit) && at + MAX_IBAN_LENGTH > tail.len()
            || is_last && is_series(unit) && next.is_none_or(char::is_numeric)
        {
            open = open.min(at);
        }
        if digits == 0 {
            // `4111 - 1111`
            chain = chain.filter(|chain| chain.is_open && matches!(unit, "-" | "/" | "." | "·"));
            if let Some(chain) = chain.as_ref().filter(|_| is_last) {
                open = open.min(chain.start);
            }
            continue;
        }
        let goes_on = chain.take().filter(|c| c.is_open && at - c.end <= MAX_GAP);
        // `AB 12 34 56 C`, `MORGA 657054 SM9IJ`
        let lead = index.checked_sub(1).map(|lead| units[lead]);
        let lead = lead.filter(|lead| is_series(lead.1)).map_or(at + first, |lead| lead.0);
        let this = Chain {
            start: goes_on.as_ref().map_or(lead, |c| c.start),
            end: at + unit.len(),
            digits: digits + goes_on.as_ref().map_or(0, |c| c.digits),
            is_open: unit
                .ends_with(|c: char| c.is_ascii_digit() || "-./()+:_·年月日년월일".contains(c)),
        };
        let is_code = digits >= 4 && unit.bytes().filter(u8::is_ascii_alphanumeric).count() >= 7;
        let is_named = this.digits >= FEWEST_DIGITS || is_code;
        if is_last && this.is_open || is_named && this.end + NAME_BEHIND_REACH > tail.len() {
            open = open.min(this.start);
        }
        chain = Some(this);
    }
    open
}

/// Returns the start of the first run of letters and digits of a word that may be a number, with the signs in front of
/// it, and the number of digits in all such runs.
fn digits(unit: &str) -> (usize, usize) {
    let (mut first, mut digits) = (None, 0);
    for run in unit.split(|c: char| !c.is_ascii_alphanumeric()) {
        let count = run.bytes().filter(u8::is_ascii_digit).count();
        if run.len() <= MAX_RUN && count > 0 {
            let at = run.as_ptr() as usize - unit.as_ptr() as usize;
            first.get_or_insert(unit[..at].trim_end_matches(['(', '+']).len());
            digits += count;
        }
    }
    (first.unwrap_or_default(), digits)
}

/// Two letters and two digits, as of a country and a check.
fn begins_iban(unit: &str) -> bool {
    // Behind whatever names it: `"iban":"GB82`; and behind an escape: `\nGB82`, `%3DGB82`.
    let escapes = if unit.contains(['\\', '%', '[']) { 6 } else { 1 };
    unit.split(|c: char| !c.is_alphanumeric()).map(str::as_bytes).any(|run| {
        run.windows(4).take(escapes).any(|four| {
            four[..2].iter().all(u8::is_ascii_alphabetic)
                && four[2..].iter().all(u8::is_ascii_digit)
        })
    })
}

/// Letters that stand apart in front of a number: two of a British one, or capitals of a document's.
fn is_series(unit: &str) -> bool {
    let series = unit.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().as_bytes();
    let capitals = (1..=5).contains(&series.len()) && series.iter().all(u8::is_ascii_uppercase);
    let pair = series.len() == 2
        && series
            .iter()
            .all(|b| b.is_ascii_alphabetic() && !b"DFIQUV".contains(&b.to_ascii_uppercase()));
    capitals || pair
}

/// The name behind a title, and small words behind that: another one makes it that of a person.
fn titled(tail: &str, units: &[(usize, &str)]) -> usize {
    let small = units.iter().rev().take(2).take_while(|unit| PARTICLES.contains(&unit.1)).count();
    let behind = &units[..units.len() - small];
    let [.., _, (name, word)] = *behind else { return tail.len() };
    let may_go_on = word.starts_with(char::is_uppercase) && word.ends_with(char::is_alphabetic);
    // "Herr Mag. Karl": degrees between the title and the name.
    let is_degree = |unit: &&(usize, &str)| {
        unit.1.split(['.', '-']).all(|part| part.is_empty() || DEGREES.contains(&part))
    };
    let before = &behind[..behind.len() - 1];
    let degrees = before.iter().rev().take(3).take_while(is_degree).count();
    let titled = behind[before.len() - degrees].0;
    // "Full Name: "
    let from = behind[behind.len().saturating_sub(4 + degrees)].0;
    let is_title = || {
        let scan = Scan::new(&tail[from..name], Scope::Leaks);
        let leads = |end: usize| end + 3 >= titled && end < name;
        scan.contexts.iter().any(|hit| hit.meaning == Context::Name && leads(from + hit.end()))
    };
    if may_go_on && is_title() { name } else { tail.len() }
}

/// Returns the start of a possible birthday behind a word that announces one.
fn birthday(tail: &str) -> usize {
    let may_begin = |unit: &str| {
        let lower: String = unit.chars().take(4).flat_map(char::to_lowercase).collect();
        unit.starts_with(|c: char| c.is_ascii_digit())
            || MONTHS.iter().any(|month| lower.starts_with(month))
    };
    let near = tail.len().saturating_sub(BIRTHDAY_REACH);
    let from = words::floor(tail, near.saturating_sub(BIRTHDAY_REACH / 2));
    // Quotes and asterisks may stand around it, and scripts without spaces.
    let joint = |c: char| !c.is_alphanumeric() || is_unspaced(c);
    let runs = tail[from..].split(joint).filter(|run| may_begin(run));
    let runs: Vec<usize> = runs.map(|run| run.as_ptr() as usize - tail.as_ptr() as usize).collect();
    if runs.last().is_none_or(|&last| last < near) {
        return tail.len();
    }
    let scan = Scan::new(&tail[from..], Scope::Leaks);
    let behind = scan
        .contexts
        .iter()
        .filter(|hit| hit.meaning == Context::Birth)
        .map(|hit| from + hit.end());
    let begins = |end: usize| runs.iter().find(|&&at| at >= end).copied();
    let open = behind.filter(|&end| end + BIRTHDAY_REACH > tail.len()).filter_map(begins);
    open.min().unwrap_or(tail.len())
}
