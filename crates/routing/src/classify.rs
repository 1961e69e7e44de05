//! Complexity and intent of a request, and the tier that follows.

use std::borrow::Cow;

use domain::thousands::grouped;
use domain::tier::{Intent, Tier};

use crate::features::{EDGE_BYTES, Features, NAMES, measure_with};
use crate::forest;
use crate::intent::Vote;
use crate::lexicon::Group;
use crate::weights::{BIAS, FEATURES};

/// Complexity from which a request is `complex`, if the project sets no threshold.
pub const DEFAULT_THRESHOLD: f64 = 0.5;

/// The classification of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Classification {
    /// Complexity, 0 to 1.
    pub complexity: f64,
    /// The intent of the request.
    pub intent: Intent,
    /// The strongest reasons for or against a capable model, in plain words.
    pub reasons: Vec<String>,
}

/// The surroundings of the text that is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Messages of the conversation so far.
    pub turns: usize,
    /// Characters of all messages, the judged text included.
    pub total_chars: usize,
    /// Tools on offer.
    pub tools: usize,
}

/// Judges a request by its last user message and its surroundings.
///
/// Looks at the first and the last 8 KB of `text`; only the length of the rest counts. The score is
/// linear in the features of [`measure`](crate::measure), corrected by a forest of small trees over the
/// same features and by the subject of its words; `train/train.py` fits all three to published outcomes
/// of weak and strong models. It never falls when only the conversation grows or tools are added.
pub fn classify(text: &str, shape: &Shape) -> Classification {
    let mut vote = Vote::new(text.len().min(2 * EDGE_BYTES));
    let features = measure_with(text, shape, |heard| vote.count(heard));
    let linear: f32 =
        features.values.iter().zip(&FEATURES).map(|(value, weight)| value * weight).sum();
    let learned = learned(&features);
    let logit = f64::from(BIAS + linear + learned);
    Classification {
        complexity: 1.0 / (1.0 + (-logit).exp()),
        intent: vote.decide(&features),
        reasons: reasons(text, shape, &features, learned),
    }
}

/// Returns the correction by the forest and the subject. Most prompts that the forest was trained on
/// have options to choose from; for others its value counts half.
fn learned(features: &Features) -> f32 {
    let trust = if features.counts.options >= 2 { 1.0 } else { 0.5 };
    let subject = features.said.worth(features.counts.options >= 3);
    trust * forest::predict(&features.values) + subject
}

/// Returns `simple` below the threshold, `complex` from it on. ([`sensitive`] decides on `secure`.)
pub fn tier(classification: &Classification, threshold: f64) -> Tier {
    if classification.complexity >= threshold { Tier::Complex } else { Tier::Simple }
}

/// Returns the reason why a request belongs to the `secure` tier; `None` when it does not.
pub fn sensitive(pii: bool, vpc_only: bool, metadata_secure: bool) -> Option<&'static str> {
    if pii {
        Some("contains personal data")
    } else if vpc_only {
        Some("offers a tool that must stay inside the private network")
    } else if metadata_secure {
        Some("the trace is marked as sensitive")
    } else {
        None
    }
}

/// Least contribution to the score for which a reason is given.
const LEAST_REASON_WEIGHT: f32 = 0.2;
/// Most reasons that are given.
const MOST_REASONS: usize = 4;

fn reasons(text: &str, shape: &Shape, features: &Features, learned: f32) -> Vec<String> {
    let mut found: Vec<(f32, Cow<'static, str>)> = Vec::with_capacity(16);
    for ((value, weight), name) in features.values.iter().zip(&FEATURES).zip(NAMES) {
        let share = value * weight;
        if share.abs() >= LEAST_REASON_WEIGHT {
            found.extend(describe(name, share > 0.0, shape, features).map(|said| (share, said)));
        }
    }
    if learned.abs() >= LEAST_REASON_WEIGHT {
        let said = if learned > 0.0 {
            "small models fail at its like"
        } else {
            "small models do well at its like"
        };
        found.push((learned, said.into()));
    }
    // Features with the same wording are one reason, or none if their contributions cancel out.
    found.sort_by(|a, b| a.1.cmp(&b.1));
    found.dedup_by(|more, first| {
        let is_same = more.1 == first.1;
        first.0 += if is_same { more.0 } else { 0.0 };
        is_same
    });
    found.retain(|(share, _)| share.abs() >= LEAST_REASON_WEIGHT);
    found.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    if found.is_empty() {
        let nothing = if text.trim().is_empty() { "empty input" } else { "nothing stands out" };
        return vec![nothing.to_owned()];
    }
    found.into_iter().take(MOST_REASONS).map(|(_, said)| said.into_owned()).collect()
}

/// Describes a feature of this text; `None` when its sign would not make sense to a reader.
fn describe(
    name: &str,
    harder: bool,
    shape: &Shape,
    features: &Features,
) -> Option<Cow<'static, str>> {
    let c = &features.counts;
    let plain = match (name, harder) {
        ("length", true) if features.words >= 40 => return Some(length(features.words).into()),
        ("short", false) if features.material_words > 0 => {
            let words = grouped(features.material_words);
            return Some(
                format!("a short instruction with its material (about {words} words)").into(),
            );
        }
        ("short", false) => "short input",
        ("numbers" | "number_share" | "any_number", _) if c.numbers > 1 => {
            return Some(format!("holds {} numbers", c.numbers).into());
        }
        ("numbers" | "number_share" | "any_number", _) if c.numbers == 1 => "holds a number",
        ("list_items", true) if c.items > 1 => {
            return Some(format!("lists {} items", c.items).into());
        }
        ("questions", true) if c.questions > 1 => {
            return Some(format!("asks {} questions", c.questions).into());
        }
        ("constraint", true) if features.heard(Group::Constraint) > 1 => {
            return Some(format!("sets {} constraints", features.heard(Group::Constraint)).into());
        }
        ("tools", true) => return Some(format!("{} tools on offer", shape.tools).into()),
        ("conversation", true) => {
            return Some(format!("long conversation ({} turns)", shape.turns).into());
        }
        ("maths_signs" | "latex", true) => "contains formulas",
        ("code_signs", true) => "contains code",
        ("lines", true) => "many lines",
        ("long_words" | "word_length", true) => "specialist vocabulary",
        ("line_length" | "sentence_length" | "sentences", true) if features.words >= 20 => {
            "long sentences or many of them"
        }
        ("two_options", true) => "a choice between two readings",
        ("program", true) => "asks for a program",
        ("proof", true) => "asks for a proof",
        ("reason", true) => "asks for reasoning",
        ("condition", true) => "sets up a case with conditions",
        ("quantity", true) => "amounts and comparisons",
        ("sequence", true) => "several steps",
        ("build", true) => "asks for a design or an analysis",
        ("task", false) => "routine work on a text",
        ("everyday", false) => "an everyday matter",
        ("maths" | "formal_maths", true) => "mathematics",
        ("science", true) => "physics, chemistry or engineering",
        ("technical", true) => "programming or systems",
        ("law", true) => "law or ethics",
        ("medicine", true) => "medicine or biology",
        ("humanities", false) => "general knowledge",
        ("persona", false) => "a part to be played",
        ("business", true) => "business or economics",
        _ => return None,
    };
    Some(plain.into())
}

fn length(words: usize) -> String {
    let long = if words < 300 { "fairly long" } else { "long" };
    format!("{long} input ({} words)", grouped(words))
}

#[cfg(test)]
mod tests;
