//! Connections to providers, kept open for the next call.
//!
//! An HTTP/1 connection is driven by the call that uses it. No task runs between the two: a call costs
//! no task switches, and everything that a provider sent in one packet is read at once, so a burst of
//! events can leave in one write. HTTP/2 connections are shared by calls and have a task of their own.

use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http2;
use hyper::rt::Executor as _;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::{self, Handle};
use tokio::time::{Instant, timeout};
use tower_service::Service as _;

use crate::net::connect::{Connector, Wire};
use crate::net::failure::Failure;
use crate::net::http1::{Http1, Unsent};

/// Time limit of the HTTP/2 handshake on a new connection.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of unused connections that a runtime keeps to one provider, and the time for which it keeps
/// them: a little less than most load balancers do. Many servers close theirs after 5 seconds already;
/// a handshake for each call that comes after that would cost more than the few that meet it, which are
/// sent again.
const MOST_IDLE_CONNECTIONS: usize = 1024;
const IDLE_TIME: Duration = Duration::from_secs(55);
/// A kept connection that ends within this time of a request has most likely ended before it.
const CLOSE_RACE_TIME: Duration = Duration::from_secs(1);
/// Most bytes of the head of an answer over HTTP/2, where reads are as large as frames.
const MOST_HEAD_BYTES: u32 = 32 * 1024;
/// Interval of pings, and the time limit of their answers, to detect a dead HTTP/2 connection.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PONG_TIMEOUT: Duration = Duration::from_secs(10);

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
    idle: Arc<IdleConnections>,
}

/// One server: connections to different ones are never mixed up.
#[derive(Clone, Debug)]
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
        Self { connector, idle: Arc::default() }
    }

    /// Sends a request with an absolute URI, and returns the head of the answer as soon as it has come.
    /// A request is sent again if nothing of it had left; and once, if resending is allowed, if a kept
    /// connection ended before its answer.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        resend: Resend,
    ) -> Result<Response<Body>, Failure> {
        let uri = request.uri().clone();
        let server = Server::of(&uri)?;
        // The error of a kept connection that ended before the answer to the request.
        let mut closed = None;
        loop {
            let mut copy = None;
            let began = Instant::now();
            let sent = if let Some(sender) = self.idle.shared(&server) {
                Box::pin(self.idle.send_shared(&server, sender, request)).await
            } else if let Some(connection) = self.idle.take(&server) {
                copy = (resend == Resend::Allowed).then(|| Box::new(request.clone()));
                self.idle.send_exclusive(&server, connection, request).await
            } else {
                break;
            };
            match (sent, copy) {
                (Ok(response), _) => return Ok(response),
                (Err(Unsent::Returned(unsent)), _) => request = *unsent,
                // Most likely the server closed the connection just before it was used again, and has
                // not read the request: RFC 9112, 9.3.1. It may have read it, which cannot be detected;
                // official clients send it again all the same, over a new connection, which cannot have
                // been kept too long. A connection that ends later was at work.
                (Err(Unsent::Closed(error)), Some(copy)) if began.elapsed() < CLOSE_RACE_TIME => {
                    closed = Some(error);
                    request = *copy;
                    break;
                }
                (Err(Unsent::Closed(error)), _) => return Err(error.into()),
                (Err(Unsent::Failed(failure)), _) => return Err(failure),
            }
        }
        // Rare steps are boxed: the state of a handshake would be in the future of every call. A
        // request that was sent once must not be reported as unsent.
        let mut failed = |failure: Failure| closed.take().map_or(failure, Into::into);
        let sent = match Box::pin(self.connect(uri)).await.map_err(&mut failed)? {
            Connected::Exclusive(connection) => {
                self.idle.send_exclusive(&server, connection, request).await
            }
            Connected::Shared(sender) => {
                locked(&self.idle.shared).insert(server.clone(), sender.clone());
                Box::pin(self.idle.send_shared(&server, sender, request)).await
            }
        };
        sent.map_err(|unsent| match unsent {
            Unsent::Failed(failure) => failure,
            Unsent::Closed(error) => error.into(),
            Unsent::Returned(_) => {
                failed(Failure::Connect("the server closed the connection at once".into()))
            }
        })
    }

    async fn connect(&self, uri: Uri) -> Result<Connected, Failure> {
        let io = self.connector.clone().call(uri).await;
        let io = io.map_err(Failure::Connect)?;
        let connected = io.connected();
        if connected.is_negotiated_h2() {
            let shared = timeout(HANDSHAKE_TIMEOUT, shared(io)).await;
            let shared = shared.map_err(|late| Failure::Connect(late.into()))?;
            // No request has been sent yet.
            let shared = shared.map_err(|error| Failure::Connect(error.into()))?;
            return Ok(Connected::Shared(shared));
        }
        let http1 = Http1::open(io, connected.is_proxied()).await?;
        Ok(Connected::Exclusive(Box::new(http1)))
    }

    /// Closes the connections that were not used for a while.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut expired = Vec::new();
        locked(&self.idle.unused).retain(|_, unused| {
            take_expired(unused, now, &mut expired);
            !unused.is_empty()
        });
        locked(&self.idle.shared).retain(|_, sender| !sender.is_closed());
    }
}

enum Connected {
    Exclusive(Box<Http1>),
    Shared(http2::SendRequest<Full<Bytes>>),
}

/// Makes an HTTP/2 connection that calls can share. Its task ends with its last call.
async fn shared(io: Wire) -> hyper::Result<http2::SendRequest<Full<Bytes>>> {
    let (sender, driver) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PONG_TIMEOUT)
        .max_header_list_size(MOST_HEAD_BYTES)
        .handshake(io)
        .await?;
    TokioExecutor::new().execute(driver);
    Ok(sender)
}

// An `Authority` ignores case, and hashes byte by byte for it. Names that differ in case alone are two
// servers here, with connections of their own.
impl PartialEq for Server {
    fn eq(&self, other: &Self) -> bool {
        self.runtime == other.runtime
            && self.scheme == other.scheme
            && self.authority.as_str() == other.authority.as_str()
    }
}

impl Eq for Server {}

impl Hash for Server {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.scheme, self.authority.as_str(), self.runtime).hash(state);
    }
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
    async fn send_shared(
        &self,
        server: &Server,
        mut sender: http2::SendRequest<Full<Bytes>>,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, Unsent> {
        if sender.ready().await.is_err() {
            // It takes no more calls, so the next call must not get it again.
            locked(&self.shared).remove(server);
            return Err(Unsent::Returned(Box::new(request)));
        }
        let response = sender.try_send_request(request).await.map_err(Unsent::of)?;
        Ok(response.map(|incoming| Body { incoming, exclusive: None }))
    }

    /// Takes the connection that was used last: the others may be closed when they are not needed.
    fn take(&self, server: &Server) -> Option<Box<Http1>> {
        let last = locked(&self.unused).get_mut(server)?.pop_back()?;
        (last.since.elapsed() <= IDLE_TIME).then_some(last.connection)
    }

    fn put(&self, server: Server, connection: Box<Http1>) {
        if !connection.is_open() {
            return;
        }
        let now = Instant::now();
        // Expired connections are closed after the lock is released.
        let mut expired = Vec::new();
        let mut unused = locked(&self.unused);
        let unused = unused.entry(server).or_default();
        take_expired(unused, now, &mut expired);
        if unused.len() < MOST_IDLE_CONNECTIONS {
            unused.push_back(Unused { connection, since: now });
        }
    }

    /// Sends over a connection that carries no other request meanwhile.
    async fn send_exclusive(
        self: &Arc<Self>,
        server: &Server,
        mut connection: Box<Http1>,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, Unsent> {
        let response = connection.send(request).await?;
        let exclusive = Exclusive { connection, server: server.clone(), idle: self.clone() };
        Ok(response.map(|incoming| Body { incoming, exclusive: Some(exclusive) }))
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
    /// The connection, if no other request uses it meanwhile.
    exclusive: Option<Exclusive>,
}

/// A connection that carries the request of one body alone.
struct Exclusive {
    connection: Box<Http1>,
    server: Server,
    idle: Arc<IdleConnections>,
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
            && let Some(exclusive) = &mut body.exclusive
        {
            exclusive.connection.drive(cx);
            read = Pin::new(&mut body.incoming).poll_frame(cx);
        }
        if matches!(read, Poll::Ready(None))
            && let Some(mut exclusive) = body.exclusive.take()
        {
            exclusive.connection.drive(cx);
            exclusive.idle.put(exclusive.server, exclusive.connection);
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
