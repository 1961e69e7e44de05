//! Questions about a text that know no detector: normalization, words, places, checksums, codes, JSON.

pub(crate) mod base64;
pub(crate) mod checksum;
pub(crate) mod codes;
pub(crate) mod json_lexer;
pub(crate) mod normalize;
pub(crate) mod randomness;
pub(crate) mod sha256;
pub(crate) mod source_code;
pub(crate) mod spans;
pub(crate) mod words;
