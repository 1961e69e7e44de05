//! Personal data: shapes, check digits and the words around them.

pub(crate) mod address;
pub(crate) mod birthday;
mod card;
mod chains;
mod columns;
mod context;
mod digits;
mod email;
mod found;
mod iban;
mod identity_numbers;
mod ids;
pub(crate) mod kinds;
mod labelled;
mod letters;
mod network;
mod number;
pub(crate) mod person;
mod phone;
#[cfg(test)]
pub(crate) mod tests;
mod token;
mod version;
mod view;
mod wallet;

use std::cmp::Reverse;
use std::ops::Range;

use crate::pattern::watch::Watch;
use crate::scan::Scan;
use found::{Entity, Found};
use view::{Refused, View};

/// Adds what it finds in a text.
type Detector<'d> = &'d mut dyn FnMut(&mut Found);

/// All personal data in a text, in order, without overlaps.
pub(crate) fn find(text: &str, scan: &Scan, limit: usize, watch: &Watch<'_>) -> Vec<Entity> {
    let number::Runs { groups, tokens, joined } = number::split(text);
    let trimmed =
        text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '.' | ',' | ';'));
    let begin = trimmed.as_ptr() as usize - text.as_ptr() as usize;
    let view = View {
        text,
        bytes: text.as_bytes(),
        scan,
        groups,
        tokens,
        joined,
        cells: columns::cells(text, &scan.contexts),
        whole: begin..begin + trimmed.len(),
    };
    let (mut found, mut refused) = (Found::default(), Vec::new());
    email::find(&view, &mut found, limit);
    if !view.groups.is_empty() || !view.tokens.is_empty() {
        let detectors: [Detector<'_>; 6] = [
            &mut |found| network::find(&view, found),
            &mut |found| refused = iban::find(&view, found),
            &mut |found| wallet::find(&view, found),
            &mut |found| chains::find(&view, found, limit),
            &mut |found| token::find(&view, found),
            &mut |found| labelled::find(&view, found),
        ];
        detectors.into_iter().take_while(|_| !watch.is_over()).for_each(|find| find(&mut found));
    }
    if !scan.contexts.is_empty() && !watch.is_over() {
        network::find_without_digits(&view, &mut found);
        address::find(&view, &mut found, limit);
    }
    drop(view);
    settle(&found, &refused, limit)
}

/// Keeps the surest of overlapping entities, the longer of equally sure ones.
fn settle(found: &Found, refused: &[Refused], limit: usize) -> Vec<Entity> {
    let is_refused = |entity: &Entity| {
        let last = refused.partition_point(|range| range.bytes.start <= entity.bytes.start);
        refused[..last]
            .last()
            .is_some_and(|range| entity.bytes.end <= range.bytes.end && entity.score <= range.below)
    };
    let entity = |at: u32| found.get(at as usize);
    let counts = |e: &Entity| e.score > 0.0 && !e.bytes.is_empty() && !is_refused(e);
    // They stay where they are: to sort so many takes as much memory again.
    let mut order: Vec<u32> = (0..).take(found.len()).filter(|&at| counts(entity(at))).collect();
    order.sort_unstable_by_key(|&at| {
        let Range { start, end } = entity(at).bytes;
        (start, Reverse(end), at)
    });
    let mut kept = 0;
    for index in 0..order.len() {
        let next = entity(order[index]);
        let better = |other: &Entity| {
            other.score > next.score
                || other.score >= next.score && other.bytes.len() >= next.bytes.len()
        };
        let is_apart = |last: &Entity| last.bytes.end <= next.bytes.start;
        while let Some(last) = order[..kept].last().map(|&at| entity(at)) {
            if is_apart(last) || better(last) {
                break;
            }
            kept -= 1;
        }
        if order[..kept].last().is_none_or(|&at| is_apart(entity(at))) {
            order[kept] = order[index];
            kept += 1;
        }
    }
    order[..kept.min(limit)].iter().map(|&at| entity(at).clone()).collect()
}
