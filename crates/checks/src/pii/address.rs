//! Names, birthdays and street addresses, only where the words around them leave no doubt.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::pii::found::{Entity, Found};
use crate::pii::view::View;
use crate::pii::{birthday, person};
use crate::text::words::{ceil, floor};
use crate::vocabulary::contexts::Context as C;

/// Street addresses, in the forms that languages write them in.
static STREET: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&forms()).ok());
/// The same without borders of words. It matches wherever the other does, and for it the engine has an automaton where a
/// text is not of ASCII.
static LOOSE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(&forms().replace(r"\b", "")).ok());

fn forms() -> String {
    let kind = r"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Drive|Boulevard|Blvd|Court|Terrace|Crescent|Highway|Parkway|Pkwy|Way|Close|Loop|Place)";
    let small = r"(?:de |del |della |dei |la |da |do |das |dos )";
    let name = r"\p{Lu}\p{Ll}\p{L}*(?: \p{Lu}\p{L}*){0,2}";
    let house = r"\d{1,4}[a-z]?(?:/\d{1,4}[a-z]?)?\b";
    let forms = [
        format!(
            r"\b\d{{1,5}}[A-Za-z]? (?:[NSEW]\.? )?(?:\p{{Lu}}[\p{{L}}'.-]+ |\d{{1,3}}(?:st|nd|rd|th) ){{1,3}}{kind}\b\.?(?:,? (?:Apt|Suite|Unit|Flat)\.? ?#?\w{{1,5}})?"
        ),
        r"(?:P\.?O\.? ?Box|p\.?o\.? ?box) \d{1,6}".to_owned(),
        format!(r"\b\p{{Lu}}\p{{L}}+(?:straße|strasse|str\.|allee|platz|straat|gracht) {house}"),
        // "Berliner Straße", "Lange Straße"
        format!(r"\b\p{{Lu}}\p{{L}}{{2,}}(?:er|en|e) (?:Straße|Strasse|Str\.|Allee|Platz|Weg) {house}"),
        r"\b\d{1,4}(?: (?:bis|ter))?,? (?:rue|avenue|boulevard) (?:(?:de|du|des|la|le|les|l') ?)*\p{Lu}\p{L}+(?:[ -]\p{Lu}\p{L}+)?".to_owned(),
        format!(r"\b(?:(?:Calle|Via|Rua|Avenida|Piazza|Corso|calle|rua|piazza|corso|[Uu]l\.|C/) {small}*{name},?|via {small}+{name},?|via {name},) {house}"),
    ];
    latin(&forms.join("|"))
}

/// A pattern whose letters are Latin ones, as those of all kinds of street are, and whose digits are of
/// ASCII: the tables of Unicode are large.
pub(crate) fn latin(pattern: &str) -> String {
    pattern
        .replace(r"\p{Lu}", r"[A-Z\u{c0}-\u{de}\u{100}-\u{17f}]")
        .replace(r"\p{Ll}", r"[a-z\u{df}-\u{17f}]")
        .replace(r"\d", "[0-9]")
        .replace(r"\p{L}", r"[A-Za-z\u{c0}-\u{24f}]")
}

/// Looks behind and around the words that announce such data.
pub(super) fn find(view: &View<'_>, found: &mut Found, limit: usize) {
    birthday::find_in_columns(view, found);
    let (known, mut streets_until) = (found.len(), 0);
    for hit in &view.scan.contexts {
        let (Range { start, end }, context) = (hit.range(), hit.meaning);
        // Those of other detectors may all be the same few.
        if found.len() - known > limit * 4 {
            return;
        }
        match context {
            C::Name => person::find(view, start, end, found),
            C::Birth => birthday::find(view, start, end, found),
            C::Street if end > streets_until => {
                let from =
                    floor(view.text, start.saturating_sub(60)).max(floor(view.text, streets_until));
                let to = ceil(view.text, (end + 60).min(view.text.len()));
                let window = &view.text[from..to];
                // "By the way": most such words stand in sentences, without a number.
                if !has_digit(window.as_bytes(), window.len()) {
                    continue;
                }
                let is_possible = || LOOSE.as_ref().is_none_or(|loose| loose.is_match(window));
                let street = STREET.as_ref().filter(|_| window.is_ascii() || is_possible());
                let matches = street.into_iter().flat_map(|street| street.find_iter(window));
                let matches = matches.filter(|m| !is_nobodys(m.as_str()));
                for m in matches {
                    found.push_once(Entity::new("ADDRESS", from + m.start()..from + m.end(), 0.6));
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
    const NOBODYS: &[&str] = &[
        "Arbeitsplatz",
        "Sitzplatz",
        "Parkplatz",
        "Stellplatz",
        "Stehplatz",
        "Spielplatz",
        "59 Temple Place",
        "51 Franklin St",
    ];
    NOBODYS.iter().any(|place| found.starts_with(place))
}
