//! E-mail addresses, found from their `@`.

use super::{Entity, View};

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

/// Finds addresses.
pub(super) fn find(view: &View<'_>, found: &mut Vec<Entity>, limit: usize) {
    for at in memchr::memchr_iter(b'@', view.bytes).take(limit * 4) {
        let start = local_start(view.text, at);
        let end = domain_end(view.text, at + 1);
        if start < at
            && end > at
            && is_address(&view.text[start..at], &view.text[at + 1..end], &view.text[end..])
        {
            found.push(Entity::new("EMAIL", start..end, 0.9));
        } else if start < at && UPI.iter().any(|h| view.text[at + 1..end].eq_ignore_ascii_case(h)) {
            found.push(Entity::new("UPI_ID", start..end, 0.8));
        }
    }
}

fn local_start(text: &str, at: usize) -> usize {
    let allowed = |c: char| c.is_alphanumeric() || "._%+-'&".contains(c);
    let taken = text[..at]
        .chars()
        .rev()
        .take(REACH)
        .take_while(|&c| allowed(c))
        .map(char::len_utf8)
        .sum::<usize>();
    let local = &text[at - taken..at];
    at - local.trim_start_matches(['.', '\'', '-', '&', '%', '+']).len()
}

fn domain_end(text: &str, from: usize) -> usize {
    let allowed = |c: char| c.is_alphanumeric() || c == '.' || c == '-';
    let taken = text[from..]
        .chars()
        .take(REACH)
        .take_while(|&c| allowed(c))
        .map(char::len_utf8)
        .sum::<usize>();
    from + text[from..from + taken].trim_end_matches(['.', '-']).len()
}

fn is_address(local: &str, domain: &str, rest: &str) -> bool {
    let Some((name, top)) = domain.rsplit_once('.') else { return false };
    let top_ok =
        top.starts_with("xn--") || top.chars().count() >= 2 && top.chars().all(char::is_alphabetic);
    let labels = name.split('.').all(|l| !l.is_empty() && !l.starts_with('-') && !l.ends_with('-'));
    let remote = local == "git" && rest.starts_with([':', '/']);
    top_ok && labels && !remote && !local.contains("..") && !local.ends_with('.')
}
