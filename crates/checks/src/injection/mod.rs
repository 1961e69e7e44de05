//! Prompt injection: what a text tries to do to the model that reads it.

#[cfg(test)]
mod agents_tests;
mod analysis;
mod attempt;
mod decode;
mod disguise;
mod forbidden;
#[cfg(test)]
mod hidden_tests;
#[cfg(test)]
mod kinds_tests;
mod matching;
mod model;
mod ngrams;
mod numbers;
mod rules;
#[cfg(test)]
mod tests;
mod tokens;

use domain::safety::Origin;

pub(crate) use crate::injection::analysis::ATTACK_WORDING;
pub use crate::injection::model::Features;
use crate::scan::{Scan, Scope};
use crate::text::normalize::Normalized;
use crate::text::words::{ceil, floor};
use crate::vocabulary::injection as vocabulary;
use analysis::{Analysis, Assessment, PAGE_BYTES, rule_evidence};
use attempt::{Attempt, keep_strongest};
use decode::Turned;
use disguise::undisguise;
use model::Blocks;

/// The score of characters that no reader sees, by themselves.
const INVISIBLE_SCORE: f64 = 0.55;
/// Evidence that comes on top in documents and tool results that speak to a machine: they have no business giving it
/// orders.
const DISTRUST_EVIDENCE: f32 = 0.7;
/// A disguise hides something where the text without it has so much more evidence. Code and technical names are full of
/// digits between letters that hide nothing.
const DISGUISE_EVIDENCE: f32 = 0.5;
/// At most this much of a disguised text, and of one that mentions ROT13, is undone, in bytes.
const MAX_UNDONE_BYTES: usize = 16 * 1024;

/// Judges a text.
pub(crate) fn find(normalized: &Normalized<'_>, scan: &Scan, origin: Origin) -> Assessment {
    let text = normalized.text.as_ref();
    let mut analysis = Analysis::new(text, scan);
    let all = 0..text.len();
    if !normalized.hidden.is_empty() {
        // The text before and behind: nothing is left of the characters themselves.
        let at = normalized.hidden_at;
        let place = floor(text, at.saturating_sub(1))..ceil(text, text.len().min(at + 1));
        let seen = Attempt::new("invisible_text", place.clone(), INVISIBLE_SCORE);
        keep_strongest(&mut analysis.attempts, seen);
        analysis.hidden(&normalized.hidden, place, f32::NEG_INFINITY);
    }
    let decoded = decode::pieces(text, scan.long_runs);
    if !decoded.text.is_empty() {
        analysis.decoded(&decoded);
    }
    if scan.long_runs
        && let Some(undone) = decode::unescape(text, MAX_UNDONE_BYTES)
    {
        if undone.hid_letters {
            let least = analysis.evidence() + DISGUISE_EVIDENCE;
            analysis.hidden(&undone.text, all.clone(), least);
        } else {
            analysis.spelled(&undone.text, all.clone());
        }
    }
    if analysis.opinion.disguise.is_worth_undoing() {
        let least = analysis.evidence() + DISGUISE_EVIDENCE;
        let undone = undisguise(text, analysis.opinion.disguise, MAX_UNDONE_BYTES);
        analysis.hidden(&undone, all.clone(), least);
    }
    let named =
        || memchr::memmem::find(&text.as_bytes()[..text.len().min(100_000)], b"13").is_some();
    let turned = decode::turned(text, MAX_UNDONE_BYTES);
    if turned == Some(Turned::Rotated) || scan.classes & vocabulary::ENCODE != 0 && named() {
        // A page that speaks of ciphers and of thirteen is nonsense when it is turned, which looks strange but is no order.
        let is_page = turned.is_none() && text.len() >= PAGE_BYTES;
        let least =
            if is_page { analysis.evidence() + DISGUISE_EVIDENCE } else { f32::NEG_INFINITY };
        analysis.hidden(&decode::rot13(text, MAX_UNDONE_BYTES), all.clone(), least);
    }
    if turned == Some(Turned::Backwards) {
        let backwards: String = text[..floor(text, MAX_UNDONE_BYTES)].chars().rev().collect();
        analysis.hidden(&backwards, all, f32::NEG_INFINITY);
    }
    let speaks = scan.classes & (vocabulary::READER | vocabulary::CONCEAL) != 0;
    let is_tool = origin == Origin::Tool;
    let distrust = |is_doubtful: bool| if is_doubtful { DISTRUST_EVIDENCE } else { 0.0 };
    analysis.conclude(text, &scan.anchors, distrust(is_tool && speaks), distrust(is_tool))
}

/// Returns the features that the built-in model reads in a text, for the script that trains it, and the result.
pub fn features(text: &str) -> Features {
    let normalized = Normalized::new(text);
    let scan = Scan::new(&normalized.text, Scope::Injections);
    let analysis = Analysis::new(&normalized.text, &scan);
    let (blocks, words) = Blocks::of(&normalized.text, &scan.anchors);
    let (rules, evidence) = (rule_evidence(&analysis.attempts), analysis.evidence());
    Features { blocks, words, rules, evidence, score: model::score(evidence) }
}
