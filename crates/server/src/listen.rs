//! Connections: accepted while there are permits, served, and cut off when they are too slow.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::response::{IntoResponse as _, Response};
use futures_util::future::Either;
use http::header::CONNECTION;
use http::{HeaderValue, Request, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tower::Service as _;

use crate::bare_refusals::BareRefusals;
use crate::coalesce_wakes::coalesce_wakes;
use crate::loops::{self, Loops, Spread};
use crate::slow_client_guard::{Pace, Paced};

/// Connections at once, if the limit of open files allows them; a further one waits.
pub(crate) const MOST_CONNECTIONS: usize = 20_000;
/// Connections that may wait to be accepted. The kernel drops those of a larger burst, and clients
/// try again after a second; its own limit (`somaxconn`) holds as well.
const BACKLOG_CONNECTIONS: u32 = 4096;
/// Files that are kept for everything else: databases, logs, libraries.
const OTHER_FILES: u64 = 256;
/// Files that each event loop uses for waiting.
const FILES_OF_A_LOOP: usize = 4;
/// The most bytes of an incomplete head that a connection may hold: the longest address, and
/// headers.
const MOST_HEAD_BYTES: usize = 128 * 1024;
/// Requests in flight at a stop may take this long.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// How often idle connections are notified that others wait for a permit.
const CROWD_INTERVAL: Duration = Duration::from_millis(250);
/// The wait before the next attempt when no connection can be accepted.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// A request with a longer body, or with one of unknown length, runs beside the event loops.
const LARGE_BODY_BYTES: u64 = 32 * 1024;

/// Listens at an address. The runtime's own `bind` lets no more than 128 wait.
pub(crate) fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A gateway that starts again must not wait for connections that the last one left behind.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG_CONNECTIONS)
}

/// How many connections there may be: each may need a second one, to a provider.
pub(crate) fn connections() -> usize {
    // A gateway opens many sockets, which count as files.
    let files = rlimit::increase_nofile_limit(u64::MAX).unwrap_or_else(|error| {
        tracing::warn!(%error, "the limit on open files was not raised");
        1024
    });
    let others = OTHER_FILES + (FILES_OF_A_LOOP * loops::count()) as u64;
    let allowed = files.saturating_sub(others) / 2;
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX).clamp(16, MOST_CONNECTIONS);
    if allowed < MOST_CONNECTIONS {
        tracing::info!(files, connections = allowed, "the limit on open files bounds connections");
    }
    allowed
}

/// The ends of a listener, in the order in which they come.
pub(crate) struct Ends {
    /// A stop is near: connections end with the answers that they carry, and their clients connect to
    /// another node.
    pub(crate) draining: CancellationToken,
    /// No connection is accepted any more.
    pub(crate) stop: CancellationToken,
    /// The rest is cut off.
    pub(crate) cut: CancellationToken,
}

/// Accepts at most `most` connections at once until stopped, then waits for those in flight, and cuts the
/// rest off.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    most: usize,
    ends: Ends,
    tasks: &TaskTracker,
    loops: &Loops,
) {
    let Ends { draining, stop, cut } = ends;
    let (places, crowded) = (Arc::new(Semaphore::new(most)), Arc::new(Notify::new()));
    let graceful = GracefulShutdown::new();
    loop {
        let next = async {
            let (stream, peer) = listener.accept().await?;
            let stream = stream.into_std()?;
            Ok::<_, std::io::Error>((stream, peer, place(&places, &crowded).await))
        };
        let Some(accepted) = stop.run_until_cancelled(next).await else { break };
        match accepted {
            Ok((stream, peer, place)) => {
                let (slot, handle) = loops.assign();
                let (spread, watcher) = (loops.spread(tasks), graceful.watcher());
                let service = Service {
                    router: router.clone(),
                    peer,
                    large: loops.large().clone(),
                    tasks: tasks.clone(),
                    draining: draining.clone(),
                };
                let connection = connection(stream, service, spread, watcher, crowded.clone());
                let cut = cut.clone();
                let task = async move {
                    // A call that is cut off is recorded as such.
                    cut.run_until_cancelled(coalesce_wakes(connection)).await;
                    drop((place, slot));
                };
                tasks.spawn_on(task, handle);
            }
            Err(error) => {
                // Out of files or memory: an open connection has to end first.
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(STOP_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still running after {} seconds", STOP_TIMEOUT.as_secs());
    }
    cut.cancel();
}

/// Takes a permit for a connection. If there is none, idle connections are asked to make room.
async fn place(places: &Arc<Semaphore>, crowded: &Notify) -> Option<OwnedSemaphorePermit> {
    loop {
        match tokio::time::timeout(CROWD_INTERVAL, places.clone().acquire_owned()).await {
            // It is never closed.
            Ok(place) => return place.ok(),
            Err(_) => crowded.notify_waiters(),
        }
    }
}

async fn connection(
    stream: std::net::TcpStream,
    service: Service,
    spread: Spread,
    watcher: Watcher,
    crowded: Arc<Notify>,
) {
    // The loop that serves it watches it from here on.
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!(%error, "a connection was not taken over");
            return;
        }
    };
    // Without it the last packet of an answer waits for the peer's acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    let pace = Pace::new();
    let stream = BareRefusals::new(Paced::new(stream, pace.clone()));
    let paced = pace.clone();
    let peer = service.peer;
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let running = paced.request();
        let answer = service.call(request);
        async move { Ok::<_, Infallible>(answer.await.map(|body| running.until_sent(body))) }
    });
    let mut builder = Builder::new(spread);
    // The pace limits the time of a head: from the first byte, also of one that may become HTTP/2.
    let http1 = &mut builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(MOST_HEAD_BYTES);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(250);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    tokio::select! {
        ended = watcher.watch(connection) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended early");
            }
        }
        () = pace.overdue(&crowded) => {
            metrics::counter!("sluice_slow_connections_total").increment(1);
            tracing::debug!(%peer, "a connection was too slow");
        }
    }
}

/// Answers the requests of one connection.
struct Service {
    router: Router,
    peer: SocketAddr,
    /// The runtime for requests with large bodies.
    large: Handle,
    tasks: TaskTracker,
    /// Cancelled when a stop is near.
    draining: CancellationToken,
}

impl Service {
    fn call(&self, mut request: Request<Incoming>) -> impl Future<Output = Response> + use<> {
        request.extensions_mut().insert(ConnectInfo(self.peer));
        let is_large = is_large(&request);
        // HTTP/2 has no such header: its connections end at the stop.
        let draining = (request.version() < Version::HTTP_2).then(|| self.draining.clone());
        let answer = self.router.clone().call(request);
        let (waits, answer) = gateway::until_hang_up(answer);
        let answer = if is_large {
            // A client that hangs up ends it, and the judging of its text.
            let task = self.tasks.spawn_on(answer, &self.large);
            Either::Right(AbortOnDropHandle::new(task))
        } else {
            Either::Left(answer)
        };
        async move {
            let _waits = waits;
            let mut answer = match answer {
                Either::Left(answer) => answer.await.unwrap_or_else(|never| match never {}),
                Either::Right(task) => match task.await {
                    Ok(answer) => answer.unwrap_or_else(|never| match never {}),
                    // The runtime has ended, or a defect of ours has ended the task.
                    Err(error) => {
                        tracing::error!(%error, "a large request was not answered");
                        StatusCode::INTERNAL_SERVER_ERROR.into_response()
                    }
                },
            };
            if draining.is_some_and(|draining| draining.is_cancelled()) {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            answer
        }
    }
}

fn is_large(request: &Request<Incoming>) -> bool {
    let hint = request.body().size_hint();
    hint.upper().is_none_or(|length| length > LARGE_BODY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_waits_to_be_accepted() {
        let listener = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        // A connection that does not fit connects a second later, or never while nothing is
        // accepted.
        let second = Duration::from_millis(900);
        let burst: Vec<_> = (0..400)
            .map(|_| std::net::TcpStream::connect_timeout(&address, second).unwrap())
            .collect();
        assert_eq!(burst.len(), 400);
    }
}
