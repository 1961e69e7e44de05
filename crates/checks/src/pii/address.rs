//! Names, birthdays and street addresses, only where the words around them leave no doubt.

use std::sync::LazyLock;

use regex::Regex;

use super::context::Context as C;
use super::{Entity, View};
use crate::words::{ceil, floor};

/// Small words inside of names.
pub(crate) const PARTICLES: [&str; 13] =
    ["van", "von", "de", "den", "der", "da", "di", "del", "du", "la", "bin", "al", "dos"];
static NAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let word = r"\p{Lu}\p{L}[\p{L}-]*(?:'\p{Lu}[\p{L}-]+)?";
    let small = PARTICLES.join("|");
    let more = format!(r"(?: (?:(?:{small}) ){{0,2}}(?:{word}|\p{{Lu}}\.?)){{0,3}}");
    Regex::new(&format!(r"^\.?[:\s]{{1,2}}({word}{more})")).ok()
});
/// What the names of months begin with, in the languages that birthdays are announced in.
#[rustfmt::skip]
pub(crate) const MONTHS: [&str; 64] = [
    "jan", "feb", "fev", "fév", "mar", "mär", "maa", "mrt", "apr", "abr", "avr", "may", "mai", "mei", "mag", "maj",
    "jun", "juin", "jul", "juil", "giu", "lug", "aug", "ago", "aoû", "aou", "sep", "set", "oct", "okt", "ott", "out",
    "nov", "dec", "dez", "dic", "déc", "des", "ene", "gen", "янв", "фев", "мар", "апр", "мая", "май", "июн", "июл",
    "авг", "сен", "окт", "ноя", "дек", "sty", "lut", "kwi", "cze", "lip", "sie", "wrz", "paź", "paz", "lis", "gru",
];
static DATE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let months = format!(r"(?:{})\p{{L}}*\.?", MONTHS.join("|"));
    let shapes = [
        r"\d{1,2}[./-]\d{1,2}[./-](?:19|20)?\d{2}".to_owned(),
        r"(?:19|20)\d{2}[./-]\d{1,2}[./-]\d{1,2}".to_owned(),
        r"(?:19|20)\d{2} ?[年년] ?\d{1,2} ?[月월] ?\d{1,2} ?[日일]".to_owned(),
        format!(
            r"\d{{1,2}}(?:st|nd|rd|th|er|º|\.)?(?: of| de)? {months},?(?: de| del)? (?:19|20)\d{{2}}"
        ),
        format!(r"{months} \d{{1,2}}(?:st|nd|rd|th)?,? (?:19|20)\d{{2}}"),
    ];
    // Scripts without spaces do not set the date off from the word.
    let begin = r"(?:\b|[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}])";
    Regex::new(&format!("(?i)^[^.\n\\d]{{0,24}}?{begin}({})", shapes.join("|"))).ok()
});
static STREET: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let kind = r"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Drive|Boulevard|Blvd|Court|Terrace|Crescent|Highway|Parkway|Pkwy|Way|Close|Loop|Place)";
    Regex::new(&format!(
        r"\b\d{{1,5}}[A-Za-z]? (?:[NSEW]\.? )?(?:\p{{Lu}}[\p{{L}}'.-]+ |\d{{1,3}}(?:st|nd|rd|th) ){{1,3}}{kind}\b\.?(?:,? (?:Apt|Suite|Unit|Flat)\.? ?#?\w{{1,5}})?|(?:P\.?O\.? ?Box|p\.?o\.? ?box) \d{{1,6}}|\b\p{{Lu}}\p{{L}}+(?:straße|strasse|str\.|allee|platz|straat|gracht) \d{{1,4}}[a-z]?\b|\b\d{{1,4}},? (?:rue|avenue|boulevard) (?:(?:de|du|des|la|le|les|l') ?)*\p{{Lu}}\p{{L}}+(?:[ -]\p{{Lu}}\p{{L}}+)?|\b(?:Calle|Via|Rua|Avenida|calle|via|rua|[Uu]l\.) (?:de |del |della |la |da |do |das |dos )*\p{{Lu}}\p{{L}}+(?: \p{{Lu}}\p{{L}}+)?,? \d{{1,4}}\b"
    ))
    .ok()
});

/// Looks behind and around the words that announce such data.
pub(super) fn find(view: &View<'_>, found: &mut Vec<Entity>, limit: usize) {
    let (known, mut streets_until) = (found.len(), 0);
    for &(start, end, context) in &view.scan.contexts {
        // Those of other detectors may all be the same few.
        if found.len() - known > limit * 4 {
            return;
        }
        match context {
            C::Name => name(view, start, end, found),
            C::Birth if has_digit(&view.bytes[end..], 60) => {
                behind(view, DATE.as_ref(), end, 60, "DATE_OF_BIRTH", 0.7, found);
            }
            C::Street if end > streets_until => {
                let from =
                    floor(view.text, start.saturating_sub(60)).max(floor(view.text, streets_until));
                let to = ceil(view.text, (end + 60).min(view.text.len()));
                let window = &view.text[from..to];
                // "By the way": most such words stand in sentences, without a number.
                if !has_digit(window.as_bytes(), window.len()) {
                    continue;
                }
                let matches = STREET.iter().flat_map(|r| r.find_iter(window));
                let matches = matches.filter(|m| !is_nobodys(m.as_str()));
                for m in matches {
                    add(Entity::new("ADDRESS", from + m.start()..from + m.end(), 0.6), found);
                }
                streets_until = end + 30;
            }
            _ => {}
        }
    }
}

/// Whether a digit is among the next bytes: asked before a pattern is tried.
fn has_digit(bytes: &[u8], reach: usize) -> bool {
    bytes.iter().take(reach).any(u8::is_ascii_digit)
}

/// Places with numbers that nobody lives at: seats, and the sender of licences.
fn is_nobodys(found: &str) -> bool {
    const SEATS: &[&str] = &[
        "Arbeitsplatz",
        "Sitzplatz",
        "Parkplatz",
        "Stellplatz",
        "Stehplatz",
        "Spielplatz",
        "59 Temple Place",
        "51 Franklin St",
    ];
    SEATS.iter().any(|seat| found.starts_with(seat))
}

fn name(view: &View<'_>, start: usize, end: usize, found: &mut Vec<Entity>) {
    let word = view.text[start..end].to_ascii_lowercase();
    // "my name is" is sure by itself; "Ms" at the end of a word list may be milliseconds.
    let title = !word.contains(' ');
    if word.ends_with(':') || title && !view.bytes[start].is_ascii_uppercase() {
        return;
    }
    let known = found.len();
    behind(view, NAME.as_ref(), end, 80, "PERSON", 0.55, found);
    // Half of all exercises and stories have a "Mr. Smith": a surname alone tells nobody, but in a letter.
    let surname = found.get(known).is_some_and(|name| !view.text[name.bytes.clone()].contains(' '));
    if title && surname && !addressed(&view.text[floor(view.text, start.saturating_sub(24))..start])
    {
        found.truncate(known);
    }
}

/// Whether a letter's salutation stands right before.
fn addressed(before: &str) -> bool {
    const SALUTATIONS: [&str; 10] = [
        "dear", "geehrter", "geehrte", "lieber", "liebe", "cher", "chère", "hello", "hi",
        "estimado",
    ];
    let last = before.trim_end().rsplit(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
    SALUTATIONS.iter().any(|word| last.eq_ignore_ascii_case(word))
}

fn behind(
    view: &View<'_>,
    pattern: Option<&Regex>,
    end: usize,
    reach: usize,
    kind: &'static str,
    score: f64,
    found: &mut Vec<Entity>,
) {
    let to = ceil(view.text, (end + reach).min(view.text.len()));
    let group = pattern.and_then(|p| p.captures(&view.text[end..to])).and_then(|c| c.get(1));
    if let Some(m) = group {
        add(Entity::new(kind, end + m.start()..end + m.end(), score), found);
    }
}

/// Adds what another word did not lead to already: many of them may stand in front of one date.
fn add(entity: Entity, found: &mut Vec<Entity>) {
    if found.last().is_none_or(|last| last.bytes != entity.bytes) {
        found.push(entity);
    }
}
