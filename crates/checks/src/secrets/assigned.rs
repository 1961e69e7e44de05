//! Random values behind names that announce a secret: `api_key = "..."`, `<token>...</token>`, `password is ...`.

use super::{Secret, placeholder};
use crate::scan::Scan;

/// Parts of names. `~` in front: may stand inside a word.
pub(crate) const NAMES: &[&str] = &[
    "~secret",
    "~token",
    "~password",
    "~passwd",
    "~passwort",
    "~passphrase",
    "~contraseña",
    "~mot de passe",
    "~pwd",
    "~apikey",
    "~api_key",
    "~api-key",
    "api key",
    "~accesskey",
    "~access_key",
    "~access-key",
    "~key",
    "~credential",
    "~login",
    "~api",
    "~auth",
    "bearer$",
    "client_id",
    "~clientid",
    "~access_id",
    "~accessid",
    "~clé",
    "~schlüssel",
    "~webhook",
    "~session",
    "~license_k",
    "~pat$",
    "~dsn",
];

/// The longest value that is looked at.
const MAX_VALUE: usize = 512;

/// How a name and its value are joined.
#[derive(Clone, Copy, PartialEq)]
enum Join {
    /// `=`, `:`, `=>`, quotes, brackets.
    Assigned,
    /// "is" or "was", or a quote right behind the word.
    Said,
    /// Only a space.
    Spaced,
}

/// Looks behind each name.
pub(super) fn find(text: &str, scan: &Scan, found: &mut Vec<Secret>, limit: usize) {
    let mut done = 0;
    let mut count = 0;
    for &(start, end) in &scan.names {
        if end <= done || count >= limit {
            continue;
        }
        if let Some(secret) = behind(text, start, end) {
            done = secret.bytes.end;
            count += 1;
            found.push(secret);
        }
    }
}

fn behind(text: &str, start: usize, end: usize) -> Option<Secret> {
    let bytes = text.as_bytes();
    let mut at = end;
    // The rest of the name.
    while at < bytes.len()
        && at - end < 24
        && (bytes[at].is_ascii_alphanumeric()
            || matches!(bytes[at], b'_' | b'-' | b'.' | b'[' | b']'))
    {
        at += 1;
    }
    let name = text[start..end].to_ascii_lowercase();
    let whole = text[crate::words::floor(text, start.saturating_sub(16))..at].to_ascii_lowercase();
    if whole
        .rsplit(|c: char| c.is_whitespace() || "\"',;{(".contains(c))
        .next()
        .is_some_and(|n| n.contains("public"))
    {
        return None;
    }
    let identifier =
        !name.contains("id") && at >= 2 && bytes[at - 2..at].eq_ignore_ascii_case(b"id");
    let password = name.starts_with("pass")
        || name.starts_with("pwd")
        || name.starts_with("contra")
        || name.starts_with("mot");
    let (value_at, join) = joined(bytes, at)?;
    let weak = name == "key"
        && start > 0
        && bytes[start - 1].is_ascii_alphabetic()
        && at == end
        && join == Join::Spaced;
    if weak {
        return None;
    }
    let mut from = value_at;
    // The value may follow a scheme or a short wrapper: `Bearer ...`, `{AQAAABAAA ...}`.
    for _ in 0..3 {
        let to = value_end(bytes, from, password);
        let value = &text[from..to];
        let cut = bytes[to..].starts_with(b"..") && !value.is_empty();
        let judged = if cut || identifier && placeholder::is_uuid(value) {
            None
        } else {
            judge(text, from, value, password, join)
        };
        if let Some(score) = judged {
            return Some(Secret {
                kind: if password { "password" } else { "assigned_secret" },
                bytes: from..to,
                score,
            });
        }
        if value.len() > 12 || to >= bytes.len() || join == Join::Spaced || password {
            return None;
        }
        let gap = bytes[to..]
            .iter()
            .take(4)
            .take_while(|b| {
                matches!(b, b' ' | b'"' | b'\'' | b'{' | b'(' | b',' | b':' | b'=' | b'|')
            })
            .count();
        if gap == 0 {
            return None;
        }
        from = to + gap;
    }
    None
}

/// Where the value behind a name begins, and what joins them.
fn joined(bytes: &[u8], from: usize) -> Option<(usize, Join)> {
    let mut at = from;
    let mut join = Join::Spaced;
    while at < bytes.len() && at - from < 24 {
        match bytes[at] {
            b'=' | b':' | b'>' | b'(' | b'?' | b'|' => join = Join::Assigned,
            b'"' | b'\'' | b'`' if join == Join::Spaced => join = Join::Said,
            b' ' | b'\t' | b'"' | b'\'' | b'`' | b'{' | b'[' | b']' | b'\\' | b'+' => {}
            b',' if join == Join::Said => join = Join::Assigned,
            b'<' | b'@' | b'#' | b'-' if at > from => {}
            b'\n' | b'\r' if join == Join::Assigned => {}
            _ if bytes[at..].starts_with(b"is ") || bytes[at..].starts_with(b"as ") => {
                join = Join::Said;
                at += 2;
            }
            _ if bytes[at..].starts_with(b"was ")
                || bytes[at..].starts_with(b"ist ")
                || bytes[at..].starts_with(b"est ") =>
            {
                join = Join::Said;
                at += 3;
            }
            _ if bytes[at..].starts_with(b"string ") || bytes[at..].starts_with(b"String ") => {
                at += 6;
            }
            b if at > from && (b.is_ascii_alphanumeric() || b.is_ascii_punctuation()) => {
                return Some((at, join));
            }
            _ => return None,
        }
        at += 1;
    }
    None
}

fn value_end(bytes: &[u8], from: usize, password: bool) -> usize {
    let stop = |b: u8| {
        b <= b' '
            || matches!(b, b'"' | b'\'' | b'`' | b'<' | b'>' | b'|')
            || !password
                && matches!(b, b',' | b';' | b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'&' | b'\\')
    };
    let mut end = from;
    let mut equals = 0;
    while end < bytes.len() && end - from < MAX_VALUE && !stop(bytes[end]) {
        equals += usize::from(bytes[end] == b'=');
        // `a=b=c=d` is a list of names, not one value; without this each of them would be read to its end.
        if equals > 2 {
            break;
        }
        end += 1;
    }
    while end > from && matches!(bytes[end - 1], b'.' | b',' | b';' | b':' | b')' | b'}') {
        end -= 1;
    }
    while end < bytes.len() && bytes[end] & 0xc0 == 0x80 {
        end += 1;
    }
    end
}

/// How live a value looks, if at all.
fn judge(text: &str, from: usize, value: &str, password: bool, join: Join) -> Option<f64> {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    // The cheap test first: most words behind a name are short and hold no digit.
    if !password && (value.len() < 10 || value.len() < 16 && digits == 0) {
        return None;
    }
    if value.len() < 6
        || value.len() > MAX_VALUE
        || placeholder::is_code(value)
        || placeholder::is_stand_in(value)
        || !value.is_ascii()
        || is_digest(text, from, value)
    {
        return None;
    }
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let symbols = value.len() - digits - letters;
    if password {
        let mixed = digits > 0 && letters > 0
            || symbols > 0 && letters > 0 && value.bytes().any(|b| b"!@#$%^&*?~+".contains(&b));
        let path = value.contains('/') && !value.contains('!') || value.contains("://");
        let plain = value.bytes().any(|b| b.is_ascii_uppercase()) || digits >= 2 || symbols > 0;
        let sure =
            mixed && plain && !path && !(join == Join::Spaced && digits == 0) && value.len() <= 64;
        return sure.then_some(if join == Join::Assigned { 0.85 } else { 0.75 });
    }
    if value.contains("###") || repeats_name(text, from, value) {
        return None;
    }
    if placeholder::is_uuid(value) {
        // Version 1 is made of a clock and an address of hardware, not of chance.
        let chance = value.as_bytes()[14] != b'1';
        return (join == Join::Assigned && chance).then_some(0.75);
    }
    // Quotes let through more symbols; words of code show themselves by how many there are.
    let charset = value
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.+/=~!@#$%^*:".contains(&b))
        || symbols * 5 < value.len() && digits >= 3 && value.bytes().all(|b| b.is_ascii_graphic());
    let path = value.contains("://")
        || value.matches('/').count() > 2 && symbols * 5 > value.len()
        || value.starts_with(['/', '.', '-', '#']);
    let random = value.len() >= 16
        && placeholder::entropy(value) >= if digits > 0 { 3.0 } else { 3.4 }
        && !placeholder::is_wordy(value);
    let long_enough = value.len() >= if join == Join::Assigned { 16 } else { 20 };
    let header = join == Join::Assigned
        && (10..16).contains(&value.len())
        && symbols == 0
        && digits >= 3
        && letters >= 4
        && value.bytes().any(|b| b.is_ascii_uppercase())
        && value.bytes().any(|b| b.is_ascii_lowercase())
        && !placeholder::is_wordy(value)
        && text[crate::words::floor(text, from.saturating_sub(16))..from]
            .to_ascii_lowercase()
            .contains("token");
    if header {
        return Some(0.7);
    }
    (charset && !path && random && long_enough && (join != Join::Spaced || digits >= 2))
        .then_some(0.8)
}

/// Whether the value ends as its name does: `key_length = Cipher.key_length`.
fn repeats_name(text: &str, from: usize, value: &str) -> bool {
    let tail = value.rsplit(['.', ':', '_']).next().unwrap_or_default();
    let lead = &text[crate::words::floor(text, from.saturating_sub(48))..from];
    let lead = lead.rsplit('\n').next().unwrap_or_default().to_ascii_lowercase();
    tail.len() >= 2
        && tail.bytes().all(|b| b.is_ascii_alphabetic())
        && lead.trim_end_matches([' ', '=', ':', '"', '\'']).ends_with(&tail.to_ascii_lowercase())
}

/// Whether the value is announced or shaped as a checksum.
fn is_digest(text: &str, from: usize, value: &str) -> bool {
    let lead = crate::words::floor(text, from.saturating_sub(24));
    let lead = text[lead..from].rsplit('\n').next().unwrap_or_default().to_ascii_lowercase();
    [
        "sha1",
        "sha256",
        "sha512",
        "sha384",
        "md5",
        "checksum",
        "integrity",
        "commit",
        "version",
        "revision",
        "digest",
        "hash",
        "h1:",
    ]
    .iter()
    .any(|w| lead.contains(w))
        || value.starts_with("sha256-")
        || value.starts_with("sha512-")
        || value.starts_with("sha256:")
        || value.starts_with("sha1-")
}
