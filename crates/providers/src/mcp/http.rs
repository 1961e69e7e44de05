//! The HTTP of a conversation, by our own connections: the egress rules hold, and everything is bounded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use domain::secret::Secret;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use mcp_client::{Events, Http, McpError, Posted, PostedBody};
use tokio::time::Instant;

use crate::adapter::request::Call;
use crate::client::Client;
use crate::error::ErrorKind;
use crate::mcp::address::McpAddress;
use crate::net::endpoint::Endpoint;
use crate::net::pool::{Body, Resend};
use crate::net::receive::content_type;
use crate::wire::json;
use crate::wire::sse::{Sse, TooLong};

/// Most bytes of one answer, streamed or whole.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Time limit for the head of an answer: callers wait no longer for all of it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The header with the id of a conversation.
const CONVERSATION: HeaderName = HeaderName::from_static("mcp-session-id");
const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

const TOO_LONG: McpError = McpError::TooMuch("its answer is longer than 4 MiB");

/// Requests to one server.
pub(super) struct ServerHttp {
    client: Client,
    endpoint: Arc<Endpoint>,
    private: bool,
    /// Withheld from the SDK, which would hold it as a printable text.
    token: Option<Secret>,
}

impl ServerHttp {
    pub(super) fn new(
        client: Client,
        address: &McpAddress,
        token: Option<Secret>,
    ) -> Result<Self, McpError> {
        let private = address.is_private();
        let endpoint = client.find(address.as_str()).map_err(|_| McpError::Malformed)?;
        endpoint.check(private).map_err(|_| McpError::Forbidden)?;
        Ok(Self { client, endpoint, private, token })
    }

    async fn send(
        &self,
        method: Method,
        body: Vec<u8>,
        conversation: Option<&str>,
        mut headers: HeaderMap,
    ) -> Result<Response<Body>, McpError> {
        let accepted = const { HeaderValue::from_static("application/json, text/event-stream") };
        headers.insert(ACCEPT, accepted);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| McpError::Malformed);
        if let Some(conversation) = conversation {
            headers.insert(CONVERSATION, value(conversation)?);
        }
        if let Some(token) = &self.token {
            let mut bearer = value(&format!("Bearer {}", token.expose()))?;
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
        }
        let call = Call { uri: self.endpoint.uri.clone(), headers, body };
        let deadline = Instant::now() + HEAD_TIMEOUT;
        // A tool that was run may not be run again.
        let (endpoint, resend) = (&self.endpoint, Resend::Never);
        let sent = self.client.send(self.private, endpoint, method, call, deadline, resend).await;
        sent.map_err(|error| match error.kind {
            ErrorKind::Forbidden => McpError::Forbidden,
            _ => McpError::Unreachable,
        })
    }

    /// Reads a whole answer; `None` if its tree would be out of proportion to its bytes.
    async fn body(response: Response<Body>) -> Result<PostedBody, McpError> {
        let read = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body = read.map_err(|error| {
            let too_long = error.is::<http_body_util::LengthLimitError>();
            if too_long { TOO_LONG } else { McpError::Unreachable }
        })?;
        let body = body.to_bytes();
        let is_light = json::check_weight(&body).is_ok();
        Ok(if is_light { PostedBody::Json(body) } else { PostedBody::None })
    }

    async fn post(
        &self,
        message: Vec<u8>,
        conversation: Option<&str>,
        headers: HeaderMap,
    ) -> Result<Posted, McpError> {
        let response = self.send(Method::POST, message, conversation, headers).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(Posted { status, conversation: None, body: PostedBody::None });
        }
        // The protocol defines this status for a lost conversation, whatever the body holds.
        if status == StatusCode::NOT_FOUND && conversation.is_some() {
            return Err(McpError::Gone);
        }
        if response.headers().contains_key(CONTENT_ENCODING) {
            return Err(McpError::Malformed);
        }
        let given = response.headers().get(CONVERSATION);
        let given = given.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let kind = content_type(response.headers()).to_ascii_lowercase();
        let body = match kind.as_str() {
            EVENT_STREAM if status.is_success() => {
                PostedBody::Events(Self::events(response.into_body(), Some(MOST_BYTES)))
            }
            JSON => Self::body(response).await?,
            _ if status.is_success() => Self::body(response).await?,
            _ => PostedBody::None,
        };
        Ok(Posted { status, conversation: given, body })
    }

    /// Returns the events of a stream, with an error once it exceeds the bound on bytes.
    fn events(body: Body, most: Option<usize>) -> Events {
        let reading = Reading {
            body,
            parser: Sse::default(),
            ready: VecDeque::new(),
            left: most,
            ended: false,
        };
        let next = |reading: Option<Reading>| async {
            let mut reading = reading?;
            match reading.next().await? {
                Ok(event) => Some((Ok(event), Some(reading))),
                Err(fault) => Some((Err(fault), None)),
            }
        };
        stream::unfold(Some(reading), next).boxed()
    }
}

impl Http for ServerHttp {
    fn post<'a>(
        &'a self,
        message: Vec<u8>,
        conversation: Option<&'a str>,
        headers: HeaderMap,
    ) -> BoxFuture<'a, Result<Posted, McpError>> {
        Box::pin(self.post(message, conversation, headers))
    }

    fn delete<'a>(
        &'a self,
        conversation: &'a str,
        headers: HeaderMap,
    ) -> BoxFuture<'a, Result<(), McpError>> {
        let sent = self.send(Method::DELETE, Vec::new(), Some(conversation), headers);
        Box::pin(async { sent.await.map(drop) })
    }

    fn listen<'a>(
        &'a self,
        conversation: Option<&'a str>,
        headers: HeaderMap,
    ) -> BoxFuture<'a, Option<Events>> {
        let sent = self.send(Method::GET, Vec::new(), conversation, headers);
        Box::pin(async {
            let response = sent.await.ok()?;
            let kind = content_type(response.headers()).to_ascii_lowercase();
            let is_stream = response.status() == StatusCode::OK
                && kind == EVENT_STREAM
                && !response.headers().contains_key(CONTENT_ENCODING);
            // The stream is open for long, one message after the other: only each of them is bounded.
            is_stream.then(|| Self::events(response.into_body(), None))
        })
    }
}

/// A stream that is being read.
struct Reading {
    body: Body,
    parser: Sse,
    ready: VecDeque<String>,
    /// Bytes that may still come, if they are bounded.
    left: Option<usize>,
    ended: bool,
}

impl From<TooLong> for McpError {
    fn from(_: TooLong) -> Self {
        Self::TooMuch("one of its messages is longer than 1 MiB")
    }
}

impl Reading {
    async fn next(&mut self) -> Option<Result<String, McpError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            if let Err(fault) = self.read().await {
                return Some(Err(fault));
            }
        }
    }

    async fn read(&mut self) -> Result<(), McpError> {
        let ready = &mut self.ready;
        let keep = |data: &[u8]| {
            // It is read as a tree.
            json::check_weight(data).map_err(|_| McpError::Malformed)?;
            ready.push_back(String::from_utf8_lossy(data).into_owned());
            Ok::<(), McpError>(())
        };
        let Some(frame) = self.body.frame().await else {
            self.ended = true;
            return self.parser.end(keep);
        };
        let data: Bytes = frame.map_err(|_| McpError::Unreachable)?.into_data().unwrap_or_default();
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(data.len()).ok_or(TOO_LONG)?;
        }
        self.parser.feed(&data, keep)
    }
}
