//! The headers of a conversation: its trace, its session, and the parameters that were left out.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use domain::ids::TraceId;

/// Names the trace, in requests and in answers.
const TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");

/// Name the session, in requests: the gateway's own header, and those of clients.
const SESSION: [HeaderName; 3] = [
    HeaderName::from_static("x-sluice-session"),
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("session-id"),
];

/// Names the parameters that were left out.
const DROPPED: HeaderName = HeaderName::from_static("x-sluice-dropped-params");

/// The trace that a request's headers name.
pub fn trace_of(headers: &HeaderMap) -> Option<String> {
    headers.get(TRACE_ID).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The session that a request's headers name.
pub fn session_of(headers: &HeaderMap) -> Option<&str> {
    let texts = SESSION.into_iter().filter_map(|name| headers.get(name)?.to_str().ok());
    texts.map(str::trim).find(|name| !name.is_empty())
}

/// Adds to an answer the headers of its trace and of the parameters that were left out because the
/// endpoint or the model does not support them.
pub fn with_trace_headers(trace: TraceId, dropped: &[String], mut response: Response) -> Response {
    let headers = response.headers_mut();
    if !dropped.is_empty()
        && let Ok(names) = HeaderValue::try_from(dropped.join(", "))
    {
        headers.insert(DROPPED, names);
    }
    if let Ok(value) = HeaderValue::from_str(&trace.to_string()) {
        headers.insert(TRACE_ID, value);
    }
    response
}
