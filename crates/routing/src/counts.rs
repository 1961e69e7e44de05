//! Plain counts over the bytes of a text, in one pass.

use std::ops::RangeInclusive;

/// Plain counts over the bytes of a text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) words: u32,
    pub(crate) letters: u32,
    pub(crate) long_words: u32,
    pub(crate) capitalised: u32,
    pub(crate) numbers: u32,
    pub(crate) maths: u32,
    pub(crate) latex: u32,
    pub(crate) code: u32,
    pub(crate) lines: u32,
    pub(crate) items: u32,
    pub(crate) options: u32,
    pub(crate) questions: u32,
    pub(crate) blanks: u32,
    pub(crate) quotes: u32,
    pub(crate) characters: u32,
    pub(crate) commas: u32,
    pub(crate) sentences: u32,
    pub(crate) people: u32,
    pub(crate) single_letters: u32,
    pub(crate) option_bytes: u32,
    pub(crate) digits: u32,
    pub(crate) programs: u32,
    pub(crate) amounts: u32,
    pub(crate) named_tasks: u32,
    pub(crate) unspaced: u32,
}

/// A word of a text.
pub(crate) struct Word {
    pub(crate) at: usize,
    /// Its first eight letters, see [`letters`].
    pub(crate) first: u64,
}

/// Counts what a text holds, and calls `word` with each of its words.
pub(crate) fn count(text: &[u8], c: &mut Counts, word: &mut impl FnMut(Word)) {
    // Every byte counts as a character; [`read_long_word`] subtracts continuation bytes.
    c.characters += text.len() as u32;
    let mut at = 0;
    let mut line_start = true;
    let mut sentence_start = true;
    // Start of the option on the current line.
    let mut option_from = None;
    while let Some(&byte) = text.get(at) {
        // No byte below `A` begins a letter; any other is read as if a word began here, which is the
        // usual case.
        let (first, taken) = if byte < b'A' { (0, 0) } else { letters(text, at) };
        if taken > 0 {
            let short = taken < 8 && first & HIGH == 0;
            let end = if short {
                c.letters += taken as u32;
                c.single_letters += u32::from(taken == 1);
                c.people += u32::from(is_person(first));
                at + taken
            } else {
                read_long_word(text, at, first, taken, c)
            };
            c.words += 1;
            word(Word { at, first });
            if byte.is_ascii_uppercase() {
                let single = end - at == 1 && byte <= b'J';
                let option = single && matches!(text.get(end), Some(b')' | b'.' | b':'));
                c.options += u32::from(option);
                if option {
                    option_from = Some(end);
                }
                c.capitalised += u32::from(!sentence_start && !option);
            }
            at = end;
            sentence_start = false;
            line_start = false;
        } else if byte == b' ' {
            at += 1;
            continue;
        } else if byte.is_ascii_digit() {
            let from = at;
            while text.get(at).is_some_and(|b| b.is_ascii_digit() || *b == b',') {
                at += 1;
            }
            c.digits += (at - from) as u32;
            c.numbers += 1;
            c.items += u32::from(line_start && matches!(text.get(at), Some(b'.' | b')')));
            sentence_start = false;
            line_start = false;
        } else if byte == b'['
            && let Some(end) = placeholder_end(text, at)
        {
            c.words += 1;
            at = end;
            sentence_start = false;
            line_start = false;
        } else {
            sign(byte, line_start, c);
            let ends = matches!(byte, b'.' | b'!' | b'?');
            c.sentences += u32::from(ends && text.get(at + 1).is_none_or(u8::is_ascii_whitespace));
            if byte == b'\n'
                && let Some(from) = option_from.take()
            {
                c.option_bytes += (at - from) as u32;
            }
            sentence_start |= matches!(byte, b'.' | b'!' | b'?' | b'\n' | b':' | b'"');
            line_start = byte == b'\n';
            at += 1;
        }
        // A space mostly follows; skipping it here saves one pass of the loop.
        at += usize::from(text.get(at) == Some(&b' '));
    }
    c.option_bytes += option_from.map_or(0, |from| text.len() - from) as u32;
}

/// Returns the end of a placeholder of personal data that begins with this bracket:
/// `[EMAIL_1_ff7daa86]`. It stands for a word, and its last eight characters are random.
fn placeholder_end(text: &[u8], at: usize) -> Option<usize> {
    const MOST_PLACEHOLDER_BYTES: usize = 64;
    let inside = &text[at + 1..text.len().min(at + MOST_PLACEHOLDER_BYTES)];
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let length = inside.iter().position(|b| !is_part(b))?;
    let nonce = inside[..length].last_chunk::<9>()?;
    let is_whole =
        inside[length] == b']' && nonce[0] == b'_' && nonce[1..].iter().all(u8::is_ascii_hexdigit);
    is_whole.then_some(at + 1 + length + 1)
}

/// Whether a word stands for a person: cases and word problems are full of such words.
fn is_person(word: u64) -> bool {
    const fn of(word: &[u8]) -> u64 {
        let mut number = 0;
        let mut at = word.len();
        while at > 0 {
            at -= 1;
            number = number << 8 | word[at] as u64;
        }
        number
    }
    const I: u64 = of(b"i");
    const ME: u64 = of(b"me");
    const MY: u64 = of(b"my");
    const HE: u64 = of(b"he");
    const HIM: u64 = of(b"him");
    const HIS: u64 = of(b"his");
    const SHE: u64 = of(b"she");
    const HER: u64 = of(b"her");
    const THEY: u64 = of(b"they");
    const THEIR: u64 = of(b"their");
    matches!(word, I | ME | MY | HE | HIM | HIS | SHE | HER | THEY | THEIR)
}

/// Reads the rest of a word of eight bytes or more, or beyond ASCII; returns its end.
#[inline(never)]
fn read_long_word(text: &[u8], at: usize, first: u64, mut taken: usize, c: &mut Counts) -> usize {
    let mut end = at + taken;
    let mut beyond_ascii = first & HIGH;
    while taken == 8 {
        let more;
        (more, taken) = letters(text, end);
        beyond_ascii |= more & HIGH;
        end += taken;
    }
    let mut length = (end - at) as u32;
    if beyond_ascii != 0 {
        let within = text[at..end].iter().filter(|byte| **byte & 0xc0 == 0x80).count() as u32;
        c.unspaced += text[at..end].iter().filter(|byte| UNSPACED.contains(byte)).count() as u32;
        length -= within;
        c.characters -= within;
    }
    c.letters += length;
    c.long_words += u32::from(length >= 9);
    end
}

/// The first bytes of Han characters, kana and their punctuation, three bytes each.
const UNSPACED: RangeInclusive<u8> = 0xe3..=0xe9;

const HIGH: u64 = 0x8080_8080_8080_8080;
const LOW: u64 = 0x0101_0101_0101_0101;

/// Returns the letters at `at`, up to eight: in lower case as a number (zero in place of missing ones),
/// and their count. A letter is an ASCII letter or any byte of a character beyond ASCII.
#[inline]
pub(crate) fn letters(text: &[u8], at: usize) -> (u64, usize) {
    let rest = text.get(at..).unwrap_or_default();
    let bytes = if let Some(whole) = rest.first_chunk::<8>() { *whole } else { padded(rest) };
    let lower = u64::from_le_bytes(bytes) | (LOW * 0x20);
    // All eight bytes at once: the high bit of a sum is set if the byte reaches 'a' or passes 'z'.
    let low_bits = lower & !HIGH;
    let from_a = low_bits + LOW * (0x80 - u64::from(b'a'));
    let past_z = low_bits + LOW * (0x7f - u64::from(b'z'));
    let others = !((from_a & !past_z) | lower) & HIGH;
    if others == 0 {
        return (lower, 8);
    }
    // All bits below the first byte that is no letter.
    let mask = (others ^ (others - 1)) >> 8;
    (lower & mask, others.trailing_zeros() as usize / 8)
}

/// Pads fewer than eight bytes with zeros.
pub(crate) fn padded(rest: &[u8]) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    bytes
}

fn sign(byte: u8, line_start: bool, c: &mut Counts) {
    match byte {
        b'\n' => c.lines += 1,
        b'-' | b'*' if line_start => c.items += 1,
        b'=' | b'+' | b'^' | b'<' | b'>' | b'*' | b'/' | b'$' | b'%' => c.maths += 1,
        b'\\' => c.latex += 1,
        b'{' | b'}' | b';' | b'[' | b']' | b'`' | b'#' | b'|' | b'&' => c.code += 1,
        b'?' => c.questions += 1,
        b'_' => c.blanks += 1,
        b',' => c.commas += 1,
        b'"' => c.quotes += 1,
        _ => {}
    }
}

/// Returns what follows the first character of a word in a script without spaces: the next word may begin
/// at any character.
pub(crate) fn next_in_run(part: &[u8], at: usize) -> Option<Word> {
    let next = at + 3;
    let is_unspaced = |at: usize| part.get(at).is_some_and(|byte| UNSPACED.contains(byte));
    (is_unspaced(at) && is_unspaced(next)).then(|| Word { at: next, first: letters(part, next).0 })
}
