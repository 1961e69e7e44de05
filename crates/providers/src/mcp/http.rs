//! The SDK's HTTP, by our own connections: the egress rules hold, and everything is bounded.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use domain::secret::Secret;
use futures_util::future::ready;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse as Event;
use tokio::time::Instant;

use crate::adapter::request::Call;
use crate::client::Client;
use crate::error::ErrorKind;
use crate::mcp::address::McpAddress;
use crate::mcp::error::McpError;
use crate::net::endpoint::Endpoint;
use crate::net::pool::{Body, Resend};
use crate::net::receive::content_type;
use crate::wire::json;
use crate::wire::sse::{Sse, TooLong};

/// Most bytes of one answer, streamed or whole.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Time limit for the head of an answer: callers wait no longer for all of it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

const TOO_LONG: McpError = McpError::TooMuch("its answer is longer than 4 MiB");

/// The error type that the SDK receives.
pub(super) type Failed = StreamableHttpError<McpError>;

/// Requests to one server.
#[derive(Clone)]
pub(super) struct Http {
    client: Client,
    endpoint: Arc<Endpoint>,
    private: bool,
    /// Withheld from the SDK, which would hold it as a printable text.
    token: Option<Secret>,
    /// The last fault: the SDK's own errors report it incompletely.
    fault: Arc<Mutex<Option<McpError>>>,
    /// Whether the server has given the conversation an id.
    has_session: Arc<AtomicBool>,
}

impl Http {
    pub(super) fn new(
        client: Client,
        address: &McpAddress,
        token: Option<Secret>,
    ) -> Result<Self, McpError> {
        let private = address.is_private();
        let endpoint = client.find(address.as_str()).map_err(|_| McpError::Malformed)?;
        endpoint.check(private).map_err(|_| McpError::Forbidden)?;
        let (fault, has_session) = (Arc::default(), Arc::default());
        Ok(Self { client, endpoint, private, token, fault, has_session })
    }

    /// Whether the server has given the conversation an id.
    pub(super) fn has_session(&self) -> bool {
        self.has_session.load(Ordering::Relaxed)
    }

    /// Returns the last fault, as far as it is known.
    pub(super) fn fault(&self) -> McpError {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.clone().unwrap_or(McpError::Malformed)
    }

    fn note(&self, fault: McpError) -> McpError {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault.clone());
        fault
    }

    fn failed(&self, fault: McpError) -> Failed {
        StreamableHttpError::Client(self.note(fault))
    }

    async fn send(
        &self,
        method: Method,
        body: Vec<u8>,
        session: Option<&str>,
        extra: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response<Body>, McpError> {
        let mut headers = HeaderMap::from_iter(extra);
        let accepted = const { HeaderValue::from_static("application/json, text/event-stream") };
        headers.insert(ACCEPT, accepted);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON_MIME_TYPE));
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| McpError::Malformed);
        if let Some(session) = session {
            headers.insert(HEADER_SESSION_ID, value(session)?);
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

    /// Reads a whole answer.
    async fn message(
        &self,
        response: Response<Body>,
    ) -> Result<Option<ServerJsonRpcMessage>, Failed> {
        let read = Limited::new(response.into_body(), MOST_BYTES).collect().await;
        let body = read.map_err(|error| {
            let too_long = error.is::<http_body_util::LengthLimitError>();
            self.failed(if too_long { TOO_LONG } else { McpError::Unreachable })
        })?;
        let body = body.to_bytes();
        Ok(json::check_weight(&body).ok().and_then(|()| serde_json::from_slice(&body).ok()))
    }

    /// Returns the events of a stream, with an error once it exceeds the bound on bytes.
    fn events(
        body: Body,
        most: Option<usize>,
    ) -> impl Stream<Item = Result<Event, McpError>> + Send + 'static {
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
        stream::unfold(Some(reading), next)
    }
}

impl StreamableHttpClient for Http {
    type Error = McpError;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let body = serde_json::to_vec(&message).map_err(|_| self.failed(McpError::Malformed))?;
        let sent = self.send(Method::POST, body, session.as_deref(), headers).await;
        let response = sent.map_err(|fault| self.failed(fault))?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let given = response.headers().get(HEADER_SESSION_ID);
        let given = given.and_then(|value| value.to_str().ok()).map(str::to_owned);
        if given.is_some() {
            self.has_session.store(true, Ordering::Relaxed);
        }
        // The protocol defines this status for a lost conversation, whatever the body holds.
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(self.failed(McpError::Gone));
        }
        let kind = content_type(response.headers()).to_ascii_lowercase();
        if response.headers().contains_key(CONTENT_ENCODING) {
            return Err(self.failed(McpError::Malformed));
        }
        if !status.is_success() {
            // A refusal in the words of the protocol is more precise than the status.
            let refusal = match kind.as_str() {
                JSON_MIME_TYPE => self.message(response).await?,
                _ => None,
            };
            return match refusal {
                Some(refusal @ JsonRpcMessage::Error(_)) => {
                    Ok(StreamableHttpPostResponse::Json(refusal, given))
                }
                _ => Err(self.failed(McpError::Status(status.as_u16()))),
            };
        }
        if kind == EVENT_STREAM_MIME_TYPE {
            let http = self.clone();
            let events = Self::events(response.into_body(), Some(MOST_BYTES));
            let noted = events
                .map(move |event| event.map_err(|fault| SseError::Body(http.note(fault).into())));
            return Ok(StreamableHttpPostResponse::Sse(noted.boxed(), given));
        }
        match self.message(response).await? {
            Some(answer) => Ok(StreamableHttpPostResponse::Json(answer, given)),
            // Some servers answer a notification with an empty body, and a status that promises more.
            None if !matches!(message, ClientJsonRpcMessage::Request(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            None => Err(self.failed(McpError::Malformed)),
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let sent = self.send(Method::DELETE, Vec::new(), Some(&session), headers).await;
        sent.map(drop).map_err(|fault| self.failed(fault))
    }

    /// Returns the stream of a server's messages between calls: its tools have changed. A server that
    /// refuses to be listened to, or fails at it, is used all the same.
    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Event, SseError>>, Failed> {
        let sent = self.send(Method::GET, Vec::new(), session.as_deref(), headers).await;
        let response = sent.map_err(|_| StreamableHttpError::ServerDoesNotSupportSse)?;
        let kind = content_type(response.headers()).to_ascii_lowercase();
        let is_stream = response.status() == StatusCode::OK
            && kind == EVENT_STREAM_MIME_TYPE
            && !response.headers().contains_key(CONTENT_ENCODING);
        if !is_stream {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        // The stream is open for long, one message after the other: only each of them is bounded.
        let events = Self::events(response.into_body(), None);
        // A broken stream is over.
        let heard = events.take_while(|event| ready(event.is_ok()));
        Ok(heard.map(|event| event.map_err(|fault| SseError::Body(fault.into()))).boxed())
    }
}

/// A stream that is being read.
struct Reading {
    body: Body,
    parser: Sse,
    ready: VecDeque<Event>,
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
    async fn next(&mut self) -> Option<Result<Event, McpError>> {
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
            // The SDK reads the event as a tree.
            json::check_weight(data).map_err(|_| McpError::Malformed)?;
            ready.push_back(Event::default().data(String::from_utf8_lossy(data)));
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
