//! Reads the parts of answers that are alike with all providers.

pub(crate) mod error_body;
pub(crate) mod json;
pub(crate) mod sse;
pub(crate) mod token_counts;
