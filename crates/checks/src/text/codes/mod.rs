//! Credentials and personal data behind codes: base64, hexadecimal and escapes are undone once, and what they stand for is
//! judged where it stands, with the words around it. A finding covers the whole code in the text as it came.
//!
//! Only codes that turn into readable text count. All of it is linear: what is undone in vain is limited to a multiple of the
//! text, and what is undone is judged in windows that are let go of one by one.

pub(crate) mod charset;
pub(crate) mod decoder;
mod escapes;
mod groups;
pub(crate) mod runs;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use std::ops::Range;

use domain::safety::Category;

use crate::pattern::watch::Watch;
use crate::policy::compiled::Policy;
use crate::report::{CERTAIN, Finding};
use crate::scan::{Scan, Scope};
use crate::text::normalize::Folded;
use view::View;

/// A code and what it stands for.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Place of the code in the text.
    pub(crate) bytes: Range<usize>,
    /// The text behind it.
    pub(crate) text: String,
}

/// Codes of one text. Small: there may be many.
#[derive(Debug, Default)]
struct Pieces {
    /// Their texts, one after the other.
    texts: String,
    /// Place of each in the source, and of its text: start and length.
    places: Vec<[u32; 4]>,
}

impl Pieces {
    fn push(&mut self, piece: &Piece) {
        let place = [piece.bytes.start, piece.bytes.len(), self.texts.len(), piece.text.len()];
        self.places.push(place.map(|value| value as u32));
        self.texts.push_str(&piece.text);
    }

    /// Returns the range of each, and the text behind it.
    fn iter(&self) -> impl Iterator<Item = (Range<usize>, &str)> {
        self.places.iter().map(|place| {
            let [start, length, at, size] = place.map(|value| value as usize);
            (start..start + length, &self.texts[at..at + size])
        })
    }
}

/// All codes of a text that are longer than an escape, in order and without overlaps. `dense` names the blocks of 64 bytes
/// that may hold runs, in order.
fn pieces(text: &str, dense: impl Iterator<Item = usize>) -> Pieces {
    let mut pieces = Pieces::default();
    if u32::try_from(text.len()).is_err() {
        return pieces;
    }
    runs::find(text.as_bytes(), dense, &mut pieces);
    let runs = pieces.places.len();
    groups::find(text.as_bytes(), &mut pieces);
    if runs > 0 && pieces.places.len() > runs {
        pieces.places.sort_unstable_by_key(|place| (place[0], std::cmp::Reverse(place[1])));
        let mut reached = 0;
        pieces.places.retain(|place| {
            let stands = place[0] >= reached;
            reached = reached.max(place[0] + place[1]);
            stands
        });
    }
    pieces
}

/// A text with everything in it undone, for streams; `None` where nothing is. It may be long: callers bound it.
pub(crate) fn undone(text: &str) -> Option<View<'_>> {
    let blocks = 0..text.len().div_ceil(64);
    view::whole(text, &pieces(text, blocks))
}

/// Returns the start, in an unfinished text, of a code of which more may come: base64 in lines, and digits in groups.
pub(crate) fn open_from(text: &str) -> usize {
    groups::open_from(text.as_bytes()).min(runs::open_from(text.as_bytes()))
}

/// Adds what stands behind codes to the findings of a text, and takes out what is no more than a part of that.
pub(crate) fn add(
    policy: &Policy,
    folded: &Folded<'_>,
    scan: &Scan,
    findings: &mut Vec<Finding>,
    room: usize,
    watch: &Watch<'_>,
) {
    let text = folded.text.as_ref();
    let pieces = pieces(text, scan.dense.iter().map(|&block| block as usize));
    let mut found = Vec::new();
    view::windows(text, &pieces, |view| {
        if found.len() < room && !watch.is_over() {
            found.extend(in_view(policy, folded, view, room, watch));
        }
    });
    if !found.is_empty() {
        merge(found, findings);
    }
}

/// Returns the findings in a window, with places in the text as it came.
fn in_view(
    policy: &Policy,
    source: &Folded<'_>,
    view: &View<'_>,
    room: usize,
    watch: &Watch<'_>,
) -> Vec<Finding> {
    watch.allow(view.text().len());
    let folded = Folded::new(view.text());
    let scan = Scan::new(&folded.text, Scope::Leaks);
    let mut found = policy.leaks_in(&folded, &scan, room, watch);
    found.retain_mut(|finding| {
        let Some((bytes, is_run)) = view.source(finding.bytes.clone()) else { return false };
        finding.bytes = source.original(bytes);
        !is_run || finding.score >= CERTAIN
    });
    found
}

/// Puts findings behind codes among those of the text itself. What covers the same or more stands already; what lies
/// within a code was read in it by chance.
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
