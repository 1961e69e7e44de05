//! A connection over HTTP/1, driven by the call that uses it.

use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;

use crate::net::connect::Wire;
use crate::net::failure::Failure;

/// Most bytes of the head of an answer over HTTP/1, and of a single read: the buffers have up to twice
/// as many. A connection keeps the buffer of its largest read as long as its stream lasts: without the
/// bound, a burst makes that 400 KiB.
const MOST_READ_BYTES: usize = 32 * 1024;

/// An HTTP/1 connection with its driver. Kept in a box: it takes some kilobytes, and changes hands
/// often.
pub(super) struct Http1 {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    driver: Option<http1::Connection<Wire, Full<Bytes>>>,
    /// Whether it ended without unread bytes.
    ended_silently: bool,
    /// Whether a proxy reads the requests: it requires whole URIs.
    proxied: bool,
}

impl Http1 {
    /// Begins to speak HTTP over a connection.
    pub(super) async fn open(io: Wire, proxied: bool) -> hyper::Result<Self> {
        let (sender, driver) =
            http1::Builder::new().max_buf_size(MOST_READ_BYTES).handshake(io).await?;
        Ok(Self { sender, driver: Some(driver), ended_silently: false, proxied })
    }

    /// Whether it has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.driver.is_some()
    }

    /// Lets the connection make progress.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        // The answer on the connection reports how it ended.
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(cx).is_ready()
        {
            self.ended_silently = self.is_silent();
        }
    }

    /// Whether the server has sent nothing since its last answer. Called at the end of the connection.
    fn is_silent(&mut self) -> bool {
        match self.driver.take() {
            Some(driver) => driver.into_parts().read_buf.is_empty(),
            None => self.ended_silently,
        }
    }

    /// Whether a request can be sent over it. Detects that the server has closed it.
    async fn is_ready(&mut self) -> bool {
        poll_fn(|cx| {
            self.drive(cx);
            let ready =
                self.driver.is_some() && matches!(self.sender.poll_ready(cx), Poll::Ready(Ok(())));
            Poll::Ready(ready)
        })
        .await
    }

    /// Sends a request, and returns the head of the answer.
    pub(super) async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unsent> {
        if !self.is_ready().await {
            return Err(Unsent::Returned(Box::new(request)));
        }
        let absolute = request.uri().clone();
        address(&mut request, self.proxied);
        let mut answer = pin!(self.sender.try_send_request(request));
        let answer = poll_fn(|cx| {
            self.drive(cx);
            answer.as_mut().poll(cx)
        });
        let error = match answer.await {
            Ok(response) => return Ok(response),
            Err(error) => Unsent::of(error),
        };
        Err(match error {
            Unsent::Returned(mut request) => {
                *request.uri_mut() = absolute;
                Unsent::Returned(request)
            }
            Unsent::Failed(Failure::Http(error)) => {
                let silent = is_end(&error) && self.is_silent();
                if silent { Unsent::Closed(error) } else { Unsent::Failed(error.into()) }
            }
            other => other,
        })
    }
}

/// Whether an error means that the connection ended, rather than that the bytes that came over it are
/// wrong.
fn is_end(error: &hyper::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let ended = |io: &io::Error| {
        matches!(io.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    };
    error.is_incomplete_message()
        || error.is_canceled()
        || error.is_closed()
        || error.source().and_then(|cause| cause.downcast_ref::<io::Error>()).is_some_and(ended)
}

/// Puts the URI into the form that HTTP/1 sends, and adds the `Host` header.
fn address(request: &mut Request<Full<Bytes>>, proxied: bool) {
    let uri = request.uri().clone();
    if let Some(authority) = uri.authority()
        && let Ok(host) = HeaderValue::from_str(host(uri.scheme(), authority))
    {
        request.headers_mut().insert(HOST, host);
    }
    if !proxied {
        let path = uri.into_parts().path_and_query;
        *request.uri_mut() = path.unwrap_or(PathAndQuery::from_static("/")).into();
    }
}

/// Returns the host as servers expect it: without the default port.
fn host<'a>(scheme: Option<&Scheme>, authority: &'a Authority) -> &'a str {
    let usual = if scheme == Some(&Scheme::HTTPS) { 443 } else { 80 };
    match authority.port_u16() {
        Some(port) if port != usual => authority.as_str(),
        _ => authority.host(),
    }
}

/// A request that has no answer.
pub(super) enum Unsent {
    /// Nothing of the request was sent: here it is.
    Returned(Box<Request<Full<Bytes>>>),
    /// The connection ended before a byte of an answer had come.
    Closed(hyper::Error),
    Failed(Failure),
}

impl Unsent {
    pub(super) fn of(mut error: hyper::client::conn::TrySendError<Request<Full<Bytes>>>) -> Self {
        match error.take_message() {
            Some(request) => Self::Returned(Box::new(request)),
            None => Self::Failed(error.into_error().into()),
        }
    }
}
