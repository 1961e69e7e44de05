//! Dates of birth, behind the words that announce them.

use std::sync::LazyLock;

use regex::Regex;

use super::context::encloses;
use super::{Entity, View};
use crate::words::ceil;

/// How far behind its word one may end.
const REACH: usize = 60;

/// What the names of months begin with, in the languages that birthdays are announced in.
#[rustfmt::skip]
pub(crate) const MONTHS: [&str; 64] = [
    "jan", "feb", "fev", "fév", "mar", "mär", "maa", "mrt", "apr", "abr", "avr", "may", "mai", "mei", "mag", "maj",
    "jun", "juin", "jul", "juil", "giu", "lug", "aug", "ago", "aoû", "aou", "sep", "set", "oct", "okt", "ott", "out",
    "nov", "dec", "dez", "dic", "déc", "des", "ene", "gen", "янв", "фев", "мар", "апр", "мая", "май", "июн", "июл",
    "авг", "сен", "окт", "ноя", "дек", "sty", "lut", "kwi", "cze", "lip", "sie", "wrz", "paź", "paz", "lis", "gru",
];
/// What stands between the word and the date, and the date. The shape in which it is to be given may stand between.
static DATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let months = format!(r"(?:{})\p{{L}}*\.?", MONTHS.join("|"));
    let shapes = [
        r"\d{1,2}[./-]\d{1,2}[./-](?:19|20)?\d{2}".to_owned(),
        r"(?:19|20)\d{2}[./-]\d{1,2}[./-]\d{1,2}".to_owned(),
        r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])".to_owned(),
        r"(?:19|20)\d{2} ?[年년] ?\d{1,2} ?[月월] ?\d{1,2} ?[日일]".to_owned(),
        format!(
            r"\d{{1,2}}(?:st|nd|rd|th|er|º|\.)?(?: of| de)?[ /-]{months},?(?: de| del)?[ /-](?:19|20)\d{{2}}"
        ),
        format!(r"{months} \d{{1,2}}(?:st|nd|rd|th)?,? (?:19|20)\d{{2}}"),
    ];
    // Scripts without spaces do not set the date off from the word.
    let begin = r"(?:\b|[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])";
    let filler =
        r"([^.\n\d]{0,24}?)(?:\([a-z]{1,4}[./ -][a-z]{1,4}[./ -][a-z]{1,4}\):? ?)?(?:\r?\n)?";
    // The digits of all scripts make a large table, and were folded into these.
    let pattern = format!("(?i)^{filler}{begin}({})", shapes.join("|")).replace(r"\d", "[0-9]");
    Regex::new(&pattern).ok()
});
/// What is dated instead where it stands between the word and the date, by its beginning.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "releas", "issu", "control", "certificat", "refill", "publish", "updat", "expir", "regist", "creat", "died", "death",
    "rate", "stone",
];

/// Reads the date behind a word that ends at `end`.
pub(super) fn find(view: &View<'_>, end: usize, found: &mut Vec<Entity>) {
    let to = ceil(view.text, (end + REACH).min(view.text.len()));
    let window = &view.text[end..to];
    if !window.bytes().any(|b| b.is_ascii_digit()) {
        return;
    }
    let groups = DATE.as_ref().and_then(|date| date.captures(window));
    let Some((filler, date)) = groups.and_then(|groups| groups.get(1).zip(groups.get(2))) else {
        return;
    };
    let range = end + date.start()..end + date.end();
    let goes_on = view.bytes.get(range.end).is_some_and(u8::is_ascii_digit);
    if !goes_on && !is_of_another(filler.as_str()) {
        super::add(Entity::new("DATE_OF_BIRTH", range, 0.7), found);
    }
}

/// Whether the date is of something else: `"dob": null, "created": `.
fn is_of_another(filler: &str) -> bool {
    let marks = filler.bytes().filter(|b| matches!(b, b':' | b'=')).count();
    let mut words = filler.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    let begins = |word: &str, begin: &str| {
        word.get(..begin.len()).is_some_and(|head| head.eq_ignore_ascii_case(begin))
    };
    // `"dob": {"value": `
    let allowed = if encloses(filler.as_bytes()) { 2 } else { 1 };
    marks > allowed || words.any(|word| OTHERS.iter().any(|begin| begins(word, begin)))
}
