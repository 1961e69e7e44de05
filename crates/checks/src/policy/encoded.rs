//! Credentials and personal data behind codes: base64, hexadecimal and escapes are undone once, and what they stand for is
//! judged where it stands, with the words around it. A finding covers the whole code in the text as it came.
//!
//! Only codes that turn into readable text count. All of it is linear: what is undone in vain is limited to a multiple of the
//! text, and what is undone is judged in windows that are let go of one by one.

use std::ops::Range;

use domain::safety::Category;

use crate::pattern::watch::Watch;
use crate::policy::compiled::Policy;
use crate::report::{CERTAIN, Finding};
use crate::scan::{Scan, Scope};
use crate::text::codes;
use crate::text::codes::view::View;
use crate::text::normalize::Normalized;

/// Adds what stands behind codes to the findings of a text, and takes out what is no more than a part of that.
pub(super) fn add(
    policy: &Policy,
    normalized: &Normalized<'_>,
    scan: &Scan,
    findings: &mut Vec<Finding>,
    room: usize,
    watch: &Watch<'_>,
) {
    let text = normalized.text.as_ref();
    let pieces = codes::pieces(text, scan.dense.iter().map(|&block| block as usize));
    let mut found = Vec::new();
    codes::view::windows(text, &pieces, |view| {
        if found.len() < room && !watch.is_over() {
            found.extend(in_view(policy, normalized, view, room, watch));
        }
    });
    if !found.is_empty() {
        merge(found, findings);
    }
}

/// Returns the findings in a window, with places in the text as it came.
fn in_view(
    policy: &Policy,
    source: &Normalized<'_>,
    view: &View<'_>,
    room: usize,
    watch: &Watch<'_>,
) -> Vec<Finding> {
    watch.allow(view.text().len());
    let normalized = Normalized::new(view.text());
    let scan = Scan::new(&normalized.text, Scope::Leaks);
    let mut found = policy.leaks_in(&normalized, &scan, room, watch);
    found.retain_mut(|finding| {
        let Some((bytes, is_run)) = view.source(finding.bytes.clone()) else { return false };
        finding.bytes = source.original(bytes);
        !is_run || finding.score >= CERTAIN
    });
    found
}

/// Puts findings behind codes among those of the text itself. One that covers the same or more stands already; one
/// that lies within a code was read in it by chance.
fn merge(mut found: Vec<Finding>, findings: &mut Vec<Finding>) {
    let key = |finding: &Finding| {
        (finding.bytes.start, std::cmp::Reverse(finding.bytes.end), finding.category as u8)
    };
    found.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.kind.cmp(&b.kind)));
    found.dedup_by(|a, b| a.bytes == b.bytes && a.category == b.category && a.kind == b.kind);
    findings.sort_by_key(|finding| finding.bytes.start);
    let covers = |outer: &Range<usize>, inner: &Range<usize>| {
        outer.start <= inner.start && outer.end >= inner.end
    };
    let is_leak = |finding: &&Finding| matches!(finding.category, Category::Secret | Category::Pii);
    // Credentials do not overlap, nor does personal data but for a project's own kinds: those that may cover a place are
    // the last ones that begin before it.
    let mut known: Vec<(Range<usize>, Category)> =
        findings.iter().filter(is_leak).map(|f| (f.bytes.clone(), f.category)).collect();
    known.sort_by_key(|(bytes, _)| bytes.start);
    found.retain(|finding| {
        let begun = known.partition_point(|(bytes, _)| bytes.start <= finding.bytes.start);
        !known[..begun].iter().rev().take(4).any(|(bytes, category)| {
            let stands = *category == Category::Secret || *category == finding.category;
            stands && covers(bytes, &finding.bytes)
        })
    });
    // A credential gives way to a credential alone: what else is found behind a code may be let go on.
    let places = |counts: fn(Category) -> bool| -> Vec<Range<usize>> {
        let counting = found.iter().filter(|finding| counts(finding.category));
        counting.map(|finding| finding.bytes.clone()).collect()
    };
    let (all, secrets) = (places(|_| true), places(|category| category == Category::Secret));
    findings.retain(|finding| {
        let places = if finding.category == Category::Secret { &secrets } else { &all };
        let begun = places.partition_point(|bytes| bytes.start <= finding.bytes.start);
        let within = places[..begun].last().is_some_and(|bytes| covers(bytes, &finding.bytes));
        !(is_leak(&finding) && within)
    });
    findings.append(&mut found);
}

#[cfg(test)]
#[path = "encoded_tests.rs"]
pub(crate) mod tests;
