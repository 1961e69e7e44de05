//! The caller's HTTP, as the SDK uses it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::BoxStream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse as Event;

use crate::error::McpError;

/// The data of the events of a stream; it ends with its first error.
pub type Events = BoxStream<'static, Result<String, McpError>>;

/// The error type that the SDK receives.
pub(crate) type Failed = StreamableHttpError<McpError>;

/// Requests to one server. Each names the conversation if it has an id, and carries `headers` beside those
/// of the implementation. Every implementation bounds the bytes that it returns and the time of its heads.
pub trait Http: Send + Sync + 'static {
    /// Sends a message.
    fn post<'a>(
        &'a self,
        message: Vec<u8>,
        conversation: Option<&'a str>,
        headers: HeaderMap,
    ) -> BoxFuture<'a, Result<Posted, McpError>>;

    /// Ends the conversation.
    fn delete<'a>(
        &'a self,
        conversation: &'a str,
        headers: HeaderMap,
    ) -> BoxFuture<'a, Result<(), McpError>>;

    /// Opens the stream of the server's messages between calls; `None` if it has none.
    fn listen<'a>(
        &'a self,
        conversation: Option<&'a str>,
        headers: HeaderMap,
    ) -> BoxFuture<'a, Option<Events>>;
}

/// The answer to a message.
pub struct Posted {
    /// Its status.
    pub status: StatusCode,
    /// The id of the conversation, if the answer gives one.
    pub conversation: Option<String>,
    /// Its body.
    pub body: PostedBody,
}

/// The body of an answer to a message.
pub enum PostedBody {
    /// It has none that could be a message.
    None,
    /// A message as JSON, whose tree is in proportion to its bytes.
    Json(Bytes),
    /// A stream of messages.
    Events(Events),
}

/// The caller's HTTP, with what the SDK's errors report incompletely.
#[derive(Clone)]
pub(crate) struct SdkHttp {
    http: Arc<dyn Http>,
    /// The last fault.
    fault: Arc<Mutex<Option<McpError>>>,
    /// Whether the server has given the conversation an id.
    has_id: Arc<AtomicBool>,
}

impl SdkHttp {
    pub(crate) fn new(http: Arc<dyn Http>) -> Self {
        Self { http, fault: Arc::default(), has_id: Arc::default() }
    }

    /// Whether the server has given the conversation an id.
    pub(crate) fn has_id(&self) -> bool {
        self.has_id.load(Ordering::Relaxed)
    }

    /// Returns the last fault, as far as it is known.
    pub(crate) fn fault(&self) -> McpError {
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

    fn answer(
        &self,
        posted: Posted,
        is_request: bool,
    ) -> Result<StreamableHttpPostResponse, McpError> {
        let Posted { status, conversation, body } = posted;
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if conversation.is_some() {
            self.has_id.store(true, Ordering::Relaxed);
        }
        let message: Option<ServerJsonRpcMessage> = match body {
            PostedBody::Events(events) if status.is_success() => {
                let http = self.clone();
                let noted = events.map(move |event| match event {
                    Ok(data) => Ok(Event::default().data(data)),
                    Err(fault) => Err(SseError::Body(http.note(fault).into())),
                });
                return Ok(StreamableHttpPostResponse::Sse(noted.boxed(), conversation));
            }
            PostedBody::Json(json) => serde_json::from_slice(&json).ok(),
            PostedBody::None | PostedBody::Events(_) => None,
        };
        match message {
            // A refusal in the words of the protocol is more precise than the status.
            Some(answer) if status.is_success() || matches!(answer, JsonRpcMessage::Error(_)) => {
                Ok(StreamableHttpPostResponse::Json(answer, conversation))
            }
            _ if !status.is_success() => Err(McpError::Status(status.as_u16())),
            // Some servers answer a notification with an empty body, and a status that promises more.
            _ if !is_request => Ok(StreamableHttpPostResponse::Accepted),
            _ => Err(McpError::Malformed),
        }
    }
}

impl StreamableHttpClient for SdkHttp {
    type Error = McpError;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        conversation: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let json = serde_json::to_vec(&message).map_err(|_| self.failed(McpError::Malformed))?;
        let headers = HeaderMap::from_iter(headers);
        let posted = self.http.post(json, conversation.as_deref(), headers).await;
        let is_request = matches!(message, ClientJsonRpcMessage::Request(_));
        posted
            .and_then(|posted| self.answer(posted, is_request))
            .map_err(|fault| self.failed(fault))
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        conversation: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let deleted = self.http.delete(&conversation, HeaderMap::from_iter(headers)).await;
        deleted.map_err(|fault| self.failed(fault))
    }

    /// Returns the stream of a server's messages between calls: its tools have changed. A server that
    /// refuses to be listened to, or fails at it, is used all the same.
    async fn get_stream(
        &self,
        _: Arc<str>,
        conversation: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Event, SseError>>, Failed> {
        let headers = HeaderMap::from_iter(headers);
        let events = self.http.listen(conversation.as_deref(), headers).await;
        let events = events.ok_or(StreamableHttpError::ServerDoesNotSupportSse)?;
        // A broken stream is over.
        let read = events.take_while(|event| ready(event.is_ok()));
        let event = |event: Result<String, McpError>| match event {
            Ok(data) => Ok(Event::default().data(data)),
            Err(fault) => Err(SseError::Body(fault.into())),
        };
        Ok(read.map(event).boxed())
    }
}
