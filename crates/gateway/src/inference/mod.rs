//! Inference: one use case a file, from a request of a key to its answer.

pub(crate) mod assistants;
pub(crate) mod chat;
pub(crate) mod checks;
pub(crate) mod earlier;
pub(crate) mod embeddings;
pub(crate) mod executions;
pub(crate) mod follow_up;
pub(crate) mod images;
pub(crate) mod kept;
mod mcp;
pub(crate) mod reach;
pub(crate) mod simulate;
pub(crate) mod token_count;
