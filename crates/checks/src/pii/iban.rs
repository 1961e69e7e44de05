//! International bank account numbers.

use crate::pii::context;
use crate::pii::found::{Entity, Found};
use crate::pii::view::{Refused, View};
use crate::text::checksum;
use crate::text::spans::Span;
use crate::vocabulary::contexts::Context;

/// How long an account number of each country is.
const LENGTHS: &[(&[u8; 2], usize)] = &[
    (b"AD", 24),
    (b"AE", 23),
    (b"AL", 28),
    (b"AT", 20),
    (b"AZ", 28),
    (b"BA", 20),
    (b"BE", 16),
    (b"BG", 22),
    (b"BH", 22),
    (b"BI", 27),
    (b"BR", 29),
    (b"BY", 28),
    (b"CH", 21),
    (b"CR", 22),
    (b"CY", 28),
    (b"CZ", 24),
    (b"DE", 22),
    (b"DJ", 27),
    (b"DK", 18),
    (b"DO", 28),
    (b"EE", 20),
    (b"EG", 29),
    (b"ES", 24),
    (b"FI", 18),
    (b"FK", 18),
    (b"FO", 18),
    (b"FR", 27),
    (b"GB", 22),
    (b"GE", 22),
    (b"GI", 23),
    (b"GL", 18),
    (b"GR", 27),
    (b"GT", 28),
    (b"HN", 28),
    (b"HR", 21),
    (b"HU", 28),
    (b"IE", 22),
    (b"IL", 23),
    (b"IQ", 23),
    (b"IS", 26),
    (b"IT", 27),
    (b"JO", 30),
    (b"KW", 30),
    (b"KZ", 20),
    (b"LB", 28),
    (b"LC", 32),
    (b"LI", 21),
    (b"LT", 20),
    (b"LU", 20),
    (b"LV", 21),
    (b"LY", 25),
    (b"MC", 27),
    (b"MD", 24),
    (b"ME", 22),
    (b"MK", 19),
    (b"MN", 20),
    (b"MR", 27),
    (b"MT", 31),
    (b"MU", 30),
    (b"NI", 28),
    (b"NL", 18),
    (b"NO", 15),
    (b"OM", 23),
    (b"PK", 24),
    (b"PL", 28),
    (b"PS", 29),
    (b"PT", 25),
    (b"QA", 29),
    (b"RO", 24),
    (b"RS", 22),
    (b"RU", 33),
    (b"SA", 24),
    (b"SC", 31),
    (b"SD", 18),
    (b"SE", 24),
    (b"SI", 19),
    (b"SK", 24),
    (b"SM", 27),
    (b"SO", 23),
    (b"ST", 25),
    (b"SV", 28),
    (b"TL", 23),
    (b"TN", 24),
    (b"TR", 26),
    (b"UA", 29),
    (b"VA", 22),
    (b"VG", 24),
    (b"XK", 20),
    (b"YE", 30),
];

/// A number that fails its check, or of a country that has none: taken for one right behind the word, as it was meant.
fn named(view: &View<'_>, start: usize, found: &mut Found) {
    if !context::leads(view.scan, Context::Iban, start, 8) {
        return;
    }
    let part = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    let rest = &view.bytes[start..view.bytes.len().min(start + 42)];
    let mut end = 0;
    while end < rest.len() {
        let group = rest[end..].iter().take_while(|b| part(b)).count();
        end += group;
        let more = rest.get(end) == Some(&b' ') && rest.get(end + 1).is_some_and(part);
        if group == 0 || !more {
            break;
        }
        end += 1;
    }
    let count = |class: fn(&u8) -> bool| rest[..end].iter().filter(|b| class(b)).count();
    if (14..=34).contains(&count(u8::is_ascii_alphanumeric)) && count(u8::is_ascii_digit) >= 8 {
        found.push(Entity::new("IBAN", start..start + end, 0.93));
    }
}

/// Finds account numbers that begin with a token such as `GB82` or `GB82WEST...`. Gives the ranges that are built like
/// one but for the check: their groups are no phone or identity numbers either.
pub(super) fn find(view: &View<'_>, found: &mut Found) -> Vec<Refused> {
    let mut refused: Vec<Refused> = Vec::new();
    for token in view.tokens.iter().map(Span::range) {
        let start = &view.bytes[token.clone()];
        if start.len() < 4
            || !start[..2].iter().all(u8::is_ascii_alphabetic)
            || !start[2..4].iter().all(u8::is_ascii_digit)
        {
            continue;
        }
        let country = [start[0].to_ascii_uppercase(), start[1].to_ascii_uppercase()];
        let Some(&(_, length)) = LENGTHS.iter().find(|(c, _)| **c == country) else {
            named(view, token.start, found);
            continue;
        };
        let mut compact = Vec::with_capacity(34);
        let (mut end, mut broken) = (token.start, false);
        while compact.len() < length && end < view.bytes.len() {
            let byte = view.bytes[end];
            if byte.is_ascii_alphanumeric() {
                compact.push(byte.to_ascii_uppercase());
                end += 1;
                continue;
            }
            let gap = gap(&view.bytes[end..]);
            let ends_line = view.bytes[end..end + gap].contains(&b'\n');
            if gap == 0 || ends_line && broken {
                break;
            }
            broken |= ends_line;
            end += gap;
        }
        let over = view.bytes.get(end).is_some_and(u8::is_ascii_alphanumeric);
        let full = compact.len() == length && !over;
        if full && checksum::iban(&compact) {
            found.push(Entity::new("IBAN", token.start..end, 0.95));
            continue;
        }
        if full && !broken {
            named(view, token.start, found);
        }
        let follows = refused.last().is_none_or(|last| last.bytes.end <= token.start);
        if follows && is_printed(&view.bytes[token.start..end]) {
            // With a slip of the pen, none of its groups is a payment card either.
            let below = if full { 0.92 } else { 0.75 };
            refused.push(Refused { bytes: token.start..end, below });
        }
    }
    refused
}

/// How long what stands between two groups is: one or two spaces, a dash, the end of a line; 0 for anything else.
fn gap(rest: &[u8]) -> usize {
    let length = match rest {
        [b' ', b' ' | b'\n', ..] | [b'\r', b'\n', ..] => 2,
        [b' ' | b'-' | b'\n', ..] => 1,
        _ => 0,
    };
    if rest.get(length).is_some_and(u8::is_ascii_alphanumeric) { length } else { 0 }
}

/// Whether a chain is grouped as account numbers are printed: by four, with one separator, in capitals.
fn is_printed(chain: &[u8]) -> bool {
    let Some(separator @ (b' ' | b'-')) = chain.get(4) else { return false };
    let groups = chain.split(|byte| byte == separator);
    let last = groups.clone().count() - 1;
    let part = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    chain.iter().filter(|b| b.is_ascii_digit()).count() >= 8
        && chain.len() >= 15
        && groups.enumerate().all(|(index, group)| {
            (group.len() == 4 || index == last && group.len() < 4) && group.iter().all(part)
        })
}
