//! Watched: a stream by whose end its endpoint is judged.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use domain::conversation::StreamEvent;
use domain::time::Clock;
use providers::{Error, EventStream, Pass};

use super::places::tell;

/// A stream that has begun. Its endpoint has failed where it breaks off, and answered where it comes to
/// its end. Of one that is dropped before that nobody knows: its caller hung up, or may hear no more.
pub(crate) struct Watched {
    stream: EventStream,
    /// Until it is known how it went.
    pass: Option<Pass>,
    clock: Clock,
}

impl Watched {
    pub(super) fn new(stream: EventStream, pass: Option<Pass>, clock: Clock) -> Self {
        Self { stream, pass, clock }
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
        let read = ready!(self.stream.poll_next(cx));
        if !matches!(read, Some(Ok(_)))
            && let Some(pass) = self.pass.take()
        {
            let error = read.as_ref().and_then(|read| read.as_ref().err());
            tell(pass, error, self.clock.now());
        }
        Poll::Ready(read)
    }
}
