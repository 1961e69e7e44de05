//! Patterns that people write into settings: compiled, matched at a bounded cost, and tried before they are saved.
//!
//! `regex` is linear in the text, but may look at every state of a pattern for every byte, and cannot be interrupted. It
//! is used where even that fits into the budget: nearly always. Otherwise the [`automaton`] is, which finds the same,
//! counts what it does, and stops when the budget is spent.

mod automaton;
mod cost;
pub(crate) mod prefixes;
#[cfg(test)]
mod tests;
pub(crate) mod trial;
pub(crate) mod watch;
pub(crate) mod work;

use std::ops::Range;
use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::Hir;

use automaton::Automaton;
use work::{Budget, GivenUp};

/// A pattern that compiles to more bytes is refused.
const MAX_COMPILED: usize = 1 << 20;

/// Compiling was given up.
pub(crate) const TOO_LONG_TO_COMPILE: &str = "settings.safety: the patterns take too long to compile: use fewer or smaller counted repetitions";

/// A pattern, ready to be searched for.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    hir: Hir,
    /// So many units of work for a byte [`Regex`] may take at the most.
    worst: u64,
    /// No match is longer, in bytes.
    longest: Option<usize>,
    /// Made when it is needed.
    automaton: OnceLock<Option<Automaton>>,
}

impl Pattern {
    /// Compiles a pattern. The error is a sentence for the one who wrote it.
    pub(crate) fn compile(pattern: &str) -> Result<Self, String> {
        Self::sized(pattern, MAX_COMPILED)
    }

    /// Compiles a pattern to so many bytes at the most.
    pub(crate) fn sized(pattern: &str, most: usize) -> Result<Self, String> {
        let regex = RegexBuilder::new(pattern)
            .size_limit(most)
            .dfa_size_limit(MAX_COMPILED)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => {
                    "the pattern is too large once compiled".to_owned()
                }
                // The last line says what is wrong; those above draw the pattern.
                other => last_line(&other.to_string()),
            })?;
        let hir = regex_syntax::parse(pattern).map_err(|error| last_line(&error.to_string()))?;
        let longest = hir.properties().maximum_len();
        Ok(Self { regex, worst: cost::per_byte(&hir), longest, hir, automaton: OnceLock::new() })
    }

    /// Returns the pattern in parts.
    pub(crate) fn hir(&self) -> &Hir {
        &self.hir
    }

    /// How many units of work it takes for a byte at the most.
    pub(crate) fn worst(&self) -> u64 {
        self.worst
    }

    /// Whether no text matches at all.
    pub(crate) fn matches_never(&self) -> bool {
        self.hir.properties().minimum_len().is_none()
    }

    /// Whether an empty text matches.
    pub(crate) fn matches_nothing(&self) -> bool {
        self.regex.is_match("")
    }

    /// The first matches that are not empty, in order, at most so many.
    pub(crate) fn first(
        &self,
        most: usize,
        text: &str,
        budget: &mut Budget<'_>,
    ) -> Result<Vec<Range<usize>>, GivenUp> {
        let mut all = Vec::new();
        self.each(text, budget, |range| {
            all.push(range);
            all.len() < most
        })?;
        Ok(all)
    }

    /// Calls back with each match that is not empty, in order, until it answers `false`.
    pub(crate) fn each(
        &self,
        text: &str,
        budget: &mut Budget<'_>,
        mut found: impl FnMut(Range<usize>) -> bool,
    ) -> Result<(), GivenUp> {
        let mut from = 0;
        while let Some(range) = self.find_at(text, from, budget)? {
            from = if range.is_empty() { next_character(text, range.end) } else { range.end };
            if from > text.len() || !range.is_empty() && !found(range) {
                break;
            }
        }
        Ok(())
    }

    /// The first match that begins at `from` or behind it.
    pub(crate) fn find_at(
        &self,
        text: &str,
        from: usize,
        budget: &mut Budget<'_>,
    ) -> Result<Option<Range<usize>>, GivenUp> {
        let cost = |bytes: usize| self.worst.saturating_mul(bytes as u64);
        if budget.may_spend_unseen(cost(text.len() - from)) {
            let found = self.regex.find_at(text, from).map(|found| found.range());
            // It has not looked further than the longest match could have reached.
            let reached = found
                .as_ref()
                .zip(self.longest)
                .map(|(found, most)| found.start.saturating_add(most));
            budget.spent_unseen(cost(reached.unwrap_or(text.len()).min(text.len()) - from));
            return Ok(found);
        }
        budget.ask()?;
        let automaton = self.automaton.get_or_init(|| Automaton::new(&self.hir));
        let automaton = automaton.as_ref().ok_or(GivenUp::Costly)?;
        let found = automaton.find_at(text.as_bytes(), from, budget)?;
        Ok(found.map(|(start, end)| start..end))
    }
}

/// How many units of work patterns take together for a byte at the most.
pub(crate) fn cost_of<'p>(patterns: impl IntoIterator<Item = &'p Pattern>) -> u64 {
    patterns.into_iter().fold(0, |sum: u64, pattern| sum.saturating_add(pattern.worst()))
}

/// Returns the start of the character behind the one at `at`, or a position behind the text if there is none.
fn next_character(text: &str, at: usize) -> usize {
    (at + 1..text.len()).find(|&next| text.is_char_boundary(next)).unwrap_or(text.len().max(at + 1))
}

fn last_line(error: &str) -> String {
    error.lines().last().unwrap_or_default().trim_start_matches("error: ").trim().to_owned()
}
