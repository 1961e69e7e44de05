//! One directory for each vendor's wire format.

pub(crate) mod anthropic;
pub(crate) mod azure;
pub(crate) mod bedrock;
pub(crate) mod gemini;
pub(crate) mod internal;
pub(crate) mod openai;
