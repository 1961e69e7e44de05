//! IP and MAC addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::pii::found::{Entity, Found};
use crate::pii::version;
use crate::pii::view::View;
use crate::text::words::{ADDRESS, floor, is_name, kind};
use crate::vocabulary::contexts::Context;

/// With a colon or a dash between each two digits.
const LONGEST_MAC: usize = 17;

/// Looks at each run of hexadecimal digits, colons and dots that holds a digit.
pub(super) fn find(view: &View<'_>, found: &mut Found) {
    let mut done = 0;
    for at in view.joined.iter().map(|&at| at as usize) {
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

fn is_joint_sign(sign: char) -> bool {
    matches!(sign, ':' | '.' | '-')
}

/// MAC addresses may be all letters: looked for only behind a word that announces one.
pub(super) fn find_without_digits(view: &View<'_>, found: &mut Found) {
    let mut done = 0;
    for hit in view.scan.contexts.iter().filter(|hit| hit.meaning == Context::Hardware) {
        let from = done.max(hit.end());
        let to = floor(view.text, (hit.end() + 60).min(view.text.len()));
        if from >= to {
            continue;
        }
        let window = &view.text[from..to];
        done = to;
        if !window.bytes().any(is_joint) {
            continue;
        }
        let mut at = from;
        for word in window.split([' ', '\n', '"', '\'', '=', ',']) {
            let token = word.trim_matches(is_joint_sign);
            if is_mac(token.as_bytes()) {
                let start = at + word.len() - word.trim_start_matches(is_joint_sign).len();
                found.push(Entity::new("MAC_ADDRESS", start..start + token.len(), 0.8));
            } else if at + word.len() == to && word.len() < LONGEST_MAC {
                // The window may have cut it.
                done = at;
            }
            at += word.len() + 1;
        }
    }
}

fn judge(view: &View<'_>, mut start: usize, mut end: usize, found: &mut Found) {
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
    // The last letters of a word may be hexadecimal digits: "source:", "interface:".
    if !free(view.bytes, start.checked_sub(1)) {
        let run = &view.bytes[start..end.max(start)];
        let Some(colon) = run.iter().position(|&b| b == b':') else { return };
        if !run[..colon].iter().all(u8::is_ascii_alphabetic) || run.get(colon + 1) == Some(&b':') {
            return;
        }
        start += colon + 1;
    }
    if start >= end || !free(view.bytes, Some(end)) && view.bytes[end] != b'%' {
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
        return;
    }
    if text.bytes().filter(|&b| b == b':').count() >= 2 && text.parse::<Ipv6Addr>().is_ok() {
        if text.len() > 4 || text == "::1" {
            found.push(Entity::new("IP_ADDRESS", start..tail(view, end, true), 0.8));
        }
        return;
    }
    // With a port, or the first and the last of a range.
    let mut at = start;
    let mut parts = text.split([':', '-']).peekable();
    while let Some(part) = parts.next() {
        // "3.0.5.130-5a1e7" is a build.
        let built = parts.peek().is_some_and(|next| next.bytes().any(|b| b.is_ascii_alphabetic()));
        if !built {
            ipv4(view, at, at + part.len(), found);
        }
        at += part.len() + 1;
    }
}

/// Whether no letter, digit or `_` stands at a place.
fn free(bytes: &[u8], at: Option<usize>) -> bool {
    at.and_then(|at| bytes.get(at)).is_none_or(|&b| !is_name(b))
}

fn ipv4(view: &View<'_>, start: usize, end: usize, found: &mut Found) {
    let text = &view.text[start..end];
    if text.len() < 7 || text.parse::<Ipv4Addr>().is_err() {
        return;
    }
    let followed = |sign: u8| {
        view.bytes.get(end) == Some(&sign)
            && view.bytes.get(end + 1).is_some_and(u8::is_ascii_digit)
    };
    let until = tail(view, end, false);
    let sure = until > end || followed(b':');
    if !followed(b'.') && !version::is_numbering(view, start, text, sure) {
        found.push(Entity::new("IP_ADDRESS", start..until, 0.75));
    }
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
        LONGEST_MAC => (0..LONGEST_MAC).all(|i| {
            if i % 3 == 2 { text[i] == text[2] && matches!(text[i], b':' | b'-') } else { hex(i) }
        }),
        14 => (0..14).all(|i| if i % 5 == 4 { text[i] == b'.' } else { hex(i) }),
        _ => false,
    }
}
