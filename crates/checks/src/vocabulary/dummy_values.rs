//! Values that only stand in for a secret, and values that only look random.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::text::words::is_one_of;

/// Words that no live value holds and documentation does.
#[rustfmt::skip]
const STAND_INS: &[&str] = &[
    "example", "your", "placeholder", "changeme", "change_me", "change-me", "insert", "dummy",
    "xxxx", "****", "....", "redacted", "sample", "replace", "undefined", "todo", "fixme",
    "0000000", "1111111", "aaaaaaa", "secret_here", "_here", "-here", "foobar",
];

/// Whether a value is masked or filled in by one character: `xxxxxxxx`, `****`, `XXXX-XXXX`.
pub(crate) fn is_masked(value: &str) -> bool {
    let most = value
        .bytes()
        .filter(|b| matches!(b, b'x' | b'X' | b'*' | b'.' | b'0' | b'_' | b'-'))
        .count();
    most * 10 >= value.len() * 7
}

/// Whether a value counts through the alphabet or the digits, as what somebody types to try a gateway does.
pub(crate) fn is_counted(value: &str) -> bool {
    static RUNS: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| any_of(&["abcdefgh", "1234567890"]));
    RUNS.as_ref().is_some_and(|runs| runs.is_match(value))
}

/// Whether a value says that it is a documentation's own.
pub(crate) fn is_named(value: &str) -> bool {
    static NAME: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| any_of(&["example"]));
    NAME.as_ref().is_some_and(|name| name.is_match(value)) || is_asking(value)
}

/// Whether a value asks for another one in its place: `your_key_here`.
pub(crate) fn is_asking(value: &str) -> bool {
    static WORDS: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| any_of(&["your_", "replace_with", "_here", "placeholder"]));
    WORDS.as_ref().is_some_and(|words| words.is_match(value))
}

/// Whether a value is encrypted, and says so, as files of SOPS, Hiera and Jasypt do.
pub(crate) fn is_encrypted(value: &str) -> bool {
    ["ENC[", "ENC("].iter().any(|lead| value.starts_with(lead))
}

/// Whether a value is a public key or a certificate: as SSH and ASN.1 begin one, or a block of PEM in base64 once more.
pub(crate) fn is_public(value: &str) -> bool {
    const BEGINNINGS: [&str; 13] = [
        "AAAAB3NzaC1yc2E",
        "AAAAC3NzaC1lZDI1NTE5",
        "AAAAE2VjZHNhLXNoYTIt",
        "AAAAGnNrLXNzaC1lZDI1NTE5",
        "AAAAInNrLWVjZHNhLXNoYTIt",
        "ssh-rsa",
        "ssh-dss",
        "ssh-ed25519",
        "ecdsa-sha2-",
        "MIIBIjANBgkqhkiG9w0BAQEFAAOC",
        "MIICIjANBgkqhkiG9w0BAQEFAAOC",
        "MFkwEwYHKoZIzj0",
        "MCowBQYDK2V",
    ];
    let is_block = || {
        let decoded = crate::injection::decode::base64(value.as_bytes(), 40);
        decoded.starts_with(b"-----BEGIN ") && memchr::memmem::find(&decoded, b"PRIVATE").is_none()
    };
    BEGINNINGS.iter().any(|lead| value.starts_with(lead))
        || value.starts_with("LS0tLS1CRUdJTi") && is_block()
}

/// Whether a value says where something is: a path of Windows, a resource of AWS; or what follows is tagged, as in YAML.
pub(crate) fn is_address(value: &str) -> bool {
    let bytes = value.as_bytes();
    let drive =
        bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes[1..].starts_with(b":\\");
    let tag =
        value.strip_prefix('!').is_some_and(|tag| tag.bytes().all(|b| b.is_ascii_alphabetic()));
    drive || tag || value.starts_with("arn:")
}

/// Whether a value is what keys of other kinds are made of: a date, a file, a version of an interface, the alphabet.
pub(crate) fn is_plain_data(value: &str) -> bool {
    let bytes = value.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let dash = |at: usize| bytes.get(at) == Some(&b'-');
    let dated = digits(0..4) && dash(4) && digits(5..7) && dash(7) && digits(8..10);
    let lower = value.to_ascii_lowercase();
    let counts = ["abcdefghijklm", "0123456789abcdef"].iter().any(|run| lower.starts_with(run));
    let interface = value.rsplit_once('/').is_some_and(|(group, version)| {
        let number = version.strip_prefix('v').unwrap_or_default().as_bytes();
        group.contains('.') && version.len() < 12 && number.first().is_some_and(u8::is_ascii_digit)
    });
    // The parts of a key of a table: `STATUS#ACTIVE`.
    let composed = value.split_once('#').is_some_and(|(kind, _)| {
        kind.len() >= 3 && kind.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    });
    dated
        || counts
        || interface
        || composed
        || is_file(value)
        || is_shortcut(value)
        || is_account(value)
}

/// Whether a value names keys to press: `Ctrl+Shift+F12`.
fn is_shortcut(value: &str) -> bool {
    const HELD: [&str; 8] = ["ctrl", "control", "shift", "alt", "cmd", "command", "meta", "option"];
    value.split_once('+').is_some_and(|(first, _)| is_one_of(first, &HELD))
}

/// Whether a value is the public number of an account or a key: up to forty hexadecimal digits behind `0x`.
fn is_account(value: &str) -> bool {
    value
        .strip_prefix("0x")
        .is_some_and(|number| number.len() <= 40 && number.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Whether a value ends as the names of files do.
pub(crate) fn is_file(value: &str) -> bool {
    const ENDS: [&str; 31] = [
        "jpg", "jpeg", "png", "gif", "svg", "webp", "pdf", "csv", "json", "jsonl", "xml", "txt",
        "gz", "zip", "tar", "tgz", "pem", "crt", "cer", "der", "html", "htm", "js", "ts", "py",
        "yml", "yaml", "mp4", "mp3", "parquet", "log",
    ];
    value.rsplit_once('.').is_some_and(|(name, end)| name.len() >= 2 && is_one_of(end, &ENDS))
}

/// Whether a value is one number in hexadecimal, or a UUID.
pub(crate) fn is_hex(value: &str) -> bool {
    let digits = value.strip_prefix("0x").unwrap_or(value);
    digits.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b'-' | b':'))
}

/// Whether base64 decodes to a user and a password that documentation is written with.
pub(crate) fn is_stock_login(value: &[u8]) -> bool {
    let decoded = crate::injection::decode::base64(value, 120);
    let Ok(login) = std::str::from_utf8(&decoded) else { return false };
    login.split_once(':').is_some_and(|(_, password)| is_stock(password) || is_stand_in(password))
}

/// Whether a password is one that documentation is written with.
pub(crate) fn is_stock(password: &str) -> bool {
    #[rustfmt::skip]
    const STOCK: [&str; 19] = [
        "password", "pass", "passwd", "secret", "pwd", "user", "username", "token", "test",
        "mypassword", "guest", "admin", "root", "postgres", "changeme", "xxx", "abc", "open sesame",
        "anonymous",
    ];
    let lower = password.to_ascii_lowercase();
    STOCK.contains(&lower.as_str())
}

/// Whether a password, or what ends in one behind a colon, is somebody's own.
pub(crate) fn is_live_login(value: &str) -> bool {
    let password = value.rsplit(':').next().unwrap_or(value);
    let stand_in = is_stock(password) || is_repeated(password) || is_stand_in(password);
    let code = is_code(value) || password.starts_with(['$', '<', '{', '%', '[']);
    !(stand_in || code || is_masked(value))
}

/// Whether all characters are the same.
pub(crate) fn is_repeated(value: &str) -> bool {
    value.as_bytes().windows(2).all(|pair| pair[0] == pair[1])
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
    let decoded = crate::injection::decode::base64(value.as_bytes(), 120);
    let readable = |b: &u8| b.is_ascii_alphabetic() || matches!(b, b' ' | b',' | b'.');
    decoded.len() >= 12
        && memchr::memchr_iter(b' ', &decoded).count() >= 2
        && decoded.iter().all(readable)
}

/// A search for any of a few words at once, in any case: values are judged behind each of many names, and one pass over
/// them is as dear as one word.
pub(crate) fn any_of(words: &[&str]) -> Option<AhoCorasick> {
    let mut builder = AhoCorasick::builder();
    builder.ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA)).build(words).ok()
}

/// Whether a value says itself that it is none.
pub(crate) fn is_stand_in(value: &str) -> bool {
    static WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| any_of(STAND_INS));
    WORDS.as_ref().is_some_and(|words| words.is_match(value)) || is_masked(value)
}

/// Whether a value is filled in where it is used: a template, a variable, what stands in for one.
pub(crate) fn is_template(value: &str) -> bool {
    // All of them have such a sign, and most values none.
    if !value.bytes().any(|b| matches!(b, b'$' | b'{' | b'<' | b'%' | b'}' | b'>')) {
        return false;
    }
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let opened = value.starts_with(['$', '<', '{', '%', '@', '&', '('])
        && value.contains(['{', '<', '}', '>']);
    let variable =
        value.strip_prefix('$').is_some_and(|name| name.bytes().all(is_name) && is_variable(name));
    // `$(TARGET)/file`, as in files of make.
    let reference = value
        .split_once("$(")
        .and_then(|(_, rest)| rest.split_once(')'))
        .is_some_and(|(name, _)| name.bytes().all(|b| is_name(b) || b == b'-'));
    let parts = ["${", "{{", "<%", "#{", "%("];
    opened || variable || reference || parts.iter().any(|part| value.contains(part))
}

/// Whether a name is one that a person gives a variable: of one case, or of words with few digits between them.
fn is_variable(name: &str) -> bool {
    let one_case = !name.bytes().any(|b| b.is_ascii_uppercase())
        || !name.bytes().any(|b| b.is_ascii_lowercase());
    let inner = name.trim_end_matches(|c: char| c.is_ascii_digit());
    one_case || inner.bytes().filter(u8::is_ascii_digit).count() < 2 || is_wordy(name)
}

/// Whether a value is code rather than data: a call, a field, a pointer. In quotes there is none.
pub(crate) fn is_expression(value: &str) -> bool {
    #[rustfmt::skip]
    const PARTS: &[&str] = &[
        "()", "process.env", "os.environ", "getenv", "env.", "self.", "this.", "config.", "->", "::",
    ];
    static SEARCH: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::builder().kind(Some(AhoCorasickKind::DFA)).build(PARTS).ok());
    let has_part = || SEARCH.as_ref().is_some_and(|parts| parts.is_match(value));
    value.starts_with(['$', '%', '@', '&', '(']) && value.contains(['(', ')'])
        || has_part()
        || value.contains('(') && value.ends_with([')', '('])
        || value.contains(")[") && value.ends_with(']')
        || is_pointer(value)
        || is_entity(value)
        || is_element(value)
        || is_open_call(value)
}

/// Whether a value is code of either kind.
pub(crate) fn is_code(value: &str) -> bool {
    is_template(value) || is_expression(value)
}

/// Whether a value is a type or a function of C or Rust behind the sign of a pointer: `*const`, `*find_user(`.
fn is_pointer(value: &str) -> bool {
    let Some(name) = value.strip_prefix(['*', '&']) else { return false };
    let is_name = |b: u8| b.is_ascii_lowercase() || b == b'_';
    name.bytes().all(is_name) || name.contains('(') && !name.ends_with(['*', '&'])
}

/// Whether a value holds a character as HTML writes them: `&#60;`.
fn is_entity(value: &str) -> bool {
    if !value.contains('&') {
        return false;
    }
    value.split("&#").skip(1).any(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && rest[digits..].starts_with(';')
    })
}

/// Whether a value is an element of a variable: `$_POST[`.
fn is_element(value: &str) -> bool {
    let Some(name) = value.strip_prefix('$') else { return false };
    let rest = name.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '_');
    rest.len() < name.len() && rest.starts_with('[')
}

/// Whether a value is a call whose arguments go on behind it: `Piecewise((0,`.
fn is_open_call(value: &str) -> bool {
    let Some((name, rest)) = value.split_once('(') else { return false };
    // A macro of Rust: `write!(f`.
    let name = name.strip_suffix('!').unwrap_or(name);
    let is_path = name.contains('.');
    let is_name =
        |b: u8| b.is_ascii_lowercase() || b"_.".contains(&b) || is_path && b.is_ascii_digit();
    name.len() >= 4
        && (rest.starts_with('(') || name.bytes().all(is_name))
        && rest.matches('(').count() >= rest.matches(')').count()
}

/// Whether a value is a size or a time: `640px`.
pub(crate) fn is_measure(value: &str) -> bool {
    const UNITS: [&str; 12] =
        ["px", "em", "rem", "pt", "vh", "vw", "mm", "cm", "dpi", "ms", "fps", "kb"];
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    unit.len() < value.len() && is_one_of(unit, &UNITS)
}

/// Whether a value is a type that may be missing or must not: `String?`, `String!`.
pub(crate) fn is_type(value: &str) -> bool {
    const TYPES: [&str; 9] =
        ["String", "Int", "Bool", "Boolean", "Any", "Data", "Char", "CharArray", "Password"];
    let name = value.trim_start_matches('[').trim_end_matches(['!', '?', ']']);
    name.len() < value.len() && TYPES.contains(&name)
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

/// `8-4-4-4-12` hexadecimal.
pub(crate) fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.bytes().enumerate().all(|(i, b)| {
            if matches!(i, 8 | 13 | 18 | 23) { b == b'-' } else { b.is_ascii_hexdigit() }
        })
}
