//! One conversation: its greeting, its tools listed and called, its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams,
};
use rmcp::service::{ClientInitializeError, NotificationContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::NeverRetry;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ClientHandler, RoleClient, ServiceError, ServiceExt as _};
use serde_json::{Map, Value};

use crate::answer::{self, McpAnswer};
use crate::error::McpError;
use crate::http::{Failed, Http, SdkHttp};

/// Most tools of one server, and most pages on which it may list them.
const MOST_TOOLS: usize = 128;
const MOST_PAGES: usize = 32;
/// Most bytes of all tool definitions of a server.
const MOST_TOOL_BYTES: usize = 512 * 1024;
/// Most calls of one conversation at once; further ones wait, with their time running. All requests of
/// a project may share a conversation, and each is bounded by itself.
const MOST_CONCURRENT_CALLS: usize = 1024;
/// Time limit for ending a conversation, and for answering a server's own requests.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);

/// A tool as its server describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct McpTool {
    /// The server's name for it.
    pub name: String,
    /// The tool's purpose.
    pub description: Option<String>,
    /// The JSON Schema of its arguments.
    pub schema: Map<String, Value>,
}

/// An open conversation with one server. Calls may run side by side; dropping it ends the conversation.
/// Nothing here has a time limit: the caller drops the future.
pub struct Conversation {
    service: RunningService<RoleClient, Us>,
    http: SdkHttp,
    /// Number of reports from the server that its tools have changed.
    changes: Arc<AtomicU64>,
}

/// Our side of the conversation, as a server sees it.
struct Us {
    config: ClientConfig,
    changes: Arc<AtomicU64>,
    on_change: Box<dyn Fn() + Send + Sync>,
}

impl ClientHandler for Us {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        (self.on_change)();
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").finish_non_exhaustive()
    }
}

impl Conversation {
    /// Greets the server at this address, as a client of this version. `on_change` is called whenever the
    /// server reports, in an answer or between calls, that its tools have changed.
    pub fn open(
        http: Arc<dyn Http>,
        address: &str,
        version: &'static str,
        on_change: Box<dyn Fn() + Send + Sync>,
    ) -> BoxFuture<'static, Result<Self, McpError>> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(address);
        Box::pin(async move {
            // A stream that breaks fails its call: a tool must not run twice unnoticed.
            config.retry_config = Arc::new(NeverRetry::default());
            config.reinit_on_expired_session = false;
            config.control_request_timeout = CONTROL_TIMEOUT;
            config.max_concurrent_requests = MOST_CONCURRENT_CALLS;
            let http = SdkHttp::new(http);
            let transport = StreamableHttpClientTransport::with_client(http.clone(), config);
            let name = Implementation::new("sluice", version);
            let config = ClientConfig::new(ClientCapabilities::default(), name);
            let changes = Arc::<AtomicU64>::default();
            let greeting = Us { config, changes: changes.clone(), on_change }.serve(transport);
            let service = greeting.await.map_err(|error| greeting_fault(error, &http))?;
            Ok(Self { service, http, changes })
        })
    }

    /// Runs a tool. A dropped future notifies the server that nobody waits any more.
    pub fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> BoxFuture<'_, Result<McpAnswer, McpError>> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        Box::pin(async move {
            match self.service.call_tool_once(params).await {
                Ok(CallToolResponse::Complete(result)) => Ok(answer::read(result)),
                Ok(_) => Err(McpError::Asks),
                Err(error) => Err(self.fault(error)),
            }
        })
    }

    /// Lists the server's tools.
    pub fn tools(&self) -> BoxFuture<'_, Result<Vec<McpTool>, McpError>> {
        Box::pin(self.list())
    }

    /// Returns the number of reports from the server that its tools have changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether the server gave the conversation an id, which its state may depend on.
    pub fn is_stateful(&self) -> bool {
        self.http.has_id()
    }

    /// Whether the conversation is closed.
    pub fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.is_transport_closed()
    }

    /// Ends the conversation, and waits until that is sent.
    pub fn close(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // The server need not have received it.
            let _ = self.service.cancel().await;
        })
    }

    async fn list(&self) -> Result<Vec<McpTool>, McpError> {
        let mut tools = Vec::new();
        let mut bytes = 0;
        let mut cursor = None;
        for _ in 0..MOST_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.service.list_tools(Some(params)).await;
            let page = page.map_err(|error| self.fault(error))?;
            for tool in page.tools {
                let tool = McpTool {
                    name: tool.name.into_owned(),
                    description: tool.description.map(Into::into),
                    schema: Arc::unwrap_or_clone(tool.input_schema),
                };
                bytes += tool.bytes();
                tools.push(tool);
                if tools.len() > MOST_TOOLS {
                    return Err(McpError::TooMuch("it has more than 128 tools"));
                }
                if bytes > MOST_TOOL_BYTES {
                    return Err(McpError::TooMuch("it says more than 512 KiB of its tools"));
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(McpError::TooMuch("the list of its tools does not end"))
    }

    fn fault(&self, error: ServiceError) -> McpError {
        match error {
            ServiceError::McpError(refusal) => McpError::Refused(refusal.message.into_owned()),
            ServiceError::Timeout { .. } | ServiceError::Cancelled { .. } => McpError::Late,
            ServiceError::UnexpectedResponse => McpError::Malformed,
            // If several calls fail, this is the fault of this one.
            ServiceError::TransportSend(error) => match error.error.downcast_ref::<Failed>() {
                Some(StreamableHttpError::Client(fault)) => fault.clone(),
                _ => self.broken(),
            },
            _ => self.broken(),
        }
    }

    /// Returns the reason why a call has no answer, as far as the conversation as a whole shows it. A
    /// lost conversation may have been reported to another call: this one may have been run.
    fn broken(&self) -> McpError {
        match self.http.fault() {
            McpError::Gone => McpError::Unreachable,
            fault => fault,
        }
    }
}

impl McpTool {
    /// Approximate bytes that it takes in a request.
    pub fn bytes(&self) -> usize {
        let schema = serde_json::to_string(&self.schema).map_or(0, |schema| schema.len());
        self.name.len() + self.description.as_ref().map_or(0, String::len) + schema
    }
}

fn greeting_fault(error: ClientInitializeError, http: &SdkHttp) -> McpError {
    match error {
        ClientInitializeError::JsonRpcError(refusal) => {
            McpError::Refused(refusal.message.into_owned())
        }
        ClientInitializeError::TransportError { .. }
        | ClientInitializeError::ConnectionClosed(_) => http.fault(),
        _ => McpError::Malformed,
    }
}
