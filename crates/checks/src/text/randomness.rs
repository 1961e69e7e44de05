//! How random a value looks: its characters, how often they change, how much of it is words.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::text::base64::base64;
use crate::text::words::any_of;

/// Whether a value counts through the alphabet or the digits, as what somebody types to try a gateway does.
pub(crate) fn is_counted(value: &str) -> bool {
    static RUNS: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| any_of(&["abcdefgh", "1234567890"]));
    RUNS.as_ref().is_some_and(|runs| runs.is_match(value))
}

/// Whether a value is one number in hexadecimal, or a UUID.
pub(crate) fn is_hex(value: &str) -> bool {
    let digits = value.strip_prefix("0x").unwrap_or(value);
    digits.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b'-' | b':'))
}

/// `8-4-4-4-12` hexadecimal.
pub(crate) fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.bytes().enumerate().all(|(i, b)| {
            if matches!(i, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() }
        })
}

/// Whether all characters are the same.
pub(crate) fn is_repeated(value: &str) -> bool {
    value.as_bytes().windows(2).all(|pair| pair[0] == pair[1])
}

/// Whether a value is one short run again and again: `deadbeefdeadbeef`. Chance does not repeat itself.
pub(crate) fn is_periodic(value: &str) -> bool {
    const LONGEST_RUN: usize = 8;
    let bytes = value.as_bytes();
    (1..=LONGEST_RUN.min(bytes.len() / 2))
        .filter(|period| bytes.len().is_multiple_of(*period))
        .any(|period| bytes[period..] == bytes[..bytes.len() - period])
}

/// Whether a value has as many different characters as a random one would.
pub(crate) fn is_varied(value: &str) -> bool {
    distinct(value) >= (value.len() / 5).clamp(2, 9)
}

/// Whether a value mixes kinds of characters as random ones do: letters with digits, or both cases throughout.
pub(crate) fn is_mixed(value: &str) -> bool {
    let count = |class: fn(&u8) -> bool| value.bytes().filter(class).count();
    let (digits, upper, lower) =
        (count(u8::is_ascii_digit), count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let letters = upper + lower;
    digits >= 2 && letters >= 2 && !is_wordy(value)
        || letters >= 16 && upper.min(lower) * 4 >= letters
}

/// Whether the kind of character changes so often that a short value can only be random: `w3t8k5m27h1z`.
pub(crate) fn is_jumbled(value: &str) -> bool {
    value.len() >= 12 && changes(value) * 2 >= value.len()
}

/// How often the kind of character changes.
pub(crate) fn changes(value: &str) -> usize {
    value.as_bytes().windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count()
}

/// Whether the kind of character changes as often as in base64 or in hexadecimal, and not as in words and paths.
pub(crate) fn is_scrambled(run: &[u8]) -> bool {
    let changes = run.windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count();
    changes * 5 >= run.len() * 2
}

/// Whether a value ends in the number of a version: `parser-2.11.0`.
pub(crate) fn is_versioned(value: &str) -> bool {
    let tail = value.rsplit(['-', '_', '@', ':']).next().unwrap_or_default();
    let tail = tail.strip_prefix('v').unwrap_or(tail);
    tail.len() < value.len()
        && tail.contains('.')
        && tail.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether base64 decodes to a sentence: words, not chance, were written down.
pub(crate) fn spells_words(value: &str) -> bool {
    let decoded = base64(value.as_bytes(), 120);
    let readable = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b' ' | b',' | b'.');
    decoded.len() >= 12
        && memchr::memchr_iter(b' ', &decoded).count() >= 2
        && decoded.iter().all(readable)
}

/// Whether a value is a word and the number of a version or a level: `Level3`.
pub(crate) fn is_numbered(value: &str) -> bool {
    let number = value.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

/// How many different characters there are.
pub(crate) fn distinct(value: &str) -> usize {
    let mut seen = [0_u64; 4];
    value.bytes().for_each(|b| seen[usize::from(b >> 6)] |= 1 << (b & 63));
    seen.iter().map(|bits| bits.count_ones() as usize).sum()
}

/// Shannon entropy in bits per character.
pub(crate) fn entropy(value: &str) -> f64 {
    /// The logarithms of small numbers.
    static LOGS: LazyLock<[f64; 64]> =
        LazyLock::new(|| std::array::from_fn(|n| f64::from(n as u32).log2()));
    let mut counts = [0u32; 256];
    value.bytes().for_each(|b| counts[b as usize] += 1);
    let log = |n: u32| LOGS.get(n as usize).copied().unwrap_or_else(|| f64::from(n).log2());
    let length = value.len().max(1) as f64;
    length.log2() - value.bytes().map(|b| log(counts[b as usize])).sum::<f64>() / length
}

/// Whether a value is built of words or of a counter, not of chance.
pub(crate) fn is_wordy(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    if digits == value.len() {
        return true;
    }
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let vowels = value.bytes().filter(|b| b"aeiouAEIOU".contains(b)).count();
    if value.contains(['.', '_', '-']) {
        let words = value
            .split(['.', '_', '-', '=', '/', ':'])
            .filter(|p| p.len() >= 3 && p.bytes().all(|b| b.is_ascii_alphabetic()));
        if words.map(str::len).sum::<usize>() * 2 >= letters + digits {
            return vowels * 100 >= letters * 24;
        }
        let numbered = value
            .split(['.', '_', '-'])
            .filter(|p| p.bytes().all(|b| b.is_ascii_digit()) || p.len() <= 4 && is_uniform(p))
            .map(str::len)
            .sum::<usize>();
        if numbered * 2 >= letters + digits && value.len() < 32 {
            return true;
        }
    }
    // Random letters hold too few vowels for words.
    if letters >= 10 && vowels * 100 < letters * 27 && !is_camel(value, letters) {
        return false;
    }
    let mut pieces = 0usize;
    let mut short = 0usize;
    let mut previous = 0u8;
    let mut run = 0usize;
    // A piece ends where the kind of character changes, except after one capital: `Token`, not `T` and `oken`.
    for byte in value.bytes().chain(std::iter::once(0)) {
        let same = class(byte) == class(previous)
            || previous.is_ascii_uppercase() && byte.is_ascii_lowercase() && run == 1;
        if same {
            run += 1;
        } else {
            if run > 0 && previous.is_ascii_alphanumeric() {
                pieces += 1;
                short += usize::from(run <= 2);
            }
            run = 1;
        }
        previous = byte;
    }
    if digits <= 1 {
        let lone_case = !value.bytes().any(|b| b.is_ascii_uppercase())
            || !value.bytes().any(|b| b.is_ascii_lowercase());
        if lone_case {
            return vowels * 100 >= letters * 24;
        }
        return short * 2 < pieces && letters >= pieces * 3;
    }
    // Letters in long pieces with a few digits at the end of some: `feature2-branch10`.
    digits * 6 <= value.len() && letters >= pieces.max(1) * 4
}

/// Whether most of a value is words that begin with capitals: `CFBundleShortVersionString`.
fn is_camel(value: &str, letters: usize) -> bool {
    let words = value.split_inclusive(|c: char| !c.is_ascii_lowercase());
    let mut is_begun = false;
    let mut in_words = 0;
    for word in words {
        let small = word.trim_end_matches(|c: char| !c.is_ascii_lowercase());
        let is_word = small.len() >= 3 && small.contains(['a', 'e', 'i', 'o', 'u', 'y']);
        in_words += if is_begun && is_word { small.len() + 1 } else { 0 };
        is_begun = word.ends_with(|c: char| c.is_ascii_uppercase());
    }
    in_words * 4 >= letters * 3
}

/// Whether all characters are of one kind.
fn is_uniform(part: &str) -> bool {
    part.as_bytes().windows(2).all(|pair| class(pair[0]) == class(pair[1]))
}

fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        b'0'..=b'9' => 3,
        0 => 0,
        _ => 4,
    }
}
