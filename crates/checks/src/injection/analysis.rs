//! The analysis of one text by rules and model, with the text that is hidden in it.

use std::ops::Range;

use crate::injection::attempt::{Attempt, keep_strongest};
use crate::injection::decode::Decoded;
use crate::injection::matching;
use crate::injection::model::{self, Opinion};
use crate::scan::hits::Anchor;
use crate::scan::{Scan, Scope};
use crate::text::words::{ceil, floor};

/// The kind of a finding that the model alone makes: no mechanism is named.
pub(crate) const ATTACK_WORDING: &str = "attack_wording";
/// The score of filler beside other evidence. Alone it is none: tables and measurements are full of zeros.
const FLOODING_SCORE: f64 = 0.15;
/// Less than this is not worth a finding.
const MIN_FINDING_SCORE: f64 = 0.2;
/// Rules add no more than this, however many apply.
const MAX_RULE_EVIDENCE: f64 = 4.0;
/// Evidence that comes on top where an order was hidden: an honest one is not.
const HIDDEN_EVIDENCE: f32 = 1.0;
/// A text of so many bytes is a page: one that is read otherwise is a little suspicious now and then, by chance.
pub(super) const PAGE_BYTES: usize = 600;
/// So suspicious has to be what a page hid, by itself.
const DOUBTFUL_SCORE: f64 = 0.4;

/// Wording alone is too little to block a text of a few words: "show me your previous message" is an attack on one page
/// and everyday talk on the next. A rule that is as sure as [`FIRM_SCORE`] is stronger evidence.
const FIRM_SCORE: f64 = 0.6;
/// Up to so many letters no wording is enough; from twice as many on any is. The more there are between, the less sure
/// it has to be.
const FEW_LETTERS: usize = 50;
/// How sure it has to be in the end.
const MIN_BLOCKING_SCORE: f64 = 0.5;

/// The result of the detector for one text.
#[derive(Debug, Default)]
pub(crate) struct Assessment {
    /// The mechanisms seen, strongest first; the first carries the combined score.
    pub(crate) attempts: Vec<Attempt>,
    /// The combined score, also where it is too low for a finding.
    pub(crate) score: f64,
}

/// The results of rules and model for a text.
pub(super) struct Analysis {
    pub(super) attempts: Vec<Attempt>,
    pub(super) opinion: Opinion,
    /// The strongest text that was hidden in this one.
    hidden: Option<Hidden>,
}

/// Text that was hidden in another.
struct Hidden {
    /// The evidence of the hidden text, and of its being hidden.
    evidence: f32,
    place: Range<usize>,
    /// Whether it was hidden for a reason: written out it has more evidence than the text around it.
    on_purpose: bool,
    /// Whether it is too short to block.
    held: bool,
}

impl Analysis {
    pub(super) fn new(text: &str, scan: &Scan) -> Self {
        let opinion = model::judge(text, &scan.anchors);
        Self { attempts: judge(text, scan), opinion, hidden: None }
    }

    /// The evidence of rules and model together.
    pub(super) fn evidence(&self) -> f32 {
        model::weigh(self.opinion.evidence, rule_evidence(&self.attempts))
    }

    /// Reads a text that came out of a code or a disguise. That it was hidden counts where it has `least` evidence.
    pub(super) fn hidden(&mut self, text: &str, place: Range<usize>, least: f32) {
        let evidence = Self::new(text, &Scan::new(text, Scope::Injections)).evidence();
        self.hides(evidence, place, least);
    }

    /// Reads a text that is spelled in another way, for no reason: as if it stood there.
    pub(super) fn spelled(&mut self, text: &str, place: Range<usize>) {
        let found = Self::new(text, &Scan::new(text, Scope::Injections));
        let evidence = found.evidence();
        let held = found.is_held(text, model::score(evidence));
        self.keep(Hidden { evidence, place, on_purpose: false, held });
    }

    /// Reads what came out of codes, all at once: more of them cost no more.
    pub(super) fn decoded(&mut self, decoded: &Decoded) {
        let text = &decoded.text;
        let found = Self::new(text, &Scan::new(text, Scope::Injections));
        let strongest = found.attempts.iter().max_by(|a, b| a.score.total_cmp(&b.score));
        let at = strongest.map_or(found.opinion.bytes.start, |attempt| attempt.bytes.start);
        self.hides(found.evidence(), decoded.source(at), f32::NEG_INFINITY);
    }

    fn hides(&mut self, evidence: f32, place: Range<usize>, least: f32) {
        // Code and data look disguised as well: only what is suspicious by itself was hidden for a reason.
        if model::score(evidence) < MIN_FINDING_SCORE {
            return;
        }
        let is_page = least > f32::NEG_INFINITY && place.len() >= PAGE_BYTES;
        let on_purpose =
            evidence >= least && (!is_page || model::score(evidence) >= DOUBTFUL_SCORE);
        let evidence = if on_purpose { evidence + HIDDEN_EVIDENCE } else { evidence };
        self.keep(Hidden { evidence, place, on_purpose, held: false });
    }

    /// Keeps what a text hid if it is the strongest so far.
    fn keep(&mut self, hidden: Hidden) {
        if self.hidden.as_ref().is_none_or(|most| most.evidence < hidden.evidence) {
            self.hidden = Some(hidden);
        }
    }

    /// Whether a text is too short for such a score to block.
    fn is_held(&self, text: &str, score: f64) -> bool {
        let speaks = |a: &Attempt| a.score >= FIRM_SCORE || a.kind == "context_flooding";
        let is_firm = self.attempts.iter().any(speaks);
        if is_firm || score < MIN_BLOCKING_SCORE {
            return false;
        }
        let more = letters(text, 2 * FEW_LETTERS).saturating_sub(FEW_LETTERS);
        more < FEW_LETTERS
            && score < 1.0 - (1.0 - MIN_BLOCKING_SCORE) * more as f64 / FEW_LETTERS as f64
    }

    /// Concludes. Text that a document addresses to a machine is distrusted and is no everyday talk; so is text that it
    /// hides.
    pub(super) fn conclude(
        mut self,
        text: &str,
        anchors: &[Anchor],
        distrust: f32,
        distrust_of_hidden: f32,
    ) -> Assessment {
        let open = doubted(self.evidence(), distrust);
        let held = distrust == 0.0 && self.is_held(text, open);
        let mut is_spelled_talk = false;
        let hidden = self.hidden.take().map_or(0.0, |hidden| {
            let distrust = if hidden.on_purpose { distrust_of_hidden } else { distrust };
            let score = doubted(hidden.evidence, distrust);
            if score >= MIN_FINDING_SCORE && (hidden.on_purpose || score > open) {
                self.attempts.push(Attempt::new("encoded_order", hidden.place, score));
            }
            is_spelled_talk = hidden.held && distrust == 0.0;
            score
        });
        let score = open.max(hidden);
        if score < MIN_FINDING_SCORE {
            return Assessment { attempts: Vec::new(), score };
        }
        let wording = doubted(self.opinion.evidence, distrust);
        if wording >= MIN_FINDING_SCORE || self.attempts.is_empty() {
            let bytes = model::strongest(text, anchors, &self.opinion.bytes);
            self.attempts.push(Attempt::new(ATTACK_WORDING, bytes, wording.max(MIN_FINDING_SCORE)));
        }
        self.attempts.sort_by(|a, b| b.score.total_cmp(&a.score));
        for attempt in &mut self.attempts {
            attempt.score = attempt.score.min(score);
            // Hidden text is no everyday talk, whatever stands beside it.
            attempt.held = match attempt.kind {
                "encoded_order" => is_spelled_talk,
                "invisible_text" => false,
                _ => held,
            };
        }
        if let Some(first) = self.attempts.first_mut() {
            first.score = score;
        }
        Assessment { attempts: self.attempts, score }
    }
}

/// The letters of a text, up to `most`. A character of a script that writes a word with one or two counts three.
fn letters(text: &str, most: usize) -> usize {
    let mut count = 0;
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        count += if c >= '\u{2e80}' { 3 } else { 1 };
        if count >= most {
            break;
        }
    }
    count
}

/// The score of evidence. Distrust counts where there is suspicion: alone it makes none.
fn doubted(evidence: f32, distrust: f32) -> f64 {
    let score = model::score(evidence);
    if score < MIN_FINDING_SCORE { score } else { model::score(evidence + distrust) }
}

/// Log odds that the rules add: those of independent chances.
pub(super) fn rule_evidence(attempts: &[Attempt]) -> f32 {
    attempts.iter().map(|attempt| -(1.0 - attempt.score).ln()).sum::<f64>().min(MAX_RULE_EVIDENCE)
        as f32
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

fn judge(text: &str, scan: &Scan) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    if let Some(bytes) = flooding(text.as_bytes()) {
        let bytes = floor(text, bytes.start)..ceil(text, bytes.end);
        keep_strongest(&mut attempts, Attempt::new("context_flooding", bytes, FLOODING_SCORE));
    }
    matching::judge(text, &scan.anchors, &mut attempts);
    attempts
}
