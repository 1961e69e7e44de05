//! How long a connection may keep the gateway waiting.
//!
//! A permit costs a client nothing, so a client that sends no request, sends one byte by byte, or
//! reads nothing of its answer must lose it. While a request is worked on the connection may take
//! the time that this takes; the reader of a body limits the time of its arrival.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The longest time for the head of a request after its first byte; for the first request, after
/// the connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest time of a connection without a request. Load balancers keep theirs for a minute, and
/// must be the first to close.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// The longest time for which a client may read nothing of its answer.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);
/// A connection that has sent no request for this long makes room when all permits are taken.
const CROWDED_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The event that a connection is waiting for, and since when.
#[derive(Debug)]
pub(crate) struct Pace(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Requests that are worked on.
    requests: usize,
    /// The event that is awaited while there are no requests.
    next: Next,
    since: Instant,
    /// Since when the client has read nothing of its answer.
    stalled: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Next {
    /// The rest of a head.
    Head,
    /// The first byte of one.
    Request,
}

impl State {
    fn new(now: Instant) -> Self {
        Self { requests: 0, next: Next::Head, since: now, stalled: None }
    }

    /// When the client will have taken too long. `None` while it is not the client that is awaited.
    fn due(&self) -> Option<Instant> {
        if let Some(since) = self.stalled {
            return Some(since + STALL_TIMEOUT);
        }
        let patience = if self.next == Next::Head { HEAD_TIMEOUT } else { IDLE_TIMEOUT };
        self.asks_nothing().map(|since| since + patience)
    }

    fn asks_nothing(&self) -> Option<Instant> {
        (self.requests == 0 && self.stalled.is_none()).then_some(self.since)
    }

    fn hear(&mut self, now: Instant) {
        // Later bytes of a head do not buy it more time.
        if self.requests == 0 && self.next == Next::Request {
            (self.next, self.since) = (Next::Head, now);
        }
    }

    fn begin(&mut self) {
        self.requests += 1;
    }

    fn end(&mut self, now: Instant) {
        self.requests -= 1;
        (self.next, self.since) = (Next::Request, now);
    }

    fn stall(&mut self, is_stalled: bool, now: Instant) {
        if is_stalled {
            self.stalled = Some(now);
        } else if self.stalled.take().is_some() {
            // The end of an answer may have been on its way for long.
            self.since = now;
        }
    }
}

impl Pace {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::new(Instant::now()))))
    }

    /// A request is worked on until this and the response made of it are dropped.
    pub(crate) fn request(self: &Arc<Self>) -> Request {
        self.state().begin();
        Request(self.clone())
    }

    /// Waits until the client has taken too long, or sends no request while others wait for its
    /// permit.
    pub(crate) async fn overdue(&self, crowded: &Notify) {
        loop {
            let now = Instant::now();
            let due = self.state().due();
            if due.is_some_and(|due| due <= now) {
                return;
            }
            // A wait that begins meanwhile is not due before this.
            let wake = due.unwrap_or(now + HEAD_TIMEOUT);
            if tokio::time::timeout_at(wake, crowded.notified()).await.is_ok() {
                let asks_nothing = self.state().asks_nothing();
                if asks_nothing.is_some_and(|since| since.elapsed() >= CROWDED_IDLE_TIMEOUT) {
                    return;
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is worked on.
#[derive(Debug)]
pub(crate) struct Request(Arc<Pace>);

impl Request {
    /// Keeps it until its answer has been handed over.
    pub(crate) fn until_sent<B>(self, body: B) -> Answer<B> {
        Answer { body, _request: self }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.0.state().end(Instant::now());
    }
}

/// The body of an answer, with the request that it belongs to.
#[derive(Debug)]
pub(crate) struct Answer<B> {
    body: B,
    _request: Request,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that reports the bytes it reads, and when the other end takes none.
#[derive(Debug)]
pub(crate) struct Paced<S> {
    stream: S,
    pace: Arc<Pace>,
    is_stalled: bool,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S, pace: Arc<Pace>) -> Self {
        Self { stream, pace, is_stalled: false }
    }

    fn wrote<T>(&mut self, written: Poll<T>) -> Poll<T> {
        if written.is_pending() != self.is_stalled {
            self.is_stalled = !self.is_stalled;
            self.pace.state().stall(self.is_stalled, Instant::now());
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if into.filled().len() > before {
            self.pace.state().hear(Instant::now());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_its_time_however_many_bytes_come() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = State::new(start);
        assert_eq!(state.due(), Some(start + HEAD_TIMEOUT));
        state.hear(at(9));
        assert_eq!(state.due(), Some(start + HEAD_TIMEOUT), "the first byte of the first");
        state.begin();
        assert_eq!(state.due(), None, "the gateway's turn");
        state.hear(at(20));
        state.end(at(30));
        assert_eq!(state.due(), Some(at(30) + IDLE_TIMEOUT));
        state.hear(at(80));
        state.hear(at(85));
        assert_eq!(state.due(), Some(at(80) + HEAD_TIMEOUT));
    }

    #[test]
    fn one_of_two_requests_is_enough() {
        let start = Instant::now();
        let mut state = State::new(start);
        state.begin();
        state.begin();
        state.end(start);
        assert_eq!((state.due(), state.asks_nothing()), (None, None));
        state.end(start);
        assert!(state.due().is_some());
    }

    #[test]
    fn an_answer_that_nobody_takes_is_waited_for_from_its_last_byte() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = State::new(start);
        state.begin();
        state.stall(true, at(5));
        assert_eq!(state.due(), Some(at(5) + STALL_TIMEOUT), "also while it is made");
        state.end(at(6));
        assert_eq!((state.due(), state.asks_nothing()), (Some(at(5) + STALL_TIMEOUT), None));
        state.stall(false, at(50));
        assert_eq!(state.due(), Some(at(50) + IDLE_TIMEOUT));
    }
}
