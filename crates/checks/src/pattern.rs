//! Patterns that people write into settings.

use regex::{Regex, RegexBuilder};

/// A pattern that compiles to more bytes is refused.
const MAX_COMPILED: usize = 1 << 20;

/// Compiles a pattern. The error is a sentence for the one who wrote it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the pattern is too large once compiled".to_owned(),
            // The last line says what is wrong; those above draw the pattern.
            other => other
                .to_string()
                .lines()
                .last()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .trim()
                .to_owned(),
        })
}
