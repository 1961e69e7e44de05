//! Passwords in URLs and in connection strings that are written as such.

use std::ops::Range;

use memchr::memmem;

use crate::secrets::secret::Secret;
use crate::text::words::{floor, is_one_of};
use crate::vocabulary::credential_rules::{URL_CREDENTIALS, URL_MARK};
use crate::vocabulary::dummy_values;

/// The longest name of a user that is looked at.
const MAX_USER: usize = 120;
/// The longest password, and the shortest.
const MAX_PASSWORD: usize = 120;
const MIN_PASSWORD: usize = 3;

/// Schemes of databases and queues. Passwords of these are written with signs that URLs have for themselves.
#[rustfmt::skip]
const DATABASES: [&str; 15] = [
    "postgres", "postgresql", "mysql", "mariadb", "mongodb", "redis", "rediss", "amqp", "amqps", "mssql",
    "sqlserver", "clickhouse", "cockroachdb", "oracle", "ldap",
];

/// Finds them all.
pub(super) fn find(text: &str, found: &mut Vec<Secret>, limit: usize) {
    let urls = memmem::find_iter(text.as_bytes(), URL_MARK);
    let passwords = urls.filter_map(|mark| password(text, mark));
    found.extend(passwords.take(limit).map(|bytes| Secret {
        kind: URL_CREDENTIALS,
        bytes,
        score: 0.85,
    }));
}

/// Returns the range of the password in the URL whose scheme ends at `mark`.
fn password(text: &str, mark: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let from = mark + URL_MARK.len();
    let is_sign = |b: &u8| b" \t\r\n/?#@\"'<>[]:".contains(b);
    let user = bytes[from..].iter().take(MAX_USER).position(is_sign)?;
    let from_password = from + user + 1;
    if bytes[from + user] != b':' {
        return None;
    }
    let is_database = is_database(text, mark);
    let stops: &[u8] = if is_database { b"\"'<>" } else { b"/?#\"'<>:" };
    let reach = &bytes[from_password..];
    let reach = &reach[..reach.len().min(MAX_PASSWORD + 1)];
    let stop = |b: &u8| b.is_ascii_whitespace() || stops.contains(b);
    let reach = &reach[..reach.iter().position(stop).unwrap_or(reach.len())];
    let mut length = None;
    for at in memchr::memchr_iter(b'@', reach).filter(|&at| at >= MIN_PASSWORD) {
        let host = &bytes[from_password + at + 1..];
        if host.first().is_some_and(|b| b.is_ascii_alphanumeric() || b"[._-".contains(b)) {
            length = Some(at);
            if !is_database || is_host(host) {
                break;
            }
        } else if !is_database {
            break;
        }
    }
    let range = from_password..from_password + length?;
    let value = text.get(range.clone())?;
    let is_port = is_port(&text[from..from + user], value, is_database);
    (!is_port && !value.contains(URL_MARK) && dummy_values::is_live_login(value)).then_some(range)
}

/// Whether a scheme is that of a database, whatever driver is named with it: `postgresql+psycopg`.
fn is_database(text: &str, mark: usize) -> bool {
    let lead = &text[floor(text, mark.saturating_sub(24))..mark];
    let scheme = lead.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next();
    let scheme = scheme.and_then(|scheme| scheme.split('+').next()).unwrap_or_default();
    is_one_of(scheme, &DATABASES)
}

/// Whether a host that has a domain or a port begins a text: what is behind it is no password any more.
fn is_host(text: &[u8]) -> bool {
    let is_part = |b: &&u8| b.is_ascii_alphanumeric() || b".-_".contains(b);
    let (host, rest) = text.split_at(text.iter().take(80).take_while(is_part).count());
    let is_name = host.contains(&b'.') || host == b"localhost";
    match rest.first() {
        Some(b':') => rest.get(1).is_some_and(u8::is_ascii_digit),
        Some(b'/' | b'?' | b',' | b'&' | b';') => is_name,
        _ => false,
    }
}

/// Whether what stands behind the colon is a port: behind a host, or before a path.
fn is_port(user: &str, value: &str, is_database: bool) -> bool {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let behind_host = digits == value.len() && user.contains('.') && !is_database;
    (2..=5).contains(&digits) && (behind_host || value[digits..].starts_with('/'))
}
