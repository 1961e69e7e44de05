//! E-mail addresses, found from their `@`.

use crate::pii::found::{Entity, Found};
use crate::pii::view::View;
use crate::text::words::is_unspaced;

/// Longest local part and longest domain that are looked at.
const REACH: usize = 128;

/// Handles of payment addresses of India's UPI, which look like e-mail addresses without a domain.
const UPI: &[&str] = &[
    "oksbi",
    "okaxis",
    "okhdfcbank",
    "okicici",
    "ybl",
    "ibl",
    "axl",
    "paytm",
    "ptyes",
    "ptsbi",
    "ptaxis",
    "pthdfc",
    "upi",
    "apl",
    "yapl",
    "rapl",
    "waicici",
    "wahdfcbank",
    "waaxis",
    "wasbi",
    "icici",
    "hdfcbank",
    "sbi",
    "axisbank",
    "kotak",
    "barodampay",
    "idfcbank",
    "indus",
    "freecharge",
    "ikwik",
    "jupiteraxis",
];

/// Finds addresses. Nothing was found before: even of those that overlap more than the limit remain.
pub(super) fn find(view: &View<'_>, found: &mut Found, limit: usize) {
    for at in memchr::memchr_iter(b'@', view.bytes) {
        if found.len() > limit * 4 {
            return;
        }
        let start = local_start(view.text, at);
        let end = domain_end(view.text, at + 1);
        let start = unemphasised(view.text, start, end);
        if start < at
            && end > at
            && is_address(&view.text[start..at], &view.text[at + 1..end], &view.text[end..])
            && !is_password(view.bytes, start)
        {
            found.push(Entity::new("EMAIL", start..end, 0.9));
        } else if start < at && UPI.iter().any(|h| view.text[at + 1..end].eq_ignore_ascii_case(h)) {
            found.push(Entity::new("UPI_ID", start..end, 0.8));
        }
    }
}

fn local_start(text: &str, at: usize) -> usize {
    let allowed = |c: char| c.is_alphanumeric() || "._%+-'&".contains(c);
    // If the part before the sign is ASCII, a script without spaces is the sentence around it.
    let ascii = text[..at].ends_with(|c: char| c.is_ascii());
    let taken = text[..at]
        .chars()
        .rev()
        .take(REACH)
        .take_while(|&c| allowed(c) && !(ascii && is_unspaced(c)))
        .map(char::len_utf8)
        .sum::<usize>();
    let start = behind_escape(text, at - taken, at);
    at - text[start..at].trim_start_matches(['.', '\'', '-', '&', '%', '+']).len()
}

/// Returns the start of a local part behind an escape that runs into it: the `n` of a written-out line end, or `%3A`.
fn behind_escape(text: &str, start: usize, at: usize) -> usize {
    let local = &text[start..at];
    if let Some(percent) = local.rfind('%') {
        let code = local.get(percent + 1..percent + 3);
        let sign = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        // An encoded character that may be part of one is.
        let ends = |sign: u8| {
            sign.is_ascii() && !sign.is_ascii_alphanumeric() && !b"+-._%".contains(&sign)
        };
        if sign.is_some_and(ends) {
            return start + percent + 3;
        }
    }
    let written_out = text[..start].ends_with('\\') && local.starts_with(['n', 'r', 't']);
    start + usize::from(written_out)
}

/// `_jane@x.org_`: the signs around an address are emphasis where they stand on both sides.
fn unemphasised(text: &str, start: usize, end: usize) -> usize {
    let signs = text[start..].bytes().take_while(|&b| b == b'_').count();
    let closed = text[end..].bytes().take(signs).all(|b| b == b'_') && text.len() >= end + signs;
    if closed { start + signs } else { start }
}

/// `https://user:pass@host.com`, `postgres://user@host`: what stands in front of the sign lets somebody in there, and is no
/// mailbox.
fn is_password(bytes: &[u8], start: usize) -> bool {
    // No other signs may be part of it: a list goes on behind `,`, `;` and `|`, and a path behind `/`.
    let is_userinfo =
        |b: &&u8| b.is_ascii_alphanumeric() || **b >= 0x80 || b"-._~%!$&*+:".contains(b);
    let word = bytes[..start].iter().rev().take(REACH).take_while(is_userinfo).count();
    let scheme = bytes[..start - word].strip_suffix(b"//").and_then(|s| s.strip_suffix(b":"));
    // Names of these are those of persons, with the slashes that people put there.
    let names = |scheme: &[u8]| {
        let persons: [&[u8]; 5] = [b"sip", b"sips", b"xmpp", b"mailto", b"acct"];
        let letters = scheme.iter().rev().take(8).take_while(|b| b.is_ascii_alphabetic()).count();
        let name = &scheme[scheme.len() - letters..];
        persons.iter().any(|person| name.eq_ignore_ascii_case(person))
    };
    scheme.is_some_and(|scheme| !names(scheme))
}

fn domain_end(text: &str, from: usize) -> usize {
    let allowed = |c: char| c.is_alphanumeric() || c == '.' || c == '-';
    let mut taken = 0;
    for c in text[from..].chars().take(REACH) {
        // A script without spaces may be that of a whole label, but behind one of ASCII the sentence goes on.
        let goes_on = || {
            let domain = &text[from..from + taken];
            let labels = domain.trim_end_matches('.');
            !domain.is_empty()
                && domain.is_ascii()
                && (labels.len() == domain.len() || labels.contains('.'))
        };
        if !allowed(c) || is_unspaced(c) && goes_on() {
            break;
        }
        taken += c.len_utf8();
    }
    from + text[from..from + taken].trim_end_matches(['.', '-']).len()
}

fn is_address(local: &str, domain: &str, rest: &str) -> bool {
    let Some((name, top)) = domain.rsplit_once('.') else { return false };
    let top_ok =
        top.starts_with("xn--") || top.chars().count() >= 2 && top.chars().all(char::is_alphabetic);
    let labels = name.split('.').all(|l| !l.is_empty() && !l.starts_with('-') && !l.ends_with('-'));
    let remote = local == "git" && rest.starts_with([':', '/']);
    // "icon@2x.png" is an image, for screens of twice the density.
    let density = matches!(name.as_bytes(), [b'1'..=b'9', b'x' | b'X']);
    top_ok && labels && !remote && !density && !local.contains("..") && !local.ends_with('.')
}
