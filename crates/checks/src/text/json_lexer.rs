//! JSON text character by character, as it may arrive in pieces: each character decoded, and as it is spelled.

use serde_json::Value;

/// The role of a character in a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A quote that begins or ends a string.
    Quote,
    /// In a string; escapes are undone.
    Inside,
    /// Between strings.
    Outside,
}

/// Replaces a broken escape.
const BROKEN: char = char::REPLACEMENT_CHARACTER;

/// Reads a text that may be no JSON after all: nothing is refused, and everything comes out again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lexer {
    inside: bool,
    /// An escape that is not whole yet, as it is spelled.
    escape: String,
}

impl Lexer {
    /// Takes a character; gives each character that is certain, with its spelling.
    pub(crate) fn push(&mut self, c: char, emit: &mut impl FnMut(Place, char, &str)) {
        if self.escape.is_empty() {
            self.plain(c, emit);
            return;
        }
        self.escape.push(c);
        match decode(&self.escape) {
            Escape::More => {}
            Escape::Done(c) => emit(Place::Inside, c, &std::mem::take(&mut self.escape)),
            Escape::Broken(length) => {
                let spelled = std::mem::take(&mut self.escape);
                let (broken, rest) = spelled.split_at(length);
                emit(Place::Inside, BROKEN, broken);
                rest.chars().for_each(|c| self.push(c, emit));
            }
        }
    }

    /// Gives what was held back: an escape that did not end.
    pub(crate) fn finish(&mut self, emit: &mut impl FnMut(Place, char, &str)) {
        if !self.escape.is_empty() {
            emit(Place::Inside, BROKEN, &std::mem::take(&mut self.escape));
        }
    }

    /// Whether a part of an escape is held back.
    pub(crate) fn holds(&self) -> bool {
        !self.escape.is_empty()
    }

    fn plain(&mut self, c: char, emit: &mut impl FnMut(Place, char, &str)) {
        let mut buffer = [0; 4];
        let spelled = &*c.encode_utf8(&mut buffer);
        match c {
            '"' => {
                self.inside = !self.inside;
                emit(Place::Quote, c, spelled);
            }
            '\\' if self.inside => self.escape.push(c),
            c if self.inside => emit(Place::Inside, c, spelled),
            c => emit(Place::Outside, c, spelled),
        }
    }
}

/// The state of the beginning of an escape.
enum Escape {
    More,
    Done(char),
    /// So many bytes of it are no escape; what follows is read anew.
    Broken(usize),
}

/// RFC 8259, section 7.
fn decode(escape: &str) -> Escape {
    let Some(hex) = escape.strip_prefix("\\u") else {
        return match escape.chars().nth(1) {
            None => Escape::More,
            Some('n') => Escape::Done('\n'),
            Some('t') => Escape::Done('\t'),
            Some('r') => Escape::Done('\r'),
            Some('b') => Escape::Done('\u{8}'),
            Some('f') => Escape::Done('\u{c}'),
            Some(c) => Escape::Done(c),
        };
    };
    let last = escape.chars().next_back().map_or(0, char::len_utf8);
    let Some(high) = hex.get(..4) else {
        let fits = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        return if fits { Escape::More } else { Escape::Broken(escape.len() - last) };
    };
    let Ok(high) = u16::from_str_radix(high, 16) else {
        return Escape::Broken(escape.len() - last);
    };
    let rest = &hex[4..];
    match high {
        0xd800..0xdc00 if rest.len() < 6 => {
            let fits = rest.char_indices().all(|(place, c)| match place {
                0 => c == '\\',
                1 => c == 'u',
                _ => c.is_ascii_hexdigit(),
            });
            if fits { Escape::More } else { Escape::Broken(6) }
        }
        0xd800..0xdc00 => {
            let low = rest.get(2..).and_then(|low| u16::from_str_radix(low, 16).ok());
            let pair = char::decode_utf16([high, low.unwrap_or_default()]).next();
            pair.and_then(Result::ok).map_or(Escape::Broken(6), Escape::Done)
        }
        other => Escape::Done(char::from_u32(other.into()).unwrap_or(BROKEN)),
    }
}

/// A text as it is spelled in a JSON string.
pub(crate) fn escaped(text: &str) -> String {
    let mut quoted = Value::from(text).to_string();
    quoted.pop();
    quoted.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the contents of the strings, and everything as it is spelled.
    fn read(text: &str) -> (String, String) {
        let (mut lexer, mut said, mut spelled) = (Lexer::default(), String::new(), String::new());
        let mut emit = |place, c: char, spelling: &str| {
            if place == Place::Inside {
                said.push(c);
            }
            spelled.push_str(spelling);
        };
        text.chars().for_each(|c| lexer.push(c, &mut emit));
        lexer.finish(&mut emit);
        (said, spelled)
    }

    #[test]
    fn escapes_are_undone_and_kept() {
        for (text, said) in [
            (r#"{"a":"b"}"#, "ab"),
            (r#""\"\\\/\n\t\r\b\f""#, "\"\\/\n\t\r\u{8}\u{c}"),
            (r#""\u0040\u00e9\uD83D\ude00""#, "@é😀"),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ud83dx""#, "\u{fffd}x"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\ud83d\u0041""#, "\u{fffd}A"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ude00""#, "\u{fffd}"),
            (r#""\u00é""#, "\u{fffd}é"),
            (r#""\u+123""#, "\u{fffd}+123"),
            (r#""\u12""#, "\u{fffd}"),
            (r#"outside \n "in"#, "in"),
            (r#""\ud83d\u12"#, "\u{fffd}"),
        ] {
            let (found, spelled) = read(text);
            assert_eq!(spelled, text);
            assert_eq!(found, said, "{text}");
        }
    }
}
