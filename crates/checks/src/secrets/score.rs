//! How live a value behind a name looks: named rejections first, then what it is made of.

use crate::secrets::assignment_operator::Join;
use crate::secrets::false_positives;
use crate::secrets::value_span::{MAX_PASSWORD, MAX_VALUE};
use crate::text::words::floor;
use crate::text::{randomness, source_code};
use crate::vocabulary::dummy_values;

/// Longer passwords are no words.
const MAX_CHOSEN: usize = 64;

/// How live a value looks, if at all.
pub(super) fn judge(
    text: &str,
    from: usize,
    value: &str,
    password: bool,
    join: Join,
) -> Option<f64> {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    // The cheap tests first: most words behind a name are short and hold no digit, and long values repeat themselves.
    let possible = if password {
        (6..=MAX_PASSWORD).contains(&value.len())
    } else {
        match value.len() {
            // So short a value is one behind few names.
            10..16 => join == Join::Assigned && digits >= 3 && is_strong(text, from),
            16..=MAX_VALUE => randomness::distinct(value) >= 6,
            _ => false,
        }
    };
    if !possible || !value.is_ascii() {
        return None;
    }
    let is_quoted = is_quoted(text.as_bytes(), from, from + value.len());
    if false_positives::is_no_secret(text, from, value, password && is_quoted) {
        return None;
    }
    if password {
        return chosen(value, join);
    }
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let symbols = value.len() - digits - letters;
    if false_positives::is_no_random_value(text, from, value) {
        return None;
    }
    if randomness::is_uuid(value) {
        // Version 1 is made of a clock and an address of hardware, not of chance.
        let chance = value.as_bytes()[14] != b'1';
        let named = join == Join::Assigned || is_said(text, from, join);
        return (named && chance).then_some(0.75);
    }
    // Quotes let through more symbols; words of code show themselves by how many there are.
    let charset = value
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.+/=~!@#$%^*:".contains(&b))
        || symbols * 5 < value.len() && digits >= 3 && value.bytes().all(|b| b.is_ascii_graphic());
    let path = value.contains('/') && value.contains("://")
        || value.matches('/').count() > 2 && symbols * 5 > value.len()
        || value.starts_with(['/', '.', '#'])
        || value.starts_with('-') && (value.starts_with("--") || digits < 3);
    let random = value.len() >= 16
        && !randomness::is_versioned(value)
        && randomness::entropy(value) >= if digits > 0 { 3.0 } else { 3.4 }
        && !randomness::is_wordy(value);
    let long_enough = value.len() >= if join == Join::Assigned { 16 } else { 20 };
    let short = (12..16).contains(&value.len()) && letters >= 4 && randomness::is_jumbled(value);
    let number = letters == 0 && value.len() >= 20 && !randomness::is_counted(value);
    if join == Join::Assigned
        && symbols == 0
        && digits >= 3
        && (short || number)
        && is_strong(text, from)
    {
        return Some(0.6);
    }
    let header = join == Join::Assigned
        && (10..16).contains(&value.len())
        && symbols == 0
        && digits >= 3
        && letters >= 4
        && value.bytes().any(|b| b.is_ascii_uppercase())
        && value.bytes().any(|b| b.is_ascii_lowercase())
        && !randomness::is_wordy(value)
        && text[floor(text, from.saturating_sub(16))..from].to_ascii_lowercase().contains("token");
    if header {
        return Some(0.7);
    }
    let chance = charset && !path && random && long_enough;
    (chance && (join != Join::Spaced || digits >= 2) && !randomness::spells_words(value))
        .then_some(0.8)
}

/// How live a value looks that a person may have chosen.
pub(super) fn chosen(value: &str, join: Join) -> Option<f64> {
    let count = |class: fn(&u8) -> bool| value.bytes().filter(class).count();
    let (digits, letters) = (count(u8::is_ascii_digit), count(u8::is_ascii_alphabetic));
    let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let symbols = value.len() - digits - letters;
    let random = letters >= 12
        && letters == value.len()
        && upper.min(lower) * 4 >= letters
        && join != Join::Spaced
        && !randomness::is_wordy(value);
    // A value drawn from one kind of sign, perhaps behind a word or two that name its owner: `acme_live_...`.
    let tail = value.rsplit(['_', '-']).next().unwrap_or(value);
    let uniform = tail.len() >= 16
        && join == Join::Assigned
        && (letters == 0 || !randomness::is_wordy(tail))
        // Ten digits can hold no more than 3.3 bits, and those of a short number hold less.
        && randomness::entropy(tail) >= if letters == 0 { 2.6 } else { 3.0 }
        && !randomness::is_counted(tail);
    let mixed = random
        || uniform
        || digits > 0 && letters > 0
        || symbols > 0 && letters > 0 && value.bytes().any(|b| b"!@#$%^&*?~+".contains(&b));
    let drawn_letters = || uniform && letters == value.len() && !dummy_values::is_stock(value);
    let plain = upper > 0 || digits >= 2 || symbols > 0 || drawn_letters();
    // A value that was drawn and encoded: no person has chosen it.
    let drawn = value.len() >= 16
        && join == Join::Assigned
        && digits.min(upper).min(lower) >= 2
        && randomness::is_scrambled(value.as_bytes())
        && !randomness::is_wordy(value);
    let path = value.contains('/') && !value.contains('!') && !drawn || value.contains("://");
    let other = dummy_values::is_measure(value) || source_code::is_type(value);
    let sure = mixed
        && plain
        && !path
        && !other
        && !(join == Join::Spaced && digits == 0)
        && (value.len() <= MAX_CHOSEN || drawn);
    sure.then_some(if join == Join::Assigned { 0.85 } else { 0.75 })
}

/// Whether a sentence gives a UUID as a secret: behind the last word of its name, in quotes, behind a verb or on request.
fn is_said(text: &str, from: usize, join: Join) -> bool {
    const OTHERS: &[&str] = &[
        "next",
        "page",
        "continuation",
        "request",
        "csrf",
        "xsrf",
        "sync",
        "cancellation",
        "cursor",
    ];
    let lead = text[floor(text, from.saturating_sub(64))..from].to_ascii_lowercase();
    let lead = lead.rsplit('\n').next().unwrap_or_default();
    let words: Vec<&str> =
        lead.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let is_joint = |word: &&&str| ["is", "was", "to", "as", "on"].contains(*word);
    let end = words.len() - words.iter().rev().take(2).take_while(is_joint).count();
    let Some(&last) = words[..end].last() else { return false };
    let before = if end > 1 { words[end - 2] } else { "" };
    let is_named = ["token", "secret", "apikey", "accesskey"].iter().any(|n| last.ends_with(n))
        || last == "key" && ["api", "access"].contains(&before);
    let is_asked =
        || words[..end].iter().any(|w| ["set", "setx", "use", "using", "export"].contains(w));
    is_named && !OTHERS.contains(&before) && (join != Join::Spaced || is_asked())
}

/// Whether the name in front leaves no doubt that a secret follows, however short.
fn is_strong(text: &str, from: usize) -> bool {
    let lead = text[floor(text, from.saturating_sub(24))..from].bytes();
    // `api key`, `api_key`, `api-key`, `apiKey`
    let lead: Vec<u8> =
        lead.filter(|b| !b" _-".contains(b)).map(|b| b.to_ascii_lowercase()).collect();
    let has = |name: &[u8]| lead.windows(name.len()).any(|part| part == name);
    [&b"token"[..], b"secret", b"apikey", b"accesskey", b"accessid"].into_iter().any(has)
}

/// Whether a value stands in quotes.
pub(super) fn is_quoted(bytes: &[u8], from: usize, to: usize) -> bool {
    matches!(bytes[from - 1], b'"' | b'\'') && bytes.get(to) == bytes.get(from - 1)
}
