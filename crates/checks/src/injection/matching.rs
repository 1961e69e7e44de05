//! Which rules a text meets, in time that grows with its words of the vocabulary alone: each is looked at once for each
//! step of each rule.

use std::ops::Range;

use super::rules::{SEQUENCES, Sequence, TOGETHER, Together};
use super::{Anchor, Attempt, raise};

/// A chain may pass over this many other words of the vocabulary.
const REACH: usize = 14;
/// The most steps of a rule.
const STEPS: usize = 4;
/// So many words of a step are remembered: the last of them may overlap the word that is looked at.
const REMEMBERED: usize = 3;

/// Adds what the rules see.
pub(super) fn judge(text: &str, anchors: &[Anchor], attempts: &mut Vec<Attempt>) {
    let text = text.as_bytes();
    let present = anchors.iter().fold(0, |bits, anchor| bits | anchor.2);
    let mut sentences = Vec::new();
    for rule in SEQUENCES {
        let possible = rule.steps.iter().all(|(bits, _)| bits & present != 0);
        if !possible || is_known(attempts, rule.kind, rule.weight) {
            continue;
        }
        if sentences.is_empty() {
            sentences = number_sentences(text, anchors);
        }
        if let Some(bytes) = sequence(text, anchors, &sentences, rule) {
            raise(attempts, Attempt { kind: rule.kind, bytes, score: rule.weight });
        }
    }
    for rule in TOGETHER {
        let possible = rule.all.iter().all(|bits| bits & present != 0);
        if !possible || is_known(attempts, rule.kind, rule.weight) {
            continue;
        }
        if let Some(bytes) = together(text, anchors, rule) {
            raise(attempts, Attempt { kind: rule.kind, bytes, score: rule.weight });
        }
    }
}

/// Whether a mechanism was seen already, and as surely.
fn is_known(attempts: &[Attempt], kind: &str, weight: f64) -> bool {
    attempts.iter().any(|attempt| attempt.kind == kind && attempt.score >= weight)
}

/// A word that the steps of a rule have led to.
#[derive(Clone, Copy)]
struct Reached {
    index: usize,
    /// Where the first word of the chain begins, and the last one ends.
    begin: usize,
    end: usize,
}

/// The words that were reached last by one step.
#[derive(Clone, Copy, Default)]
struct Recent([Option<Reached>; REMEMBERED]);

impl Recent {
    fn push(&mut self, reached: Reached) {
        self.0.rotate_right(1);
        self.0[0] = Some(reached);
    }

    /// The last one that ends before a place.
    fn before(&self, start: usize) -> Option<&Reached> {
        self.0.iter().flatten().find(|reached| reached.end <= start)
    }
}

/// The first place where the steps of a rule follow each other. Of the words that a step may come from only the last one
/// needs a look: the gap behind it is the smallest, and ends a sentence only if those behind the others do.
fn sequence(
    text: &[u8],
    anchors: &[Anchor],
    sentences: &[u32],
    rule: &Sequence,
) -> Option<Range<usize>> {
    let mut recent = [Recent::default(); STEPS];
    let any = rule.steps.iter().fold(0, |bits, step| bits | step.0);
    for (index, &(start, end, class)) in anchors.iter().enumerate() {
        if class & any == 0 {
            continue;
        }
        // From the last step on, so that a word is no more than one step of a chain.
        for (step, &(bits, gap)) in rule.steps.iter().enumerate().rev() {
            if class & bits == 0 {
                continue;
            }
            let mut begin = start;
            if let Some(last) = step.checked_sub(1) {
                let Some(from) = recent[last].before(start) else { continue };
                let is_near = index - from.index <= REACH
                    && sentences[index] == sentences[from.index]
                    && !too_far(&text[from.end..start], gap);
                if !is_near {
                    continue;
                }
                begin = from.begin;
            }
            if step + 1 == rule.steps.len() {
                return Some(begin..end);
            }
            recent[step].push(Reached { index, begin, end });
        }
    }
    None
}

/// The number of the sentence that each word stands in.
fn number_sentences(text: &[u8], anchors: &[Anchor]) -> Vec<u32> {
    let (mut number, mut read) = (0, 0);
    let numbered = anchors.iter().map(|&(start, end, _)| {
        if read < start && ends_sentence(&text[read..start]) {
            number += 1;
        }
        read = read.max(end);
        number
    });
    numbered.collect()
}

/// Where the first of enough different words of the last class stands.
fn together(text: &[u8], anchors: &[Anchor], rule: &Together) -> Option<Range<usize>> {
    let last = rule.all.last()?;
    let mut words: Vec<&[u8]> = Vec::new();
    let mut first = None;
    for &(start, end, class) in anchors {
        if class & last == 0 {
            continue;
        }
        let word = &text[start..end];
        if !words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            words.push(word);
            first.get_or_insert(start..end);
            if words.len() >= rule.count {
                return first;
            }
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
