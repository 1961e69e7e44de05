//! Values that only stand in for a secret: those of documentation, templates and tests, and plain data.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::text::randomness::{is_periodic, is_repeated};
use crate::text::source_code::is_code;
use crate::text::words::{any_of, is_one_of};

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

/// Whether a value is marked as a documentation's own.
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

/// Whether a value is marked as encrypted, as in files of SOPS, Hiera and Jasypt.
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
        let decoded = crate::text::base64::base64(value.as_bytes(), 40);
        decoded.starts_with(b"-----BEGIN ") && memchr::memmem::find(&decoded, b"PRIVATE").is_none()
    };
    BEGINNINGS.iter().any(|lead| value.starts_with(lead))
        || value.starts_with("LS0tLS1CRUdJTi") && is_block()
}

/// Whether a value is the location of something: a path of Windows, a resource of AWS; or what follows is tagged, as in YAML.
pub(crate) fn is_address(value: &str) -> bool {
    let bytes = value.as_bytes();
    let drive =
        bytes.first().is_some_and(u8::is_ascii_alphabetic) && bytes[1..].starts_with(b":\\");
    let home = value.starts_with("~/");
    let tag =
        value.strip_prefix('!').is_some_and(|tag| tag.bytes().all(|b| b.is_ascii_alphabetic()));
    drive || home || tag || value.starts_with("arn:")
}

/// Whether a value is what keys of other kinds are made of: a date, a file, a version of an interface, the alphabet.
pub(crate) fn is_plain_data(value: &str) -> bool {
    const DIGITS: [&str; 2] = ["0123456789abcdef", "1234567890abcdef"];
    let bytes = value.as_bytes();
    let digits = |range: std::ops::Range<usize>| {
        bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit))
    };
    let dash = |at: usize| bytes.get(at) == Some(&b'-');
    let dated = digits(0..4) && dash(4) && digits(5..7) && dash(7) && digits(8..10);
    let lower = value.to_ascii_lowercase();
    let begins = |text: &str| DIGITS.iter().any(|run| text.starts_with(run));
    // Words may lead up to it: `test-key-1234567890abcdef`.
    let tail = lower.rsplit(['-', '_']).next().unwrap_or_default();
    let counts = begins(tail) || begins(&lower) || lower.starts_with("abcdefghijklm");
    let interface = value.rsplit_once('/').is_some_and(|(group, version)| {
        let number = version.strip_prefix('v').unwrap_or_default().as_bytes();
        group.contains('.') && version.len() < 12 && number.first().is_some_and(u8::is_ascii_digit)
    });
    // The parts of a key of a table: `STATUS#ACTIVE`.
    let composed = value.split_once('#').is_some_and(|(kind, _)| {
        kind.len() >= 3 && kind.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
    });
    // A setting that follows in one run: `graceMs=120000`.
    let setting = value.split_once('=').is_some_and(|(name, number)| {
        let is_name = name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
        is_name && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    });
    dated
        || counts
        || setting
        || is_periodic(value)
        || interface
        || composed
        || is_file(value)
        || is_place(value)
        || is_shortcut(value)
        || is_account(value)
}

/// Whether a value names keys to press: `Ctrl+Shift+F12`.
fn is_shortcut(value: &str) -> bool {
    const HELD: [&str; 8] = ["ctrl", "control", "shift", "alt", "cmd", "command", "meta", "option"];
    value.split_once('+').is_some_and(|(first, _)| is_one_of(first, &HELD))
}

/// Whether a value is a place in a tree of names, or begins with two of them: `kv/prod/payments`, `session:user:4711`.
fn is_place(value: &str) -> bool {
    let is_name = |part: &str| {
        part.len() >= 2 && part.bytes().all(|b| b.is_ascii_lowercase() || b"-_.".contains(&b))
    };
    value.contains('/') && value.split('/').all(is_name)
        || value.matches(':').count() >= 2 && value.split(':').take(2).all(is_name)
}

/// Whether a value is the public number of an account or a key: up to forty hexadecimal digits behind `0x`, which the
/// name of an algorithm may lead up to.
fn is_account(value: &str) -> bool {
    let number = value.rsplit_once('/').map_or(value, |(_, number)| number);
    number
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

/// Whether base64 decodes to a user and a password that documentation is written with.
pub(crate) fn is_stock_login(value: &[u8]) -> bool {
    let decoded = crate::text::base64::base64(value, 120);
    let Ok(login) = std::str::from_utf8(&decoded) else { return false };
    login.split_once(':').is_some_and(|(_, password)| is_stock(password) || is_stand_in(password))
}

/// Whether a password is one that documentation is written with.
pub(crate) fn is_stock(password: &str) -> bool {
    #[rustfmt::skip]
    const STOCK: [&str; 27] = [
        "password", "pass", "passwd", "secret", "pwd", "user", "username", "token", "test",
        "mypassword", "guest", "admin", "root", "postgres", "changeme", "xxx", "abc", "open sesame",
        "anonymous", "d1fficultp%40ssw0rd", "d1fficultp@ssw0rd",
        "bitnami", "redis", "mysql", "rabbitmq", "minioadmin", "elastic",
    ];
    let lower = password.to_ascii_lowercase();
    STOCK.contains(&lower.as_str()) || is_about_passwords(&lower)
}

/// Whether a password is made of nothing but words that documentation names passwords by: `mysecretpassword`, `p@ssw0rd`,
/// `api-secret`.
fn is_about_passwords(lower: &str) -> bool {
    #[rustfmt::skip]
    const WORDS: [&str; 31] = [
        "password", "passwd", "passphrase", "passw", "pass", "pwd", "secret", "token", "username", "user", "key", "api", "my",
        "your", "the", "some", "strong", "super", "very", "secure", "database", "db", "app", "admin", "root", "login", "here",
        "test", "default", "word", "access",
    ];
    const MOST_BYTES: usize = 40;
    if lower.len() > MOST_BYTES {
        return false;
    }
    let plain = lower.replace("%40", "a").replace("%24", "s").replace("%21", "");
    let plain: String = plain
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | '.' | '!' | ' '))
        .map(|c| match c {
            '@' | '4' => 'a',
            '0' => 'o',
            '3' => 'e',
            '$' | '5' => 's',
            c => c,
        })
        .collect();
    let mut rest = plain.as_str();
    while let Some(word) = WORDS.iter().find(|word| rest.starts_with(**word)) {
        rest = &rest[word.len()..];
    }
    !plain.is_empty() && rest.is_empty()
}

/// Whether a password, or what ends in one behind a colon, is somebody's own.
pub(crate) fn is_live_login(value: &str) -> bool {
    let password = value.rsplit(':').next().unwrap_or(value);
    let stand_in = is_stock(password) || is_repeated(password) || is_stand_in(password);
    let code = is_code(value) || password.starts_with(['$', '<', '{', '%', '[']);
    // The name of a variable of the environment: `SENDGRID_API_KEY`.
    let variable =
        password.contains('_') && password.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    !(stand_in || code || variable || is_masked(value))
}

/// Whether a value is marked as none.
pub(crate) fn is_stand_in(value: &str) -> bool {
    static WORDS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| any_of(STAND_INS));
    WORDS.as_ref().is_some_and(|words| words.is_match(value)) || is_masked(value)
}

/// Whether a value is a size or a time: `640px`.
pub(crate) fn is_measure(value: &str) -> bool {
    const UNITS: [&str; 12] =
        ["px", "em", "rem", "pt", "vh", "vw", "mm", "cm", "dpi", "ms", "fps", "kb"];
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    unit.len() < value.len() && is_one_of(unit, &UNITS)
}
