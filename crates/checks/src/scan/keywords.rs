//! All keywords of all detectors.

use crate::text::words;
use crate::vocabulary::contexts::{self, Context};
use crate::vocabulary::credential_rules::{self, Seek};
use crate::vocabulary::{formats, injection, injection_languages, secret_names};

/// The meaning of a keyword.
#[derive(Clone, Copy)]
pub(crate) enum Meaning {
    /// Gives a number or a name near it a meaning.
    Context(Context),
    /// The first of those of [`formats::all`] that begin alike.
    Format(u16),
    /// The name of something secret.
    Name,
    /// A class of words that injections are made of, as a bit.
    Anchor(u64),
    /// Index into [`credential_rules::MARKS`].
    Mark(usize),
}

/// The position at which a keyword may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The beginning of a word.
    Word,
    /// Anywhere.
    Inside,
    /// Anywhere, and its first byte is a sign ([`words::is_sign`]).
    Sign,
    /// Anywhere, and its first character is not of ASCII.
    Foreign,
}

/// A word, or the beginning of one, that makes some detector look.
pub(crate) struct Keyword {
    /// Lower-case.
    pub(crate) text: Box<[u8]>,
    pub(crate) meaning: Meaning,
    pub(crate) place: Place,
    /// Whether the word must end with it.
    pub(crate) right: bool,
    /// Whether it is a common word, too: what is meant here is written in capitals, or as a label.
    pub(crate) common: bool,
}

/// All of them.
pub(crate) fn all() -> Vec<Keyword> {
    let mut out = Vec::new();
    for (index, format) in formats::beginnings() {
        let text = format.prefix.to_ascii_lowercase().into_bytes().into();
        let meaning = Meaning::Format(index);
        out.push(Keyword { text, meaning, place: Place::Word, right: false, common: false });
    }
    for (context, texts) in contexts::WORDS {
        for text in *texts {
            let meaning = Meaning::Context(*context);
            out.push(Keyword::read(text, meaning));
            // Names of fields write "date of birth" as `date_of_birth`, `date-of-birth` and `dateOfBirth`.
            if context.names_field() && text.is_ascii() && text.contains(' ') {
                let joined = ["_", "-", ""].map(|joint| text.replace(' ', joint));
                out.extend(joined.iter().map(|text| Keyword::read(text, meaning)));
            }
        }
    }
    out.extend(secret_names::all().map(|name| Keyword::read(name, Meaning::Name)));
    for (bit, texts) in injection::CLASSES.iter().chain(injection_languages::CLASSES) {
        out.extend(texts.iter().map(|text| Keyword::read(text, Meaning::Anchor(*bit))));
    }
    for (index, mark) in credential_rules::MARKS.iter().enumerate() {
        let place = match credential_rules::seek(index) {
            Seek::Anywhere => Place::Inside,
            Seek::Word => Place::Word,
            Seek::Run => continue,
        };
        let text = mark.to_ascii_lowercase().into_bytes().into();
        let meaning = Meaning::Mark(index);
        out.push(Keyword { text, meaning, place, right: false, common: false });
    }
    out
}

/// Returns the detectors' vocabulary as a text would write it: for the benchmark, which searches for the dearest text.
#[doc(hidden)]
pub fn search_vocabulary() -> Vec<String> {
    let prefixes = formats::all().map(|format| format.prefix.to_owned());
    let marks = credential_rules::MARKS.iter().map(|mark| (*mark).to_owned());
    let words =
        all().into_iter().map(|keyword| String::from_utf8_lossy(&keyword.text).into_owned());
    prefixes.chain(marks).chain(words).collect()
}

impl Keyword {
    /// Reads the notation of the word lists: `~` in front for a keyword that may stand inside a word, `$` behind for one
    /// that ends its word, `!` for such a one that is a common word. Punctuation and scripts written without spaces know
    /// no beginning of a word.
    fn read(notation: &str, meaning: Meaning) -> Self {
        let bare = notation.strip_prefix('~').unwrap_or(notation);
        let (bare, common) = bare.strip_suffix('!').map_or((bare, false), |b| (b, true));
        let (bare, right) = bare.strip_suffix('$').map_or((bare, common), |b| (b, true));
        let text: Box<[u8]> = bare.to_ascii_lowercase().into_bytes().into();
        let place = match text.first() {
            Some(0x80..) => Place::Foreign,
            Some(&first) if words::is_sign(first) => Place::Sign,
            _ if notation.starts_with('~') => Place::Inside,
            _ => Place::Word,
        };
        Self { text, meaning, place, right, common }
    }

    /// Whether names of fields hold it as one of their parts.
    pub(crate) fn is_field(&self) -> bool {
        matches!(self.meaning, Meaning::Context(context) if context.names_field())
    }

    /// Whether a text begins with it, in any case.
    pub(crate) fn leads(&self, text: &[u8]) -> bool {
        text.get(..self.text.len())
            .is_some_and(|t| *t == *self.text || t.eq_ignore_ascii_case(&self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_where_it_may_stand() {
        for keyword in all() {
            let first = keyword.text[0];
            let fits = match keyword.place {
                // The search for them takes at least three bytes.
                Place::Inside => keyword.text.len() >= 3,
                Place::Word => first.is_ascii_alphanumeric() && keyword.text.len() >= 2,
                Place::Sign => words::is_sign(first),
                Place::Foreign => first >= 0xc0 && keyword.text.len() >= 4,
            };
            assert!(fits, "{}", String::from_utf8_lossy(&keyword.text));
        }
    }
}
