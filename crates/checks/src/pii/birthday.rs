//! Dates of birth, next to the words that announce them.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::pii::context::encloses;
use crate::pii::found::{Entity, Found};
use crate::pii::view::{View, before};
use crate::text::words::{ceil, is_unspaced};
use crate::vocabulary::contexts::Context;

/// How far behind its word one may end.
const REACH: usize = 60;

/// Beginnings of the names of months, in the languages that birthdays are announced in.
#[rustfmt::skip]
pub(crate) const MONTHS: [&str; 64] = [
    "jan", "feb", "fev", "fév", "mar", "mär", "maa", "mrt", "apr", "abr", "avr", "may", "mai", "mei", "mag", "maj",
    "jun", "juin", "jul", "juil", "giu", "lug", "aug", "ago", "aoû", "aou", "sep", "set", "oct", "okt", "ott", "out",
    "nov", "dec", "dez", "dic", "déc", "des", "ene", "gen", "янв", "фев", "мар", "апр", "мая", "май", "июн", "июл",
    "авг", "сен", "окт", "ноя", "дек", "sty", "lut", "kwi", "cze", "lip", "sie", "wrz", "paź", "paz", "lis", "gru",
];
/// Dates that are written without white space, in digits alone but for scripts that have none.
const RUNS: [&str; 4] = [
    r"\d{1,2}[./-]\d{1,2}[./-](?:19|20)?\d{2}",
    r"(?:19|20)\d{2}[./-]\d{1,2}[./-]\d{1,2}",
    r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])",
    r"(?:19|20)\d{2} ?[年년] ?\d{1,2} ?[月월] ?\d{1,2} ?[日일]",
];
/// The text between the word and the date, and the date. The requested format of the date may stand between.
static DATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let months = format!(r"(?:{})\p{{L}}*\.?", MONTHS.join("|"));
    let spaced = [
        format!(
            r"\d{{1,2}}(?:st|nd|rd|th|er|º|\.)?(?: of| de)?[ /-]{months},?(?: de| del)?[ /-](?:19|20)\d{{2}}"
        ),
        format!(r"{months} \d{{1,2}}(?:st|nd|rd|th)?,? (?:19|20)\d{{2}}"),
        // `22JAN1991`, `26/3 1965`
        format!(r"\d{{1,2}}(?:{})(?:19|20)\d{{2}}", MONTHS.join("|")),
        r"\d{1,2}/\d{1,2} (?:19|20)\d{2}".to_owned(),
    ];
    // No letter stands in front of the date, but one of a script without spaces, which sets nothing off. An assertion of a
    // border between words matches the same, and is a hundred times as slow in texts that are not of ASCII.
    let other = r"[^.\n\d]";
    let filler = format!(
        r"(?:((?:{other}{{0,23}}?[^.\n\d\p{{L}}\p{{M}}\p{{N}}_])?)|({other}{{0,24}}?)(?:[\p{{Han}}\p{{Hiragana}}\p{{Katakana}}\p{{Hangul}}]|(?:\([a-z]{{1,4}}[./ -][a-z]{{1,4}}[./ -][a-z]{{1,4}}\):? ?)(?:\r?\n)?|\r?\n))"
    );
    regex(&format!("^{filler}({}|{})", RUNS.join("|"), spaced.join("|")))
});
/// The next date of a list.
static NEXT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let joints = r"(?:[,;/|]|\r?\n ?[-*•]?|,? (and|or|und|et|y|e|i|en|и))";
    regex(&format!("^ ?{joints} ?({})", RUNS.join("|")))
});
/// A date, and what leads from it to the word behind it: ` is my `, ` (`.
static BACK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let [first, last, _, unspaced] = RUNS.map(|run| run.replace("(?:19|20)?", "(?:19|20)"));
    let leads = r"(?:,? (?:is|was|as) (?:(?:my|his|her|their|your)(?: date of)?|the date of) | \((?:date of )?)";
    // In other scripts the word follows at once.
    regex(&format!("(?:^|[^0-9./-])({first}|{last}|{unspaced})(?:{leads}| ?)$"))
});

fn regex(pattern: &str) -> Option<Regex> {
    // The digits of all scripts make a large table, and are normalized to these.
    Regex::new(&format!("(?i){}", pattern.replace(r"\d", "[0-9]"))).ok()
}

/// Words that tell of the date right in front of them.
const BEHIND: &[&str] = &["г.р", "г. р", "года рождения", "生まれ", "出生"];
/// Words that may follow a date of a list.
const JOINTS: &[&str] = &["and ", "or ", "und ", "et ", "y ", "e ", "are ", "were "];
/// Endings of the text that leads from a date to the word behind it.
const LEADS: &[&str] = &["my", "his", "her", "their", "your", "of"];
/// How far in front of its word a date may begin.
const REACH_BACK: usize = 48;
/// How far from their word the dates of a list may end.
const LIST: usize = 400;
/// Other dated things, by their beginning: one between the word and the date is what the date belongs to.
#[rustfmt::skip]
const OTHERS: &[&str] = &[
    "releas", "issu", "control", "certificat", "refill", "publish", "updat", "expir", "regist", "creat", "died", "death",
    "rate", "stone", "marié", "married", "bapti", "hired", "joined",
];

/// Reads the dates behind a word, or the one in front of it that leads to it.
pub(super) fn find(view: &View<'_>, start: usize, end: usize, found: &mut Found) {
    if is_part_of_word(view, start, end) {
        return;
    }
    if let Some(range) = behind(view, end).or_else(|| in_front(view, start, end)) {
        let plural = is_plural(view, start, end) && !is_cell(view, &range);
        let mut last = range.clone();
        found.push_once(Entity::new("DATE_OF_BIRTH", range, 0.7));
        while let Some(next) =
            next_of_list(view, &last, plural).filter(|next| next.end - end.min(next.end) <= LIST)
        {
            last = next.clone();
            found.push_once(Entity::new("DATE_OF_BIRTH", next, 0.7));
        }
    }
}

/// Reads the dates in the columns of tables.
pub(super) fn find_in_columns(view: &View<'_>, found: &mut Found) {
    for cell in view.cells.iter().filter(|cell| cell.meaning == Context::Birth) {
        let text = &view.text[cell.range()];
        let date = DATE.as_ref().and_then(|date| date.captures(text)).and_then(|date| date.get(3));
        // One with spaces in it may have left a stream in part.
        if date.is_some_and(|date| date.as_str() == text) && !text.contains(' ') {
            found.push(Entity::new("DATE_OF_BIRTH", cell.range(), 0.7));
        }
    }
}

/// The date behind a word.
fn behind(view: &View<'_>, end: usize) -> Option<Range<usize>> {
    let to = ceil(view.text, (end + REACH).min(view.text.len()));
    let window = &view.text[end..to];
    if !window.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    let groups = DATE.as_ref()?.captures(window)?;
    let (filler, date) = groups.get(1).or(groups.get(2)).zip(groups.get(3))?;
    let range = end + date.start()..end + date.end();
    (!goes_on(view, range.end) && !is_of_another(filler.as_str())).then_some(range)
}

/// Whether a word is a part of another one, whose syllables are set apart: "phát sinh ngày", things came up on that day.
fn is_part_of_word(view: &View<'_>, start: usize, end: usize) -> bool {
    let front = before(view.text, start, REACH_BACK);
    let line = front.rsplit('\n').next().unwrap_or_default();
    let mut words = line.split(' ').rev().filter(|word| !word.is_empty());
    let is_name = |word: &str| word.starts_with(char::is_uppercase);
    // "Nguyễn Văn An sinh ngày"
    let mut named = || {
        words.next().is_none_or(|word| {
            word.ends_with([',', ':', '.', '(', '-', ';'])
                || is_name(word) && words.next().is_some_and(is_name)
        })
    };
    view.text[start..end].eq("sinh ngày") && !named()
}

/// Whether a word speaks of more dates than one: "DOBs", "birthdays", "dates of birth".
fn is_plural(view: &View<'_>, start: usize, end: usize) -> bool {
    let word = view.text[end..].split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    let front = before(view.text, start, 9);
    word.ends_with('s') || front.to_ascii_lowercase().ends_with("dates of ")
}

/// Whether a date is a cell of a table: another heading names what stands behind it.
fn is_cell(view: &View<'_>, date: &Range<usize>) -> bool {
    let at = view.cells.partition_point(|cell| cell.start() < date.start);
    view.cells.get(at).is_some_and(|cell| cell.start() == date.start)
}

fn goes_on(view: &View<'_>, end: usize) -> bool {
    view.bytes.get(end).is_some_and(u8::is_ascii_digit)
}

/// The date behind another one of a list.
fn next_of_list(view: &View<'_>, last: &Range<usize>, plural: bool) -> Option<Range<usize>> {
    let to = ceil(view.text, (last.end + REACH_BACK).min(view.text.len()));
    let window = &view.text[last.end..to];
    let groups = NEXT.as_ref()?.captures(window)?;
    if !plural && groups.get(1).is_none() {
        return None;
    }
    let date = groups.get(2)?;
    let range = last.end + date.start()..last.end + date.end();
    // "04/05/2020 married", "2020-05-04: died"
    let rest = &view.text[range.end..];
    let named = rest.strip_prefix(' ').is_some_and(|rest| rest.starts_with(char::is_lowercase));
    let joined = || JOINTS.iter().any(|joint| rest[1..].starts_with(joint));
    (!goes_on(view, range.end) && !rest.starts_with(':') && (!named || joined())).then_some(range)
}

/// Whether a word goes on where it was to end: "г. р" of "г. рассмотрено".
fn runs_on(rest: &str) -> bool {
    rest.starts_with(|c: char| c.is_alphabetic() && !is_unspaced(c))
}

/// The date in front of a word, that names it one of birth: "12/03/1985 is my birthday", "22.01.1991 г.р.".
fn in_front(view: &View<'_>, start: usize, end: usize) -> Option<Range<usize>> {
    let window = before(view.text, start, REACH_BACK);
    let near = window.len().saturating_sub(REACH_BACK / 2);
    if !window.as_bytes()[near..].iter().any(u8::is_ascii_digit) {
        return None;
    }
    // Nearly all words have nothing in front that leads to them.
    let word = &view.text[start..];
    let lead = window.trim_end_matches(' ');
    let may_lead = if word.is_char_boundary(1) {
        lead.ends_with('(') || LEADS.iter().any(|end| lead.ends_with(end))
    } else {
        BEHIND.iter().any(|behind| word.starts_with(behind))
    };
    if !may_lead {
        return None;
    }
    let date = BACK.as_ref()?.captures(window)?.get(1)?;
    let leads = &window[date.end()..];
    let rest = view.text[end..].trim_start_matches(char::is_alphabetic);
    let told = match leads {
        // "出生率" is a rate.
        "" | " " => {
            BEHIND.iter().any(|behind| word.strip_prefix(behind).is_some_and(|rest| !runs_on(rest)))
                && !view.text[end..].starts_with(['率', '人', '数'])
        }
        _ if leads.starts_with(" (") => rest.starts_with(')'),
        _ => !rest.starts_with([':', '=']),
    };
    let from = start - window.len();
    told.then_some(from + date.start()..from + date.end())
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
