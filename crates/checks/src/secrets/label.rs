//! The words of names and labels, and what those in front of `key` make of it.

use crate::text::randomness;
use crate::text::words::is_one_of;

/// A key that is public, or that a database, a cache or a file is found by: words in front of `key`.
const PUBLIC: &[&str] =
    &["public", "publishable", "verification", "verify", "verifying", "host", "site"];
#[rustfmt::skip]
const STORED: &[&str] = &[
    "sort", "partition", "row", "range", "cell", "column", "foreign", "unique", "composite", "natural", "surrogate",
    "lookup", "index", "shard", "cache", "storage", "object", "blob", "bucket", "file", "asset", "image", "document",
    "record", "entity", "message", "event", "queue", "topic", "job", "task", "lock", "group", "routing", "dedup",
    "dedupe", "deduplication", "idempotency", "correlation", "issue", "map", "react", "query", "form",
];
/// So is one behind these, but for `primaryKey`, as Azure has two, and `S3_KEY`, as environments name them.
const OFTEN_STORED: &[&str] = &["primary", "redis", "stream", "s3"];
/// A key that is kept secret.
#[rustfmt::skip]
const SECRET: &[&str] = &[
    "api", "secret", "private", "access", "license", "licence", "encryption", "decryption", "signing", "auth",
    "authentication", "authorization", "master", "hmac", "aes", "admin", "shared", "subscription", "activation",
];
/// Those of these that other words may follow in front of "key": `public API key`.
const OPEN: &[&str] = &["public", "publishable"];
/// Those words.
const KINDS: &[&str] = &["api", "signing", "encryption", "ssh", "rsa", "vapid", "client"];
/// Names that end in these are about how something is done, and hold no secret.
#[rustfmt::skip]
const MANNERS: &[&str] =
    &["type", "types", "algorithm", "algo", "spec", "function", "class", "format", "kind", "mode", "scheme"];
/// Things that a secret has, or is found by: names that end in these hold none.
#[rustfmt::skip]
const REFERENCES: &[&str] = &[
    "id", "uid", "uuid", "guid", "ref", "reference", "name", "alias", "hash", "digest", "fingerprint", "thumbprint", "version",
    "arn", "mint", "address", "issuer", "audience", "lifetime", "seconds", "ms", "ttl", "expiry", "count", "limit", "budget",
    "length", "size", "provider", "strength", "pattern", "regex", "regexp", "prefix", "label", "hint", "title",
    "description",
];
/// Those that are secrets all the same: what a program logs in with, and what Vault calls so.
const CREDENTIALS: &[(&str, &str)] = &[
    ("key", "id"),
    ("access", "id"),
    ("client", "id"),
    ("secret", "id"),
    ("session", "id"),
    ("app", "id"),
    ("api", "id"),
];
/// Words in front of "token" where it marks a place in a list, or ties a form to its page.
#[rustfmt::skip]
const PASSING: &[&str] = &[
    "next", "page", "paging", "pagination", "continuation", "cursor", "delta", "sync", "resume", "cancel", "cancellation", "csrf",
    "xsrf", "authenticity", "antiforgery", "forgery",
];
/// Words in front of "key" where it finds a row, whatever the row is called.
const ROWS: &[&str] = &[
    "sort",
    "partition",
    "row",
    "foreign",
    "composite",
    "surrogate",
    "shard",
    "correlation",
    "dedup",
    "dedupe",
    "deduplication",
];
/// Words of names that say that their value is made up.
const MADE_UP: &[&str] = &["fake", "mock", "dummy", "placeholder"];

/// Beginnings of other parts, which may follow a part of a name without a sign or a capital.
#[rustfmt::skip]
const PARTS: &[&str] = &[
    "key", "token", "secret", "id", "pass", "word", "code", "value", "string", "data", "header", "oriz", "oris", "entic",
    "url", "base", "name", "text", "plain", "env", "str", "store", "file", "prod", "dev", "test", "live", "stag", "main",
    "master", "client", "user", "login", "session", "access", "auth", "api", "cred", "phrase", "pair", "material", "cookie", "bearer", "param", "field", "sig",
];

/// The thing that a name ending in `key` refers to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Key {
    /// Something that the words call secret.
    Secret,
    /// A public value.
    Public,
    /// The location of something.
    Stored,
}

impl Key {
    /// Reads what a label ends with, if that is `key` behind words that decide.
    pub(super) fn read(label: &str) -> Option<Self> {
        let mut words = Words { rest: label };
        let last = words.next()?;
        let Some(joint) = last.joint.filter(|_| last.text.eq_ignore_ascii_case("key")) else {
            // `storagekey`
            let stem = last.text.len().checked_sub(3).and_then(|at| last.text.split_at_checked(at));
            let (stem, _) = stem.filter(|(_, key)| key.eq_ignore_ascii_case("key"))?;
            return is_one_of(stem, STORED).then_some(Self::Stored);
        };
        let word = words.next()?;
        // `public apiKey` declares one in code; `public API key` is a label.
        let is_public = is_one_of(word.text, KINDS) && word.joint == Some(joint) && joint != HUMP;
        if is_one_of(word.text, PUBLIC)
            || is_public && words.next().is_some_and(|w| is_one_of(w.text, OPEN))
        {
            Some(Self::Public)
        } else if is_one_of(word.text, STORED)
            || is_one_of(word.text, OFTEN_STORED) && !is_set(&last, &word)
        {
            Some(Self::Stored)
        } else {
            is_one_of(word.text, SECRET).then_some(Self::Secret)
        }
    }
}

/// Whether the two words of a name are written as environments write them, or joined by a capital.
fn is_set(key: &Word, before: &Word) -> bool {
    let is_upper = |text: &str| !text.bytes().any(|b| b.is_ascii_lowercase());
    let is_primary = before.text.eq_ignore_ascii_case("primary");
    if is_primary { key.joint == Some(HUMP) } else { is_upper(key.text) && is_upper(before.text) }
}

/// The last of the words that a name is made of.
pub(super) fn last_word(name: &str) -> &str {
    Words { rest: name }.next().map_or("", |word| word.text)
}

/// Whether a name is about how something is done: `key_type`, `keyAlgorithm`.
pub(super) fn is_manner(label: &str) -> bool {
    let word = Words { rest: label }.next().map(|word| word.text.to_ascii_lowercase());
    word.is_some_and(|word| MANNERS.contains(&&*word))
}

/// Whether a name, read from its end, is that of something else than a secret: of what a secret has or is found by, of a
/// place in a list, of what is made up.
pub(super) fn is_reference(label: &str, keyword: &str) -> bool {
    let mut words = Words { rest: label }.map(|word| (word.text.to_ascii_lowercase(), word.joint));
    let Some((last, joint)) = words.next() else { return false };
    if MADE_UP.contains(&&*last) {
        return true;
    }
    let Some(joint) = joint.filter(|joint| *joint != b' ') else { return false };
    let Some((before, mut joint_before)) = words.next() else { return false };
    let is_own = keyword.to_ascii_lowercase().ends_with(&*last)
        || CREDENTIALS.contains(&(&*before, &*last)) && (before != "key" || is_access(label));
    let is_passing = ["token", "tokens"].contains(&&*last) && PASSING.contains(&&*before);
    let is_row = last == "key" && joint != HUMP && ROWS.contains(&&*before);
    if REFERENCES.contains(&&*last) && !is_own
        || is_passing
        || is_row
        || MADE_UP.contains(&&*before)
    {
        return true;
    }
    words.any(|(word, joint)| {
        let is_joined = joint_before.is_some_and(|joint| joint != b' ');
        joint_before = if is_joined { joint } else { None };
        is_joined && MADE_UP.contains(&&*word)
    })
}

/// Whether the last but one word of the identifier of a key is "access", as in those of AWS.
fn is_access(label: &str) -> bool {
    Words { rest: label }.nth(2).is_some_and(|word| word.text.eq_ignore_ascii_case("access"))
}

/// Whether a word goes on behind a part of a name, so that it is another word: `authority`, `keyboard`, `tokenizer`.
/// `name` begins with the part.
pub(super) fn goes_on(name: &str, part: &str) -> bool {
    let bytes = &name.as_bytes()[part.len()..];
    let is_capital = part.ends_with(|c: char| c.is_ascii_uppercase());
    let same = |b: &&u8| if is_capital { b.is_ascii_uppercase() } else { b.is_ascii_lowercase() };
    let mut rest = bytes.iter().take_while(same).count();
    // The last capital begins the next word: `APIKey`.
    rest -=
        usize::from(is_capital && rest > 0 && bytes.get(rest).is_some_and(u8::is_ascii_lowercase));
    let rest = bytes[..rest].to_ascii_lowercase();
    !(rest.is_empty() || rest == b"s" || PARTS.iter().any(|part| rest.starts_with(part.as_bytes())))
}

/// Whether a name and a hexadecimal number are a package and its checksum, as iOS's packages are listed them: `AppAuth: 3505...`.
pub(super) fn is_package(label: &str, between: &str, value: &str) -> bool {
    #[rustfmt::skip]
    const SECRETS: &[&str] = &[
        "token", "secret", "credential", "webhook", "password", "passwd", "passwort", "passphrase", "passcode", "authorization",
    ];
    const WHOLE: &[&str] = &["auth", "session", "login", "bearer", "kennwort"];
    let name = label.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    let stem = lower.trim_end_matches('s');
    let stem = stem.strip_suffix("value").unwrap_or(stem);
    between == ": "
        && value.len() == 40
        && randomness::is_hex(value)
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && label[..label.len() - name.len()].ends_with([' ', '\n'])
        && name.bytes().any(|b| b.is_ascii_lowercase())
        && !lower.ends_with("key")
        && !SECRETS.iter().any(|word| stem.ends_with(word))
        && !WHOLE.contains(&&*lower)
}

/// Whether a label ends with the name of a key that signs, or with an option that a program is given its fingerprint by:
/// `signing key`, `signingkey`, `--recv-keys`.
pub(super) fn is_signing_key(label: &str) -> bool {
    let mut words = Words { rest: label };
    let Some(last) = words.next() else { return false };
    let mut is_second = || {
        let word = words.next();
        word.is_some_and(|word| is_one_of(word.text, &["signing", "recv", "lsign", "export"]))
    };
    last.text.eq_ignore_ascii_case("signingkey")
        || is_one_of(last.text, &["key", "keys"]) && is_second()
}

/// Whether hexadecimal digits are the fingerprint of a public key of PGP, which it is called by.
pub(super) fn is_fingerprint(value: &str) -> bool {
    matches!(value.len(), 16 | 40)
        && value.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'A'..=b'F'))
        && value.bytes().any(|b| b.is_ascii_uppercase())
}

/// The joint of two words that only a capital sets apart.
const HUMP: u8 = 0;

/// The words at the end of a text, the last one first: of `awsSecretKey`, `sort_key`, `Your public API key`.
struct Words<'t> {
    rest: &'t str,
}

struct Word<'t> {
    text: &'t str,
    /// The byte that joins it to the one in front of it, if there is one.
    joint: Option<u8>,
}

impl<'t> Iterator for Words<'t> {
    type Item = Word<'t>;

    fn next(&mut self) -> Option<Word<'t>> {
        let bytes = self.rest.as_bytes();
        let mut start = bytes.len();
        while start > 0 && bytes[start - 1].is_ascii_alphanumeric() {
            start -= 1;
            let ends = start == 0 || !bytes[start - 1].is_ascii_alphanumeric();
            let is_small = |at: usize| bytes.get(at).is_some_and(|b| !b.is_ascii_uppercase());
            let hump = bytes[start].is_ascii_uppercase()
                && (is_small(start + 1) || is_small(start.wrapping_sub(1)));
            if ends || hump {
                break;
            }
        }
        let text = &self.rest[start..];
        if text.is_empty() {
            return None;
        }
        let before = &bytes[..start];
        let is_part =
            |at: usize| at.checked_sub(1).is_some_and(|at| before[at].is_ascii_alphanumeric());
        let joint = match before.last() {
            Some(b) if b.is_ascii_alphanumeric() => Some(HUMP),
            Some(&sign @ (b' ' | b'_' | b'-' | b'.')) if is_part(start - 1) => Some(sign),
            _ => None,
        };
        self.rest = match joint {
            None => "",
            Some(HUMP) => &self.rest[..start],
            Some(_) => &self.rest[..start - 1],
        };
        Some(Word { text, joint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_from_their_end() {
        let words = |label| Words { rest: label }.map(|word| word.text).collect::<Vec<_>>();
        for (label, read) in [
            ("Your public API key", &["key", "API", "public", "Your"][..]),
            ("x = awsSecretKey", &["Key", "Secret", "aws"]),
            ("APIKey", &["Key", "API"]),
            ("the end. sort_key", &["key", "sort"]),
            ("Schlüssel key", &["key", "ssel"]),
            ("", &[]),
        ] {
            assert_eq!(words(label), read, "{label}");
        }
    }

    #[test]
    fn a_word_that_goes_on_is_another_one() {
        for (name, part) in [
            ("authority-data", "auth"),
            ("KeyboardManager", "Key"),
            ("AUTHORITY", "AUTH"),
            ("tokenizer", "token"),
        ] {
            assert!(goes_on(name, part), "{name}");
        }
        for (name, part) in [
            ("auth", "auth"),
            ("authKey", "auth"),
            ("Authorization", "Auth"),
            ("keys", "key"),
            ("APIKey", "API"),
            ("APIKEY", "API"),
            ("key_2", "key"),
            ("sessionid", "session"),
        ] {
            assert!(!goes_on(name, part), "{name}");
        }
    }
}
