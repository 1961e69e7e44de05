//! Reads what the answers of all providers have in common: JSON, token counts, server-sent events and
//! error bodies.

pub(crate) mod error_body;
pub(crate) mod json;
pub(crate) mod sse;
pub(crate) mod token_counts;
