//! Calls to model providers and MCP servers: the wire formats, and the only place that opens a
//! connection to them.
//!
//! An adapter is a pure translation between the canonical conversation and one vendor's bytes; the
//! transport carries those bytes under the egress rules and time limits. Nothing here depends on
//! projects' settings, money, routing, the database or HTTP towards callers: which model is called, how
//! often, and what a failure costs is decided elsewhere.

mod adapter;
mod anthropic;
#[cfg(test)]
mod arbitrary_conversation;
mod azure;
mod bedrock;
mod breaker;
mod chat_form;
mod connect;
mod counts;
mod echo;
mod echo_stream;
mod echo_ways;
mod egress;
mod endpoint;
mod error;
mod events;
mod gemini;
mod internal;
mod lenient;
mod mcp;
mod openai;
mod pool;
mod receive;
mod retry;
mod sandbox;
mod scrub;
#[cfg(test)]
mod sim_testing;
mod sse;
#[cfg(test)]
mod testing;
mod tls;
mod transport;

pub use adapter::{Embedded, EmbeddingRequest, GeneratedImages, ImageRequest, sides};
pub use bedrock::is_region as is_aws_region;
pub use breaker::{Breaker, Breakers, Permit};
pub use egress::{Egress, validate_base_url};
pub use error::{Error, ErrorKind};
pub use events::EventStream;
pub use mcp::{McpAddress, McpAnswer, McpClient, McpError, McpSession, McpTool};
pub use retry::{MAX_BACK_OFF, back_off};
pub use transport::{Attempt, Client};

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
