//! The rest of a request's body that a handler has not read is read before the answer goes.
//!
//! Refusals, unknown paths and calls that need no body answer without it. A connection that still
//! holds a part of one has to be closed: a client that sends on is reset and never sees the answer,
//! and one that keeps connections meets the closed one with its next request.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, HttpBody as _};
use axum::extract::Request;
use axum::http::header::EXPECT;
use axum::http::{StatusCode, Version};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::sync::oneshot;

/// The most bytes read of an unneeded body, and the longest time spent on it.
const MOST_DRAINED: usize = 64 * 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Answers a request, and reads the rest of its body.
pub async fn drained<F>(request: Request, answer: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    // Over HTTP/2 an unread body ends its own stream alone. A body that is too long to be read to its
    // end is not begun: its connection is closed after the answer.
    let is_endless = request.body().size_hint().lower() > MOST_DRAINED as u64;
    if request.body().is_end_stream() || request.version() == Version::HTTP_2 || is_endless {
        return answer(request).await;
    }
    let asks_first = request.headers().contains_key(EXPECT);
    let (sender, mut remains) = oneshot::channel();
    let watch = |body: Body| {
        let body = body.into_data_stream();
        Body::from_stream(Watched { body, begun: false, remains: Some(sender) })
    };
    let response = answer(request.map(watch)).await;
    // A client that was too slow has been waited for. One that asks before sending learns from the
    // answer not to send.
    if response.status() != StatusCode::REQUEST_TIMEOUT
        && let Ok((body, begun)) = remains.try_recv()
        && (begun || !asks_first)
    {
        // A client that takes longer is not waited for.
        let _ = tokio::time::timeout(DRAIN_TIME, drain(body)).await;
    }
    response
}

async fn drain(mut body: BodyDataStream) {
    let mut read = 0;
    while let Some(Ok(piece)) = body.next().await {
        read += piece.len();
        if read > MOST_DRAINED {
            return;
        }
    }
}

/// A body that is handed back when it is dropped before its end.
struct Watched {
    body: BodyDataStream,
    /// Whether any part of the body was polled.
    begun: bool,
    /// `None` once the body is read to its end.
    remains: Option<oneshot::Sender<(BodyDataStream, bool)>>,
}

impl Stream for Watched {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.begun = true;
        let polled = self.body.poll_next_unpin(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.remains = None;
        }
        polled
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(remains) = self.remains.take() {
            let body = std::mem::replace(&mut self.body, Body::empty().into_data_stream());
            // There is no receiver when the request itself was given up.
            let _ = remains.send((body, self.begun));
        }
    }
}
