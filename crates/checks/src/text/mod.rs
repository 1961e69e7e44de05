//! What every detector reads a text with: normalization, words, places, checksums, codes, JSON.

pub(crate) mod checksum;
pub(crate) mod codes;
pub(crate) mod json_lexer;
pub(crate) mod normalize;
pub(crate) mod sha256;
pub(crate) mod spans;
pub(crate) mod words;
