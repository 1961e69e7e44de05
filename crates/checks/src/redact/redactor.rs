//! Puts placeholders where personal data or secrets stood.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Formatter};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use crate::redact::look_alikes::look_alikes;
use crate::redact::restore::Placeholders;
use crate::report::Finding;

/// The most imitations of placeholders that are replaced in one request. Logs and listings may hold any number of words in
/// brackets that look so, and each replaced one takes thirty times its length.
const MAX_IMITATIONS: usize = 1000;

/// Replaces findings of one request or one answer, text by text.
#[derive(Debug)]
pub struct Redactor {
    tags: Tags,
    /// Placeholder of each (type, value) met so far.
    known: HashMap<(String, String), String>,
    counts: HashMap<String, usize>,
    placeholders: Placeholders,
    /// Whether text that only looks like a placeholder is replaced as well.
    escapes: bool,
    /// How many imitations have been replaced.
    imitations: usize,
    /// Imitations that are left as they are, as hashes: no placeholder may be one of them.
    left: HashSet<u64>,
    hashes: RandomState,
}

/// Gives the last part of the placeholder of a type and a value.
type Tag = Box<dyn Fn(&str, &str) -> u32 + Send + Sync>;

/// The last part of placeholders, by which nobody can guess one.
enum Tags {
    /// The same for all values, which are told apart by their numbers.
    Nonce(String),
    /// One for each type and value, whatever else is replaced.
    Keyed(Tag),
}

impl fmt::Debug for Tags {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Nonce(_) => "Nonce(..)",
            Self::Keyed(_) => "Keyed(..)",
        })
    }
}

impl Redactor {
    /// A redactor for the requests of one session. A value has the same placeholder in all of them, in whichever order the
    /// values are met: `tag` maps a type and a value to the last part of their placeholder. Nobody who writes the texts may
    /// be able to compute it. Text that only looks like a placeholder is replaced as well.
    pub fn keyed(tag: impl Fn(&str, &str) -> u32 + Send + Sync + 'static) -> Self {
        Self { tags: Tags::Keyed(Box::new(tag)), ..Self::new(0) }
    }

    /// The redactor, which leaves text alone that only looks like a placeholder: an earlier one has put it there.
    #[must_use]
    pub fn without_escapes(self) -> Self {
        Self { escapes: false, ..self }
    }

    /// A redactor for one request. Nobody who writes the texts may know the nonce. Text that only looks like a placeholder
    /// is replaced as well, so that it comes back as it was and as nothing else.
    pub fn new(nonce: u64) -> Self {
        let nonce = format!("{:08x}", (nonce ^ (nonce >> 32)) as u32);
        Self {
            tags: Tags::Nonce(nonce),
            known: HashMap::new(),
            counts: HashMap::new(),
            placeholders: Placeholders::default(),
            escapes: true,
            imitations: 0,
            left: HashSet::new(),
            hashes: RandomState::new(),
        }
    }

    /// A redactor for one answer, where placeholders of the request may stand that are still to be put back. Text that
    /// this one replaces never is.
    pub fn of_answer(nonce: u64) -> Self {
        Self { escapes: false, ..Self::new(nonce) }
    }

    /// Replaces the byte ranges of the findings. The same value of the same type gets the same placeholder throughout.
    /// `None` when there is nothing to change.
    pub fn redact(&mut self, text: &str, findings: &[&Finding]) -> Option<String> {
        self.replace(text, findings.iter().map(|finding| (finding.bytes.clone(), &*finding.kind)))
    }

    /// Gives the placeholder of a value that is replaced as a whole.
    pub fn replace_whole(&mut self, kind: &str, value: &str) -> String {
        self.placeholder(label(kind), value)
    }

    /// Replaces byte ranges, each under the name of what was found there.
    pub(crate) fn replace<'k>(
        &mut self,
        text: &str,
        found: impl Iterator<Item = (Range<usize>, &'k str)>,
    ) -> Option<String> {
        let changes = self.changes(text, found)?;
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (Range { start, end }, change) in changes {
            out.push_str(&text[done..start]);
            out.push_str(&change);
            done = end;
        }
        out.push_str(&text[done..]);
        Some(out)
    }

    /// Returns the replacements of byte ranges, in order and without overlaps. `None` when there is nothing to change.
    pub(crate) fn changes<'k>(
        &mut self,
        text: &str,
        found: impl Iterator<Item = (Range<usize>, &'k str)>,
    ) -> Option<Vec<(Range<usize>, String)>> {
        let mut ranges: Vec<(usize, usize, String)> = found
            .filter(|(range, _)| text.get(range.clone()).is_some_and(|t| !t.is_empty()))
            .map(|(range, kind)| (range.start, range.end, label(kind)))
            .collect();
        if self.escapes {
            for (start, end) in look_alikes(text) {
                if self.escape(&text[start..end]) {
                    ranges.push((start, end, "TEXT".to_owned()));
                }
            }
        }
        if ranges.is_empty() {
            return None;
        }
        ranges.sort_by_key(|range| (range.0, std::cmp::Reverse(range.1)));
        let mut changes = Vec::with_capacity(ranges.len());
        let mut ranges = ranges.into_iter().peekable();
        while let Some((start, mut end, kind)) = ranges.next() {
            // Overlapping findings become one, under the name of the first.
            while let Some((_, further, _)) = ranges.next_if(|next| next.0 < end) {
                end = end.max(further);
            }
            changes.push((start..end, self.placeholder(kind, &text[start..end])));
        }
        Some(changes)
    }

    /// Returns the placeholders, with which the originals are put back.
    pub fn into_placeholders(self) -> Placeholders {
        self.placeholders
    }

    /// Whether an imitation is replaced. One beyond the limit is left as it is, unless it is the placeholder of something
    /// else, which it would come back as.
    fn escape(&mut self, imitation: &str) -> bool {
        if self.imitations < MAX_IMITATIONS || self.placeholders.has(imitation) {
            self.imitations += 1;
            return true;
        }
        self.left.insert(self.hashes.hash_one(imitation));
        false
    }

    /// Whether a placeholder stands for something else already, or for itself.
    fn is_taken(&self, placeholder: &str) -> bool {
        self.placeholders.has(placeholder)
            || !self.left.is_empty() && self.left.contains(&self.hashes.hash_one(placeholder))
    }

    fn placeholder(&mut self, kind: String, value: &str) -> String {
        let key = (kind, value.to_owned());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let placeholder = match &self.tags {
            Tags::Nonce(nonce) => loop {
                let count = self.counts.entry(key.0.clone()).or_default();
                *count += 1;
                let placeholder = format!("[{}_{count}_{nonce}]", key.0);
                if !self.is_taken(&placeholder) {
                    break placeholder;
                }
            },
            Tags::Keyed(tag) => {
                let tag = tag(&key.0, value);
                let mut number = 1;
                // Two values of one tag are so rare that their numbers may depend on their order.
                loop {
                    let placeholder = format!("[{}_{number}_{tag:08x}]", key.0);
                    if !self.is_taken(&placeholder) {
                        break placeholder;
                    }
                    number += 1;
                }
            }
        };
        self.placeholders.insert(placeholder.clone(), value.to_owned());
        self.known.insert(key, placeholder.clone());
        placeholder
    }
}

/// A type as it stands in a placeholder: capitals, digits and `_`, not too long.
fn label(kind: &str) -> String {
    let clean = kind
        .chars()
        .take(32)
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    clean.collect()
}

#[cfg(test)]
#[path = "redactor_tests.rs"]
mod tests;
