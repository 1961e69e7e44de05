//! Inference: requests of keys, in our own format and in those of vendors.

pub(crate) mod assistants;
pub(crate) mod canonical;
pub(crate) mod chat;
pub(crate) mod chat_body;
mod chat_passing;
pub(crate) mod checks;
pub(crate) mod embeddings;
pub(crate) mod execution_stream;
pub(crate) mod executions;
pub(crate) mod finding;
pub(crate) mod format;
pub(crate) mod function_call;
pub(crate) mod gemini;
pub(crate) mod images;
pub(crate) mod message_names;
pub(crate) mod messages;
pub(crate) mod model_list;
pub(crate) mod responses;
pub(crate) mod sdk;
pub(crate) mod simulate;
pub(crate) mod sse;
