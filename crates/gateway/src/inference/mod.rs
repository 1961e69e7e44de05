//! Inference: one use case a file, from a request of a key to its answer.

pub(crate) mod assistants;
pub(crate) mod chat;
pub(crate) mod checks;
pub(crate) mod earlier;
pub(crate) mod embeddings;
pub(crate) mod executions;
pub(crate) mod external_access;
pub(crate) mod follow_up;
pub(crate) mod images;
mod mcp;
mod recorded;
pub(crate) mod simulate;
pub(crate) mod stored_responses;
pub(crate) mod token_count;
