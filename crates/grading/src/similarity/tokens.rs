//! The words, numbers and symbols of a text.

use std::borrow::Cow;

use unicode_normalization::char::is_combining_mark;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word of a script with spaces.
    Word,
    Number,
    /// Signs that are no punctuation: `+`, `!=`, an emoji.
    Symbol,
    /// A character of Chinese or Japanese: often a word.
    Ideograph,
    /// A letter of an alphabet that writes words without spaces, as Thai does.
    Letter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: Cow<'a, str>,
}

impl Token<'_> {
    pub(super) fn is_character(&self) -> bool {
        matches!(self.kind, Kind::Ideograph | Kind::Letter)
    }
}

/// The tokens of a text in lower case.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let (mut all, mut rest, mut begins_line) = (Vec::new(), text, true);
    while let Some(first) = rest.chars().next() {
        let before = text[..text.len() - rest.len()].chars().next_back();
        let length = if let Some(kind) = character(first) {
            let length = first.len_utf8();
            all.push(Token { kind, text: rest[..length].into() });
            length
        } else if let Some(length) = number(rest, before) {
            all.push(Token { kind: Kind::Number, text: value(&rest[..length]) });
            length
        } else if first.is_alphanumeric() {
            let length = word(rest);
            all.push(Token { kind: Kind::Word, text: without_apostrophes(&rest[..length]) });
            length
        } else if first.is_whitespace() {
            first.len_utf8()
        } else {
            let length = signs(rest);
            all.extend(symbol(&rest[..length], begins_line));
            length
        };
        begins_line = match first {
            '\n' => true,
            _ => begins_line && first.is_whitespace(),
        };
        rest = &rest[length..];
    }
    all
}

/// The kind of a character of a script without spaces.
fn character(c: char) -> Option<Kind> {
    match c {
        // Kana, and Chinese characters with their extensions.
        '\u{3041}'..='\u{30ff}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}' => Some(Kind::Ideograph),
        // Thai and Lao, Burmese, Khmer.
        '\u{e01}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' => {
            Some(Kind::Letter)
        }
        _ => None,
    }
}

/// The bytes of the number that a text begins with, its sign included.
fn number(text: &str, before: Option<char>) -> Option<usize> {
    let sign = match text.chars().next() {
        Some(minus @ ('-' | '\u{2212}')) if !before.is_some_and(char::is_alphanumeric) => {
            minus.len_utf8()
        }
        _ => 0,
    };
    let digits = text.as_bytes().get(sign..)?;
    let is_digit = |at: usize| digits.get(at).is_some_and(u8::is_ascii_digit);
    if !is_digit(0) {
        return None;
    }
    let is_inside = |at: usize| matches!(digits.get(at), Some(b'.' | b',')) && is_digit(at + 1);
    let length = (0..=digits.len()).find(|&at| !is_digit(at) && !is_inside(at))?;
    Some(sign + length)
}

/// A number in one spelling: without separators of thousands, and zeros behind the point that say nothing.
fn value(number: &str) -> Cow<'_, str> {
    if number.bytes().all(|byte| byte.is_ascii_digit()) {
        return number.into();
    }
    let (number, minus) = match number.strip_prefix(['-', '\u{2212}']) {
        Some(rest) => (rest, "-"),
        None => (number, ""),
    };
    let mut groups = number.split(',');
    let first = groups.next().unwrap_or_default();
    let mut plain = format!("{minus}{first}");
    for group in groups {
        let is_thousands = group.split('.').next().is_some_and(|digits| digits.len() == 3);
        plain.push_str(if is_thousands { "" } else { "." });
        plain.push_str(group);
    }
    if plain.matches('.').count() == 1 {
        plain.truncate(plain.trim_end_matches('0').trim_end_matches('.').len());
    }
    plain.into()
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '\u{2019}')
}

/// The bytes of the word that a text begins with.
fn word(text: &str) -> usize {
    let mut letters = text.char_indices().peekable();
    while let Some((at, c)) = letters.next() {
        let next = letters.peek().map(|&(_, next)| next);
        let is_inside = is_apostrophe(c) && next.is_some_and(char::is_alphabetic);
        let is_letter = c.is_alphanumeric() || is_combining_mark(c);
        if !(is_letter || is_inside) || character(c).is_some() {
            return at;
        }
    }
    text.len()
}

fn without_apostrophes(word: &str) -> Cow<'_, str> {
    if word.contains(is_apostrophe) { word.replace(is_apostrophe, "").into() } else { word.into() }
}

/// The bytes up to the next word, number or space.
fn signs(text: &str) -> usize {
    let ends = |c: char| c.is_alphanumeric() || c.is_whitespace() || character(c).is_some();
    text.find(ends).unwrap_or(text.len())
}

/// The token of some signs; none if they are punctuation or Markdown.
fn symbol(signs: &str, begins_line: bool) -> Option<Token<'_>> {
    let is_quote = begins_line && signs.bytes().all(|byte| byte == b'>');
    if is_quote || !signs.chars().any(has_meaning) {
        return None;
    }
    // Punctuation beside a sign is part of an operator, brackets and quotes are not.
    let is_part = |c: &char| has_meaning(*c) || matches!(c, '!' | '-' | '.' | '*' | '|' | '~');
    let text: String = signs.chars().filter(is_part).collect();
    Some(Token { kind: Kind::Symbol, text: text.into() })
}

fn has_meaning(c: char) -> bool {
    let is_punctuation = matches!(c,
        '\0'..='\u{7f}'
        // Inverted marks, quotes, dots and dashes.
        | '\u{a1}' | '\u{ab}' | '\u{ad}' | '\u{b7}' | '\u{bb}' | '\u{bf}'
        // Of Arabic and Hindi.
        | '\u{60c}' | '\u{61b}' | '\u{61f}' | '\u{6d4}' | '\u{964}' | '\u{965}'
        // Zero-width, general, and of Chinese and Japanese.
        | '\u{200b}'..='\u{206f}' | '\u{3001}'..='\u{303f}' | '\u{fe00}'..='\u{fe4f}' | '\u{feff}'
    );
    let is_sign = matches!(c, '+' | '=' | '<' | '>' | '/' | '%' | '&' | '$' | '@' | '^');
    is_sign || !is_punctuation && !is_combining_mark(c)
}
