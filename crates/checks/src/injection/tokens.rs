//! Words as the model reads them: in lower case, without accents, disguised letters undone.

use crate::text::words;

/// Longer words are cut into pieces of this many symbols.
pub(crate) const LONGEST: usize = 24;

/// A piece of a text that the model reads as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Letters and digits.
    Word,
    /// A character of a script that writes words without spaces between.
    Glyph,
    /// Punctuation, symbols, pictures.
    Sign,
}

/// One token; its symbols are in [`Tokens::symbols`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// Its first byte.
    pub(crate) start: usize,
    /// One past its last byte.
    pub(crate) end: usize,
    /// Whether letters stood in it that are not what they look like.
    pub(crate) disguised: bool,
    /// The script of its letters.
    pub(crate) letters: Letters,
}

/// The kind of letters in a word, as far as disguises go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letters {
    /// Some are Latin, or it has none.
    Latin,
    /// None is Latin, and all look so.
    Alike,
    /// None is Latin.
    Foreign,
}

/// Reads a text token by token.
pub(crate) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// Zeros behind the last one.
    buffer: [u8; LONGEST],
    length: usize,
    /// Whether words are read as what they look like that are wholly of another script.
    pub(crate) looks: bool,
}

/// The kinds of ASCII bytes; letters and digits stand for themselves.
const SPACE: u8 = 0;
const SIGN: u8 = 1;
const FOREIGN: u8 = 2;
static MEANINGS: [u8; 256] = {
    let mut out = [SPACE; 256];
    let mut byte = 0u8;
    loop {
        out[byte as usize] = match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => byte.to_ascii_lowercase(),
            0x80.. => FOREIGN,
            0..=b' ' | 0x7f => SPACE,
            _ => SIGN,
        };
        if byte == u8::MAX {
            break;
        }
        byte += 1;
    }
    out
};

/// The composition of a word.
#[derive(Default)]
struct Makeup {
    letters: u32,
    digits: u32,
    /// Letters of other scripts that look like Latin ones: which symbols, as bits, and what they look like.
    alike: u32,
    looks: [u8; LONGEST],
    /// How many letters of other scripts there are.
    foreign: u32,
    /// Letters of ASCII drawn by other characters.
    styled: u32,
    /// Whether a digit stands between letters.
    embedded: bool,
}

impl Makeup {
    fn script(&self) -> Letters {
        match self.foreign {
            0 => Letters::Latin,
            _ if self.letters > 0 => Letters::Latin,
            foreign if foreign == self.alike.count_ones() => Letters::Alike,
            _ => Letters::Foreign,
        }
    }
}

impl Token {
    fn plain(kind: Kind, start: usize, end: usize) -> Self {
        Self { kind, start, end, disguised: false, letters: Letters::Latin }
    }
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, buffer: [0; LONGEST], length: 0, looks: false }
    }

    /// The symbols of the token that was read last: ASCII for itself, a byte above for a letter of another script.
    pub(crate) fn symbols(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// The same with zeros behind, to be read at once.
    pub(crate) fn padded(&self) -> &[u8; LONGEST] {
        &self.buffer
    }

    /// Reads the next token.
    pub(crate) fn read(&mut self) -> Option<Token> {
        let bytes = self.text.as_bytes();
        loop {
            let start = self.at;
            match MEANINGS[*bytes.get(start)? as usize] {
                SPACE => self.at += 1,
                SIGN => return Some(self.signs(start)),
                FOREIGN => {
                    let c = self.text[start..].chars().next()?;
                    match foreign(c) {
                        Foreign::Space => self.at += c.len_utf8(),
                        Foreign::Letter(_) | Foreign::Styled(_) => return Some(self.word(start)),
                        Foreign::Alone | Foreign::Sign => {
                            self.clear();
                            self.at += c.len_utf8();
                            bytes[start..self.at].iter().for_each(|&byte| self.push(byte));
                            let alone = foreign(c) == Foreign::Alone;
                            let kind = if alone { Kind::Glyph } else { Kind::Sign };
                            return Some(Token::plain(kind, start, self.at));
                        }
                    }
                }
                b'a'.. => return Some(self.letters(start).unwrap_or_else(|| self.word(start))),
                _ => return Some(self.word(start)),
            }
        }
    }

    #[inline]
    fn clear(&mut self) {
        (self.buffer, self.length) = ([0; LONGEST], 0);
    }

    #[inline]
    fn push(&mut self, symbol: u8) {
        self.buffer[self.length] = symbol;
        self.length += 1;
    }

    /// A run of punctuation; of a long one only the beginning.
    fn signs(&mut self, start: usize) -> Token {
        self.clear();
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|&b| MEANINGS[b as usize] == SIGN) {
            if self.length < 4 {
                self.push(bytes[self.at]);
            }
            self.at += 1;
        }
        Token::plain(Kind::Sign, start, self.at)
    }

    /// A word of nothing but letters of ASCII, as nearly all are, eight at a time; `None` for any other.
    #[inline]
    fn letters(&mut self, start: usize) -> Option<Token> {
        let bytes = self.text.as_bytes();
        let mut end = start;
        self.buffer = [0; LONGEST];
        let (eights, _) = self.buffer.as_chunks_mut::<8>();
        for eight in eights {
            let (letters, count) = words::leading_letters(bytes, end);
            *eight = letters.to_le_bytes();
            end += count;
            if count < 8 {
                let next = bytes.get(end).map_or(SPACE, |&byte| MEANINGS[byte as usize]);
                if next > SIGN {
                    return None;
                }
                break;
            }
        }
        (self.at, self.length) = (end, end - start);
        Some(Token::plain(Kind::Word, start, end))
    }

    fn word(&mut self, start: usize) -> Token {
        self.clear();
        let bytes = self.text.as_bytes();
        let mut makeup = Makeup::default();
        let mut digit_last = false;
        while self.length < LONGEST {
            let Some(&byte) = bytes.get(self.at) else { break };
            let meaning = MEANINGS[byte as usize];
            if meaning >= b'a' {
                makeup.embedded |= digit_last && makeup.letters > 0;
                makeup.letters += 1;
                digit_last = false;
                self.push(meaning);
                self.at += 1;
            } else if meaning >= b'0' {
                makeup.digits += 1;
                digit_last = true;
                self.push(meaning);
                self.at += 1;
            } else if meaning == FOREIGN {
                let Some(c) = self.text[self.at..].chars().next() else { break };
                match foreign(c) {
                    Foreign::Letter(code) => {
                        makeup.foreign += 1;
                        if let Some(letter) = look_alike(code) {
                            makeup.alike |= 1 << self.length;
                            makeup.looks[self.length] = letter;
                        }
                        self.push(symbol(code));
                    }
                    Foreign::Styled(letter) => {
                        makeup.letters += 1;
                        makeup.styled += 1;
                        self.push(letter);
                    }
                    Foreign::Alone | Foreign::Sign | Foreign::Space => break,
                }
                self.at += c.len_utf8();
            } else {
                break;
            }
        }
        let letters = makeup.script();
        let disguised = self.undo(&makeup);
        Token { kind: Kind::Word, start, end: self.at, disguised, letters }
    }

    /// Undoes disguises; returns whether there were any.
    fn undo(&mut self, makeup: &Makeup) -> bool {
        let symbols = &mut self.buffer[..self.length];
        let wholly = self.looks && makeup.script() == Letters::Alike;
        if makeup.alike > 0 && makeup.letters > 0 || wholly {
            for (place, symbol) in symbols.iter_mut().enumerate() {
                if makeup.alike >> place & 1 == 1 {
                    *symbol = makeup.looks[place];
                }
            }
        }
        if makeup.digits > 0 {
            // A number is known by its length; a digit among letters is taken for the letter it looks like.
            let number = makeup.letters == 0;
            symbols.iter_mut().filter(|s| s.is_ascii_digit()).for_each(|symbol| {
                *symbol = if number { b'0' } else { drawn(*symbol) };
            });
            if number {
                self.buffer[5..].fill(0);
                self.length = self.length.min(5);
            }
        }
        makeup.styled > 1 || makeup.letters > 0 && (makeup.alike > 0 || makeup.embedded)
    }
}

/// The letter that a digit is taken for.
fn drawn(digit: u8) -> u8 {
    b"oizeasgtbg"[usize::from(digit - b'0')]
}

/// The symbol of a letter: that of ASCII itself, another with its block folded in.
fn symbol(code: u32) -> u8 {
    if code < 0x80 { code as u8 } else { (code ^ code >> 8) as u8 | 0x80 }
}

/// The kind of a character outside of ASCII.
#[derive(PartialEq)]
enum Foreign {
    Letter(u32),
    /// A letter of ASCII, drawn otherwise.
    Styled(u8),
    /// A word by itself.
    Alone,
    Sign,
    Space,
}

#[expect(clippy::match_same_arms, reason = "blocks stand in their order")]
fn foreign(c: char) -> Foreign {
    let code = c as u32;
    let styled = |first: u32| Foreign::Styled(b'a' + ((code - first) % 26) as u8);
    match code {
        0x80..=0xa9
        | 0x300..=0x36f
        | 0x2000..=0x200f
        | 0x2028..=0x202f
        | 0x205f..=0x206f
        | 0x3000
        | 0xfe00..=0xfe0f
        | 0xfeff => Foreign::Space,
        0xab..=0xbf | 0xd7 | 0xf7 => Foreign::Sign,
        0xc0..=0x17f => Foreign::Letter(plain(code)),
        0x249c..=0x24b5 => styled(0x249c),
        0x24b6..=0x24e9 => styled(0x24b6),
        0x250..=0x2ff | 0x1d00..=0x1dbf | 0x2071 | 0x207f | 0xa730..=0xa731 => {
            small(c).map_or(Foreign::Letter(code), Foreign::Styled)
        }
        0x2010..=0x2bff | 0x3001..=0x303f | 0xe000..=0xf8ff => Foreign::Sign,
        0x3040..=0x30ff | 0x3400..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff => Foreign::Alone,
        0x1d400..=0x1d6a3 => styled(0x1d400),
        0x1f130..=0x1f149 => styled(0x1f130),
        0x1f150..=0x1f169 => styled(0x1f150),
        0x1f170..=0x1f189 => styled(0x1f170),
        0x1f1e6..=0x1f1ff => styled(0x1f1e6),
        0x20000..=0x3ffff => Foreign::Alone,
        0x1f000.. => Foreign::Sign,
        _ => Foreign::Letter(c.to_lowercase().next().unwrap_or(c) as u32),
    }
}

/// A Latin letter without its accent, in lower case.
fn plain(code: u32) -> u32 {
    const FROM_C0: &[u8; 0xc0] =
        b"aaaaaaaceeeeiiiidnooooo*ouuuuypsaaaaaaaceeeeiiiidnooooo/ouuuuypy\
        aaaaaaccccccccddddeeeeeeeeeegggggggghhhhiiiiiiiiiiiijjkkklllllll\
        lllnnnnnnnnnoooooooorrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs";
    FROM_C0.get(code as usize - 0xc0).map_or(code, |&letter| u32::from(letter))
}

/// The letter that a small capital or a raised letter is.
fn small(c: char) -> Option<u8> {
    const CAPITALS: &str = "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘ ʀꜱᴛᴜᴠᴡ ʏᴢ";
    const RAISED: &str = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖ ʳˢᵗᵘᵛʷˣʸᶻ";
    let place = [CAPITALS, RAISED].iter().find_map(|all| all.chars().position(|one| one == c))?;
    Some(b'a' + place as u8)
}

/// The Latin letter that a lower-case letter of another script is drawn like.
fn look_alike(code: u32) -> Option<u8> {
    Some(match char::from_u32(code)? {
        'а' | 'α' => b'a',
        'в' | 'β' => b'b',
        'с' | 'ϲ' => b'c',
        'ԁ' => b'd',
        'е' | 'ε' | 'ё' => b'e',
        'ɡ' => b'g',
        'һ' | 'н' => b'h',
        'і' | 'ι' | 'ı' | 'ї' => b'i',
        'ј' => b'j',
        'к' | 'κ' => b'k',
        'ӏ' => b'l',
        'м' => b'm',
        'п' | 'η' | 'ո' => b'n',
        'о' | 'ο' | 'σ' | 'օ' => b'o',
        'р' | 'ρ' => b'p',
        'ԛ' => b'q',
        'г' => b'r',
        'ѕ' => b's',
        'т' | 'τ' => b't',
        'υ' | 'ս' => b'u',
        'ν' | 'ѵ' => b'v',
        'ԝ' | 'ω' => b'w',
        'х' | 'χ' => b'x',
        'у' | 'γ' => b'y',
        _ => return None,
    })
}
