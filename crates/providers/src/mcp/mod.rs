//! MCP servers: their tools listed and called, over our own connections and within time limits.
//!
//! A server is somebody else's program: everything it sends is bounded in number, size and time, and
//! what it repeats of the credentials that it received is removed.

pub(crate) mod address;
mod http;

use std::sync::Arc;

use domain::secret::Secret;
use mcp_client::{Conversation, McpAnswer, McpError, McpTool};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use crate::client::Client;
use crate::credentials::Credentials;
use crate::credentials::scrub::scrub;
use crate::mcp::address::McpAddress;
use crate::mcp::http::ServerHttp;

/// An open conversation with one server. Calls may run side by side; dropping it ends the conversation.
#[derive(Debug)]
pub struct McpSession {
    conversation: Conversation,
    token: Option<Secret>,
    credentials: Option<Credentials>,
}

/// Client for MCP servers, over the connections of a [`Client`], without access to models.
#[derive(Clone)]
pub struct McpClient(Client);

impl std::fmt::Debug for McpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpClient").finish_non_exhaustive()
    }
}

impl McpClient {
    /// Creates a client over the connections of this one.
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// Opens a conversation with a server. The token is sent as a bearer token. `on_change` is called
    /// whenever the server reports, in an answer or between calls, that its tools have changed.
    pub async fn open(
        &self,
        address: &McpAddress,
        token: Option<&Secret>,
        on_change: impl Fn() + Send + Sync + 'static,
        deadline: Instant,
    ) -> Result<McpSession, McpError> {
        let http = Arc::new(ServerHttp::new(self.0.clone(), address, token.cloned())?);
        let version = env!("CARGO_PKG_VERSION");
        let opening = Conversation::open(http, address.as_str(), version, Box::new(on_change));
        let opened = timeout_at(deadline, opening).await.unwrap_or(Err(McpError::Late));
        let conversation = opened.map_err(|error| without_token(error, token))?;
        let credentials = Credentials::of(token);
        Ok(McpSession { conversation, token: token.cloned(), credentials })
    }
}

impl McpSession {
    /// Runs a tool.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        deadline: Instant,
    ) -> Result<McpAnswer, McpError> {
        // Dropped at the deadline, it notifies the server that nobody waits any more.
        let calling = timeout_at(deadline, self.conversation.call(tool, arguments));
        let called = calling.await.unwrap_or(Err(McpError::Late));
        let mut answer = called.map_err(|error| without_token(error, self.token.as_ref()))?;
        if let Some(credentials) = &self.credentials {
            credentials.clean(&mut answer.text);
        }
        answer.cut_off();
        Ok(answer)
    }

    /// Lists the server's tools.
    pub async fn tools(&self, deadline: Instant) -> Result<Vec<McpTool>, McpError> {
        let listing = timeout_at(deadline, self.conversation.tools());
        let listed = listing.await.unwrap_or(Err(McpError::Late));
        let mut tools = listed.map_err(|error| without_token(error, self.token.as_ref()))?;
        if let Some(credentials) = &self.credentials {
            for tool in &mut tools {
                credentials.clean(&mut tool.name);
                tool.description.as_mut().map(|text| credentials.clean(text));
                credentials.clean_members(&mut tool.schema);
            }
        }
        Ok(tools)
    }

    /// Returns the number of reports from the server that its tools have changed. A list may be
    /// outdated if this has grown since the list was requested.
    pub fn changes(&self) -> u64 {
        self.conversation.changes()
    }

    /// Whether the server gave the conversation an id, which its state may depend on.
    pub fn is_stateful(&self) -> bool {
        self.conversation.is_stateful()
    }

    /// Whether the conversation is closed.
    pub fn is_closed(&self) -> bool {
        self.conversation.is_closed()
    }

    /// Ends the conversation, and waits until that is sent.
    pub async fn close(self) {
        self.conversation.close().await;
    }
}

/// The error, without what its text repeats of the token.
fn without_token(error: McpError, token: Option<&Secret>) -> McpError {
    match error {
        McpError::Refused(text) => McpError::Refused(scrub(&text, token)),
        other => other,
    }
}

#[cfg(test)]
mod tests;
