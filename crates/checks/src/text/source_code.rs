//! Values that are source code: templates, variables, calls, pointers, types.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::text::randomness::is_wordy;

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
    // `%DB_PASSWORD%`, as in scripts of Windows.
    let windows = value
        .strip_prefix('%')
        .and_then(|rest| rest.strip_suffix('%'))
        .is_some_and(|name| name.len() >= 4 && name.bytes().all(is_name) && is_variable(name));
    let parts = ["${", "{{", "<%", "#{", "%("];
    opened || variable || reference || windows || parts.iter().any(|part| value.contains(part))
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
        || is_attribute(value)
}

/// Whether a value begins as regular expressions do: `^[A-Z`, `^(?=.*\d`.
pub(crate) fn is_pattern(value: &str) -> bool {
    const BEGINNINGS: [&str; 5] = ["^[", "^(", "(?", "[a-z", "[A-Z"];
    BEGINNINGS.iter().any(|lead| value.starts_with(lead))
}

/// Whether a value is an attribute of a resource, as in Terraform: `random_password.db.result`.
fn is_attribute(value: &str) -> bool {
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    let ends: [&str; 9] =
        ["value", "result", "id", "arn", "key", "password", "token", "secret", "content"];
    value.matches('.').count() >= 2
        && value.split('.').all(is_part)
        && value.rsplit(['.', '_']).next().is_some_and(|end| ends.contains(&end))
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
    // `generatePassword(16`
    let is_words = || {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.bytes().all(|b| b.is_ascii_alphabetic())
            && is_wordy(name)
    };
    name.len() >= 4
        && (rest.starts_with('(') || name.bytes().all(is_name) || is_words())
        && rest.matches('(').count() >= rest.matches(')').count()
}

/// Whether a value is a type that may be missing or must not: `String?`, `String!`.
pub(crate) fn is_type(value: &str) -> bool {
    const TYPES: [&str; 9] =
        ["String", "Int", "Bool", "Boolean", "Any", "Data", "Char", "CharArray", "Password"];
    let name = value.trim_start_matches('[').trim_end_matches(['!', '?', ']']);
    name.len() < value.len() && TYPES.contains(&name)
}
