//! Prompt injection: what a text tries to do to the model that reads it.

pub(crate) mod decode;
mod rules;
pub(crate) mod vocabulary;

use std::ops::Range;

use domain::safety::Origin;

use crate::fold::Folded;
use crate::scan::{Scan, Scope};
use crate::words::ceil;
use rules::{SEQUENCES, Sequence, TOGETHER};

/// One mechanism at work, before offsets are led back.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// The mechanism.
    pub(crate) kind: &'static str,
    /// Where it was seen first, in the bytes of the text given.
    pub(crate) bytes: Range<usize>,
    /// How sure, 0 to 1.
    pub(crate) score: f64,
}

/// Less than this is not worth a finding.
const WORTH: f64 = 0.2;
/// A chain may pass over this many other words of the vocabulary.
const REACH: usize = 14;
/// Documents and tool results have no business giving orders.
const DISTRUST: f64 = 1.25;

/// All mechanisms seen in a text, strongest first; the first carries the combined score.
pub(crate) fn find(folded: &Folded<'_>, scan: &Scan, origin: Origin) -> Vec<Attempt> {
    if origin == Origin::System {
        return Vec::new();
    }
    let text = folded.text.as_ref();
    let mut attempts = judge(text, scan);
    if scan.long_runs {
        for piece in decode::pieces(text) {
            hidden(&piece.text, piece.bytes, &mut attempts);
        }
    }
    if let Some(bytes) = flooding(text.as_bytes()) {
        let bytes = crate::words::floor(text, bytes.start)..ceil(text, bytes.end);
        raise(&mut attempts, Attempt { kind: "context_flooding", bytes, score: 0.5 });
    }
    if !folded.hidden.is_empty() {
        let end = ceil(text, 1.min(text.len()));
        raise(&mut attempts, Attempt { kind: "invisible_text", bytes: 0..end, score: 0.6 });
        hidden(&folded.hidden, 0..end, &mut attempts);
    }
    if scan.classes & vocabulary::ENCODE != 0
        && memchr::memmem::find(&text.as_bytes()[..text.len().min(100_000)], b"13").is_some()
    {
        hidden(&decode::rot13(text, 16 * 1024), 0..text.len(), &mut attempts);
    }
    combine(attempts, if origin == Origin::Tool { DISTRUST } else { 1.0 })
}

/// Filler: a short pattern repeated for hundreds of bytes, to push instructions out of sight.
fn flooding(text: &[u8]) -> Option<Range<usize>> {
    const BLOCK: usize = 220;
    let mut at = 0;
    while at + BLOCK + 16 <= text.len() {
        let repeats = (2..=12).any(|period| {
            text[at] == text[at + period]
                && text[at..at + BLOCK] == text[at + period..at + period + BLOCK]
        });
        if repeats {
            let mut seen = [false; 256];
            text[at..at + 16].iter().for_each(|b| seen[*b as usize] = true);
            let ruled = text[at..at + 16].iter().all(|b| {
                b.is_ascii_whitespace()
                    || matches!(
                        b,
                        b'-' | b'=' | b'_' | b'|' | b'+' | b'*' | b'.' | b'#' | b'/' | b'~'
                    )
            });
            if seen.iter().filter(|s| **s).count() >= 2 && !ruled {
                return Some(at..at + BLOCK);
            }
        }
        at += 96;
    }
    None
}

/// A text that came out of a code: whatever it orders was meant to be hidden.
fn hidden(text: &str, place: Range<usize>, attempts: &mut Vec<Attempt>) {
    let scan = Scan::new(text, Scope::Injections);
    let strongest = judge(text, &scan).into_iter().map(|a| a.score).fold(0.0, f64::max);
    if strongest >= 0.35 {
        raise(
            attempts,
            Attempt { kind: "encoded_order", bytes: place, score: (strongest + 0.2).min(0.95) },
        );
    }
}

fn judge(text: &str, scan: &Scan) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    if scan.anchors.is_empty() {
        return attempts;
    }
    let anchors = &scan.anchors;
    let present = anchors.iter().fold(0, |bits, a| bits | a.2);
    for rule in SEQUENCES {
        let possible = rule.steps.iter().all(|(bits, _)| bits & present != 0);
        if let Some(bytes) = possible.then(|| sequence(text.as_bytes(), anchors, rule)).flatten() {
            raise(&mut attempts, Attempt { kind: rule.kind, bytes, score: rule.weight });
        }
    }
    for rule in TOGETHER {
        if !rule.all.iter().all(|bits| bits & present != 0) {
            continue;
        }
        let Some(last) = rule.all.last() else { continue };
        let mut words: Vec<&[u8]> = Vec::new();
        let mut first = None;
        for anchor in anchors.iter().filter(|a| a.2 & last != 0).take(400) {
            let word = &text.as_bytes()[anchor.0..anchor.1];
            if words.len() < rule.count && !words.iter().any(|w| w.eq_ignore_ascii_case(word)) {
                words.push(word);
                first.get_or_insert(anchor.0..anchor.1);
            }
        }
        if let Some(bytes) = first.filter(|_| words.len() >= rule.count) {
            raise(&mut attempts, Attempt { kind: rule.kind, bytes, score: rule.weight });
        }
    }
    attempts
}

/// Keeps the strongest attempt of each kind.
fn raise(attempts: &mut Vec<Attempt>, new: Attempt) {
    match attempts.iter_mut().find(|a| a.kind == new.kind) {
        Some(old) if old.score >= new.score => {}
        Some(old) => *old = new,
        None => attempts.push(new),
    }
}

fn combine(mut attempts: Vec<Attempt>, factor: f64) -> Vec<Attempt> {
    attempts.sort_by(|a, b| b.score.total_cmp(&a.score));
    for attempt in &mut attempts {
        attempt.score = (attempt.score * factor).min(0.97);
    }
    let together = 1.0 - attempts.iter().map(|a| 1.0 - a.score).product::<f64>();
    if together < WORTH {
        return Vec::new();
    }
    if let Some(first) = attempts.first_mut() {
        first.score = together.min(0.99);
    }
    attempts
}

/// The first place where the steps of a rule follow each other.
fn sequence(text: &[u8], anchors: &[(usize, usize, u64)], rule: &Sequence) -> Option<Range<usize>> {
    let (first, rest) = rule.steps.split_first()?;
    anchors
        .iter()
        .enumerate()
        .filter(|(_, a)| a.2 & first.0 != 0)
        .find_map(|(i, a)| follow(text, anchors, i, a.1, rest).map(|end| a.0..end))
}

fn follow(
    text: &[u8],
    anchors: &[(usize, usize, u64)],
    from: usize,
    end: usize,
    steps: &[(u64, usize)],
) -> Option<usize> {
    let Some(((bits, gap), rest)) = steps.split_first() else { return Some(end) };
    for (index, anchor) in anchors.iter().enumerate().skip(from + 1).take(REACH) {
        if anchor.0 < end {
            continue;
        }
        if too_far(&text[end..anchor.0], *gap) || ends_sentence(&text[end..anchor.0]) {
            return None;
        }
        let reached =
            if anchor.2 & bits != 0 { follow(text, anchors, index, anchor.1, rest) } else { None };
        if reached.is_some() {
            return reached;
        }
    }
    None
}

/// Whether a gap has more characters than allowed.
fn too_far(gap: &[u8], most: usize) -> bool {
    let wide = gap.len() > most * 3;
    wide || gap.len() > most && gap.iter().filter(|&&b| b & 0xc0 != 0x80).count() > most
}

fn ends_sentence(gap: &[u8]) -> bool {
    gap.windows(2)
        .any(|w| matches!(w[0], b'.' | b'?' | b'!') && w[1].is_ascii_whitespace() || w == b"\n\n")
}
