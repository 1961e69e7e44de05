//! Connections to providers, kept open for the next call.
//!
//! An HTTP/1 connection is driven by the call that uses it. No task runs between the two: a call costs
//! no task switches, and everything that a provider sent in one packet is read at once, so a burst of
//! events can leave in one write. HTTP/2 connections are shared by calls and have a task of their own.

use std::collections::{HashMap, VecDeque};
use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor as _;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::{self, Handle};
use tokio::time::{Instant, timeout};
use tower_service::Service as _;

use crate::net::connect::{Connector, Wire};

/// Time limit of the HTTP/2 handshake on a new connection.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Number of unused connections that a runtime keeps to one provider, and the time for which it keeps
/// them: a little less than most load balancers do. Many servers close theirs after 5 seconds already;
/// a handshake for each call that comes after that would cost more than the few that meet it, which are
/// sent again.
const IDLE_CONNECTIONS: usize = 1024;
const IDLE_TIME: Duration = Duration::from_secs(55);
/// A kept connection that ends within this time of a request has most likely ended before it.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Most bytes of the head of an answer over HTTP/1, and of a single read: the buffers have up to twice
/// as many. A connection keeps the buffer of its largest read as long as its stream lasts: without the
/// bound, a burst makes that 400 KiB.
const LARGEST_READ: usize = 32 * 1024;
/// Most bytes of the head of an answer over HTTP/2, where reads are as large as frames.
const LARGEST_HEAD: u32 = 32 * 1024;
/// Interval of pings, and the time limit of their answers, to detect a dead HTTP/2 connection.
const PING_EVERY: Duration = Duration::from_secs(20);
const PONG_TIME: Duration = Duration::from_secs(10);

/// A failure between a request and the head of its answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// No connection could be made; nothing was sent.
    #[error("no connection could be made")]
    Connect(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection broke, or the bytes that came over it are no HTTP.
    #[error("the connection failed")]
    Http(#[from] hyper::Error),
}

/// Whether a request may reach its server twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resend {
    /// Resending is allowed: at worst the request is paid for twice.
    Allowed,
    /// Resending is forbidden: its action would be done twice.
    Never,
}

/// Connections made by one connector.
pub(crate) struct Pool {
    connector: Connector,
    kept: Arc<IdleConnections>,
}

/// One server: connections to different ones are never mixed up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Server {
    scheme: Scheme,
    authority: Authority,
    /// The runtime that watches the connections. A connection that another runtime watches would wake
    /// two threads for each read.
    runtime: Option<runtime::Id>,
}

#[derive(Default)]
struct IdleConnections {
    unused: Mutex<HashMap<Server, VecDeque<Unused>>>,
    shared: Mutex<HashMap<Server, http2::SendRequest<Full<Bytes>>>>,
}

struct Unused {
    connection: Box<Http1>,
    since: Instant,
}

impl Pool {
    pub(crate) fn new(connector: Connector) -> Self {
        Self { connector, kept: Arc::default() }
    }

    /// Sends a request with an absolute URI, and returns the head of the answer as soon as it has come.
    /// A request is sent again if nothing of it had left; and once, if resending is allowed, if a kept
    /// connection ended before its answer.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        twice: Resend,
    ) -> Result<Response<Body>, Failure> {
        let uri = request.uri().clone();
        let server = Server::of(&uri)?;
        // The error of a kept connection that ended before the answer to the request.
        let mut met = None;
        loop {
            let mut again = None;
            let began = Instant::now();
            let sent = if let Some(sender) = self.kept.shared(&server) {
                Box::pin(self.kept.share(&server, sender, request)).await
            } else if let Some(connection) = self.kept.take(&server) {
                again = (twice == Resend::Allowed).then(|| Box::new(request.clone()));
                self.kept.own(&server, connection, request).await
            } else {
                break;
            };
            match (sent, again) {
                (Ok(response), _) => return Ok(response),
                (Err(Unsent::Again(unsent)), _) => request = *unsent,
                // Most likely the server closed the connection just before it was used again, and has
                // not read the request: RFC 9112, 9.3.1. It may have read it, which cannot be detected;
                // official clients send it again all the same, over a new connection, which cannot have
                // been kept too long. A connection that ends later was at work.
                (Err(Unsent::Closed(error)), Some(unanswered)) if began.elapsed() < AT_ONCE => {
                    met = Some(error);
                    request = *unanswered;
                    break;
                }
                (Err(Unsent::Closed(error)), _) => return Err(error.into()),
                (Err(Unsent::Failed(failure)), _) => return Err(failure),
            }
        }
        // Rare steps are boxed: the state of a handshake would be in the future of every call. A
        // request that was sent once must not be reported as unsent.
        let mut failed = |failure: Failure| met.take().map_or(failure, Into::into);
        let sent = match Box::pin(self.connect(uri)).await.map_err(&mut failed)? {
            Connected::Own(connection) => self.kept.own(&server, connection, request).await,
            Connected::Shared(sender) => {
                locked(&self.kept.shared).insert(server.clone(), sender.clone());
                Box::pin(self.kept.share(&server, sender, request)).await
            }
        };
        sent.map_err(|unsent| match unsent {
            Unsent::Failed(failure) => failure,
            Unsent::Closed(error) => error.into(),
            Unsent::Again(_) => {
                failed(Failure::Connect("the server closed the connection at once".into()))
            }
        })
    }

    async fn connect(&self, uri: Uri) -> Result<Connected, Failure> {
        let io = self.connector.clone().call(uri).await;
        let io = io.map_err(Failure::Connect)?;
        let connected = io.connected();
        if connected.is_negotiated_h2() {
            let shared = timeout(HANDSHAKE_TIME, shared(io)).await;
            let shared = shared.map_err(|late| Failure::Connect(late.into()))?;
            // No request has been sent yet.
            let shared = shared.map_err(|error| Failure::Connect(error.into()))?;
            return Ok(Connected::Shared(shared));
        }
        let (sender, driver) =
            http1::Builder::new().max_buf_size(LARGEST_READ).handshake(io).await?;
        let proxied = connected.is_proxied();
        let driver = Some(driver);
        Ok(Connected::Own(Box::new(Http1 { sender, driver, ended_unheard: false, proxied })))
    }

    /// Closes the connections that were not used for a while.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut expired = Vec::new();
        locked(&self.kept.unused).retain(|_, unused| {
            take_expired(unused, now, &mut expired);
            !unused.is_empty()
        });
        locked(&self.kept.shared).retain(|_, sender| !sender.is_closed());
    }
}

enum Connected {
    Own(Box<Http1>),
    Shared(http2::SendRequest<Full<Bytes>>),
}

enum Unsent {
    /// Nothing of the request was sent.
    Again(Box<Request<Full<Bytes>>>),
    /// The connection ended before a byte of an answer had come.
    Closed(hyper::Error),
    Failed(Failure),
}

impl Unsent {
    fn of(mut error: hyper::client::conn::TrySendError<Request<Full<Bytes>>>) -> Self {
        match error.take_message() {
            Some(request) => Self::Again(Box::new(request)),
            None => Self::Failed(error.into_error().into()),
        }
    }
}

/// An HTTP/1 connection with its driver. Kept in a box: it takes some kilobytes, and changes hands
/// often.
struct Http1 {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once the connection has ended.
    driver: Option<http1::Connection<Wire, Full<Bytes>>>,
    /// Whether it ended without unread bytes.
    ended_unheard: bool,
    /// Whether a proxy reads the requests: it requires whole URIs.
    proxied: bool,
}

impl Http1 {
    /// Lets the connection make progress.
    fn drive(&mut self, cx: &mut Context<'_>) {
        // The answer on the connection reports how it ended.
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(cx).is_ready()
        {
            self.ended_unheard = self.is_unheard();
        }
    }

    /// Whether the server has sent nothing since its last answer. Called at the end of the connection.
    fn is_unheard(&mut self) -> bool {
        match self.driver.take() {
            Some(driver) => driver.into_parts().read_buf.is_empty(),
            None => self.ended_unheard,
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

    async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unsent> {
        if !self.is_ready().await {
            return Err(Unsent::Again(Box::new(request)));
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
            Unsent::Again(mut request) => {
                *request.uri_mut() = absolute;
                Unsent::Again(request)
            }
            Unsent::Failed(Failure::Http(error)) => {
                let unheard = is_end(&error) && self.is_unheard();
                if unheard { Unsent::Closed(error) } else { Unsent::Failed(error.into()) }
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

/// Makes an HTTP/2 connection that calls can share. Its task ends with its last call.
async fn shared(io: Wire) -> hyper::Result<http2::SendRequest<Full<Bytes>>> {
    let (sender, driver) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_TIME)
        .max_header_list_size(LARGEST_HEAD)
        .handshake(io)
        .await?;
    TokioExecutor::new().execute(driver);
    Ok(sender)
}

impl Server {
    fn of(uri: &Uri) -> Result<Self, Failure> {
        match (uri.scheme(), uri.authority()) {
            (Some(scheme), Some(authority)) => {
                let runtime = Handle::try_current().ok().map(|runtime| runtime.id());
                Ok(Self { scheme: scheme.clone(), authority: authority.clone(), runtime })
            }
            _ => Err(Failure::Connect("the URI is not absolute".into())),
        }
    }
}

impl IdleConnections {
    fn shared(&self, server: &Server) -> Option<http2::SendRequest<Full<Bytes>>> {
        let mut shared = locked(&self.shared);
        let sender = shared.get(server)?;
        if sender.is_closed() {
            shared.remove(server);
            return None;
        }
        Some(sender.clone())
    }

    /// Sends over a connection that other calls use as well.
    async fn share(
        &self,
        server: &Server,
        mut sender: http2::SendRequest<Full<Bytes>>,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, Unsent> {
        if sender.ready().await.is_err() {
            // It takes no more calls, so the next call must not get it again.
            locked(&self.shared).remove(server);
            return Err(Unsent::Again(Box::new(request)));
        }
        let response = sender.try_send_request(request).await.map_err(Unsent::of)?;
        Ok(response.map(|incoming| Body { incoming, own: None }))
    }

    /// Takes the connection that was used last: the others may be closed when they are not needed.
    fn take(&self, server: &Server) -> Option<Box<Http1>> {
        let last = locked(&self.unused).get_mut(server)?.pop_back()?;
        (last.since.elapsed() <= IDLE_TIME).then_some(last.connection)
    }

    fn put(&self, server: Server, connection: Box<Http1>) {
        if connection.driver.is_none() {
            return;
        }
        let now = Instant::now();
        // Expired connections are closed after the lock is released.
        let mut expired = Vec::new();
        let mut unused = locked(&self.unused);
        let unused = unused.entry(server).or_default();
        take_expired(unused, now, &mut expired);
        if unused.len() < IDLE_CONNECTIONS {
            unused.push_back(Unused { connection, since: now });
        }
    }

    /// Sends over a connection that carries no other request meanwhile.
    async fn own(
        self: &Arc<Self>,
        server: &Server,
        mut connection: Box<Http1>,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, Unsent> {
        let response = connection.send(request).await?;
        let own = Own { connection, server: server.clone(), kept: self.clone() };
        Ok(response.map(|incoming| Body { incoming, own: Some(own) }))
    }
}

fn take_expired(unused: &mut VecDeque<Unused>, now: Instant, expired: &mut Vec<Unused>) {
    while let Some(oldest) = unused.pop_front_if(|oldest| now - oldest.since > IDLE_TIME) {
        expired.push(oldest);
    }
}

/// Locks a mutex, also after a panic: its content is valid after every step.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of an answer. Read to its end, it returns its connection; dropped before, it closes the
/// connection, which makes the provider stop.
pub(crate) struct Body {
    incoming: Incoming,
    own: Option<Own>,
}

struct Own {
    connection: Box<Http1>,
    server: Server,
    kept: Arc<IdleConnections>,
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let body = self.get_mut();
        let mut read = Pin::new(&mut body.incoming).poll_frame(cx);
        if read.is_pending()
            && let Some(own) = &mut body.own
        {
            own.connection.drive(cx);
            read = Pin::new(&mut body.incoming).poll_frame(cx);
        }
        if matches!(read, Poll::Ready(None))
            && let Some(mut own) = body.own.take()
        {
            own.connection.drive(cx);
            own.kept.put(own.server, own.connection);
        }
        read
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
