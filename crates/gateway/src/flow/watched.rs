//! Watched: a stream by whose end its endpoint is judged.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use domain::conversation::StreamEvent;
use domain::time::{Clock, SECOND, Timestamp};
use providers::{Error, EventStream, Pass};

use super::places::tell;

/// A caller that has kept the stream waiting for longer, all in all, may be why it broke off: our own
/// time was up, or the provider gave up writing. In microseconds.
const PATIENCE: i64 = 5 * SECOND;

/// A stream that has begun. Its endpoint has failed where it breaks off, and answered where it comes to
/// its end. Of one that is dropped before that nobody knows, nor of one that its caller was slow to read.
pub(crate) struct Watched {
    stream: EventStream,
    /// Until it is known how it went.
    pass: Option<Pass>,
    /// When something was handed over, until more is asked for.
    handed: Option<Timestamp>,
    /// How long nobody asked for more, in microseconds.
    idle: i64,
    clock: Clock,
}

impl Watched {
    pub(super) fn new(stream: EventStream, pass: Option<Pass>, clock: Clock) -> Self {
        Self { stream, pass, handed: Some(clock.now()), idle: 0, clock }
    }

    /// Parameters that the model has not and that were left out, by name.
    pub(crate) fn dropped(&self) -> &[String] {
        self.stream.dropped()
    }

    /// The next batch of events; see [`EventStream::next`].
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<StreamEvent>, Error>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// [`Watched::next`] for callers that are polled themselves.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Vec<StreamEvent>, Error>>> {
        if let Some(handed) = self.handed.take() {
            self.idle = self.idle.saturating_add(self.clock.now().since(handed));
        }
        let read = ready!(self.stream.poll_next(cx));
        let now = self.clock.now();
        self.handed = Some(now);
        match (&read, self.pass.take()) {
            (Some(Ok(_)), pass) => self.pass = pass,
            (Some(Err(_)), Some(pass)) if self.idle > PATIENCE => drop(pass),
            (Some(Err(error)), Some(pass)) => tell(pass, Some(error), now),
            (None, Some(pass)) => tell(pass, None, now),
            (_, None) => {}
        }
        Poll::Ready(read)
    }
}
