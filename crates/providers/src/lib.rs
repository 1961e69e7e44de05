//! Calls to model providers, MCP servers and issuers of single sign-on: the wire formats, and the only
//! place that opens a connection to them.
//!
//! An adapter is a pure translation between the canonical conversation and one vendor's bytes; the
//! client carries those bytes under the egress rules and time limits. Nothing here depends on
//! projects' settings, money, routing, the database or HTTP towards callers: which model is called, how
//! often, and what a failure costs is decided elsewhere.

mod adapter;
mod api_client;
mod breaker;
mod chat_form;
mod client;
mod collector;
mod credentials;
mod error;
mod issuer;
mod mcp;
mod net;
mod sandbox;
#[cfg(test)]
mod sim_testing;
#[cfg(test)]
mod testing;
mod vendors;
mod wire;

pub use mcp_client::{McpAnswer, McpError, McpTool};
pub use sign_on::{Begun, Client as SignOnClient, Flow, Identity, Issuers, SignOnError};

pub use crate::adapter::embeddings::{Embedded, EmbeddingRequest};
pub use crate::adapter::images::{GeneratedImages, ImageRequest, parse_size};
pub use crate::adapter::request::Attempt;
pub use crate::api_client::{ApiAnswer, ApiClient, ApiError, SignIn};
pub use crate::breaker::{Breaker, Breakers, Fault, Permit};
pub use crate::client::Client;
pub use crate::client::event_stream::EventStream;
pub use crate::client::stored_responses::{
    StoredResponseAction, StoredResponseBody, StoredResponseCall,
};
pub use crate::collector::{Collector, CollectorAddress, CollectorBody, Delivery};
pub use crate::error::codes::FaultCode;
pub use crate::error::retry::{MAX_BACK_OFF, back_off};
pub use crate::error::{Error, ErrorKind};
pub use crate::issuer::{issuers, validate_issuer};
pub use crate::mcp::address::{McpAddress, is_public_url, share_host};
pub use crate::mcp::{McpClient, McpSession};
pub use crate::net::egress::{Egress, validate_base_url};
pub use crate::vendors::bedrock::is_region as is_aws_region;
pub use crate::vendors::{
    charges, check_embeddings, check_images, keeps_answers, lasting_tools, may_keep_for_an_hour,
    may_write_cache, surcharges,
};
