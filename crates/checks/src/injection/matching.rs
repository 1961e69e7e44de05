//! Which rules a text meets, in time that grows with its words of the vocabulary alone: each is looked at once for each
//! step of each rule.

use std::ops::Range;

use crate::injection::attempt::{Attempt, keep_strongest};
use crate::injection::forbidden::{is_denied_behind, is_denied_predicate, is_forbidden};
use crate::injection::rules::{SEQUENCES, Sequence, TOGETHER, Together};
use crate::scan::hits::Anchor;
use crate::vocabulary::injection::{REVEAL, SHOWN, UPDATE, YOUR};

/// A chain may pass over this many other words of the vocabulary.
const REACH: usize = 14;
/// The most steps of a rule.
const STEPS: usize = 4;
/// Words that are together somewhere in a text are shown as one place when they are no further apart, in bytes.
const TOGETHER_SHOWN: usize = 160;
/// A file's name is looked for this far around a word, in bytes.
const MAX_NAME_BYTES: usize = 96;
/// A text overrides instructions where a rule is so sure of it.
const SURE_OVERRIDE: f64 = 0.5;
/// So many words of a step are remembered: the last of them may overlap the word that is looked at.
const REMEMBERED: usize = 3;

/// Adds what the rules see.
pub(super) fn judge(text: &str, anchors: &[Anchor], attempts: &mut Vec<Attempt>) {
    let text = text.as_bytes();
    let present = anchors.iter().fold(0, |bits, anchor| bits | anchor.meaning);
    let sentences = sentences(text, anchors);
    for rule in SEQUENCES {
        let is_in = |present: u64| rule.steps.iter().all(|(bits, _)| bits & present != 0);
        if !is_in(present) || is_known(attempts, rule.kind, rule.weight) {
            continue;
        }
        let mut possible = sentences.iter().filter(|sentence| is_in(sentence.classes));
        let overrides = is_known(attempts, "instruction_override", SURE_OVERRIDE);
        let found = possible.find_map(|sentence| sequence(text, sentence.anchors, rule, overrides));
        if let Some(bytes) = found {
            keep_strongest(attempts, Attempt::new(rule.kind, bytes, rule.weight));
        }
    }
    for rule in TOGETHER {
        let possible = rule.all.iter().all(|bits| bits & present != 0);
        if !possible || is_known(attempts, rule.kind, rule.weight) {
            continue;
        }
        if let Some(bytes) = together(text, anchors, rule) {
            keep_strongest(attempts, Attempt::new(rule.kind, bytes, rule.weight));
        }
    }
}

/// Whether a mechanism was seen already, and as surely.
fn is_known(attempts: &[Attempt], kind: &str, weight: f64) -> bool {
    attempts.iter().any(|attempt| attempt.kind == kind && attempt.score >= weight)
}

/// The words of the vocabulary in one sentence: two or more, and all their classes.
struct Sentence<'a> {
    anchors: &'a [Anchor],
    classes: u64,
}

/// Divides the words of the vocabulary by the sentences they stand in.
fn sentences<'a>(text: &[u8], anchors: &'a [Anchor]) -> Vec<Sentence<'a>> {
    let mut out = Vec::new();
    let (mut first, mut classes, mut read) = (0, 0, 0);
    let mut push = |anchors: &'a [Anchor], classes| {
        if anchors.len() > 1 {
            out.push(Sentence { anchors, classes });
        }
    };
    for (index, anchor) in anchors.iter().enumerate() {
        let start = anchor.start();
        if read < start && ends_sentence(&text[read..start]) {
            push(&anchors[first..index], classes);
            (first, classes) = (index, 0);
        }
        classes |= anchor.meaning;
        read = read.max(anchor.end());
    }
    push(&anchors[first..], classes);
    out
}

/// A word that the steps of a rule have led to.
#[derive(Clone, Copy)]
struct Reached {
    index: usize,
    /// The start of the first word of the chain, and the end of the last one.
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

/// The first place in a sentence where the steps of a rule follow each other. Of the words that a step may come from
/// only the last one needs a look: the gap behind it is the smallest. What a text forbids to show counts where it
/// `overrides` instructions: it then hides its own.
fn sequence(
    text: &[u8],
    anchors: &[Anchor],
    rule: &Sequence,
    overrides: bool,
) -> Option<Range<usize>> {
    let mut recent = [Recent::default(); STEPS];
    let any = rule.steps.iter().fold(0, |bits, step| bits | step.0);
    for (index, anchor) in anchors.iter().enumerate() {
        let (Range { start, end }, class) = (anchor.range(), anchor.meaning);
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
                let between = &text[from.end..start];
                if index - from.index > REACH || too_far(between, gap) {
                    continue;
                }
                begin = from.begin;
            }
            if step + 1 == rule.steps.len() {
                let is_denied = rule.kind == "prompt_extraction"
                    && !overrides
                    && (class & SHOWN != 0 && is_denied_behind(text, anchor)
                        || is_denied_predicate(text, anchor));
                if is_denied {
                    continue;
                }
                return Some(begin..end);
            }
            // Updated instructions are a sign of an attack; files are updated every day.
            let is_updated = rule.steps.get(step + 1).is_some_and(|next| next.0 == UPDATE);
            if is_updated && is_in_file_name(text, start..end) {
                continue;
            }
            let may_be_forbidden = step == 0 && !overrides && class & (REVEAL | YOUR) != 0;
            if may_be_forbidden && is_forbidden(text, anchors, index) {
                continue;
            }
            recent[step].push(Reached { index, begin, end });
        }
    }
    None
}

/// Returns the range of the first of enough different words of the last class, with the nearest one of the first
/// class if that is not far.
fn together(text: &[u8], anchors: &[Anchor], rule: &Together) -> Option<Range<usize>> {
    let (lead, last) = (rule.all.first()?, rule.all.last()?);
    let mut words: Vec<&[u8]> = Vec::new();
    let mut first: Option<&Anchor> = None;
    for anchor in anchors.iter().filter(|anchor| anchor.meaning & last != 0) {
        let word = &text[anchor.range()];
        if words.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            continue;
        }
        words.push(word);
        let Range { start, end } = first.get_or_insert(anchor).range();
        if words.len() >= rule.count {
            let leads = anchors.iter().filter(|anchor| anchor.meaning & lead != 0);
            let nearest = leads.min_by_key(|other| start.abs_diff(other.start()));
            let near = nearest.filter(|other| start.abs_diff(other.start()) <= TOGETHER_SHOWN);
            return Some(near.map_or(start..end, |n| start.min(n.start())..end.max(n.end())));
        }
    }
    None
}

/// Whether a word is a part of a path, or of a file's name with its extension.
fn is_in_file_name(text: &[u8], word: Range<usize>) -> bool {
    let is_in = |byte: &&u8| !byte.is_ascii_whitespace() && !b"\"'`()<>,;:".contains(byte);
    let before = text[..word.start].iter().rev().take(MAX_NAME_BYTES).take_while(is_in).count();
    let behind = text[word.end..].iter().take(MAX_NAME_BYTES).take_while(is_in).count();
    let name = &text[word.start - before..word.end + behind];
    let is_path = name.strip_prefix(b"/").is_some_and(|rest| rest.contains(&b'/'));
    is_path || has_extension(&text[word.end..word.end + behind])
}

/// Whether the rest of a name ends like `.md`.
fn has_extension(rest: &[u8]) -> bool {
    let Some(dot) = memchr::memrchr(b'.', rest) else { return false };
    let extension = &rest[dot + 1..];
    (1..=5).contains(&extension.len())
        && extension[0].is_ascii_lowercase()
        && extension.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Whether a gap has more characters than allowed.
fn too_far(gap: &[u8], most: usize) -> bool {
    let wide = gap.len() > most * 3;
    wide || gap.len() > most && gap.iter().filter(|&&b| b & 0xc0 != 0x80).count() > most
}

fn ends_sentence(gap: &[u8]) -> bool {
    let followed = |at: usize, by: fn(&u8) -> bool| gap.get(at + 1).is_some_and(by);
    memchr::memchr3_iter(b'.', b'?', b'!', gap).any(|at| followed(at, u8::is_ascii_whitespace))
        || memchr::memchr_iter(b'\n', gap).any(|at| followed(at, |&next| next == b'\n'))
}
