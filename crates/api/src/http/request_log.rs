//! The layer around every request: its id, its log line, its metrics, and an answer if a defect of
//! ours has left none.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::FutureExt as _;
use gateway::request_id::{self, Served};
use http_body_util::BodyExt as _;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::http::drain_body;
use crate::http::error::Failure;
use crate::http::trace_context::caller_trace;
use crate::http::trace_headers;

/// Ties a response to the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_ID: usize = 128;

/// Gives the request an id, and records its outcome. Query strings are never recorded: prompts travel
/// in them.
pub async fn around(mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request.headers().get(&REQUEST_ID).filter(|id| is_sane(id)).cloned();
    let id = id.unwrap_or_else(fresh);
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let name: Arc<str> = id.to_str().unwrap_or_default().into();
    let trace = caller_trace(request.headers());
    let traced = trace.clone();
    let work = drain_body::drained(request, |request| answered(request, next));
    let dropped = Arc::new(OnceLock::new());
    let answer_left = CancellationToken::new();
    let leaves = answer_left.clone().drop_guard();
    let served = Served { id: name, trace, dropped_attributes: dropped.clone(), answer_left };
    let mut response = request_id::within(served, work).await;
    let route = route.as_ref().map_or("unknown", MatchedPath::as_str);
    let status = response.status().as_u16();
    let seconds = began.elapsed().as_secs_f64();
    count(route, status, seconds);
    let (ms, request_id) = (seconds * 1000.0, id.to_str().unwrap_or_default());
    let traceparent = traced.map(|trace| tracing::field::display(trace.context));
    tracing::info!(%method, route, status, ms, request_id, traceparent, "request");
    if let Some(names) = dropped.get() {
        trace_headers::name_dropped_attributes(names, response.headers_mut());
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.map(|body| leaving(body, leaves))
}

/// A body that keeps something until it has left: it is dropped once all of it is written, or the caller has gone.
fn leaving(body: Body, leaves: DropGuard) -> Body {
    Body::new(body.map_err(move |error| {
        let _until_then = &leaves;
        error
    }))
}

/// The handler's answer, also if a defect of ours ends it.
async fn answered(request: Request, next: Next) -> Response {
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    answer.unwrap_or_else(|_| {
        tracing::error!("a handler panicked");
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal error").into_response()
    })
}

fn count(route: &str, status: u16, seconds: f64) {
    let labels = [("route", route.to_owned()), ("status", status.to_string())];
    metrics::counter!("sluice_requests_total", &labels).increment(1);
    metrics::histogram!("sluice_request_seconds", "route" => route.to_owned()).record(seconds);
}

/// An id and the JSON body for a request that the HTTP library has refused by itself.
pub fn bare_refusal(status: u16) -> (String, String) {
    let sentence = match status {
        414 => "The address is too long",
        431 => "The headers are too large",
        _ => "The request is malformed",
    };
    let body = serde_json::json!({"error": sentence}).to_string();
    (fresh().to_str().unwrap_or_default().to_owned(), body)
}

/// Printable and short: it goes into logs and back to the caller.
fn is_sane(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    !bytes.is_empty() && bytes.len() <= LONGEST_ID && bytes.iter().all(plain)
}

/// Unique without a system call: random per process, counted within it.
fn fresh() -> HeaderValue {
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let text = format!("{:016x}-{:x}", *PROCESS, COUNT.fetch_add(1, Ordering::Relaxed));
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("none"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicUsize;

    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::middleware::from_fn;
    use axum::routing::post;
    use futures_util::{StreamExt as _, stream};
    use tower::ServiceExt as _;

    use super::*;

    async fn defective() -> StatusCode {
        panic!("a defect")
    }

    #[tokio::test]
    async fn a_defect_is_answered_and_the_request_read() {
        let router = Router::new().route("/", post(defective)).layer(from_fn(around));
        let read = Arc::new(AtomicUsize::new(0));
        let counted = read.clone();
        let parts = stream::iter(["one", "two"]).map(move |part| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(part)
        });
        let asked = Request::post("/").header(REQUEST_ID, "mine");
        let asked = asked.body(Body::from_stream(parts)).unwrap();
        let response = router.oneshot(asked).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(response.headers()[REQUEST_ID], "mine");
        assert_eq!(read.load(Ordering::Relaxed), 2);
        let said = to_bytes(response.into_body(), 100).await.unwrap();
        assert_eq!(said, r#"{"error":"Internal error"}"#);
    }

    #[tokio::test]
    async fn an_answer_has_left_once_its_body_is_dropped() {
        let body = |left: &CancellationToken| {
            let parts = stream::iter(["one", "two"].map(Ok::<_, Infallible>));
            leaving(Body::from_stream(parts), left.clone().drop_guard())
        };
        let left = CancellationToken::new();
        let mut read = body(&left);
        for part in ["one", "two"] {
            let frame = read.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), part);
            assert!(!left.is_cancelled(), "{part} is not written yet");
        }
        assert!(read.frame().await.is_none());
        drop(read);
        assert!(left.is_cancelled());

        let left = CancellationToken::new();
        let unread = body(&left);
        assert!(!left.is_cancelled());
        drop(unread);
        assert!(left.is_cancelled(), "its caller has gone");
    }
}
