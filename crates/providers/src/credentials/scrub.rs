//! Removes credentials from texts that people will read.

use domain::secret::Secret;

use crate::credentials::{MASK, written};
use crate::error::Error;

/// Most characters of a provider's text that are passed on.
const MOST_CHARS: usize = 500;
/// Prefixes of the credentials of known vendors.
const PREFIXES: [&str; 12] =
    ["sk-", "sk_", "rk-", "AIza", "AKIA", "ASIA", "gsk_", "xai-", "hf_", "ghp_", "eyJ", "ABSK"];

impl Error {
    /// Removes every credential from the error; the last step before it leaves this crate.
    pub(crate) fn sealed(self, key: Option<&Secret>) -> Self {
        self.map_texts(|text| scrub(text, key))
    }
}

/// Returns the text without the key, without anything that looks like a credential, without control
/// characters that storage or terminals choke on, and at most 500 characters long.
pub(crate) fn scrub(text: &str, key: Option<&Secret>) -> String {
    let mut text = text.to_owned();
    let mut forms = Vec::new();
    for part in key.into_iter().flat_map(key_parts) {
        written(part, &mut forms);
    }
    for form in forms {
        if text.contains(&form) {
            text = text.replace(&form, MASK);
        }
    }
    mask_lookalikes(&text).chars().map(printable).take(MOST_CHARS).collect()
}

/// Returns the key, and the parts of one that is written `id:secret:token`.
fn key_parts(key: &Secret) -> impl Iterator<Item = &str> {
    let whole = Some(key.expose().trim()).filter(|whole| whole.len() >= 4);
    whole.into_iter().chain(key.expose().split(':').filter(|part| part.len() >= 8))
}

fn printable(c: char) -> char {
    match c {
        '\n' | '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

fn mask_lookalikes(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    let mut at_word = true;
    while let Some(c) = rest.chars().next() {
        let (kept, hidden) = if at_word { credential(rest) } else { (0, 0) };
        if hidden > 0 {
            clean.push_str(&rest[..kept]);
            clean.push_str(MASK);
            rest = &rest[kept + hidden..];
            at_word = false;
        } else {
            clean.push(c);
            rest = &rest[c.len_utf8()..];
            at_word = !(c.is_alphanumeric() || c == '-' || c == '_');
        }
    }
    clean
}

/// Number of bytes to keep at the start of the text, and number of bytes to hide after them.
fn credential(text: &str) -> (usize, usize) {
    const SCHEME: usize = "bearer ".len();
    if text.get(..SCHEME).is_some_and(|word| word.eq_ignore_ascii_case("bearer ")) {
        let token = token_length(&text[SCHEME..]);
        let named = &text[SCHEME..SCHEME + token];
        // "Bearer authentication" is a phrase, not a credential.
        let random = token >= 20 || named.bytes().any(|b| b.is_ascii_digit() || b == b'*');
        return if random { (SCHEME, token) } else { (0, 0) };
    }
    if !PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
        return (0, 0);
    }
    let token = token_length(text);
    if token >= 8 { (0, token) } else { (0, 0) }
}

fn token_length(text: &str) -> usize {
    let inside = |b: u8| b.is_ascii_alphanumeric() || b"-_.~+/=*".contains(&b);
    text.bytes().take_while(|b| inside(*b)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_do_not_pass() {
        let key = Secret::new("my-own-key-77".to_owned());
        for (text, clean) in [
            ("bad key my-own-key-77!", "bad key ***!"),
            ("Incorrect API key provided: sk-abc1***wxyz.", "Incorrect API key provided: ***"),
            ("key=sk-proj_1234567890 is wrong", "key=*** is wrong"),
            ("sent 'bearer abc123def' twice", "sent 'bearer ***' twice"),
            ("Bearer authentication needed", "Bearer authentication needed"),
            ("task-1234567890 is no secret", "task-1234567890 is no secret"),
            ("nul\0 here", "nul\u{fffd} here"),
        ] {
            assert_eq!(scrub(text, Some(&key)), clean);
        }
    }

    #[test]
    fn parts_of_a_compound_key_do_not_pass() {
        let key = Secret::new("ID1234567890:wJalrXUtnFEMI".to_owned());
        assert_eq!(
            scrub("signature of wJalrXUtnFEMI is bad", Some(&key)),
            "signature of *** is bad"
        );
    }

    #[test]
    fn texts_are_short_and_never_end_in_half_a_key() {
        let key = Secret::new("my-own-key-77".to_owned());
        let text = format!("{}my-own-key-77", "x".repeat(493));
        let clean = scrub(&text, Some(&key));
        assert_eq!(clean.len(), 496);
        assert!(clean.ends_with("x***"));
        assert_eq!(scrub(&"é".repeat(900), None).chars().count(), 500);
    }
}
