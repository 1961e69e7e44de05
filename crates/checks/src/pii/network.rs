//! IP and MAC addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::context::{self, Context};
use super::{Entity, View, before};
use crate::words::{ADDRESS, free_after, kind};

/// Looks at each run of hexadecimal digits, colons and dots that holds a digit.
pub(super) fn find(view: &View<'_>, found: &mut Vec<Entity>) {
    let mut done = 0;
    for &at in &view.joined {
        if at < done {
            continue;
        }
        let mut start = at;
        while start > done && at - start < 48 && kind(view.bytes, start - 1) & ADDRESS != 0 {
            start -= 1;
        }
        let mut end = at;
        while end - at < 64 && kind(view.bytes, end) & ADDRESS != 0 {
            end += 1;
        }
        if end == at {
            continue;
        }
        done = end;
        // No address has fewer than two joints.
        if view.bytes[start..end].iter().filter(|&&b| is_joint(b)).count() >= 2 {
            judge(view, start, end, found);
        }
    }
}

/// Whether a number or a token may be part of an address: at least two bytes of one must touch it, as in `::1`.
pub(super) fn is_joined(bytes: &[u8], start: usize, end: usize) -> bool {
    let part = |at: usize| kind(bytes, at) & ADDRESS != 0;
    let (before, behind) = (part(start.wrapping_sub(1)), part(end));
    before && (behind || part(start.wrapping_sub(2))) || behind && part(end + 1)
}

fn is_joint(byte: u8) -> bool {
    matches!(byte, b':' | b'.' | b'-')
}

/// MAC addresses may be all letters: looked for only behind a word that announces one.
pub(super) fn find_without_digits(view: &View<'_>, found: &mut Vec<Entity>) {
    for &(_, end, context) in view.scan.contexts.iter().filter(|hit| hit.2 == Context::Hardware) {
        debug_assert_eq!(context, Context::Hardware);
        let window =
            &view.text[end..crate::words::floor(view.text, (end + 60).min(view.text.len()))];
        let mut at = end;
        for word in window.split([' ', '\n', '"', '\'', '=', ',']) {
            if is_mac(word.trim_matches([':', '.', '-']).as_bytes()) {
                let lead = word.len() - word.trim_start_matches([':', '.', '-']).len();
                let token = word.trim_matches([':', '.', '-']);
                found.push(Entity::new("MAC_ADDRESS", at + lead..at + lead + token.len(), 0.8));
            }
            at += word.len() + 1;
        }
    }
}

fn judge(view: &View<'_>, mut start: usize, mut end: usize, found: &mut Vec<Entity>) {
    while start < end && matches!(view.bytes[start], b'.' | b'-')
        || start < end && view.bytes[start] == b':' && view.bytes.get(start + 1) != Some(&b':')
    {
        start += 1;
    }
    while start < end
        && (matches!(view.bytes[end - 1], b'.' | b'-')
            || view.bytes[end - 1] == b':' && view.bytes.get(end.wrapping_sub(2)) != Some(&b':'))
    {
        end -= 1;
    }
    let free = |i: Option<usize>| {
        i.and_then(|i| view.bytes.get(i)).is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'_')
    };
    if start >= end || !free(start.checked_sub(1)) || !free(Some(end)) && view.bytes[end] != b'%' {
        return;
    }
    let text = &view.text[start..end];
    // With dots it needs a letter, and nothing in front: `1234.5678.9012` may be any number.
    let dotted = text.len() == 14;
    let told = !dotted
        || text.bytes().any(|b| b.is_ascii_alphabetic())
            && (start == 0 || view.bytes[start - 1] != b'.');
    if is_mac(text.as_bytes()) {
        if told {
            found.push(Entity::new("MAC_ADDRESS", start..end, 0.8));
        }
    } else if text.bytes().filter(|&b| b == b':').count() >= 2 {
        let shown = text.len() > 4 || view.is_whole(&(start..end)) || text == "::1";
        if text.parse::<Ipv6Addr>().is_ok() && shown {
            found.push(Entity::new("IP_ADDRESS", start..tail(view, end, true), 0.8));
        }
    } else {
        ipv4(view, start, end, found);
    }
}

fn ipv4(view: &View<'_>, start: usize, end: usize, found: &mut Vec<Entity>) {
    // A port may follow.
    let end =
        view.bytes[start..end].iter().position(|&b| b == b':').map_or(end, |colon| start + colon);
    let text = &view.text[start..end];
    if text.len() < 7 || text.parse::<Ipv4Addr>().is_err() {
        return;
    }
    let lead = before(view.text, start, 12).trim_end().to_ascii_lowercase();
    // Or a "v" that ends a word just in front.
    let marked = (start.saturating_sub(3)..=start).any(|end| {
        end > 0 && matches!(view.bytes[end - 1], b'v' | b'V') && free_after(view.bytes, end)
    });
    let version = marked
        || lead.ends_with("version")
        || lead.ends_with('v')
        || context::leads(view.scan, Context::Version, start, 3)
        || numbered(view, start, text);
    if !version
        && view
            .bytes
            .get(end)
            .is_none_or(|&b| b != b'.' || !view.bytes.get(end + 1).is_some_and(u8::is_ascii_digit))
    {
        found.push(Entity::new("IP_ADDRESS", start..tail(view, end, false), 0.75));
    }
}

/// Whether an address is rather the number of a version or of a section: part of a file's name, or small numbers behind a
/// word that does not lead up to an address.
fn numbered(view: &View<'_>, start: usize, text: &str) -> bool {
    #[rustfmt::skip]
    const LEADS: &[&str] = &[
        "ip", "ips", "ipv4", "addr", "address", "addresses", "host", "hosts", "server", "servers",
        "node", "router", "gateway", "dns", "nameserver", "resolver", "subnet", "network", "cidr",
        "range", "mask", "netmask", "ping", "traceroute", "curl", "ssh", "telnet", "nslookup", "dig",
        "proxy", "client", "peer", "inet", "default", "localhost", "broadcast", "from", "to", "at",
        "is", "was", "are", "on", "of", "for", "via", "by", "and", "or", "the", "in", "with", "through",
        "into", "block", "allow", "deny", "ban", "listen", "bind", "source", "src", "dst",
        "destination", "remote", "local", "machine", "reach", "visit", "connect", "add", "use", "using",
    ];
    let bytes = view.bytes;
    let before = |back: usize| start.checked_sub(back).map_or(0, |at| bytes[at]);
    let stuck = before(2).is_ascii_alphanumeric();
    if before(1) == b'.' && stuck {
        return true;
    }
    // Private networks and known resolvers are made of small numbers, too.
    let common = text.starts_with("10.") || matches!(text, "1.1.1.1" | "8.8.8.8" | "9.9.9.9");
    let small =
        !common && text.split('.').all(|part| part.len() < 2 || part.len() == 2 && part < "32");
    if before(1) == b'-' && stuck {
        return small;
    }
    let word = super::before(view.text, start, 24);
    let Some(word) = word.strip_suffix(' ') else { return false };
    let letters = |b: &u8| b.is_ascii_alphabetic();
    let length = word.bytes().rev().take_while(|b| letters(b)).count();
    let word = &word[word.len() - length..];
    small && length > 0 && !LEADS.iter().any(|lead| word.eq_ignore_ascii_case(lead))
}

/// A zone (`%eth0`) or the length of a prefix (`/24`).
fn tail(view: &View<'_>, end: usize, zoned: bool) -> usize {
    let rest = &view.bytes[end..];
    let taken =
        |from: usize, ok: fn(&u8) -> bool| rest[from..].iter().take_while(|b| ok(b)).count();
    match rest.first() {
        Some(b'%') if zoned => end + 1 + taken(1, u8::is_ascii_alphanumeric),
        Some(b'/') => match taken(1, u8::is_ascii_digit) {
            count @ 1..=3
                if !rest.get(count + 1).is_some_and(u8::is_ascii_alphanumeric)
                    && (zoned || count < 3) =>
            {
                end + 1 + count
            }
            _ => end,
        },
        _ => end,
    }
}

fn is_mac(text: &[u8]) -> bool {
    let hex = |i: usize| text[i].is_ascii_hexdigit();
    match text.len() {
        17 => (0..17).all(|i| {
            if i % 3 == 2 { text[i] == text[2] && matches!(text[i], b':' | b'-') } else { hex(i) }
        }),
        14 => (0..14).all(|i| if i % 5 == 4 { text[i] == b'.' } else { hex(i) }),
        _ => false,
    }
}
