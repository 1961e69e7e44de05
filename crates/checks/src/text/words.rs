//! Small questions about bytes and borders, and the same of sixty-four bytes at once.

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// Whether a byte may be part of a word: ASCII letters, digits, `_`, and every byte of a non-ASCII character.
pub(crate) const fn is_word(byte: u8) -> bool {
    is_name(byte) || byte >= 0x80
}

/// Whether a byte may be part of a name in code, of which credentials are made too: ASCII letters, digits and `_`.
pub(crate) const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a byte is one of the signs that a keyword may begin with. A few others come along, so that it takes few
/// instructions for sixteen bytes at once: it is exact for `!"#$%&'@` and lumps `;<[\{|` together.
pub(crate) const fn is_sign(byte: u8) -> bool {
    byte.wrapping_sub(b'!') < 7 || byte == b'@' || (byte | 0x60).wrapping_sub(b'{') < 2
}

/// Whether a part of a word may begin with a byte or behind it: `_` and capitals.
pub(crate) const fn is_inner(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_uppercase()
}

/// Whether a capital follows a small letter, as in `dateOf`.
pub(crate) fn is_hump(text: &[u8], at: usize) -> bool {
    at > 0 && text.get(at).is_some_and(u8::is_ascii_uppercase) && text[at - 1].is_ascii_lowercase()
}

/// Whether a part of a word ends at `at` and another follows: `ssn_last`, `ssnOf`.
pub(crate) fn parts_after(text: &[u8], at: usize) -> bool {
    text.get(at) == Some(&b'_') || is_hump(text, at)
}

/// Whether a word is written as a label is, in capitals or with a sign behind it: `SIN`, `sin: `, `sin_number`, `<sin>`; or is
/// called a number or somebody's: `sin no`, `my sin`.
pub(crate) fn is_label(text: &[u8], start: usize, end: usize) -> bool {
    let signed = match text.get(end..) {
        Some([b' ', sign, ..]) => b":=#|\t".contains(sign),
        Some([b',', next, ..]) => *next != b' ',
        Some([sign, ..]) => b":=#|_>\"\t".contains(sign) || sign.is_ascii_uppercase(),
        _ => false,
    };
    let owned = || {
        let owner = text[..start].strip_suffix(b" ").unwrap_or_default();
        let letters = owner.iter().rev().take(5).take_while(|&&b| is_word(b)).count();
        let owner = &owner[owner.len() - letters..];
        [&b"my"[..], b"your", b"his", b"her"].iter().any(|word| owner.eq_ignore_ascii_case(word))
    };
    let counted = || {
        let rest = text[end..].strip_prefix(b" ").unwrap_or_default();
        let word = &rest[..rest.iter().take(7).take_while(|&&b| is_word(b)).count()];
        [&b"number"[..], b"no", b"nr"].iter().any(|name| word.eq_ignore_ascii_case(name))
    };
    signed || text[start..end].iter().all(u8::is_ascii_uppercase) || owned() || counted()
}

/// Whether a word is one of a list, in any case of ASCII.
pub(crate) fn is_one_of(word: &str, list: &[&str]) -> bool {
    list.iter().any(|one| one.eq_ignore_ascii_case(word))
}

/// The kinds of each byte, as bits.
pub(crate) static KINDS: [u8; 256] = {
    let mut out = [0; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        out[index] = (byte.is_ascii_digit() as u8 * DIGIT)
            | (byte.is_ascii_alphabetic() as u8 * LETTER)
            | ((byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.' | b'-')) as u8 * ADDRESS)
            | ((byte == b'_' || byte >= 0x80) as u8 * STICKY);
        index += 1;
    }
    out
};
/// A digit.
pub(crate) const DIGIT: u8 = 1;
/// A letter of ASCII.
pub(crate) const LETTER: u8 = 1 << 1;
/// The signs of network addresses: hexadecimal digits and the signs that join them.
pub(crate) const ADDRESS: u8 = 1 << 2;
/// Other bytes that may be part of a word.
pub(crate) const STICKY: u8 = 1 << 3;

/// Returns the kinds of the byte at a position; none outside of the text.
#[inline]
pub(crate) fn kind(text: &[u8], at: usize) -> u8 {
    text.get(at).map_or(0, |&byte| KINDS[byte as usize])
}

/// Whether a character is of a script that is written without spaces: Thai, Chinese, Japanese, and Korean, whose words
/// take endings.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c as u32, 0x0e00..=0x0eff | 0x1100..=0x11ff | 0x2e80..=0x9fff | 0xac00..=0xd7af | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

/// Whether no word runs into `at` from the left.
pub(crate) fn free_before(text: &[u8], at: usize) -> bool {
    at == 0 || !is_word(text[at - 1])
}

/// Whether no word runs on from `at`.
pub(crate) fn free_after(text: &[u8], at: usize) -> bool {
    at >= text.len() || !is_word(text[at])
}

/// The nearest character border at or before `at`.
pub(crate) fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

/// The nearest character border at or after `at`.
pub(crate) fn ceil(text: &str, at: usize) -> usize {
    text.ceil_char_boundary(at)
}

/// The lowest bit of each of eight bytes.
const LOW: u64 = 0x0101_0101_0101_0101;

/// The highest bit of each of eight bytes that is one of a range of ASCII.
#[inline]
fn between(bytes: u64, first: u8, last: u8) -> u64 {
    // The high bit of each sum is set if the byte reaches the first or passes the last.
    let low_bits = bytes & (LOW * 0x7f);
    let reaches = low_bits + LOW * (0x80 - u64::from(first));
    let passes = low_bits + LOW * (0x7f - u64::from(last));
    reaches & !passes & !bytes & (LOW * 0x80)
}

/// The first digit at or behind `at`, eight bytes at a time.
pub(crate) fn next_digit(text: &[u8], at: usize) -> Option<usize> {
    let (eights, rest) = text[at..].as_chunks::<8>();
    for (number, eight) in eights.iter().enumerate() {
        let digits = between(u64::from_le_bytes(*eight), b'0', b'9');
        if digits != 0 {
            return Some(at + number * 8 + digits.trailing_zeros() as usize / 8);
        }
    }
    let step = rest.iter().position(u8::is_ascii_digit)?;
    Some(at + eights.len() * 8 + step)
}

/// The letters of ASCII that stand at a place, up to eight of them: in lower case, the first in the lowest byte, zeros
/// behind; and how many.
#[inline]
pub(crate) fn leading_letters(text: &[u8], at: usize) -> (u64, usize) {
    let eight = text[at..].first_chunk().copied().unwrap_or_else(|| {
        let mut last = [0; 8];
        last[..text.len() - at].copy_from_slice(&text[at..]);
        last
    });
    let lower = u64::from_le_bytes(eight) | (LOW * 0x20);
    let others = !between(lower, b'a', b'z') & (LOW * 0x80);
    let count = others.trailing_zeros() as usize / 8;
    (lower & u64::MAX.checked_shr(64 - 8 * count as u32).unwrap_or(0), count)
}

/// One bit for each byte of a block: whether it is of a class.
#[inline]
pub(crate) fn bits(block: &[u8; 64], class: impl Fn(u8) -> bool) -> u64 {
    // First a byte for each byte, which compiles to vectors; then eight of them become eight bits by one multiplication.
    let mut flags = [0; 64];
    for (flag, &byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(class(byte));
    }
    // Rare classes are rarely there at all.
    if flags.iter().fold(0, |any, flag| any | flag) == 0 {
        return 0;
    }
    let (eights, _) = flags.as_chunks::<8>();
    eights.iter().rev().fold(0, |bits, eight| {
        let gathered = u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits << 8 | gathered
    })
}

/// Returns the end of an escape that begins with the sign at `at`: `\n` and `\u000a` as in code, `%0A` as in URLs,
/// `[31m` as in the colours of terminals.
pub(crate) fn behind_escape(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at + 1..];
    let is_hex = |from: usize, to: usize| {
        rest.get(from..to).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    match (text[at], rest.first()?) {
        (b'\\', b'n' | b'r' | b't') => Some(at + 2),
        (b'\\', b'u') if is_hex(1, 5) => Some(at + 6),
        (b'%', _) if is_hex(0, 2) => Some(at + 3),
        (b'[', _) => {
            let is_part = |b: &&u8| b.is_ascii_digit() || **b == b';';
            let codes = rest.iter().take(16).take_while(is_part).count();
            (rest.get(codes) == Some(&b'm')).then_some(at + codes + 2)
        }
        _ => None,
    }
}

/// A search for any of a few words at once, in any case: values are judged behind each of many names, and one pass over
/// them is as dear as one word.
pub(crate) fn any_of(words: &[&str]) -> Option<AhoCorasick> {
    let mut builder = AhoCorasick::builder();
    builder.ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA)).build(words).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_up_to_the_first_other() {
        let read = |text: &str| {
            let (letters, count) = leading_letters(text.as_bytes(), 0);
            (String::from_utf8(letters.to_le_bytes()[..count].to_vec()).unwrap(), count)
        };
        for (text, letters) in [
            ("", ""),
            ("Ab", "ab"),
            ("aB@c", "ab"),
            ("IgnoreAll.", "ignoreal"),
            ("sieBen7\u{e9}", "sieben"),
        ] {
            assert_eq!(read(text), (letters.to_owned(), letters.len()), "{text}");
        }
    }

    #[test]
    fn many_at_once_are_as_one_by_one() {
        for byte in 0..=255u8 {
            for at in 0..64 {
                let mut block = [b' '; 64];
                block[at] = byte;
                let want = |class: fn(u8) -> bool| u64::from(class(byte)) << at;
                assert_eq!(bits(&block, is_word), want(is_word));
                assert_eq!(bits(&block, is_sign), want(is_sign));
                let digit = byte.is_ascii_digit().then_some(at);
                assert_eq!(next_digit(&block[..=at], 0), digit);
                assert_eq!(next_digit(&block, at.min(3)), digit.filter(|_| at >= at.min(3)));
                let letter = Some(byte.to_ascii_lowercase()).filter(u8::is_ascii_lowercase);
                let found = (letter.map_or(0, u64::from), letter.iter().count());
                assert_eq!(leading_letters(&block, at), found);
                assert_eq!(leading_letters(&block[..=at], at), found);
            }
        }
    }
}
