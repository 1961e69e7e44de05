//! Calls to model providers and MCP servers: the wire formats, and the only place that opens a
//! connection to them.
//!
//! An adapter is a pure translation between the canonical conversation and one vendor's bytes; the
//! transport carries those bytes under the egress rules and time limits. Nothing here depends on
//! projects' settings, money, routing, the database or HTTP towards callers: which model is called, how
//! often, and what a failure costs is decided elsewhere.

mod adapter;
mod breaker;
mod chat_form;
mod client;
mod credentials;
mod error;
mod mcp;
mod net;
mod sandbox;
#[cfg(test)]
mod sim_testing;
#[cfg(test)]
mod testing;
mod vendors;
mod wire;

pub use crate::adapter::{Embedded, EmbeddingRequest, GeneratedImages, ImageRequest, sides};
pub use crate::breaker::{Breaker, Breakers, Permit};
pub use crate::client::event_stream::EventStream;
pub use crate::client::{Attempt, Client};
pub use crate::error::retry::{MAX_BACK_OFF, back_off};
pub use crate::error::{Error, ErrorKind};
pub use crate::mcp::address::McpAddress;
pub use crate::mcp::{McpAnswer, McpClient, McpError, McpSession, McpTool};
pub use crate::net::egress::{Egress, validate_base_url};
pub use crate::vendors::bedrock::is_region as is_aws_region;

use domain::conversation::Prompt;
use domain::model::Model;

/// Refuses a model whose provider has no embeddings; the provider may still reject the request.
pub fn check_embeds(model: &Model) -> Result<(), Error> {
    adapter::embedder(model).map(drop)
}

/// Whether a provider may write a prompt to its cache for longer than five minutes, which costs more.
pub fn may_keep_for_an_hour(model: &Model, prompt: &Prompt) -> bool {
    let keeps = |model: &Model| adapter::adapter(model.provider).keeps_for_an_hour(model, prompt);
    match model.config.endpoints.as_slice() {
        [] => keeps(model),
        endpoints => endpoints.iter().any(|endpoint| keeps(&endpoint.model)),
    }
}

/// Whether a provider may write a prompt to its cache, which costs more with most.
pub fn may_write_cache(model: &Model, prompt: &Prompt) -> bool {
    let writes = |model: &Model| adapter::adapter(model.provider).writes_cache(model, prompt);
    match model.config.endpoints.as_slice() {
        [] => writes(model),
        endpoints => endpoints.iter().any(|endpoint| writes(&endpoint.model)),
    }
}

/// Refuses a model whose provider makes no images.
pub fn check_paints(model: &Model) -> Result<(), Error> {
    adapter::painter(model).map(drop)
}
