//! Conversations with MCP servers, by the official SDK, over HTTP that the caller provides.
//!
//! A server is somebody else's program: what it lists is bounded in number and size, and its requests to
//! us (sampling, elicitation, roots) are declined, because we declare none of them. The bounds on bytes and
//! time, the egress rules and the credentials are the caller's.
//!
//! The SDK is large and generic: it is compiled here alone, at a lower level than what every call runs, so
//! all futures that leave are boxed.

mod answer;
mod conversation;
mod error;
mod http;

pub use crate::answer::McpAnswer;
pub use crate::conversation::{Conversation, McpTool};
pub use crate::error::McpError;
pub use crate::http::{Events, Http, Posted, PostedBody};
