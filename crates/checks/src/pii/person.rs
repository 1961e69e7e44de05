//! Names of persons, behind titles and the words that introduce them.

use std::sync::LazyLock;

use regex::Regex;

use crate::pii::found::{Entity, Found};
use crate::pii::view::View;
use crate::text::words::{ceil, floor, is_one_of};

/// How far behind its word a name may end.
const REACH: usize = 80;

/// Small words inside of names.
pub(crate) const PARTICLES: [&str; 13] =
    ["van", "von", "de", "den", "der", "da", "di", "del", "du", "la", "bin", "al", "dos"];
/// Degrees between a title and a name.
pub(crate) const DEGREES: [&str; 6] = ["Dr", "Prof", "Mag", "Ing", "Dipl", "med"];
static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let word = r"(?:\p{Lu}'\p{Lu}[\p{L}-]+|\p{Lu}\p{L}[\p{L}-]*(?:'\p{Lu}[\p{L}-]+)?)";
    let small = PARTICLES.join("|");
    let more = format!(r"(?: (?:(?:{small}) ){{0,2}}(?:{word}|\p{{Lu}}\.?)){{0,3}}");
    let titles = format!(r"(?:(?:{})\b\.?[ -]?){{0,3}}", DEGREES.join("|"));
    Regex::new(&format!(r"^\.?[:\s]{{1,2}}{titles}({word}{more})")).ok()
});
/// Words with a capital that are no part of the name in front of them: of letterheads and forms.
#[rustfmt::skip]
const NO_NAMES: &[&str] = &[
    "Account", "Address", "Adult", "Age", "Associate", "CEO", "CFO", "CTO", "Chief", "Company", "DOB", "Date", "Department",
    "Director", "Documents", "Email", "Engineer", "Fax", "Female", "Field", "First", "From", "Gender", "Head", "ID", "Last",
    "Male", "Manager", "Mobile", "Name", "None", "Not", "Notes", "Number", "Office", "Officer", "Passport", "Phone",
    "President", "Provided", "Required", "SSN", "See", "Senior", "Street", "Subject", "Tel", "Title", "Unknown",
];

/// Reads the name behind a word.
pub(super) fn find(view: &View<'_>, start: usize, end: usize, found: &mut Found) {
    let word = &view.text[start..end];
    let is_form = is_form(word);
    // "my name is" is sure by itself; "Ms" at the end of a word list may be milliseconds, "MS" a company.
    let is_title = !is_form && !word.contains(' ');
    if is_title && (!view.bytes[start].is_ascii_uppercase() || matches!(word, "MS" | "DR"))
        || is_form && !word.ends_with(':') && view.bytes.get(end) != Some(&b':')
    {
        return;
    }
    let to = ceil(view.text, (end + REACH).min(view.text.len()));
    let name = NAME.as_ref().and_then(|name| name.captures(&view.text[end..to]));
    let Some(name) = name.and_then(|groups| groups.get(1)) else { return };
    let length = without_others(name.as_str());
    let is_surname = !name.as_str()[..length].contains(' ');
    // Half of all exercises and stories have a "Mr. Smith": a surname alone tells nobody, but in a letter.
    let before = &view.text[floor(view.text, start.saturating_sub(24))..start];
    let told = !is_surname || !is_form && (!is_title || is_addressed(before));
    if length > 0 && told {
        let from = end + name.start();
        found.push_once(Entity::new("PERSON", from..from + length, 0.55));
    }
}

/// Whether a word is the label of a form: only full names are believed there.
fn is_form(word: &str) -> bool {
    let ends = |end: &str| {
        word.len()
            .checked_sub(end.len())
            .and_then(|at| word.get(at..))
            .is_some_and(|last| last.eq_ignore_ascii_case(end))
    };
    ends(" name") || ends(":")
}

/// How much of a name is left without what follows it.
fn without_others(name: &str) -> usize {
    let is_other = |word: &str| NO_NAMES.contains(&word.trim_end_matches('.'));
    let mut at = 0;
    for word in name.split(' ') {
        if is_other(word) {
            return at;
        }
        at += word.len() + usize::from(at > 0);
    }
    at
}

/// Whether a letter's salutation stands right before.
fn is_addressed(before: &str) -> bool {
    #[rustfmt::skip]
    const SALUTATIONS: &[&str] = &[
        "dear", "geehrter", "geehrte", "lieber", "liebe", "cher", "chère", "hello", "hi", "estimado", "estimada",
        "gentile", "caro", "cara",
    ];
    let last = before.trim_end().rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    is_one_of(last, SALUTATIONS)
}
