//! Disguised words: how many a text has, and the text without them.

use crate::injection::tokens::{Kind, Letters, Token, Tokens};

/// How much of a text was disguised, as far as words show.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disguise {
    /// Words with disguised letters.
    pub(crate) words: u32,
    /// The longest run of single letters, each a token of its own.
    pub(crate) spelled: u32,
    run: u32,
    /// Words of another script throughout: those that look Latin, and the others.
    alike: u32,
    foreign: u32,
}

impl Disguise {
    /// Notes a word of a text.
    #[inline]
    pub(crate) fn note(&mut self, token: &Token) {
        self.words += u32::from(token.disguised);
        match token.letters {
            Letters::Latin => {}
            // A word of a letter or two looks Latin by chance.
            Letters::Alike => self.alike += u32::from(token.end - token.start > 4),
            Letters::Foreign => self.foreign += 1,
        }
        self.run = if token.end - token.start == 1 { self.run + 1 } else { 0 };
        self.spelled = self.spelled.max(self.run);
    }

    /// Whether it is worth a second reading.
    pub(crate) fn is_worth_undoing(self) -> bool {
        self.words >= 2 || self.spelled >= 8 || self.is_alike()
    }

    /// Whether hardly a word of another script is one: a text of that script has letters that look like no other.
    pub(crate) fn is_alike(self) -> bool {
        self.alike >= 3 && self.alike > 3 * self.foreign
    }
}

/// A text with its disguises undone, spelled words joined; at most about `limit` bytes.
pub(crate) fn undisguise(text: &str, disguise: Disguise, limit: usize) -> String {
    let mut tokens = Tokens::new(text);
    tokens.looks = disguise.is_alike();
    let mut out = String::new();
    // Whether a sign stands between single letters: a space ends the word then.
    let mut joint = false;
    let (mut end, mut single) = (0, false);
    while let Some(token) = tokens.read() {
        if out.len() >= limit {
            break;
        }
        let alone = token.end - token.start == 1 && token.kind == Kind::Word;
        let gap = &text[end..token.start];
        let near = token.start <= end + 1 && !(joint && gap == " ");
        joint &= near;
        if !(single && alone && near) {
            let border = if gap.contains("\n\n") { "\n\n" } else { " " };
            out.push_str(if gap.is_empty() { "" } else { border });
        }
        match token.kind {
            Kind::Word if tokens.symbols().is_ascii() => {
                out.extend(tokens.symbols().iter().map(|&symbol| char::from(symbol)));
            }
            // A sign between two single letters spells a word as a space does.
            Kind::Sign if single && near && token.end - token.start == 1 => {
                end = token.end - 1;
                joint = true;
                continue;
            }
            Kind::Sign if let Some(letter) = drawn(text, &token) => out.push(letter),
            _ => out.push_str(&text[token.start..token.end]),
        }
        (end, single) = (token.end, alone);
    }
    out
}

/// The letter that a sign inside of a word is drawn for: `p@ssword`, `in$tructions`.
fn drawn(text: &str, token: &Token) -> Option<char> {
    let bytes = text.as_bytes();
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let before = is_letter(token.start.checked_sub(1).and_then(|at| bytes.get(at)));
    let behind = is_letter(bytes.get(token.end));
    match &bytes[token.start..token.end] {
        b"@" if before || behind => Some('a'),
        b"$" if before || behind => Some('s'),
        b"!" | b"|" if behind => Some('i'),
        b"+" if before && behind => Some('t'),
        _ => None,
    }
}
