//! The input and the result of a check.

use std::borrow::Cow;
use std::ops::Range;

use domain::safety::{Category, Origin};
use serde::{Serialize, Serializer, ser::SerializeStruct as _};

use crate::pattern::watch::SlowPattern;

/// No text yields more findings than this; the rest is not looked at.
pub(crate) const MAX_FINDINGS: usize = 1000;
/// From this score on an injection or a secret counts as one, rather than as a reason to look closer.
pub(crate) const CERTAIN: f64 = 0.5;

/// One text of a request, and who wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Decides how much the text is trusted.
    pub origin: Origin,
    /// The text itself.
    pub text: &'a str,
}

/// The result for texts that belong together, a message for instance, before the whole request is weighed. It
/// depends on these texts, on who wrote them and on the policy alone, and holds places and types but nothing of the texts:
/// it may be kept for when they come again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Ordered by text, then by place; the first of the texts is part 0. One more than a request may have where there are
    /// more.
    pub(crate) findings: Vec<Finding>,
    /// How much the most suspicious text looks like an injection.
    pub(crate) suspicion: f64,
    /// How many texts there are.
    pub(crate) parts: usize,
    /// The project's patterns that took too long for these texts.
    pub(crate) slow: Vec<SlowPattern>,
    /// Whether judging ended before its end, because nobody waits for it. Nothing follows from such a verdict, and it must
    /// not be kept.
    pub abandoned: bool,
}

/// The verdict on one request or one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Ordered by part, then by place.
    pub findings: Vec<Finding>,
    /// 0 (nothing) to 1 (certain harm).
    pub risk_score: f64,
    /// A person should look at it.
    pub review: bool,
    /// Present when the request must not go on.
    pub block: Option<Block>,
    /// The project's patterns that took too long, each once. They count as no match, so that a request must not go on
    /// which one of them may forbid.
    pub slow: Vec<SlowPattern>,
    /// Whether judging ended before its end, because nobody waits for it: nothing follows from such a report.
    pub abandoned: bool,
    /// Whether injections in the application's own words are noted only: they are no attempts then.
    pub(crate) spares_application: bool,
}

/// Why a request must not go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// A sentence for the caller; it never repeats what was found.
    pub reason: String,
    /// The finding that weighed most.
    pub finding: Option<usize>,
}

/// One thing found in one part.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Which kind of check found it.
    pub category: Category,
    /// Its type: `EMAIL`, `aws_access_key_id`, `instruction_override`, or the name of a rule.
    pub kind: Cow<'static, str>,
    /// Index of the part it stands in.
    pub part: usize,
    /// The author of that part.
    pub origin: Origin,
    /// First character, in Unicode scalar values.
    pub start: usize,
    /// One past the last character, in Unicode scalar values.
    pub end: usize,
    /// The same range in bytes.
    pub bytes: Range<usize>,
    /// How sure and how grave, 0 to 1.
    pub score: f64,
    /// Payment, bank, government, tax and health numbers.
    pub high_sensitivity: bool,
    /// Noted only: it stands in too few words to block, whatever its score and the threshold.
    pub held: bool,
}

// === impl Verdict ===

impl Verdict {
    /// How many bytes it takes in memory, about.
    pub fn bytes(&self) -> usize {
        let names: usize = self.findings.iter().map(|finding| finding.kind.len()).sum();
        let slow = self.slow.capacity() * size_of::<SlowPattern>();
        size_of::<Self>() + self.findings.capacity() * size_of::<Finding>() + names + slow
    }
}

// === impl Report ===

impl Report {
    /// Whether any personal data was found.
    pub fn pii_detected(&self) -> bool {
        self.findings.iter().any(|f| f.category == Category::Pii)
    }

    /// Whether a text tries to take over the model or to get at its instructions.
    pub fn injection_attempt(&self) -> bool {
        let is_spared = |f: &Finding| self.spares_application && f.origin.is_application();
        let is_attempt =
            |f: &Finding| f.category == Category::Injection && f.score >= CERTAIN && !is_spared(f);
        self.findings.iter().any(is_attempt)
    }

    /// Whether a credential was found.
    pub fn secret_leaked(&self) -> bool {
        self.findings.iter().any(|f| f.category == Category::Secret && f.score >= CERTAIN)
    }

    /// Whether payment cards, bank accounts, government, tax or health numbers were found.
    pub fn high_sensitivity_pii(&self) -> bool {
        self.findings.iter().any(|f| f.high_sensitivity)
    }

    /// Whether nothing at all was found.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

// === impl Finding ===

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Finding", 6)?;
        out.serialize_field("category", &self.category)?;
        out.serialize_field("type", &self.kind)?;
        out.serialize_field("part", &self.part)?;
        out.serialize_field("start", &self.start)?;
        out.serialize_field("end", &self.end)?;
        out.serialize_field("score", &self.score)?;
        out.end()
    }
}
