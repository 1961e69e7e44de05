//! An instruction behind its material with no sign between: "Dear Sam, ... make this sound less stiff".

use super::MOST_CLOSING_CHARS;

/// Verbs that name work on the text before them.
#[rustfmt::skip]
const WORK: [&str; 39] = [
    "rewrite", "translate", "sort", "group", "shorten", "reword", "rephrase", "summarize", "summarise", "proofread", "correct", "polish",
    "soften", "condense", "formuliere", "übersetze", "übersetz", "kürze", "fasse", "korrigiere", "sortiere", "réécris", "traduis",
    "corrige", "résume", "reformule", "traduce", "reescribe", "resume", "ordena", "traduci", "riscrivi", "traduza", "reescreva",
    "przetłumacz", "popraw", "переведи", "перепиши", "исправь",
];
/// Verbs that do so with a word for what is to come out.
#[rustfmt::skip]
const MAKE: [&str; 24] = [
    "make", "turn", "put", "write", "format", "convert", "mach", "mache", "schreib", "schreibe", "écris", "mets", "rends",
    "fais", "escribe", "pon", "scrivi", "metti", "rendi", "transforma", "faça", "zrób", "napisz", "сделай",
];
/// Words that point at the text before.
#[rustfmt::skip]
const POINTERS: [&str; 24] = [
    "this", "that", "it", "these", "them", "to", "into", "das", "dies", "daraus", "es", "ça", "ca", "cela", "esto",
    "eso", "lo", "questo", "isto", "isso", "z", "это", "этого", "из",
];
/// Verbs with such a word at their end.
const WORK_ON_IT: [&str; 8] = [
    "tradúcelo",
    "resúmelo",
    "reescríbelo",
    "ordénalo",
    "traducilo",
    "riscrivilo",
    "traduis-le",
    "résume-le",
];
const MAKE_IT: [&str; 8] =
    ["ponlo", "hazlo", "conviértelo", "rendilo", "trasformalo", "mettilo", "fais-en", "mets-le"];
/// Verbs of an instruction that ends in "out of this", "for it".
const MAKERS: [&str; 4] = ["make", "write", "create", "draft"];
const BEFORE_POINTERS: [&str; 4] = ["of", "from", "for", "with"];
/// Words before a verb that asks for nothing: "I make this every day".
const TELLERS: [&str; 12] =
    ["i", "we", "you", "they", "can", "will", "would", "not", "don't", "who", "which", "and"];
/// Beginnings of words for everyday texts, for how they sound, and for languages.
#[rustfmt::skip]
const OUTCOMES: [&str; 88] = [
    "notice", "note", "message", "email", "e-mail", "letter", "card", "invitation", "list", "table", "poster", "caption", "headline",
    "heading", "title", "tweet", "sentence", "bullet", "poem", "lines", "words", "polite", "formal", "friendl", "nice", "kind", "short",
    "warm", "sound", "simpl", "casual", "funny", "plain", "stiff", "english", "french", "german", "spanish", "italian",
    "dutch", "portuguese", "polish", "greek", "russian", "chinese", "japanese", "korean", "arabic", "turkish", "swedish",
    "nachricht", "notiz", "tabelle", "aushang", "einladung", "freundlich", "höflich", "förmlich", "kürzer", "englisch", "poli",
    "court", "tableau", "affiche", "amical", "anglais", "cartel", "mensaje", "tabla", "corto", "amable", "inglés", "cortese",
    "breve", "messaggio", "inglese", "mensagem", "educad", "curto", "inglês", "uprzejm", "krótk", "wiadomo", "angielsk",
    "вежлив", "короч", "сообщени", "список",
];

/// Returns where the instruction at the end of a text begins, if it points at the text before and asks for everyday work
/// on it.
pub(super) fn find(text: &str) -> Option<usize> {
    let from = text.char_indices().rev().nth(MOST_CLOSING_CHARS - 1).map_or(0, |(at, _)| at);
    let mut before = (from, "");
    let mut maker = None;
    for (at, word) in words(text, from) {
        let points = is(&POINTERS, word);
        if points && is(&WORK, before.1) {
            return Some(before.0);
        } else if is(&WORK_ON_IT, word) {
            return Some(at);
        }
        let made = if points && is(&MAKE, before.1) {
            Some(before.0)
        } else if points && is(&BEFORE_POINTERS, before.1) {
            maker
        } else {
            is(&MAKE_IT, word).then_some(at)
        };
        if let Some(start) = made {
            return names_outcome(&text[start..]).then_some(start);
        }
        let asks = !is(&TELLERS, before.1);
        if asks && is(&MAKERS, word) {
            maker = Some(at);
        }
        before = if asks { (at, word) } else { (at, "") };
    }
    None
}

fn is(list: &[&str], word: &str) -> bool {
    list.iter().any(|each| each.eq_ignore_ascii_case(word))
}

fn names_outcome(instruction: &str) -> bool {
    let instruction = instruction.to_lowercase();
    words(&instruction, 0).any(|(_, word)| OUTCOMES.iter().any(|stem| word.starts_with(stem)))
}

/// The words of a text from a place on, each with its place.
fn words(text: &str, from: usize) -> impl Iterator<Item = (usize, &str)> {
    let start = text.as_ptr() as usize;
    let is_end = |c: char| !c.is_alphabetic() && !matches!(c, '-' | '\'');
    let runs = text[from..].split(is_end).filter(|run| !run.is_empty());
    runs.map(move |run| (run.as_ptr() as usize - start, run))
}
